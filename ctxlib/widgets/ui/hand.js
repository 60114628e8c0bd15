/** A hand on something that is read place by place: a pointer that hovers previews, a press holds,
 *  leaving restores what is held, Escape lets go. A finger does not hover, so its tap holds. */

/** @typedef {{at: (event: MouseEvent) => number | null, held: () => number,
 *    show: (place: number) => void, hold: (place: number | null) => void}} Hand `at` is the place under
 *    the pointer, `held` the one that is read where nobody points; `hold` lets go of null */

/** Lets a hand read `root`. @param {HTMLElement} root @param {Hand} hand */
export function byHand(root, { at, held, show, hold }) {
  const hovers = (/** @type {(event: PointerEvent) => void} */ then) => {
    return (/** @type {PointerEvent} */ event) => event.pointerType !== "touch" && then(event);
  };
  /** @type {number | null} */ let under = null; // a pointer that moves on one place shows it once
  const preview = hovers((event) => {
    const place = at(event);
    if (place !== null && place !== under) show(place);
    under = place;
  });
  const leave = hovers(() => {
    under = null;
    show(held());
  });
  for (const moved of /** @type {const} */ (["pointerover", "pointermove"]))
    root.addEventListener(moved, preview);
  root.addEventListener("pointerleave", leave);
  root.addEventListener("click", (event) => {
    const place = at(event);
    if (place !== null) hold(place);
  });
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hold(null);
  });
}
