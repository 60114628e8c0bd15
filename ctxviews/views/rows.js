/** A head's attention row, true and rebuilt from Equation 1 (chapter 2). */

import { totalVariation } from "../engine/linalg.js";
import {
  controlRow,
  destinationSlider,
  either,
  headChoice,
  passageChoice,
  slider,
} from "../ui/controls.js";
import { element, renewed } from "../ui/dom.js";
import { COLOURS } from "../ui/marks.js";
import { TOKENS_BACK, chart, namedLines, readable } from "../ui/plot.js";
import { downloaded, layerOf, spelling } from "../ui/source.js";
import { below, kept, sound, turn } from "../ui/state.js";
import { stateButtons, waysOn } from "../ui/links.js";
import { shadedTokens } from "../ui/tokens.js";
import { needed, waitingLine } from "../ui/waiting.js";
import { figure, threeDigits, tokenMark } from "../ui/words.js";

/** @typedef {LearnedLayer} Layer
 *  @typedef {{passage: number, head: number, n: number, octaves: number, scale: string}} Turned
 *  @typedef {{exact: Float64Array, rebuilt: Float64Array, apart: number}} Pair the two rows of a
 *    head and their total variation */

const TRUE = { stroke: "var(--ctx-ink)", "stroke-width": 1.1 };
const REBUILT = { stroke: COLOURS[1], "stroke-width": 1.8, "stroke-dasharray": "5 3" };
const NAMES = ["true row", "by Equation 1"];
const FAINTEST = 1e-6; // attention below this is not drawn on a logarithmic axis
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

// ---------------------------------------------------------------- drawing

/** @param {Pair} pair @param {string[]} names of the tokens @param {Turned} now
 *  @param {number} width @param {{held: () => number, onMove: (back: number) => void,
 *    onHold: (back: number | null) => void}} hand */
function rowDrawing({ exact, rebuilt, apart }, names, { head, n, scale }, width, hand) {
  const log = scale === "log";
  const back = Float64Array.from(exact, (_, i) => n - i);
  const top = Math.max(...exact, ...rebuilt);
  const least = Math.max(FAINTEST, Math.min(...exact, ...rebuilt));
  const on = chart({
    alt:
      `Attention of head ${head} at position ${n}, true and rebuilt, over the distance to the ` +
      `source; total variation ${figure(apart)}.`,
    x: { label: TOKENS_BACK, domain: [0, n], flip: true },
    y: { label: "attention", domain: log ? [least / 1.5, top * 1.5] : [0, 1.05 * top], log },
    width,
    names: NAMES,
  });
  const floor = log ? least : 0;
  const [above, guessed] = [exact, rebuilt].map((row) => row.map((v) => Math.max(v, floor)));
  namedLines(on, [
    { label: NAMES[0], style: TRUE, xs: back, ys: above },
    { label: NAMES[1], style: REBUILT, xs: back, ys: guessed },
  ]);
  const digits = (/** @type {number} */ value) =>
    value < FAINTEST ? `< ${figure(FAINTEST, 6)}` : threeDigits(value);
  const read = (/** @type {number} */ distance) => {
    const i = n - distance;
    const values = `true ${digits(exact[i])}, rebuilt ${digits(rebuilt[i])}`;
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

// ---------------------------------------------------------------- the view

/** @param {{model: Model, el: HTMLElement}} view traits: passage, head, n (0: the circuit's),
 *    octaves, scale */
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
    scale: either({
      label: "Attention axis",
      options: [
        { value: "linear", label: "linear" },
        { value: "log", label: "logarithmic" },
      ],
      onChange: (scale) => turn(model, { scale }),
    }),
  });
  const headline = element("p");
  const ways = waysOn(model, stateButtons(model));
  const [picture, text] = [element("div"), element("div")];
  const label = element("p", { class: "ctx-label" }, TEXT_LABEL);
  el.replaceChildren(controls, headline, picture, label, text, ways.root);
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
    // no head or axis needs new ones
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
    const heads = [now.head];
    const explored = { heads, passage: now.passage };
    const read = { heads, text: tokens.slice(1).join("") };
    ways.update([
      { page: "explorer", label: "Head by head: the explorer", state: explored },
      { page: "reader", label: "Read this text in the live reader", state: read },
    ]);
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
      scale: sound(model, "scale", (v) => v === "linear" || v === "log", "linear"),
    };
  };
  const end = kept({ model, place: picture, state, update });
  return end;
}

export default { render, downloaded };
