/** A hand on something that is read place by place: a pointer that hovers previews, a press holds,
 *  leaving restores what is held, Escape lets go. A finger does not hover, so its tap holds. */

import { guarded } from "./dom.js";

let resting = ""; // where on the screen the pointer is: what is scrolled under it is not pointed at
addEventListener("pointermove", (event) => (resting = onScreen(event)));
const onScreen = (/** @type {PointerEvent} */ { screenX, screenY }) => `${screenX} ${screenY}`;

/** Lets a hand read `root`. @param {HTMLElement} root @param {Hand} hand */
export function byHand(root, { at, held, ...does }) {
  const [show, hold] = [guarded(root, does.show), guarded(root, does.hold)];
  const hovers = (/** @type {(event: PointerEvent) => void} */ then) => {
    return (/** @type {PointerEvent} */ event) => event.pointerType !== "touch" && then(event);
  };
  /** @type {number | null} */ let under = null; // a pointer that moves on one place shows it once
  const preview = hovers((event) => {
    if (onScreen(event) === resting) return;
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
  root.classList.add("ctx-hand");
  root.addEventListener("letgo", () => hold(null));
}

/** Escape lets go of what is held in the view, or in the section of it that has the focus. @param {Element} view */
export function lettingGo(view) {
  view.addEventListener("keydown", (event) => {
    const { key, target } = /** @type {KeyboardEvent} */ (event);
    if (key !== "Escape") return;
    const section = /** @type {Element} */ (target).closest("section");
    const part = section && view.contains(section) ? section : view;
    for (const held of part.querySelectorAll(".ctx-hand")) held.dispatchEvent(new Event("letgo"));
  });
}
