/** A hand on something that is read place by place: a pointer that hovers previews, a press holds,
 *  leaving restores what is held, Escape lets go. A finger does not hover, so its tap holds. */

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
