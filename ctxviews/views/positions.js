/** What a head's scores depend on, wherever a model keeps its positions: where, what, and both (chapter 13).
 *
 *  No layer is needed: Python has computed with each model's first layer. Scores are in nats, distances in
 *  tokens back from the destination. */

import { either, headChoice, resetButton } from "../ui/controls.js";
import { element, quiet, renewed } from "../ui/dom.js";
import { COLOURS } from "../ui/marks.js";
import { TOKENS_BACK, chart, line, namedLines, readable, rule } from "../ui/plot.js";
import { below, kept, sound, turn } from "../ui/state.js";
import { figure, signed, threeDigits, tokenName } from "../ui/words.js";

/** @typedef {{effective: number, where: number, what: number, interaction: number, kernel: number[],
 *    tokens: {token: string, more: number[]}[]}} Head over how many tokens its kernel
 *    is spread; how far its scores vary with the place, with the token, and with both in a way that no sum
 *    can follow; the log of its kernel at the record's distances; of some tokens, their log content and
 *    how much more than the average token they get there
 *  @typedef {{n: number, distances: number[], kinds: {name: string, heads: Head[]}[]}} PositionRecord
 *  @typedef {{kind: number, head: number}} Turned */

const TOKENS = [
  { stroke: COLOURS[0] },
  { stroke: COLOURS[1], "stroke-dasharray": "6 4" },
  { stroke: COLOURS[2], "stroke-dasharray": "2 3" },
];

/** @param {{model: any, el: HTMLElement}} view traits: record, kind, head */
async function render({ model, el }) {
  /** @type {PositionRecord} */ const record = model.get("record");
  const { kinds } = record;
  /** @returns {Turned} */
  const state = () => {
    const kind = sound(model, "kind", below(kinds.length), 0);
    return { kind, head: sound(model, "head", below(kinds[kind].heads.length), 0) };
  };
  const kindControl = either({
    label: "Positions",
    options: kinds.map(({ name }) => ({ label: name })),
    onChange: (kind) => turn(model, { kind }),
  });
  const headPlace = element("div");
  const [headline, where, both] = ["p", "div", "div"].map((tag) =>
    element(/** @type {"div"} */ (tag)),
  );
  el.replaceChildren(
    element("div", { class: "ctx-controls" }, kindControl, headPlace),
    headline,
    element("div", { class: "ctx-positions-pair" }, where, both),
    quiet(resetButton(model)),
  );
  let place = Math.floor(record.distances.length / 2); // where a reader last looked
  /** @type {ReturnType<typeof headChoice> | null} */ let headControl = null;
  /** @param {Turned & {width: number}} now @param {Changed} changed */
  const update = ({ kind, head, width }, changed) => {
    const { name, heads } = kinds[kind];
    kindControl.update(kind);
    if (changed("kind")) {
      headControl = headChoice({ count: heads.length, onChange: (head) => turn(model, { head }) });
      renewed(headPlace, headControl);
    }
    headControl?.update(head);
    const { effective, where: byPlace, what, interaction } = heads[head];
    headline.textContent =
      `Head ${head}, positions ${name}: its kernel covers ${figure(effective, 0)} tokens. Its scores ` +
      `vary by ${figure(byPlace)} nats with the place, by ${figure(what)} with the token, and by ` +
      `${figure(interaction)} with both.`;
    const room = width < 700 ? width : (width - 24) / 2;
    const above = whereDrawing(record, heads[head], room, place, (to) => {
      place = to;
      beside.update(to);
    });
    const beside = bothDrawing(record, heads[head], room, place, (to) => {
      place = to;
      above.update(to);
    });
    renewed(where, above);
    renewed(both, beside);
  };
  return kept({ model, place: el, state, update });
}

/** @param {PositionRecord} record @param {Head} head @param {number} width @param {number} place
 *  @param {(place: number) => void} onMove */
function whereDrawing({ n, distances }, { kernel, effective }, width, place, onMove) {
  const weights = kernel.map(Math.exp);
  const [least, most] = [Math.min(...weights), Math.max(...weights)];
  const on = chart({
    alt: `Kernel over the distance: ${figure(effective, 0)} effective tokens of ${n + 1}.`,
    title: "where: the kernel",
    x: { label: TOKENS_BACK, domain: [0, n], flip: true },
    y: { label: "weight in the kernel", domain: [decade(least, -1), decade(most, 1)], log: true },
    width,
  });
  on.add(rule(on, { y: 1 / (n + 1) }), line(on, distances, weights, { stroke: COLOURS[0] }));
  const read = (/** @type {number} */ i) =>
    `${distances[i]} back: ${threeDigits(weights[i])}, in an even row ${threeDigits(1 / (n + 1))}`;
  const label = "Read the kernel at a distance";
  return readAlong(on, distances, { label, value: place, read, onMove });
}

/** The next power of ten, down or up. @param {number} value @param {1 | -1} way */
function decade(value, way) {
  return 10 ** (way * Math.ceil(way * Math.log10(value) - 1e-9));
}

/** Lets a reader read a chart at one of the record's distances. @param {Chart} on @param {number[]} distances
 *  @param {Omit<Parameters<typeof readable>[1], "max">} reader */
function readAlong(on, distances, reader) {
  const X = (/** @type {number} */ i) => on.X(distances[i]);
  const from = (/** @type {number} */ pixel) => {
    const far = distances.map((distance) => Math.abs(distance - on.from(pixel)));
    return far.indexOf(Math.min(...far));
  };
  return readable({ ...on, X, from }, { max: distances.length - 1, ...reader });
}

/** @param {PositionRecord} record @param {Head} head @param {number} width @param {number} place
 *  @param {(place: number) => void} onMove */
function bothDrawing({ n, distances }, { tokens }, width, place, onMove) {
  const all = tokens.flatMap(({ more }) => more);
  const [low, high] = [Math.min(0, ...all), Math.max(0, ...all)];
  const room = 0.06 * (high - low || 1);
  const names = tokens.map(({ token }) => tokenName(token));
  const on = chart({
    alt: `How much more than the average token ${names.join(", ")} get, over the distance.`,
    title: "what, and both (level: no interaction)",
    x: { label: TOKENS_BACK, domain: [0, n], flip: true },
    y: { label: "nats more than the average token", domain: [low - room, high + room] },
    width,
    names,
  });
  on.add(rule(on, { y: 0 }));
  namedLines(
    on,
    tokens.map(({ more }, k) => ({
      label: names[k],
      style: TOKENS[k % 3],
      xs: distances,
      ys: more,
    })),
  );
  const read = (/** @type {number} */ i) =>
    `${distances[i]} back: ` +
    tokens.map(({ more }, k) => `“${names[k]}” ${signed(more[i])}`).join(", ");
  const label = "Read the tokens at a distance";
  return readAlong(on, distances, { label, value: place, read, onMove });
}

export default { render };
