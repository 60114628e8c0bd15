/** A box for a text that keeps so much of it. */

import { element, fresh } from "./dom.js";

/** @param {string} label @param {number} limit characters that the box keeps: the browser cuts a long
 *  paste before it lays it out @param {() => void} onInput */
export function textBox(label, limit, onInput) {
  const id = fresh("text");
  const plain = { spellcheck: "false", autocomplete: "off", autocapitalize: "off", dir: "auto" };
  const box = element("textarea", { id, rows: 7, maxlength: limit, oninput: onInput, ...plain });
  return { box, title: element("label", { for: id, class: "ctx-label" }, label) };
}
