/** Drawings as files that need no page. */

import { button } from "./controls.js";
import { save } from "./csv.js";
import { drawn, element } from "./dom.js";

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity"];
const LETTERS = ["fill", "font-family", "font-size", "font-weight", "text-anchor"];
const LIGHT = { "--ctx-ink": "#222832", "--ctx-soft": "#48566b", "--ctx-ground": "#ffffff" };
const LINE = 20; // pixels for what a line means
const MIXED = /color\(srgb (.*?) (.*?) (.*?)\)/; // which other programs do not know

/** @param {string} _ @param {string[]} shares */
function inBytes(_, ...shares) {
  return `rgb(${shares.slice(0, 3).map((share) => Math.round(255 * Number(share)))})`;
}

/** A button that saves a drawing as it is when it is pressed.
 *  @param {string} label @param {() => {name: string[], title: string, root: SVGSVGElement | null,
 *    marks?: Mark[]}} made */
export function svgButton(label, made) {
  return button(label, () => {
    const { name, root, ...description } = made();
    if (!root) return;
    const file = new XMLSerializer().serializeToString(alone(root, description));
    save(name, "svg", "image/svg+xml", [file]);
  });
}

/** The drawing on white, in its own styles, with title and description, its lines' meanings below.
 *  @param {SVGSVGElement} root @param {{title: string, marks?: Mark[]}} description */
function alone(root, { title, marks = [] }) {
  const { width, height } = root.viewBox.baseVal;
  const tall = height + LINE * marks.length;
  const copy = /** @type {SVGSVGElement} */ (root.cloneNode(true));
  for (const line of copy.querySelectorAll(".ctx-cursor")) line.remove();
  for (const [i, { label, style }] of marks.entries()) {
    const y = height + LINE * (i + 0.3);
    copy.append(drawn("line", { x1: 58, x2: 82, y1: y, y2: y, ...style }));
    copy.append(drawn("text", { x: 90, y: y + 4 }, label));
  }
  const holder = element("div", {}, copy);
  for (const [name, colour] of Object.entries(LIGHT)) holder.style.setProperty(name, colour);
  holder.style.setProperty("forced-color-adjust", "none");
  root.parentElement?.append(holder); // where the page's styles reach it
  for (const part of /** @type {NodeListOf<SVGElement>} */ (copy.querySelectorAll("*"))) {
    const style = getComputedStyle(part);
    for (const name of part.tagName === "text" ? LETTERS : STYLES)
      part.setAttribute(name, style.getPropertyValue(name).replace(MIXED, inBytes));
    for (const name of ["class", "style"]) part.removeAttribute(name);
  }
  holder.remove();
  const alt = root.getAttribute("aria-label") ?? "";
  for (const name of ["class", "id", "aria-label"]) copy.removeAttribute(name);
  const sized = { width, height: tall, viewBox: `0 0 ${width} ${tall}` };
  for (const [name, value] of Object.entries(sized)) copy.setAttribute(name, String(value));
  const ground = drawn("rect", { width, height: tall, fill: LIGHT["--ctx-ground"] });
  copy.prepend(drawn("title", {}, title), drawn("desc", {}, alt), ground);
  return copy;
}
