/** A head's attention row, true and rebuilt from Equation 1 (chapter 2). */

import { totalVariation } from "../engine/linalg.js";
import {
  controlRow,
  destinationSlider,
  headChoice,
  passageChoice,
  slider,
  resetButton,
} from "../ui/controls.js";
import { element, quiet, renewed } from "../ui/dom.js";
import { COLOURS } from "../ui/marks.js";
import { TOKENS_BACK, chart, namedLines, readable } from "../ui/plot.js";
import { downloaded, layerOf, spelling } from "../ui/source.js";
import { below, kept, sound, turn } from "../ui/state.js";
import { shadedTokens } from "../ui/tokens.js";
import { needed, waitingLine } from "../ui/waiting.js";
import { figure, threeDigits, tokenMark } from "../ui/words.js";

/** @typedef {LearnedLayer} Layer
 *  @typedef {{passage: number, head: number, n: number, octaves: number}} Turned
 *  @typedef {{exact: Float64Array, rebuilt: Float64Array, apart: number}} Pair the two rows of a
 *    head and their total variation */

const TRUE = { stroke: "var(--ctx-ink)", "stroke-width": 1.1 };
const REBUILT = { stroke: COLOURS[1], "stroke-width": 1.8, "stroke-dasharray": "5 3" };
const FAINTEST = 1e-6; // attention is drawn as this much at least
const NAMES = ["true row", "by Equation 1"];
const TEXT_LABEL =
  "The passage up to n, each token shaded by its share of the true row. Numbers are rounded: they " +
  "hold to about a hundredth of the largest.";

/** Of every head. @param {Layer} layer @param {Turned} now @returns {Pair[]} */
function pairsOf(layer, { passage, n, octaves }) {
  const ids = layer.passages[passage].ids.slice(0, n + 1);
  const rebuilt = layer.rebuiltRows(ids, n, layer.C * 2 ** octaves);
  return layer.attentionRows(ids).map((exact, head) => ({
    exact,
    rebuilt: rebuilt[head],
    apart: totalVariation(exact, rebuilt[head]),
  }));
}

/** @param {Pair} pair @param {string[]} names of the tokens @param {Turned} now
 *  @param {number} width @param {{held: () => number, onMove: (back: number) => void,
 *    onHold: (back: number | null) => void}} hand */
function rowDrawing({ exact, rebuilt, apart }, names, { head, n }, width, hand) {
  const back = Float64Array.from(exact, (_, i) => n - i);
  const seen = [exact, rebuilt].map((row) => row.map((v) => Math.max(v, FAINTEST)));
  const [least, most] = [Math.min(...seen[0], ...seen[1]), Math.max(...seen[0], ...seen[1])];
  const on = chart({
    alt:
      `Attention of head ${head} at position ${n}, true and rebuilt, over the distance to the ` +
      `source; total variation ${figure(apart)}.`,
    x: { label: TOKENS_BACK, domain: [0, n], flip: true },
    y: { label: "attention", domain: [least / 1.5, 1.5 * most], log: true },
    width,
    names: NAMES,
  });
  namedLines(on, [
    { label: NAMES[0], style: TRUE, xs: back, ys: seen[0] },
    { label: NAMES[1], style: REBUILT, xs: back, ys: seen[1] },
  ]);
  const read = (/** @type {number} */ distance) => {
    const i = n - distance;
    const values = `true ${threeDigits(exact[i])}, rebuilt ${threeDigits(rebuilt[i])}`;
    return `“${names[i]}”, ${distance} back: ${values}`;
  };
  return readable(on, {
    label: "Read the rows at a distance in tokens back",
    max: n,
    value: n - strongest(exact),
    read,
    ...hand,
  });
}

/** @param {Float64Array} row @returns {number} the token that gets most */
function strongest(row) {
  return row.indexOf(Math.max(...row));
}

/** @param {{model: Model, el: HTMLElement}} view traits: passage, head, n (0: the circuit's), octaves */
async function render({ model, el }) {
  const layer = /** @type {Layer | null} */ (await layerOf(model, el));
  if (!layer) return undefined;
  const { inText } = spelling(layer);
  const apart = layer.everyHead.map(() => element("small", {}, "–"));
  const controls = controlRow({
    head: headChoice({
      label: "Head, with the total variation (TV) of its two rows",
      count: layer.nHeads,
      onChange: (head) => turn(model, { head }),
      notes: apart,
    }),
    passage: passageChoice({
      passages: layer.passages,
      onChange: (passage) => turn(model, { passage }),
    }),
    n: destinationSlider(1, (n) => turn(model, { n })),
    octaves: slider({
      label: "C, and how many times the median token norm",
      min: -2,
      max: 2,
      step: 0.25,
      format: (octaves) => `${figure(layer.C * 2 ** octaves)} (${figure(2 ** octaves)} ×)`,
      onInput: (octaves) => turn(model, { octaves }),
    }),
  });
  const headline = element("p");
  const [picture, text] = [element("div"), element("div")];
  const label = element("p", { class: "ctx-label" }, TEXT_LABEL);
  el.replaceChildren(controls, headline, picture, label, text, quiet(resetButton(model)));
  const waiting = waitingLine();
  const here = needed(layer, waiting, () => waiting.root.isConnected && end.again());
  let pairs = /** @type {Pair[]} */ ([]);
  /** @param {Turned & {width: number}} now @param {Changed} changed */
  const update = ({ width, ...now }, changed) => {
    const { n } = now;
    controls.update(now, { n: { max: layer.longest(now.passage) - 1 } });
    const ids = layer.passages[now.passage].ids.slice(0, now.n + 1);
    if (!here([], ids, "the tokens of this passage")) {
      for (const empty of [headline, text, ...apart]) empty.replaceChildren();
      renewed(picture, waiting.root);
      pairs = [];
      return;
    }
    // no head needs new ones
    if (!pairs.length || changed("passage", "n", "octaves")) pairs = pairsOf(layer, now);
    pairs.forEach((pair, head) => (apart[head].textContent = figure(pair.apart)));
    const pair = pairs[now.head];
    const { tokens, names } = inText(ids);
    headline.replaceChildren(
      `Head ${now.head} looks back from `,
      tokenMark(names[n]),
      ` at n = ${n}: the total variation of its true and its rebuilt row is ` +
        `${figure(pair.apart)}.`,
    );
    let kept = strongest(pair.exact);
    const show = (/** @type {number} */ place) => {
      reader.update(n - place);
      shaded.mark(place);
    };
    const hold = (/** @type {number | null} */ place) => {
      kept = place ?? strongest(pair.exact);
      shaded.hold(place);
      show(kept);
    };
    const hand = { held: () => kept, show, hold };
    const shaded = shadedTokens(tokens, pair.exact, { digits: 3, names, hand });
    const reader = rowDrawing(pair, names, now, width, {
      held: () => n - kept,
      onMove: (back) => shaded.mark(n - back),
      onHold: (back) => hold(back === null ? null : n - back),
    });
    renewed(picture, reader);
    text.replaceChildren(shaded);
    shaded.mark(strongest(pair.exact));
    here([], layer.available, "the other passages"); // while this one is looked at
  };
  /** @returns {Turned} */
  const state = () => {
    const passage = sound(model, "passage", below(layer.passages.length), 0);
    const n = sound(model, "n", below(layer.longest(passage)), 0);
    return {
      passage,
      n: n || Math.max(1, Math.min(layer.n, layer.longest(passage) - 1)),
      head: sound(model, "head", below(layer.nHeads), 0),
      octaves: sound(model, "octaves", (v) => typeof v === "number" && Math.abs(v) <= 2, 0),
    };
  };
  const end = kept({ model, place: picture, state, update });
  return end;
}

export default { render, downloaded };
