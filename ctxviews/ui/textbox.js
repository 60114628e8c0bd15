/** A box for a text that keeps so much of it. */

import { element, fresh } from "./dom.js";

/** Nothing is corrected or offered while one types. */
export const PLAIN = { spellcheck: "false", autocomplete: "off", autocapitalize: "off" };

/** @param {string} label @param {number} limit characters that the box keeps: the browser cuts a long
 *  paste before it lays it out @param {() => void} onInput */
export function textBox(label, limit, onInput) {
  const id = fresh("text");
  const kept = { id, rows: 7, maxlength: limit, dir: "auto" };
  const box = element("textarea", { ...kept, oninput: onInput, ...PLAIN });
  return { box, title: element("label", { for: id, class: "ctx-label" }, label) };
}
