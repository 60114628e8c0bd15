/** How much of its attention each head gives to the nearest tokens, and what a token adds to a neuron: attention
 *  times value, a head at a time (chapter 1). */

import { dotProduct, largest } from "../engine/linalg.js";
import { CHARACTERS } from "../engine/reading.js";
import { controlRow } from "../ui/controls.js";
import { element, numberCell, quiet, renewed, row, scrolling, table } from "../ui/dom.js";
import { headStyle, lineMark } from "../ui/marks.js";
import { placeOn } from "../ui/place.js";
import { TOKENS_BACK, chart, legend, line, readable } from "../ui/plot.js";
import { downloaded, layerOf, spelling } from "../ui/source.js";
import { below, kept, sound, typed } from "../ui/state.js";
import { textBox } from "../ui/textbox.js";
import { shadeKey, tokenReader } from "../ui/tokens.js";
import { needed, waitingLine } from "../ui/waiting.js";
import { stateButtons, waysOn } from "../ui/links.js";
import { digitsFor, signed, threeDigits, tokenMark } from "../ui/words.js";

/** @import { Place } from "../ui/place.js"
 *  @typedef {LearnedLayer} Layer */

const EVEN = { stroke: "var(--ctx-ink)", "stroke-width": 1, "stroke-dasharray": "2 3" };
const LINE = { "stroke-width": 1.8 };

/** Attention to the nearest tokens, the query's own first. @param {Float64Array} row */
function nearest(row) {
  let sum = 0;
  return row.toReversed().map((weight) => (sum += weight));
}

/** @param {Float64Array[]} within a head's each @param {number} width */
function drawing(within, width) {
  const n = within[0].length - 1;
  const half = within.map((shares) => shares.findIndex((share) => share >= 0.5));
  const on = chart({
    alt:
      "Curves that rise to the left, a head each. Half of the attention lies within so many tokens back, " +
      `${half.map((back, head) => `head ${head}: ${back}`).join(", ")}.`,
    x: { label: TOKENS_BACK, domain: [0, n], flip: true },
    y: { label: "attention within", domain: [0, 1] },
    width,
  });
  const back = Float64Array.from({ length: n + 1 }, (_, k) => k);
  on.add(line(on, [0, n], [1 / (n + 1), 1], EVEN));
  within.forEach((shares, head) => on.add(line(on, back, shares, { ...headStyle(head), ...LINE })));
  const read = (/** @type {number} */ k) =>
    `Within ${k} back, head by head: ` +
    within.map((shares, head) => `${head}: ${Math.round(100 * shares[k])}%`).join(", ");
  const label = "Read how much attention lies within so many tokens back";
  const reader = readable(on, { label, max: n, value: Math.min(16, n), read });
  const marks = within.map((_, head) => ({
    label: `head ${head}: half within ${half[head]}`,
    style: headStyle(head),
  }));
  return [reader, legend([...marks, { label: "uniform attention", style: EVEN }])];
}

/** The attention of every head, and the value of every token for a neuron, as the model has them. @param {Layer} layer
 *  @param {Int32Array} ids up to the query @param {number} neuron */
function passedOn(layer, ids, neuron) {
  const { d, everyHead } = layer;
  const x = layer.stream(ids, ids.length - 1, "exact");
  const { scale } = layer.attend(x, ids);
  const inner = everyHead.map((head) => layer.readoutOf(head, neuron).map((w) => w / scale));
  const { directions, biases } = layer.outwards(everyHead, inner);
  return layer.rows(x).map((weights, head) => {
    const values = weights.map(
      (_, i) => dotProduct(directions, head * d, x, i * d, d) + biases[head],
    );
    return { weights, values };
  });
}

/** What the tokens of a text add to a neuron, and of one of them why. @param {ReturnType<typeof passedOn>} heads
 *  @param {{tokens: string[], names: string[], neuron: number}} text */
function added(heads, { tokens, names, neuron }) {
  const sums = tokens.map((_, i) =>
    heads.reduce((sum, { weights, values }) => sum + weights[i] * values[i], 0),
  );
  const [first, ...terms] = sums; // BOS, which would outshine every token of the text
  const digits = digitsFor(largest(terms));
  const held = element("div");
  const show = (/** @type {number} */ i) => {
    const rows = heads.map(({ weights, values }, head) => {
      const factors = [threeDigits(weights[i]), threeDigits(values[i])];
      const cells = [...factors, signed(weights[i] * values[i], digits + 1)].map(numberCell);
      return row([lineMark(headStyle(head)), String(head)], cells);
    });
    const whole = [element("td"), element("td"), numberCell(signed(sums[i], digits + 1))];
    const columns = ["head", ["attention"], ["×\u00a0value"], ["=\u00a0adds"]];
    const made = table({
      kind: "ctx-figures",
      columns,
      rows: [...rows, row("all", whole, "ctx-why-sum")],
    });
    held.replaceChildren(scrolling("What a token adds, head by head", made));
  };
  const at = terms.findIndex((term) => Math.abs(term) === largest(terms));
  const back = (/** @type {number} */ i) => `${terms.length - 1 - i} back`;
  const reader = tokenReader({
    label: "Read a token: what it adds",
    tokens: tokens.slice(1),
    names: names.slice(1),
    values: terms,
    at,
    digits,
    onMove: (i) => show(i + 1),
    read: (i) => `“${names[i + 1]}”, ${back(i)}: ${signed(terms[i], digits)}`,
  });
  show(at + 1);
  const total = sums.reduce((a, b) => a + b, 0);
  const caption =
    `What each token adds to neuron ${neuron} through all heads: ${signed(total, digits)} together, ` +
    `${signed(first, digits)} of it from BOS, which is not drawn. Press a token to see its attention ` +
    "and its value, head by head. Numbers are rounded: they hold to about a hundredth of their range. ";
  return [quiet(caption, shadeKey(largest(terms), digits)), ...reader, held];
}

/** @param {{model: Model, el: HTMLElement}} view traits: passage, n (0: the circuit's), text,
 *  which is read in place of the passage, and neuron */
async function render({ model, el }) {
  const layer = /** @type {Layer | null} */ (await layerOf(model, el));
  if (!layer) return undefined;
  const { inText, tokenizer } = spelling(layer);
  const place = placeOn(model, layer, { text: "" });
  const controls = controlRow(place.controls);
  const { box, title } = textBox(
    "Or a text of your own (it stays in this page)",
    CHARACTERS * layer.positions,
    () => typed(model, { text: box.value.toWellFormed() }),
  );
  box.rows = 2;
  const headline = element("p");
  const ways = waysOn(model, stateButtons(model));
  const [picture, path] = [element("div"), element("div")];
  el.replaceChildren(
    controls,
    ...(tokenizer ? [title, box] : []),
    headline,
    picture,
    path,
    ways.root,
  );
  const heads = layer.usual;
  const neuron = sound(model, "neuron", below(layer.nNeurons), 0);
  const waiting = waitingLine();
  const here = needed(layer, waiting, () => waiting.root.isConnected && end.again());
  /** @param {Place & {text: string, width: number}} now */
  const update = ({ width, text, ...now }) => {
    const passage = { ...layer.passages[now.passage] };
    const words = text && tokenizer ? Array.from(tokenizer.encode(text)) : [];
    if (words.length) {
      const own = Int32Array.of(layer.bos, ...words.slice(0, layer.positions - 1));
      Object.assign(passage, { name: "Your text", domain: "typed here", title: "", ids: own });
    }
    const ids = passage.ids.slice(0, now.n + 1);
    const n = ids.length - 1;
    controls.update({ ...now, n }, { n: { max: passage.ids.length - 1 } });
    if (box.value !== text) box.value = text;
    if (!here([], ids, "the tokens of this passage")) {
      for (const empty of [headline, path]) empty.replaceChildren();
      renewed(picture, waiting.root);
      return;
    }
    const { tokens, names } = inText(ids);
    headline.replaceChildren(
      "Where the heads look from ",
      tokenMark(names[n]),
      ` at position ${n}`,
    );
    renewed(picture, drawing(layer.attentionRows(ids).map(nearest), width));
    const state = { text: tokens.slice(1).join("") };
    ways.update([{ page: "reader", label: "Read this text in the live reader", state }]);
    if (!here(heads, [], "the weights from heads to neurons")) {
      renewed(path, waiting.root);
      return;
    }
    renewed(path, added(passedOn(layer, ids, neuron), { tokens, names, neuron }));
    here(heads, layer.available, "the other passages"); // while this one is looked at
  };
  const state = () => ({
    ...place.state(),
    text: sound(model, "text", (text) => typeof text === "string", ""),
  });
  const end = kept({ model, place: picture, state, update });
  return end;
}

export default { render, downloaded };
