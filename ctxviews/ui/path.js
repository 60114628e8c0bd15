/** The path of one token to one neuron, through one head, with its numbers; and the light that falls
 *  on a part of it in drawing, equation and sentence at once. */

import { drawn, fresh } from "./dom.js";
import { cutShort } from "./words.js";

/** @typedef {{view: number[], at: Record<string, number[]>, arrows: Record<string, string>,
 *    signs: Record<string, [number, number, string]>, frame: number[], key: [number, number]}} Shape where the
 *    parts stand in a page: of a box left, top, width. An arrow is lit with the part that is named, as are the
 *    frame's and the signs' lines */

const NARROW = 560; // pixels: a page that is no wider has the parts one below the other
const LONGEST = 15; // letters in a box

/** What boxes are called. @type {Record<string, string>} */
const NAMES = {
  token: "token xᵢ",
  place: "position i",
  content: "content(xᵢ)",
  kernel: "posᵢ",
  denominator: "÷ denominator",
  row: "row aᵢ",
  value: "value v(xᵢ)",
  neuron: "neuron j",
};

/** @type {Shape} */ // prettier-ignore
const WIDE = {
  view: [-2, -12, 706, 182],
  at: {
    token: [0, 8, 96], place: [0, 118, 96], content: [150, 8, 118], kernel: [150, 118, 118],
    denominator: [334, 118, 140], row: [334, 63, 140], value: [334, 8, 140], neuron: [596, 36, 104],
  },
  arrows: {
    content: "M96 28H150M268 28H282C300 28 300 63 300 72",
    kernel: "M96 138H150M268 138H282C300 138 300 106 300 96",
    row: "M312 84H334M474 84H500C524 84 530 76 535 68",
    denominator: "M306 95C312 120 318 138 334 138M404 118V106",
    value: "M48 8V-9H404V8M474 28H500C524 28 530 36 535 44",
    neuron: "M552 56H596",
  },
  signs: { row: [300, 84, "×"], value: [541, 56, "Σ"] },
  frame: [140, -1, 138, 168],
  key: [209, 90],
};

/** @type {Shape} */ // prettier-ignore
const TALL = {
  view: [-2, -2, 362, 352],
  at: {
    token: [44, 0, 122], place: [226, 0, 122], content: [44, 72, 122], kernel: [226, 72, 122],
    denominator: [222, 182, 134], row: [40, 182, 134], value: [40, 250, 134], neuron: [222, 306, 134],
  },
  arrows: {
    content: "M105 40V72M105 112C105 134 150 144 182 146",
    kernel: "M287 40V72M287 112C287 134 240 144 208 146",
    row: "M186 154C178 166 150 168 134 182M174 212C220 216 278 226 287 256",
    denominator: "M204 154C212 166 244 168 262 182M222 202H174",
    value: "M44 20H12V270H40M174 270H275",
    neuron: "M287 282V306",
  },
  signs: { row: [195, 148, "×"], value: [287, 270, "Σ"] },
  frame: [34, 51, 324, 71],
  key: [196, 66],
};

const SIZE = { viewBox: "0 0 6 6", markerWidth: 6, markerHeight: 6 };
const TIP = { ...SIZE, refX: 5, refY: 3, orient: "auto" }; // of an arrow

/** A drawing with one of the `values` under each name, and `alt` for who does not see it.
 *  @param {Record<string, string>} values @param {string} alt @param {number} width */
export function pathDrawing(values, alt, width) {
  const { view, at, arrows, signs, frame, key } = width > NARROW ? WIDE : TALL;
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
        words(left + width / 2, top + 17, NAMES[part]),
        words(left + width / 2, top + 33, cutShort(values[part], LONGEST), "ctx-path-value"),
      ),
    ),
  );
}

/** Lights whatever in `root` has the `data-part` that is pointed at or focused. @param {HTMLElement} root */
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
