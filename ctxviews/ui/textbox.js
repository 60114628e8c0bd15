/** A box for a text that keeps so much of it, and passes on what it could not keep. */

import { element, fresh } from "./dom.js";

/** @param {string} label @param {number} limit characters that the box keeps
 *  @param {(full: string | null) => void} onInput gets a text that was longer */
export function textBox(label, limit, onInput) {
  const id = fresh("text");
  const plain = { spellcheck: "false", autocomplete: "off", autocapitalize: "off", dir: "auto" };
  // with `maxlength` the browser cuts a long paste before it lays it out
  const box = element("textarea", { id, rows: 7, maxlength: limit, ...plain });
  /** @type {string | null} */ let pasted = null;
  const remember = (/** @type {DataTransfer | null} */ data) => {
    const added = data?.getData("text/plain") ?? "";
    const whole =
      box.value.slice(0, box.selectionStart) + added + box.value.slice(box.selectionEnd);
    pasted = whole.length > limit ? whole : null;
  };
  box.addEventListener("paste", (event) => remember(event.clipboardData));
  box.addEventListener("drop", (event) => remember(event.dataTransfer));
  box.addEventListener("input", () => {
    const long = box.value.length > limit ? box.value : null;
    if (long) box.value = long.slice(0, limit);
    onInput(pasted ?? long);
    pasted = null;
  });
  return { box, title: element("label", { for: id, class: "ctx-label" }, label) };
}
