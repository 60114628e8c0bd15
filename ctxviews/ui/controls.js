/** Controls: the browser's own, with their labels. */

import { element, focusIn, fresh } from "./dom.js";
import { headStyle, lineMark } from "./marks.js";

/** Controls side by side, by the names of what they turn; `update` shows a state in them, and of sliders
 *  their scales. @param {Record<string, HTMLElement & {update: (value: any, scale?: any) => void}>} controls */
export function controlRow(controls) {
  const made = element("div", { class: "ctx-controls" }, Object.values(controls));
  return Object.assign(made, {
    update(/** @type {Record<string, any>} */ now, /** @type {Record<string, any>} */ scales = {}) {
      for (const [name, control] of Object.entries(controls))
        control.update(now[name], scales[name]);
    },
  });
}

/** An input under its label. @param {string} label @param {HTMLElement} input
 *  @param {{kind?: string, beside?: HTMLElement}} [options] */
export function field(label, input, { kind = "", beside } = {}) {
  const title = element("label", { for: (input.id ||= fresh("field")) }, label);
  return element("div", { class: `ctx-control ${kind}`.trim() }, title, input, beside);
}

/** A slider over numbers, with its value beside it; its end and its steps may change.
 *  @param {{label: string, min?: number, max: number, step?: number,
 *    format?: (value: number) => string, onInput: (value: number) => void}} options */
export function slider({ label, min = 0, max, step = 1, format = String, onInput }) {
  const id = fresh("slider");
  const output = element("output", { for: id, "aria-live": "off" });
  const input = element("input", { type: "range", id, min, max, step });
  const show = (/** @type {number} */ now) => {
    output.textContent = format(now);
    input.setAttribute("aria-valuetext", format(now));
  };
  input.addEventListener("input", () => {
    show(Number(input.value));
    onInput(Number(input.value));
  });
  return Object.assign(field(label, input, { kind: "ctx-slider", beside: output }), {
    update(/** @type {number} */ now, /** @type {{max?: number, step?: number}} */ scale = {}) {
      for (const [name, value] of Object.entries(scale)) input.setAttribute(name, String(value));
      if (Number(input.value) !== now) input.value = String(now);
      show(now);
    },
  });
}

/** A list to choose one of; groups are shown as such. An option that has no value has its place as such.
 *  @param {{label: string, options: {value?: any, label: string, group?: string}[],
 *    onChange: (value: any) => void}} options */
export function choice({ label, options, onChange }) {
  const items = options.map(({ value, label }, i) =>
    element("option", { value: value ?? i }, label),
  );
  const grouped = Map.groupBy(items, (_, i) => options[i].group);
  const lists = [...grouped].map(([label, held]) =>
    label ? element("optgroup", { label }, held) : held,
  );
  const chosen = () => {
    const at = items.findIndex(({ selected }) => selected); // groups may have them in another order
    onChange(options[at].value ?? at);
  };
  const select = element("select", { onchange: chosen }, lists);
  return Object.assign(field(label, select), {
    update(/** @type {string | number} */ now) {
      select.value = String(now);
    },
  });
}

/** A passage to choose, under its domain; `first` is what -1 stands for.
 *  @param {{passages: {name: string, domain: string, title?: string}[],
 *    first?: string, onChange: (passage: number) => void}} options */
export function passageChoice({ passages, first, onChange }) {
  const named = passages.map(({ name, domain, title }, i) => ({
    value: i,
    label: title ? `${name}: ${title}` : name,
    group: domain,
  }));
  const options = first ? [{ value: -1, label: first }, ...named] : named;
  return choice({ label: "Passage", options, onChange });
}

/** Where the destination stands. @param {number} max @param {(n: number) => void} onInput */
export function destinationSlider(max, onInput) {
  return slider({ label: "Position n of the query token", min: 1, max, onInput });
}

/** A few ways side by side, one of them taken; each may bear a note. One that has no value has its place
 *  as such. @param {{label: string, options: {value?: any, label: string, note?: HTMLElement}[],
 *    onChange: (value: any) => void}} options */
export function either({ label, options, onChange }) {
  const name = fresh("either");
  const inputs = options.map((option, i) => {
    const value = option.value ?? i;
    return element("input", { type: "radio", name, value, onchange: () => onChange(value) });
  });
  const chips = options.map(({ label, note }, i) => chip(inputs[i], label, note));
  return Object.assign(chipRow(label, chips), {
    update(/** @type {string | number} */ now) {
      for (const input of inputs) input.checked = input.value === String(now);
    },
  });
}

/** One head of a few. @param {{count: number, onChange: (head: number) => void, label?: string,
 *    notes?: HTMLElement[]}} options */
export function headChoice({ count, onChange, label = "Head", notes }) {
  const options = Array.from({ length: count }, (_, head) => {
    return { label: String(head), note: notes?.[head] };
  });
  return either({ label, options, onChange });
}

export const RULE = "by the rule"; // of the threshold

/** What words mean that a newcomer may not know. @type {Record<string, string>} */
const MEANINGS = {
  Heads:
    "They mix what the tokens of a text carry, and neurons read it. Press one to leave it out. All that are on share one curve: their median.",
  query: "The token from which heads look at the others.",
  top: "How strongly single tokens can raise a neuron: what the 20 that raise it most contribute on average, less the average of all tokens.",
  z: "How many robust standard deviations the neuron lies above the typical one.",
  AUC: "How often a text with this label raises the neuron more than one without, among all pairs: 0.5 is chance.",
  "pre-activation": "The number that goes into a neuron, before its nonlinearity.",
  summary: "The average of what a text’s tokens add to a neuron, weighted by the kernel.",
  [RULE]:
    "Chapter 6’s rule for these heads: two robust standard deviations above the median neuron’s top. The line stays when heads change; a tick shows where the rule would put it.",
};

/** Such a word: its meaning appears beside it where a pointer or the focus is, until the next press.
 *  @param {string} word @param {HTMLElement} [place] that has it already */
export function term(word, place = element("span", { tabindex: 0 }, word)) {
  place.classList.add("ctx-term");
  const close = () => place.blur();
  place.onfocus = () => addEventListener("pointerdown", close, { capture: true, once: true });
  for (const name of ["data-means", "aria-description"]) place.setAttribute(name, MEANINGS[word]);
  return place;
}

/** A layer's heads to turn on and off, each with the mark of its line or a drawing; one at least stays
 *  on, and a double press leaves one alone.
 *  @param {Layer} layer @param {(heads: number[]) => void} onChange @param {SVGSVGElement[]} [notes]
 *  @param {(string | Node)[]} [about] what the drawings show */
export function headChooser({ families }, onChange, notes, about = []) {
  const boxes = families.map((_, head) => checkbox(head, () => turned(head)));
  const turned = (/** @type {number} */ head) => {
    const now = boxes.flatMap((box, h) => (box.checked ? [h] : []));
    status.textContent = now.length ? "" : "One head stays.";
    if (now.length) onChange(now);
    else boxes[head].checked = true;
  };
  const status = element("span", { class: "ctx-quiet", role: "status" });
  const chips = boxes.map((box, head) => {
    const made = chip(box, String(head), notes?.[head] ?? lineMark(headStyle(head)));
    made.title = `head ${head}: ${families[head].family}; double-click for this one alone`;
    made.addEventListener("dblclick", () => onChange([head]));
    return made;
  });
  const legend = element("span", {}, status, element("span", {}, term("Heads"), about));
  const made = chipRow(legend, chips);
  made.ariaLabel = "Heads"; // the rest of the legend is about them
  return Object.assign(made, {
    update(/** @type {number[]} */ heads) {
      for (const [head, box] of boxes.entries()) {
        box.checked = heads.includes(head);
        box.ariaLabel = `head ${head}${box.checked ? "" : ", off"}`;
      }
      if (heads.length > 1) status.textContent = "";
    },
  });
}

/** @param {number | null} value @param {() => void} onChange */
export function checkbox(value, onChange) {
  return element("input", { type: "checkbox", value, onchange: onChange });
}

/** A box or a button that looks like a key. @param {HTMLElement} input @param {string} label @param {any} [note] */
export function chip(input, label, note) {
  return element("label", { class: "ctx-chip" }, input, element("span", {}, label, note));
}

/** @param {string | HTMLElement} label @param {any[]} chips @param {string} [kind] */
export function chipRow(label, chips, kind = "ctx-chips") {
  return element("fieldset", { class: `ctx-control ${kind}` }, element("legend", {}, label), chips);
}

/** A button. @param {string} label @param {() => void} onClick */
export function button(label, onClick) {
  return element("button", { type: "button", class: "ctx-button", onclick: onClick }, label);
}

/** A button within a text or a table: words that can be pressed. `ariaLabel` is its name
 *  where the words alone are too few.
 *  @param {string} label @param {() => void} onClick @param {string} [ariaLabel] */
export function pick(label, onClick, ariaLabel) {
  const ways = { type: "button", class: "ctx-pick", "aria-label": ariaLabel, onclick: onClick };
  return element("button", ways, label);
}

/** Makes many buttons one stop of the tab key: the arrow keys lead from one to the next. Call it again where
 *  there are others. @template {HTMLElement} Place @param {Place} place @returns {Place} */
export function roving(place) {
  const items = () => Array.from(place.querySelectorAll("button"));
  const stop = (/** @type {Element | EventTarget | null} */ to) =>
    items().forEach((item) => (item.tabIndex = item === to ? 0 : -1));
  stop(focusIn(place) ?? items()[0]);
  place.addEventListener("focusin", ({ target }) => stop(target));
  place.onkeydown = (event) => {
    const all = items();
    const at = all.findIndex((item) => item === event.target);
    const steps = /** @type {Record<string, number>} */ ({
      ArrowUp: at - 1, ArrowLeft: at - 1, ArrowDown: at + 1, ArrowRight: at + 1, Home: 0, End: all.length - 1,
    }); // prettier-ignore
    if (!all[steps[event.key]]) return;
    event.preventDefault();
    all[steps[event.key]].focus();
  };
  return place;
}

/** Sets a view back to its first state, where a page can. @param {Model} model @returns {HTMLElement | null} */
export function resetButton(model) {
  return model.reset ? button("Reset", () => model.reset?.()) : null;
}

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
