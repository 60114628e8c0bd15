/** Controls: the browser's own, with their labels. */

import { element, fresh } from "./dom.js";
import { headStyle, lineMark } from "./marks.js";
import { tokenMark } from "./words.js";

/** @typedef {import("../engine/layer.js").Layer} Layer */

/** A slider over numbers, with its value beside it; its end and its steps may change.
 *  @param {{label: string, min: number, max: number, step?: number, value: number,
 *    format?: (value: number) => string, onInput: (value: number) => void}} options
 *  @returns {HTMLElement & {update: (value: number, scale?: {max?: number, step?: number}) => void}} */
export function slider({ label, min, max, step = 1, value, format = String, onInput }) {
  const id = fresh("slider");
  const said = element("output", { for: id, "aria-live": "off" }, format(value));
  const input = /** @type {HTMLInputElement} */ (
    element("input", { type: "range", id, min, max, step, "aria-valuetext": format(value) })
  );
  const show = (/** @type {number} */ now) => {
    said.textContent = format(now);
    input.setAttribute("aria-valuetext", format(now));
  };
  input.value = String(value);
  input.addEventListener("input", () => {
    show(Number(input.value));
    onInput(Number(input.value));
  });
  const made = element(
    "div",
    { class: "ctx-control ctx-slider" },
    element("label", { for: id }, label),
    input,
    said,
  );
  return Object.assign(made, {
    update(/** @type {number} */ now, /** @type {{max?: number, step?: number}} */ scale = {}) {
      for (const [name, value] of Object.entries(scale)) input.setAttribute(name, String(value));
      if (Number(input.value) !== now) input.value = String(now);
      show(now);
    },
  });
}

/** A list to choose one of; groups are shown as such.
 *  @param {{label: string, options: {value: string, label: string, group?: string}[],
 *    value: string, onChange: (value: string) => void}} options
 *  @returns {HTMLElement & {update: (value: string | number) => void}} */
export function choice({ label, options, value, onChange }) {
  const id = fresh("choice");
  const items = new Map();
  for (const option of options) {
    const item = element("option", { value: option.value }, option.label);
    items.set(option.group ?? "", [...(items.get(option.group ?? "") ?? []), item]);
  }
  const lists = [...items].map(([group, held]) =>
    group ? element("optgroup", { label: group }, held) : held,
  );
  const select = /** @type {HTMLSelectElement} */ (element("select", { id }, lists));
  select.value = value;
  select.addEventListener("change", () => onChange(select.value));
  const made = element(
    "div",
    { class: "ctx-control" },
    element("label", { for: id }, label),
    select,
  );
  return Object.assign(made, {
    update(/** @type {string | number} */ now) {
      select.value = String(now);
    },
  });
}

/** A passage to choose, under its domain; `first` is what -1 stands for.
 *  @param {{passages: {name: string, domain: string, title?: string}[], value: number,
 *    first?: string, onChange: (passage: number) => void}} options */
export function passageChoice({ passages, value, first, onChange }) {
  const options = passages.map(({ name, domain, title }, i) => ({
    value: String(i),
    label: title ? `${name}: ${title}` : name,
    group: domain,
  }));
  return choice({
    label: "Passage",
    options: first ? [{ value: "-1", label: first }, ...options] : options,
    value: String(value),
    onChange: (chosen) => onChange(Number(chosen)),
  });
}

/** One of the tokens that the layer knows a circuit for, at the destination.
 *  @param {{layer: Layer, name: (id: number) => string, value: number,
 *    onChange: (token: number) => void}} options */
export function destinationChoice({ layer, name, value, onChange }) {
  return choice({
    label: "Destination token",
    options: layer.destinations.map(({ id }) => ({ value: String(id), label: name(id) })),
    value: String(value),
    onChange: (chosen) => onChange(Number(chosen)),
  });
}

/** Where the destination stands. @param {{max: number, value: number,
 *    onInput: (n: number) => void}} options */
export function destinationSlider(options) {
  return slider({ label: "Destination n", min: 1, ...options });
}

/** A few ways side by side, one of them taken; each may bear a note.
 *  @param {{label: string, options: {value: string, label: string, note?: HTMLElement}[],
 *    value: string, onChange: (value: string) => void}} options
 *  @returns {HTMLElement & {update: (value: string | number) => void}} */
export function either({ label, options, value, onChange }) {
  const name = fresh("either");
  const inputs = options.map(({ value }) => {
    const way = { type: "radio", name, value, onchange: () => onChange(value) };
    return /** @type {HTMLInputElement} */ (element("input", way));
  });
  const update = (/** @type {string | number} */ now) => {
    for (const input of inputs) input.checked = input.value === String(now);
  };
  update(value);
  const chips = options.map(({ label, note }, i) => chip(inputs[i], label, note));
  return Object.assign(chipRow(label, chips), { update });
}

/** One head of a few. @param {{count: number, value: number, onChange: (head: number) => void,
 *    label?: string, notes?: HTMLElement[]}} options */
export function headChoice({ count, value, onChange, label = "Head", notes }) {
  return either({
    label,
    options: Array.from({ length: count }, (_, head) => ({
      value: String(head),
      label: String(head),
      note: notes?.[head],
    })),
    value: String(value),
    onChange: (head) => onChange(Number(head)),
  });
}

/** The one destination that a page knows, in a line.
 *  @param {Layer} layer @param {(id: number) => string} name */
export function fixedDestination({ n, destinations }, name) {
  const said = element("p", {}, `n = ${n}, `, tokenMark(name(destinations[0].id)), ", fixed here");
  const held = [element("span", { class: "ctx-label" }, "Destination"), said];
  return Object.assign(element("div", { class: "ctx-control" }, held), { update: () => {} });
}

/** Heads to turn on and off, each with the mark of its line; one at least stays on.
 *  @param {{count: number, chosen: number[], onChange: (heads: number[]) => void,
 *    note: (head: number) => string}} options
 *  @returns {HTMLElement & {update: (heads: number[]) => void}} */
export function headChooser({ count, chosen, onChange, note }) {
  const boxes = Array.from({ length: count }, (_, head) => checkbox(head, () => turned(head)));
  const turned = (/** @type {number} */ head) => {
    const now = boxes.flatMap((box, h) => (box.checked ? [h] : []));
    if (now.length) onChange(now);
    else boxes[head].checked = true;
  };
  const update = (/** @type {number[]} */ heads) =>
    boxes.forEach((box, head) => (box.checked = heads.includes(head)));
  update(chosen);
  const chips = boxes.map((box, head) => {
    const made = chip(box, String(head), lineMark(headStyle(head)));
    made.title = `head ${head}: ${note(head)}`;
    return made;
  });
  return Object.assign(chipRow("Heads", chips), { update });
}

/** @param {number | null} value @param {() => void} onChange @returns {HTMLInputElement} */
export function checkbox(value, onChange) {
  const box = { type: "checkbox", value, onchange: onChange };
  return /** @type {HTMLInputElement} */ (element("input", box));
}

/** A box or a radio button that looks like a key. @param {HTMLElement} input
 *  @param {string} label @param {any} [note] */
export function chip(input, label, note) {
  return element("label", { class: "ctx-chip" }, input, element("span", {}, label, note));
}

/** @param {string} label @param {HTMLElement[]} chips */
function chipRow(label, chips) {
  const kind = { class: "ctx-control ctx-chips" };
  return element("fieldset", kind, element("legend", {}, label), chips);
}

/** A button. @param {string} label @param {() => void} onClick @returns {HTMLElement} */
export function button(label, onClick) {
  return element("button", { type: "button", class: "ctx-button", onclick: onClick }, label);
}

/** A button within a text or a table: words that can be pressed. `spoken` says more where the
 *  words alone are too few.
 *  @param {string} label @param {() => void} onClick @param {string} [spoken] */
export function pick(label, onClick, spoken) {
  const ways = { type: "button", class: "ctx-pick", "aria-label": spoken, onclick: onClick };
  return element("button", ways, label);
}
