/** What the views are built of: elements, words, shaded tokens, controls, work in slices, and the
 *  state of their data.
 *
 *  Whatever comes from a text, a vocabulary or an address becomes a text node or an attribute's
 *  value, never markup. Every control is the browser's own, so a keyboard reaches it. */

import { loadLayer, readLayer } from "./circuit.js";
import { Tokenizer } from "./tokenizer.js";

/** @typedef {import("./circuit.js").Layer} Layer */

/** Okabe and Ito's colours in the order of ctxlib.plots.COLOURS. */
export const COLOURS = [
  "#0072B2",
  "#D55E00",
  "#009E73",
  "#CC79A7",
  "#E69F00",
  "#56B4E9",
  "#8C6BB1",
  "#999999",
];
/** Heads' lines have the same hues, the fainter ones darker: 3:1 at least on white and on near-black. */
const HEADS = COLOURS.with(4, "#BC8200").with(5, "#3394CC").with(7, "#8A8A8A");
const DASHES = [null, "6 4", "2 3", "8 3 2 3"];
const STRONGEST = 0.6; // of the shade behind a token, as in ctxlib.plots
const AWAKE = 8; // milliseconds of work between two looks at the keyboard

/** The colours of what raises and of what lowers. */
export const UP = "var(--ctx-up)";
export const DOWN = "var(--ctx-down)";

/** Of a contribution, a summary, a threshold. */
export const UNIT = "units of the pre-activation";

// ---------------------------------------------------------------- elements

/** An HTML element. Attributes that are null are left out; `on...` are listeners; children are
 *  nodes, texts, or lists of both.
 *  @param {string} tag @param {Record<string, any>} [attributes] @param {...any} children
 *  @returns {HTMLElement} */
export function element(tag, attributes = {}, ...children) {
  return /** @type {HTMLElement} */ (furnished(document.createElement(tag), attributes, children));
}

/** An element of a drawing. @param {string} tag @param {Record<string, any>} [attributes]
 *  @param {...any} children @returns {SVGElement} */
export function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return /** @type {SVGElement} */ (furnished(made, attributes, children));
}

/** @param {Element} made @param {Record<string, any>} attributes @param {any[]} children */
function furnished(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

const ours = Math.random().toString(36).slice(2, 10); // a notebook has this module once a widget
let named = 0;

/** A name that no other element of the page has. @param {string} stem @returns {string} */
export function fresh(stem) {
  return `ctx-${stem}-${ours}-${(named += 1)}`;
}

// ---------------------------------------------------------------- words

/** A number for readers: fixed digits, a true minus sign, no minus in front of zero.
 *  @param {number} value @param {number} [digits] @returns {string} */
export function figure(value, digits = 2) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "–" : value > 0 ? "∞" : "−∞";
  const fixed = value.toFixed(digits);
  return (Number(fixed) === 0 ? fixed.replace("-", "") : fixed).replace("-", "\u2212");
}

/** The same, with a sign above zero as well.
 *  @param {number} value @param {number} [digits] @returns {string} */
export function signed(value, digits = 2) {
  const said = figure(value, digits);
  return Number(value.toFixed(digits)) > 0 ? `+${said}` : said;
}

/** A count. @param {number} count @returns {string} */
export function grouped(count) {
  return count.toLocaleString("en-GB");
}

/** @param {number} count @param {string} noun @returns {string} */
export function several(count, noun) {
  return `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
}

const PART = "▫"; // of a character that a later token completes, or nothing that can be seen
const UNSEEN = /^[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]*$/;

/** A token in a text: line breaks and tokens of nothing but spaces become visible, control
 *  characters their pictures, and what would not be seen at all a small square.
 *  @param {string} text @returns {string} */
export function shown(text) {
  if (/^ +$/.test(text)) return "␣".repeat(text.length);
  if (UNSEEN.test(text)) return PART;
  return text
    .replace(/\r\n|\r|\n/g, "↵")
    .replace(/\t/g, "⇥")
    .replace(/[\0-\x1f\x7f]/g, (c) =>
      c === "\x7f" ? "␡" : String.fromCharCode(0x2400 + c.charCodeAt(0)),
    );
}

/** A token of a text by name; its stretch is empty where it only takes part in a character.
 *  @param {string} stretch @returns {string} */
export function nameInText(stretch) {
  return stretch ? tokenName(stretch) : PART;
}

/** A token by name, as the book's tables have it: spaces, line breaks and whatever cannot be seen
 *  are spelt out. Lines of plain text put it in quotation marks, sentences in a `tokenMark`. @param {string} text @returns {string} */
export function tokenName(text) {
  const spelt = text
    .replaceAll(" ", "␣")
    .replaceAll("\n", "↵")
    .replaceAll("\t", "⇥")
    .replace(/[\p{C}\p{Z}]/gu, (c) => `\\u{${(c.codePointAt(0) ?? 0).toString(16)}}`);
  return spelt || "(empty)";
}

/** A token's name in a sentence. @param {string} name @returns {HTMLElement} */
export function tokenMark(name) {
  return element("span", { class: "ctx-word" }, name);
}

/** What a layer's tokens read as; where a page has no tokenizer for it, as the vocabulary spells
 *  them. @param {Layer} layer */
export function spelling(layer) {
  const tokenizer = layer.byteLevel ? new Tokenizer(layer.vocab, layer.merges) : null;
  const text = (/** @type {number} */ id) => tokenizer?.decode([id]) ?? layer.vocab[id];
  /** The tokens of a text and their names there. */
  const inText = (/** @type {ArrayLike<number>} */ ids) => {
    const all = Array.from(ids);
    const tokens = tokenizer?.stretches(all) ?? all.map(text);
    return { tokens, names: tokens.map(nameInText) };
  };
  return { tokenizer, text, name: (/** @type {number} */ id) => tokenName(text(id)), inText };
}

// ---------------------------------------------------------------- marks and tables

/** Colour and dash of a head's line, the same in every view: every second head is dashed, so that no
 *  two neighbours differ by colour alone, and 32 can be told apart.
 *  @param {number} head @returns {{stroke: string, "stroke-dasharray": string | null}} */
export function headStyle(head) {
  const dash = DASHES[(Math.floor(head / 8) + (head % 2)) % 4];
  return { stroke: HEADS[head % 8], "stroke-dasharray": dash };
}

/** A piece of a line, where words say what it is. @param {Record<string, any>} style */
export function lineMark(style) {
  return drawn(
    "svg",
    { class: "ctx-mark", viewBox: "0 0 22 4", "aria-hidden": "true" },
    drawn("line", { x1: 0, x2: 22, y1: 2, y2: 2, "stroke-width": 3, ...style }),
  );
}

/** A table; the titles of columns of words are in `words`, those of figures in `figures`, and a
 *  column without a title has neither.
 *  @param {{columns: {words?: string | Node, figures?: string | Node}[], rows: HTMLElement[],
 *    caption?: string, kind?: string}} options @returns {HTMLElement} */
export function table({ columns, rows, caption, kind }) {
  const titles = columns.map(({ words, figures }) => {
    if (!words && !figures) return element("td");
    const side = figures && "ctx-number";
    return element("th", { scope: "col", class: side }, words ?? figures);
  });
  return element(
    "table",
    { class: kind },
    caption && element("caption", {}, caption),
    element("thead", {}, element("tr", {}, titles)),
    element("tbody", {}, rows),
  );
}

/** @param {any} held a figure, or what holds one */
export function numberCell(held) {
  return element("td", { class: "ctx-number" }, held);
}

/** What may be wider than the page, in a place that scrolls.
 *  @param {string} label @param {...any} held @returns {HTMLElement} */
export function scrolling(label, ...held) {
  const ways = { class: "ctx-scroll", tabindex: 0, role: "region", "aria-label": label };
  return element("div", ways, held);
}

/** Puts something new into a place; the slider that had the focus hands it to the new one.
 *  @param {HTMLElement} place @param {...any} held */
export function renewed(place, ...held) {
  const sliders = '[role="slider"], input[type="range"]';
  const focused = focusIn(place)?.matches(sliders);
  place.replaceChildren(...held.flat());
  if (focused) /** @type {HTMLElement | null} */ (place.querySelector(sliders))?.focus();
}

/** What has the focus, if it is in this place; notebooks may keep views in a shadow.
 *  @param {HTMLElement} place @returns {HTMLElement | null} */
export function focusIn(place) {
  const { activeElement } = /** @type {Document | ShadowRoot} */ (place.getRootNode());
  const found = /** @type {HTMLElement | null} */ (activeElement ?? null);
  return place.contains(found) ? found : null;
}

/** A function that makes the headings of a view: its first level is the one below the heading that it
 *  stands under. @param {HTMLElement} place
 *  @returns {(depth: 0 | 1, ...held: any[]) => HTMLElement} */
export function headingsIn(place) {
  const page = place.closest("article, main") ?? document.body;
  const above = [...page.querySelectorAll("h1, h2, h3, h4")].filter(
    (heading) => heading.compareDocumentPosition(place) & Node.DOCUMENT_POSITION_FOLLOWING,
  );
  const level = 1 + Number(above.at(-1)?.tagName.slice(1) ?? 2);
  const kinds = ["ctx-heading", "ctx-heading ctx-subheading"]; // alike on every page
  return (depth, ...held) =>
    element(`h${Math.min(level + depth, 6)}`, { class: kinds[depth] }, held);
}

// ---------------------------------------------------------------- shaded tokens

/** A background as strong as a share of one: one colour above zero, another below.
 *  @param {number} value @param {number} share @returns {string} */
export function shade(value, share) {
  const percent = (100 * share).toFixed(1);
  return `color-mix(in srgb, ${value < 0 ? DOWN : UP} ${percent}%, transparent)`;
}

/** A token with a shade behind it, and a dotted line under it below zero.
 *  @param {string} text @param {number} value @param {number} share of the strongest shade
 *  @param {Record<string, any>} [attributes] */
function shadedToken(text, value, share, attributes = {}) {
  const below = value < 0 && share > 0.05;
  const kind = below ? "ctx-token ctx-below" : "ctx-token";
  const made = element("span", { class: kind, ...attributes }, text);
  if (share > 0.02) made.style.backgroundColor = shade(value, share * STRONGEST);
  return made;
}

/** Tokens with a shade behind each, as strong as its value. Each tells its value to a pointer, and
 *  its place to `onPick`; `mark` frames the one that is read.
 *  @param {string[]} tokens @param {ArrayLike<number>} values
 *  @param {{most?: number, digits?: number, names?: string[], onPick?: (place: number) => void}}
 *    [options] @returns {HTMLElement & {mark: (place: number) => void}} */
export function shadedTokens(tokens, values, { most, digits = 2, names, onPick } = {}) {
  const top = most ?? (largest(values) || 1);
  const spans = tokens.map((token, i) => {
    const title = `${names?.[i] ?? tokenName(token)} ${figure(values[i], digits)}`;
    const share = Math.min(Math.abs(values[i]) / top, 1);
    return shadedToken(shown(token), values[i], share, { title, "data-place": i });
  });
  const broken = tokens.map((token, i) =>
    token.includes("\n") ? [spans[i], element("br")] : spans[i],
  );
  const readout = element("p", { class: "ctx-touched", "aria-hidden": "true" });
  const said = onPick && ((/** @type {Event} */ event) => {
    const place = /** @type {HTMLElement} */ (event.target).dataset?.place;
    if (place !== undefined) onPick(Number(place));
  });
  const text = element("p", { class: "ctx-tokens", onpointerover: said, onclick: said }, broken);
  const made = element("div", {}, text, onPick && readout); // a finger has no title to read
  /** @type {HTMLElement | undefined} */
  let marked;
  return Object.assign(made, {
    mark(/** @type {number} */ place) {
      marked?.classList.remove("ctx-at");
      marked = spans[place];
      marked?.classList.add("ctx-at");
      readout.textContent = marked?.title ?? "";
    },
  });
}

/** What the shades behind tokens say. @param {number} most @param {number} [digits] */
export function shadeKey(most, digits = 2) {
  const whole = { class: "ctx-token ctx-key" };
  const below = { class: "ctx-token ctx-below ctx-key" };
  return [
    "Shade: ",
    shadedToken(`up to ${signed(most, digits)}`, 1, 1, whole),
    ", ",
    shadedToken(`down to ${signed(-most, digits)}`, -1, 1, below),
    ".",
  ];
}

/** The largest distance from zero. @param {ArrayLike<number>} values @returns {number} */
export function largest(values) {
  let most = 0;
  for (let i = 0; i < values.length; i++) most = Math.max(most, Math.abs(values[i]));
  return most;
}

/** The few of `among` whose values are largest, and those whose are smallest, the outermost first: in
 *  one pass, since a vocabulary is long. @param {ArrayLike<number>} values @param {ArrayLike<number>} among places
 *  @param {number} count @returns {{up: number[], down: number[]}} */
export function outermost(values, among, count) {
  const few = (/** @type {1 | -1} */ sign) => {
    /** @type {number[]} */
    const kept = [];
    for (let i = 0; i < among.length; i++) {
      const value = sign * values[among[i]];
      if (kept.length === count && !(value > sign * values[kept[count - 1]])) continue;
      let at = Math.min(kept.length, count - 1);
      for (; at > 0 && sign * values[kept[at - 1]] < value; at--) kept[at] = kept[at - 1];
      kept[at] = among[i];
    }
    return kept;
  };
  return { up: few(1), down: few(-1) };
}

/** Shaded tokens under a slider that reads them one by one, as a pointer does.
 *  @param {{label: string, tokens: string[], names?: string[], values: ArrayLike<number>, at: number, digits?: number,
 *    read: (place: number) => string, onMove?: (place: number) => void}} options */
export function tokenReader({ label, tokens, names, values, at, digits, read, onMove }) {
  const move = (/** @type {number} */ place) => {
    reader.update(place);
    text.mark(place);
    onMove?.(place);
  };
  const ends = { min: 0, max: tokens.length - 1 };
  const reader = slider({ label, ...ends, value: at, format: read, onInput: move });
  reader.classList.add("ctx-token-reader");
  const text = shadedTokens(tokens, values, { digits, names, onPick: move });
  text.mark(at);
  return [reader, text];
}

/** Digits after the point for numbers up to this size: the page's are Python's to about a hundredth of
 *  their range, so that a step of less than half of that would say what does not hold.
 *  @param {number} most */
export function digitsFor(most) {
  return Math.min(6, Math.max(1, Math.floor(-Math.log10((most || 1) / 200) + 1e-9)));
}

/** Three digits that count, whatever the size. @param {number} value */
function threeDigits(value) {
  const size = Math.abs(value);
  return figure(value, size > 0 ? Math.min(7, Math.max(0, 2 - Math.floor(Math.log10(size)))) : 0);
}

/** Why a token adds what it does: opens into the book's equation, one row a head. Nothing is computed
 *  while it is shut.
 *  @returns {{root: HTMLElement, show: (name: string, of: () => import("./circuit.js").Part[]) => void}} */
export function whyHere() {
  const said = element("summary");
  const held = scrolling("Why here, head by head");
  let explain = () => {};
  const root = element("details", { class: "ctx-why", ontoggle: () => explain() }, said, held);
  const show = (/** @type {string} */ name, /** @type {() => import("./circuit.js").Part[]} */ of) => {
    said.replaceChildren("Why here: what ", tokenMark(name), " adds, head by head");
    explain = () => {
      if (/** @type {HTMLDetailsElement} */ (root).open) held.replaceChildren(...whyTable(of()));
    };
    explain();
  };
  return { root, show };
}

/** @param {import("./circuit.js").Part[]} parts */
function whyTable(parts) {
  const digits = digitsFor(largest(parts.map(({ adds }) => adds))) + 1; // so that the rows add up
  const rows = parts.map(({ head, kernel, content, denominator, value, adds }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, lineMark(headStyle(head)), String(head)),
      [kernel, content, denominator, value].map((part) => numberCell(threeDigits(part))),
      numberCell(signed(adds, digits)),
    ),
  );
  const whole = parts.reduce((sum, { adds }) => sum + adds, 0);
  const sum = [
    element("th", { scope: "row" }, "all"),
    [0, 1, 2, 3].map(() => element("td")),
    numberCell(signed(whole, digits)),
  ];
  const titles = ["kernel", "×\u00a0content", "/\u00a0denominator", "×\u00a0value", "=\u00a0adds"];
  const columns = [{ words: "head" }, ...titles.map((figures) => ({ figures }))];
  const about =
    "The kernel is one for all chosen heads, at this distance. Content over denominator is how much " +
    "more attention the token draws than its place alone would give it. The value is what it brings " +
    `the neuron, in ${UNIT}, for each unit of attention.`;
  return [
    table({ kind: "ctx-figures", columns, rows: [...rows, element("tr", { class: "ctx-why-sum" }, sum)] }),
    element("p", { class: "ctx-quiet" }, about),
  ];
}

// ---------------------------------------------------------------- controls

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

/** Copies the address of the view's present state, where a page gives it one; nothing elsewhere.
 *  @param {any} model @returns {HTMLElement | null} */
export function copyButton(model) {
  if (!model.address) return null;
  const said = element("span", { role: "status", class: "ctx-quiet" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(await model.address());
      said.textContent = "copied";
    } catch {
      said.textContent = "the address bar holds it";
    }
    setTimeout(() => said.replaceChildren(), 2500);
  };
  return element("span", { class: "ctx-copy" }, button("Copy this state's address", copy), said);
}

// ---------------------------------------------------------------- state

/** The value of a trait if it is sound, else what it was at first, else `otherwise`; and puts it
 *  right, so that addresses and controls say the same.
 *  @template T @param {any} model @param {string} name @param {(value: any) => boolean} test
 *  @param {T} otherwise @returns {T} */
export function sound(model, name, test, otherwise) {
  const value = model.get(name);
  if (test(value)) return value;
  const first = model.first?.[name];
  const better = test(first) ? first : otherwise;
  model.set(name, better);
  return better;
}

/** @param {number} size @returns {(value: any) => boolean} whether it is one of 0 ... size - 1 */
export function below(size) {
  return (value) => Number.isInteger(value) && value >= 0 && value < size;
}

/** @param {number} size @returns {(value: any) => boolean} whether it is one of them, or -1, which
 *  leaves the choice to the view */
export function belowOrLeft(size) {
  return (value) => value === -1 || below(size)(value);
}

/** @param {number} size @returns {(value: any) => boolean} whether they are some of them, or none */
export function listBelow(size) {
  return (value) => Array.isArray(value) && value.every(below(size));
}

/** The heads of a circuit, in order: none stand for the layer's stable ones, or for all where no
 *  head is stable. @param {any} model @param {Layer} layer @returns {number[]} */
export function circuitHeads(model, layer) {
  const heads = sound(model, "heads", listBelow(layer.nHeads), /** @type {number[]} */ ([]));
  const chosen = [heads, layer.stable, layer.everyHead].find((some) => some.length) ?? [];
  return [...new Set(chosen)].sort((a, b) => a - b);
}

/** Tell the page, or Python, what a reader turned. @param {any} model
 *  @param {Record<string, any>} values */
export function turn(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

/** Runs a function with the next picture the browser draws, once however often it was asked.
 *  @param {() => void} run @returns {() => void} */
export function eachFrame(run) {
  let asked = 0;
  return () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      run();
    });
  };
}

/** Calls `draw` when the width of an element has changed, and when it is first shown; returns what
 *  ends it. @param {HTMLElement} place @param {() => void} draw @returns {() => void} */
export function atWidth(place, draw) {
  let last = place.clientWidth;
  const observer = new ResizeObserver(() => {
    const width = place.clientWidth;
    if (!width || width === last) return;
    last = width;
    draw();
  });
  observer.observe(place);
  return () => observer.disconnect();
}

/** Runs a function when one of these traits has changed; returns what ends it. Each trait is an event
 *  of its own: only some hosts understand several in one. @param {any} model
 *  @param {string[]} traits @param {() => void} run @returns {() => void} */
export function heard(model, traits, run) {
  const events = traits.map((name) => `change:${name}`);
  for (const event of events) model.on(event, run);
  return () => events.forEach((event) => model.off(event, run));
}

/** Draws a view now, and again when one of these traits or its width has changed; returns what ends
 *  it. @param {any} model @param {HTMLElement} place @param {string[]} traits
 *  @param {() => void} draw @returns {() => void} */
export function keptDrawn(model, place, traits, draw) {
  let ended = false;
  const redraw = eachFrame(() => ended || draw());
  const deaf = heard(model, traits, redraw);
  const rest = atWidth(place, redraw);
  draw();
  return () => {
    ended = true;
    deaf();
    rest();
  };
}

// ---------------------------------------------------------------- work that takes longer

/** Runs one task at a time: a new one ends the last and waits until it has let go. A task that was
 *  ended is no failure. @returns {(run: (signal: AbortSignal) => Promise<void>) => Promise<void>} */
export function latest() {
  let control = new AbortController();
  let done = Promise.resolve();
  return (run) => {
    control.abort();
    control = new AbortController();
    const { signal } = control;
    const mine = done.then(() => (signal.aborted ? undefined : run(signal)));
    const heard = mine.catch((error) => {
      if (!signal.aborted) throw error;
    });
    done = heard.catch(() => {});
    return heard;
  };
}

/** Returns a function to await between two pieces of work: at first, and whenever a slice is over,
 *  it lets the browser listen and draw, and it ends work that is no longer wanted.
 *  @param {AbortSignal} signal @returns {() => Promise<void>} */
export function sliced(signal) {
  let since = -Infinity;
  return async () => {
    if (performance.now() - since > AWAKE) {
      await new Promise((resolve) => {
        const { port1, port2 } = new MessageChannel(); // not held back, as timers are
        port1.onmessage = () => {
          port1.close();
          resolve(undefined);
        };
        port2.postMessage(null);
      });
      since = performance.now();
    }
    signal.throwIfAborted();
  };
}

// ---------------------------------------------------------------- the layer's data

const PATIENCE = 10_000; // milliseconds until a view asks for itself what another has asked for

/** @type {Map<string, Promise<Layer>>} one download for all views of a page */
const layers = new Map();

/** What a document that shows several widgets keeps for all of them, whichever bundle they came in: a
 *  layer that somebody waits for, or one that is in use. @returns {Map<string, Promise<Layer> | WeakRef<Layer>>} */
function sharedLayers() {
  const page = /** @type {Record<symbol, any>} */ (/** @type {unknown} */ (globalThis));
  return (page[Symbol.for("ctxlib layers")] ??= new Map());
}

/** The layer of a widget: another widget's of the same name, or what Python answers.
 *  @param {any} model @param {string} name @returns {Promise<Layer>} */
async function askedLayer(model, name) {
  const shared = sharedLayers();
  const known = shared.get(name);
  const there = known instanceof WeakRef ? known.deref() : known;
  if (there && !(there instanceof Promise)) return there;
  const answer = () => {
    const asked = answeredLayer(model).then((layer) => {
      shared.set(name, new WeakRef(layer));
      return layer;
    });
    shared.set(name, asked);
    asked.catch(() => shared.delete(name));
    return asked;
  };
  if (!there) return answer();
  // who asked may be gone, or its kernel
  const late = new Promise((done) => setTimeout(done, PATIENCE));
  return Promise.race([there, late.then(() => (shared.get(name) === there ? answer() : there))]);
}

/** @param {any} model @returns {Promise<Layer>} */
function answeredLayer(model) {
  return new Promise((done, fail) => {
    const hear = (/** @type {any} */ said, /** @type {DataView[]} */ buffers) => {
      if (!said?.layer) return;
      model.off("msg:custom", hear);
      readLayer(buffers[0]).then(done, fail);
    };
    model.on("msg:custom", hear);
    model.send({ wanted: "layer" });
  });
}

/** The layer behind a view. While it loads, `place` shows how far; if it cannot be had, one line
 *  says why, and the answer is null. It is null as well for a view that was taken away meanwhile:
 *  there is nobody to draw for.
 *  @param {any} model @param {HTMLElement} place
 *  @returns {Promise<import("./circuit.js").Layer | null>} */
export async function layerOf(model, place) {
  const bar = /** @type {HTMLProgressElement} */ (
    element("progress", { max: 1, value: 0, "aria-label": "Loading the layer" })
  );
  const waiting = element("p", { class: "ctx-waiting" }, "Loading the layer’s weights ", bar);
  place.replaceChildren(waiting);
  const late = setTimeout(() => {
    if (!(model.get("data") instanceof URL))
      waiting.append(" They come from Python: if they do not, run the cell again.");
  }, PATIENCE);
  const there = place.isConnected; // a notebook may hand over a place before it shows it
  const unlessLeft = (/** @type {Layer} */ layer) => (there && !place.isConnected ? null : layer);
  try {
    const data = model.get("data");
    if (!(data instanceof URL)) return unlessLeft(await askedLayer(model, model.get("layer")));
    const known = layers.get(data.href) ?? loadLayer(data, (share) => (bar.value = share));
    layers.set(data.href, known);
    return unlessLeft(await known);
  } catch (error) {
    layers.clear();
    failed(place, /** @type {Error} */ (error));
    return null;
  } finally {
    clearTimeout(late);
    waiting.remove();
  }
}

/** One readable line in place of a view. @param {HTMLElement} place @param {Error} error */
export function failed(place, error) {
  place.replaceChildren(element("p", { class: "ctx-failed", role: "alert" }, error.message));
}
