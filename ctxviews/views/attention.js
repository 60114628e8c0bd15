/** How much of its attention each head gives to the nearest tokens, and the path of one of them to a
 *  neuron (chapter 1). */

import { CHARACTERS, leading } from "../engine/reading.js";
import { passageRead } from "../explorer/passages.js";
import { controlRow } from "../ui/controls.js";
import { element, renewed } from "../ui/dom.js";
import { headStyle } from "../ui/marks.js";
import { placeOn } from "../ui/place.js";
import { TOKENS_BACK, chart, legend, line, readable } from "../ui/plot.js";
import { downloaded, layerOf, spelling } from "../ui/source.js";
import { kept, sound, turn } from "../ui/state.js";
import { textBox } from "../ui/textbox.js";
import { needed, waitingLine } from "../ui/waiting.js";
import { stateButtons, waysOn } from "../ui/links.js";
import { whyHere } from "../ui/why.js";
import { tokenMark } from "../ui/words.js";

/** @import { Place } from "../ui/place.js"
 *  @typedef {LearnedLayer} Layer */

const EVEN = { stroke: "var(--ctx-ink)", "stroke-width": 1, "stroke-dasharray": "2 3" };
const LINE = { "stroke-width": 1.8 };

/** Attention to the nearest tokens, the destination's own first. @param {Float64Array} row */
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
      "Rising curves, a head each. Half of the attention lies within so many tokens back, " +
      `${half.map((back, head) => `head ${head}: ${back}`).join(", ")}.`,
    x: { label: TOKENS_BACK, domain: [0, n] },
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
  return [reader, legend([...marks, { label: "an even row", style: EVEN }])];
}

/** @param {{model: Model, el: HTMLElement}} view traits: passage, n (0: the circuit's), and text,
 *  which is read in place of the passage */
async function render({ model, el }) {
  const layer = /** @type {Layer | null} */ (await layerOf(model, el));
  if (!layer) return undefined;
  const { inText, tokenizer } = spelling(layer);
  const place = placeOn(model, layer, { text: "" });
  const controls = controlRow(place.controls);
  const { box, title } = textBox("Or a text of your own", CHARACTERS * layer.positions, () =>
    turn(model, { text: box.value.toWellFormed() }),
  );
  box.rows = 2;
  const headline = element("p");
  const ways = waysOn(model, stateButtons(model));
  const [picture, path, why] = [element("div"), element("div"), whyHere({ open: true })];
  el.replaceChildren(
    controls,
    ...(tokenizer ? [title, box] : []),
    headline,
    picture,
    path,
    why.root,
    ways.root,
  );
  const heads = layer.usual;
  const waiting = waitingLine();
  const here = needed(layer, waiting, () => waiting.root.isConnected && end.again());
  /** @param {Place & {text: string, width: number}} now */
  const update = ({ width, text, ...now }) => {
    const passage = { ...layer.passages[now.passage] };
    const typed = text && tokenizer ? Array.from(tokenizer.encode(text)) : [];
    if (typed.length) {
      const own = Int32Array.of(layer.bos, ...typed.slice(0, layer.positions - 1));
      Object.assign(passage, { name: "Your text", domain: "typed here", title: "", ids: own });
    }
    const ids = passage.ids.slice(0, now.n + 1);
    const n = ids.length - 1;
    controls.update({ ...now, n }, { n: { max: passage.ids.length - 1 } });
    if (box.value !== text) box.value = text;
    why.root.hidden = true;
    if (!here([], ids, "the tokens of this passage")) {
      for (const empty of [headline, path]) empty.replaceChildren();
      renewed(picture, waiting.root);
      return;
    }
    const { tokens, names } = inText(ids);
    headline.replaceChildren("What ", tokenMark(names[n]), ` at n = ${n} looks at`);
    renewed(picture, drawing(layer.attentionRows(ids).map(nearest), width));
    const state = { text: tokens.slice(1).join("") };
    ways.update([{ page: "reader", label: "Read this text in the live reader", state }]);
    // at other places than the usual one a circuit is calibrated
    const read = n === layer.n ? [] : layer.calibration.ids;
    why.root.hidden = !here(heads, read, "the weights from heads to neurons");
    if (why.root.hidden) {
      renewed(path, waiting.root);
      return;
    }
    const circuit = layer.circuit({ n });
    const [neuron] = leading(circuit.summary(circuit.placed(ids), heads));
    const caption = `What each token adds to neuron ${neuron}, which this text excites most. `;
    const scene = { ranking: { circuit, heads }, neuron };
    renewed(path, element("p", {}, caption), ...passageRead(scene, passage, { inText }, why));
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
