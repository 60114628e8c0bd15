/** The path of one token to one neuron, through one head, with its numbers; and the light that falls
 *  on a part of it in drawing, equation and sentence at once. */

import { drawn, fresh } from "./dom.js";
import { SHAPES } from "./pathshape.js";
import { cutShort } from "./words.js";

const NARROW = 560; // pixels: a page that is no wider has the parts one below the other
const LONGEST = 15; // letters in a box

const SIZE = { viewBox: "0 0 6 6", markerWidth: 6, markerHeight: 6 };
const TIP = { ...SIZE, refX: 5, refY: 3, orient: "auto" }; // of an arrow

/** A drawing with one of the `values` under each name, and `alt` for who does not see it.
 *  @param {Record<string, string>} values @param {string} alt @param {number} width */
export function pathDrawing(values, alt, width) {
  const { view, at, arrows, signs, frame, key } = width > NARROW ? SHAPES.wide : SHAPES.narrow;
  const tip = fresh("tip");
  /** @param {string} part @param {...SVGElement} inside */
  const group = (part, ...inside) => drawn("g", { "data-part": part }, inside);
  /** @param {number} x @param {number} y @param {any} held @param {string} [kind] */
  const words = (x, y, held, kind) => drawn("text", { x, y, class: kind }, held);
  /** @param {number[]} at @param {number} [rx] @param {string} [dashes] */
  const box = ([x, y, width, height], rx = 6, dashes) =>
    drawn("rect", { x, y, width, height, rx, "stroke-dasharray": dashes });
  const style = `max-width: ${view[2]}px`;
  return drawn(
    "svg",
    { class: "ctx-path", viewBox: view.join(" "), role: "img", "aria-label": alt, style },
    drawn("marker", { id: tip, ...TIP }, drawn("path", { d: "M0 0 6 3 0 6z" })),
    group("key", box(frame, 8, "4 3"), words(...key, "the key, split")),
    Object.entries(arrows).map(([part, d]) =>
      group(part, drawn("path", { d, "marker-end": `url(#${tip})` })),
    ),
    Object.entries(signs).map(([part, [cx, cy, sign]]) =>
      group(part, drawn("circle", { cx, cy, r: 11 }), words(cx, cy + 5, sign)),
    ),
    Object.entries(at).map(([part, [left, top, width]]) =>
      group(
        part,
        box([left + 1, top, width - 2, 40]),
        words(left + width / 2, top + 17, SHAPES.boxes[part][0].replace("_i", "ᵢ")),
        words(left + width / 2, top + 33, cutShort(values[part], LONGEST), "ctx-path-value"),
      ),
    ),
  );
}

/** Lights whatever has the `data-part` that is pointed at, or has the focus, wherever it stands in
 *  `root`. @param {HTMLElement} root */
export function lighting(root) {
  const light = (/** @type {Event | null} */ event) => {
    const at = /** @type {Element | null} */ (event?.target ?? null);
    const part = at?.closest("[data-part]")?.getAttribute("data-part");
    for (const some of root.querySelectorAll("[data-part]"))
      some.classList.toggle("ctx-lit", some.getAttribute("data-part") === part);
  };
  for (const come of ["pointerover", "focusin"]) root.addEventListener(come, light);
  for (const gone of ["pointerleave", "focusout"]) root.addEventListener(gone, () => light(null));
}
