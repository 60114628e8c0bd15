/** The neuron explorer (chapter 8): which neurons the context can move far, and what moves one.
 *
 *  What waits is asked for in the order in which a reader needs it: the ranking of the chosen heads,
 *  the neuron, its passages; then, unseen, the tables of the other heads, so that to toggle one
 *  later is a matter of milliseconds. */

import { Kept } from "../engine/kept.js";
import { largest, outermost } from "../engine/linalg.js";
import { defaultThreshold, robustZ } from "../engine/ranking.js";
import { latest } from "../engine/slices.js";
import {
  button,
  checkbox,
  chip,
  destinationChoice,
  fixedDestination,
  headChooser,
  passageChoice,
  pick,
  slider,
} from "../ui/controls.js";
import {
  eachFrame,
  element,
  failed,
  focusIn,
  fresh,
  headingsIn,
  numberCell,
  renewed,
  scrolling,
  table,
  unseenHead,
} from "../ui/dom.js";
import { DOWN, UP } from "../ui/marks.js";
import { binAt, readableBars } from "../ui/distributions.js";
import { domainTable, overall } from "../ui/domains.js";
import { chart, digitsOfStep, legend, linearTicks, rule } from "../ui/plot.js";
import { layerOf, spelling } from "../ui/source.js";
import { stateButtons, waysOn } from "../ui/ways.js";
import { csvButton } from "../ui/csv.js";
import { svgButton } from "../ui/svg.js";
import { labelTable } from "../ui/labels.js";
import { ofModels } from "../ui/models.js";
import { belowOrLeft, circuitHeads, heard, inStep, kept, sound, turn } from "../ui/state.js";
import { shadeKey, tokenReader, whyHere } from "../ui/tokens.js";
import { brought, waitingLine } from "../ui/waiting.js";
import { UNIT, digitsFor, figure, grouped, several, signed, tokenMark } from "../ui/words.js";

/** @typedef {import("../ui/state.js").Model} Model */
/** @typedef {import("../engine/layer.js").Layer} Layer
 *  @typedef {import("../engine/circuit.js").Circuit} Circuit
 *  @typedef {import("../engine/circuit.js").Responses} Responses
 *  @typedef {{heads: number[], token: number, threshold: number, neuron: number, pinned: number,
 *    passage: number, search: string}} Turned what the reader has chosen; heads and token are settled, the others may
 *    still say "choose for me"
 *  @typedef {{circuit: Circuit, heads: number[], top: Float64Array, mean: Float64Array,
 *    tokens: Int32Array, z: Float64Array, order: Int32Array,
 *    places: Int32Array, rule: number, most: number, step: number}} Ranking
 *  @typedef {{layer: Layer, text: (id: number) => string, name: (id: number) => string,
 *    inText: (ids: ArrayLike<number>) => {tokens: string[], names: string[]},
 *    heading: ReturnType<typeof headingsIn>, read: (text: string) => number[], go: (values: Record<string, any>) => void, again: () => void}} Tools
 *  @typedef {Turned & {ranking: Ranking, theta: number, found: number, neuron: number,
 *    responses: Responses | null, read: number, width: number}} Scene `read` is the passage shown
 *  @typedef {{root: HTMLElement, paint: (scene: Scene) => void}} Section */

const FIRST_ROWS = 12; // of the list, and as many more at a time
const NAMED_TOKENS = 8; // after a neuron in the list: as many as find room
const OUTERMOST = 12; // tokens shown of each end of a neuron
const DRIVEN = 8; // neurons shown of each end of a token
const BINS = 56;
const NAMED_IN_BIN = 4; // tokens of a bin that is read, if it holds no more
const LONGEST_SEARCH = 200; // characters
const QUICK = 50; // milliseconds: a ranking that takes no longer may be made beforehand

/** @param {{model: Model, el: HTMLElement}} view traits: heads, threshold, token, neuron, pinned,
 *  passage, search */
async function render({ model, el }) {
  const layer = await layerOf(model, el);
  if (!layer) return undefined;
  const tools = toolsOf(model, layer, el);
  const controls = controlsSection(tools, stateButtons(model));
  const histogram = histogramSection(tools);
  /** @type {Record<string, Section>} */
  const sections = {
    list: listSection(tools),
    search: searchSection(tools),
    neuron: neuronSection(tools, histogram.file),
    histogram,
    compared: comparedSection(tools),
    domains: domainsSection(tools),
    passage: passageSection(tools),
  };
  const waiting = waitingLine();
  const ways = waysOn(model);
  const { body, columns } = arranged(controls.root, waiting.root, sections);
  const labels = labelTable(model.get("labels"), (neuron) => tools.go({ neuron }));
  body.append(sections.compared.root, labels.root, ways.root);
  el.replaceChildren(body);

  /** @type {Ranking | null} */ let ranking = null;
  /** @type {Responses | null} */ let responses = null;
  /** @type {Map<string, Ranking>} */ let near = new Map(); // and what a click would make of it
  let ranked = ""; // the heads and the token that the ranking is of, or will be
  const task = latest();

  /** @type {Scene | null} */ let scene = null;
  /** @type {(Turned & {width: number}) | null} */ let last = null;
  const paintSections = (/** @type {string[]} */ ...painted) => {
    if (scene) for (const section of painted) sections[section].paint(scene);
  };
  // a picture each: what was turned follows the hand at once, what it means a moment later
  const third = eachFrame(() => {
    columns[1].hidden &&= !scene?.responses;
    if (!scene?.responses) return;
    paintSections("domains", "passage", "compared");
    ways.update(waysFrom(scene, tools));
  });
  const second = eachFrame(() => {
    paintSections("search", "neuron", "histogram");
    if (scene) labels.update(scene.neuron);
    third();
  });
  const follow = (/** @type {Turned} */ now) => {
    const wanted = keyOf(now);
    if (wanted === ranked) return;
    ranked = wanted;
    task((signal) => rank(now, signal)).catch((error) => failed(el, error));
  };
  const paint = (/** @type {Turned & {width: number}} */ now) => {
    last = now;
    follow(now);
    scene = ranking && sceneOf(now, ranking, responses);
    controls.paint(now, scene);
    if (!scene) return;
    columns[0].hidden = false;
    paintSections("list");
    second();
  };
  // a ranking is mostly there when the picture of the turn is painted, which then is of it
  const repaint = eachFrame(() => {
    if (last && (scene?.ranking !== ranking || scene?.responses !== responses)) paint(last);
  });

  /** The ranking of these heads, then what takes longer. @param {Turned} now
   *  @param {AbortSignal} signal */
  const rank = async ({ heads, token }, signal) => {
    const circuit = layer.circuit({ token });
    body.setAttribute("aria-busy", "true");
    const unread = heads.filter((head) => layer.lacks([head], []).length);
    const what = `the readout of ${headsSaid(unread)}`;
    if (!(await brought(waiting, layer, layer.lacks(unread, []), what, signal))) {
      tools.go({ heads: ranking?.heads ?? [] });
      return;
    }
    if (!circuit.prepared(heads)) {
      waiting.show(`Ranking ${several(layer.nNeurons, "neuron")} by ${headsSaid(heads)}`);
      await circuit.prepare(heads, { signal, onProgress: waiting.share });
    }
    signal.throwIfAborted();
    const begun = performance.now();
    if (!roomy()) await circuit.topInSlices(heads, signal); // a hand is not to wait for it
    const found = near.get(ranked) ?? rankingOf(circuit, heads);
    const quick = performance.now() - begun < QUICK;
    ranking = found;
    responses = null;
    waiting.end();
    repaint();
    const answers = await layer.byDomain(heads, { token, placed: true, signal });
    signal.throwIfAborted(); // what was cached comes in spite of a signal
    responses = answers;
    body.removeAttribute("aria-busy");
    repaint();
    if (!roomy()) return;
    const here = layer.everyHead.filter((head) => !layer.lacks([head], []).length);
    for (const head of here) await circuit.prepare([head], { signal });
    near = new Map([[keyOf({ heads, token }), found]]);
    for (const others of quick ? oneClickAway(heads, here) : []) {
      await idle();
      signal.throwIfAborted();
      near.set(keyOf({ heads: others, token }), rankingOf(circuit, others));
    }
  };

  const traits = ["heads", "threshold", "token", "neuron", "pinned", "passage", "search"];
  const state = () => turned(model, layer);
  const end = kept({ model, place: body, traits, state, update: paint });
  tools.again = second;
  // a ranking begins with the hand, not with the picture after it
  const hear = () => follow(state());
  const deaf = heard(model, ["heads", "token"], hear);
  return () => {
    end();
    deaf();
    task(async () => {});
  };
}

// ---------------------------------------------------------------- state

/** What the view needs at every turn. @param {Model} model @param {Layer} layer @param {HTMLElement} el
 *  @returns {Tools} */
function toolsOf(model, layer, el) {
  const { tokenizer, text, name, inText } = spelling(layer);
  // without a tokenizer in the page a token can only be looked up as the vocabulary spells it
  const spelt = (/** @type {string} */ typed) => {
    const found = [typed, `▁${typed.trim()}`].map((word) => layer.vocab.indexOf(word));
    return found.filter((id) => id >= 0).slice(0, 1);
  };
  return {
    layer,
    text,
    name,
    inText,
    heading: headingsIn(el),
    read: tokenizer ? (typed) => Array.from(tokenizer.encode(typed)) : spelt,
    go: (values) => turn(model, values),
    again: () => {}, // before there is anything
  };
}

/** Whether a token's text is read as that token again; pieces of a character are not.
 *  @param {number} id @param {Tools} tools */
function sameAgain(id, { read, text }) {
  const again = text(id) ? read(text(id)) : [];
  return again.length === 1 && again[0] === id;
}

/** The traits, where sound. No heads mean the layer's stable ones (all, if none is), token -1 the
 *  usual destination. @param {Model} model @param {Layer} layer @returns {Turned} */
function turned(model, layer) {
  const ids = layer.destinations.map(({ id }) => id);
  const token = sound(model, "token", (v) => v === -1 || ids.includes(v), -1);
  return {
    heads: circuitHeads(model, layer),
    token: token === -1 ? ids[0] : token,
    threshold: sound(model, "threshold", (v) => Number.isFinite(v) && v >= 0, 0),
    neuron: sound(model, "neuron", belowOrLeft(layer.nNeurons), -1),
    pinned: sound(model, "pinned", belowOrLeft(layer.nNeurons), -1),
    passage: sound(model, "passage", belowOrLeft(layer.passages.length), -1),
    search: sound(model, "search", (v) => typeof v === "string", "").slice(0, LONGEST_SEARCH),
  };
}

/** What a ranking is of, in words. @param {{heads: number[], token: number}} turned */
const keyOf = ({ heads, token }) => `${heads} ${token}`;

/** Every choice of heads with one of these more or less, but for none at all. @param {number[]} heads
 *  @param {number[]} among @returns {number[][]} */
function oneClickAway(heads, among) {
  return among
    .map((head) =>
      heads.includes(head)
        ? heads.filter((h) => h !== head)
        : [...heads, head].sort((a, b) => a - b),
    )
    .filter((others) => others.length);
}

/** Whether tables may be made that nobody has asked for: they cost a phone its battery and up to some
 *  hundred megabytes. @returns {boolean} */
function roomy() {
  return matchMedia("(hover: hover) and (min-width: 40rem)").matches;
}

/** When the browser has nothing else to do. */
function idle() {
  return new Promise((done) => {
    if ("requestIdleCallback" in globalThis) requestIdleCallback(done);
    else setTimeout(done, QUICK);
  });
}

/** Everything the sections show, with all that was left to the view chosen.
 *  @param {Turned & {width: number}} now @param {Ranking} ranking
 *  @param {Responses | null} responses @returns {Scene} */
function sceneOf(now, ranking, responses) {
  const theta = now.threshold || ranking.rule;
  const { order, top } = ranking;
  let found = order.findIndex((j) => !(top[j] > theta));
  if (found < 0) found = order.length;
  const neuron = now.neuron === -1 ? order[0] : now.neuron;
  const read = passageOf(responses, now.passage, neuron);
  return { ...now, neuron, ranking, responses, theta, found, read };
}

/** @param {Circuit} circuit @param {number[]} heads @returns {Ranking} */
function rankingOf(circuit, heads) {
  const found = circuit.top(heads);
  const { top } = found;
  const order = Int32Array.from(top.keys()).sort((a, b) => top[b] - top[a] || a - b);
  const places = new Int32Array(order.length);
  order.forEach((j, place) => (places[j] = place));
  const most = top[order[0]];
  // a round step with fifty to five hundred of them on the slider, whatever the model's unit
  const step = 10 ** (Math.floor(Math.log10(Math.max(most, 1e-9) / 5)) - 1);
  const z = robustZ(top);
  return { ...found, circuit, heads, z, order, places, rule: defaultThreshold(top), most, step };
}

/** Where else this neuron can be looked at. @param {Scene} scene @param {Tools} tools
 *  @returns {import("../ui/ways.js").Way[]} */
function waysFrom({ heads, token, threshold, neuron, read, ...now }, { layer, inText }) {
  const [{ id }] = layer.destinations;
  const { pinned, passage, search } = now;
  const asked = { threshold, pinned, passage, search, token: token === id ? -1 : token };
  const chosen = Object.entries(asked).filter(([, value]) => ![-1, 0, ""].includes(value));
  const text = inText(layer.passages[read].ids.slice(1)).tokens.join("");
  return [
    {
      page: "explorer",
      label: "Open in the explorer",
      state: { heads, neuron, ...Object.fromEntries(chosen) },
    },
    {
      page: "reader",
      label: "Read this passage in the live reader",
      state: { heads, neuron, text },
    },
  ];
}

/** A threshold in robust deviations. Both measures differ by a shift and a factor, which any two
 *  neurons tell. @param {Ranking} ranking @param {number} theta */
function asZ({ top, z, order }, theta) {
  const [first, last] = [order[0], order[order.length - 1]];
  return z[first] + ((theta - top[first]) * (z[first] - z[last])) / (top[first] - top[last]);
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b @returns {number} Pearson's */
function correlation(a, b) {
  const mean = (/** @type {ArrayLike<number>} */ of) =>
    Array.from(of).reduce((sum, value) => sum + value, 0) / of.length;
  const [left, right] = [mean(a), mean(b)];
  let [both, ofA, ofB] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    both += (a[i] - left) * (b[i] - right);
    ofA += (a[i] - left) ** 2;
    ofB += (b[i] - right) ** 2;
  }
  return both / Math.sqrt(ofA * ofB);
}

// ---------------------------------------------------------------- words

/** @param {number[]} heads */
function headsSaid(heads) {
  return `${heads.length > 1 ? "heads" : "head"} ${heads.join(", ")}`;
}

// ---------------------------------------------------------------- the frame

/** List and search on the left, the neuron on the right, its passages below; where there is no
 *  room, one after the other, the neuron right behind the list. @param {HTMLElement} controls @param {HTMLElement} waiting
 *  @param {Record<string, Section>} sections */
function arranged(controls, waiting, { list, search, neuron, histogram, domains, passage }) {
  const columns = [
    [[list], [neuron, histogram], [search]],
    [[domains], [passage]],
  ].map((row) => {
    const parts = row.map((held) =>
      element(
        "div",
        {},
        held.map(({ root }) => root),
      ),
    );
    const made = element("div", { class: "ctx-neurons-columns" }, parts);
    made.hidden = true; // until there is something in it
    return made;
  });
  return { columns, body: element("div", { class: "ctx-neurons" }, controls, waiting, columns) };
}

/** Heads, destination token, threshold. @param {Tools} tools @param {HTMLElement | null} copy */
function controlsSection({ layer, name, go }, copy) {
  const heads = headChooser({
    count: layer.nHeads,
    chosen: [],
    onChange: (chosen) => go({ heads: chosen }),
    note: (head) => layer.families[head].family,
  });
  const token = layer.fixed
    ? fixedDestination(layer, name)
    : destinationChoice({
        layer,
        name,
        value: layer.destinations[0].id,
        onChange: (id) => go({ token: id }),
      });
  /** @type {Scene | null} */ let last = null;
  const threshold = slider({
    label: `Threshold θ, ${UNIT}`,
    min: 0,
    max: 1,
    step: 0.1,
    value: 0,
    format: (theta) => (last ? thetaSaid(last, theta) : "–"),
    // zero would be the rule again: the slider's lowest place is the smallest number above it
    onInput: (theta) => go({ threshold: theta || (last?.ranking.step ?? 1) / 1000 }),
  });
  threshold.classList.add("ctx-neurons-theta");
  const input = /** @type {HTMLInputElement} */ (threshold.querySelector("input"));
  const ruled = checkbox(null, () => {
    const rounded = last && Math.round(last.ranking.rule / last.ranking.step) * last.ranking.step;
    go({ threshold: ruled.checked ? 0 : Number((rounded || 1).toPrecision(6)) });
  });
  const byRule = chip(ruled, "by the rule");
  byRule.title = "The threshold that chapter 8’s rule sets for these heads";
  const both = element("div", { class: "ctx-neurons-threshold" }, threshold, byRule);
  const root = element("div", { class: "ctx-controls" }, heads, token, both, copy);
  return {
    root,
    /** @param {Turned} now @param {Scene | null} scene */
    paint(now, scene) {
      heads.update(now.heads);
      token.update(now.token);
      ruled.checked = now.threshold === 0;
      last = scene;
      input.disabled = ruled.disabled = !scene;
      if (!scene) return;
      const { most, step } = scene.ranking;
      const max = Number((Math.ceil(most / step) * step).toPrecision(6));
      threshold.update(scene.theta, { max, step });
    },
  };
}

/** @param {Scene} scene @param {number} theta */
function thetaSaid({ ranking, found, theta: shown }, theta) {
  // while a hand moves the slider, the count is that of the place it has reached
  const pass =
    theta === shown ? found : ranking.top.reduce((n, value) => n + Number(value > theta), 0);
  const digits = Math.max(1, digitsOfStep(ranking.step));
  return `${figure(theta, digits)} (z = ${figure(asZ(ranking, theta), 1)}): ${grouped(pass)} of ${grouped(ranking.top.length)} pass`;
}

// ---------------------------------------------------------------- the list

/** The found neurons, loudest first; the arrow keys move from one to the next.
 *  @param {Tools} tools */
function listSection({ layer, name, go, heading }) {
  const group = fresh("found");
  const title = heading(0, "Found neurons");
  const note = element("p", { class: "ctx-quiet" });
  const titles = ["rank", "neuron", "top", "z"].map((figures) => ({ figures }));
  const columns = [...titles, { words: "first tokens" }];
  const list = table({ kind: "ctx-neurons-list", columns, rows: [] });
  const rows = /** @type {HTMLElement} */ (list.querySelector("tbody"));
  const holder = element(
    "div",
    { class: "ctx-neurons-found", role: "radiogroup", "aria-label": "Found neurons" },
    list,
  );
  let room = FIRST_ROWS;
  /** @type {Scene | null} */ let last = null;
  const more = button("More", () => show(room + FIRST_ROWS));
  const fewer = button("Fewer", () => show(FIRST_ROWS));
  const turns = element("p", { class: "ctx-turns" }, more, fewer);
  const file = csvButton("Ranking as CSV", () =>
    rankingTable(/** @type {Scene} */ (last).ranking, layer, name),
  );

  const row = (/** @type {Ranking} */ ranking, /** @type {number} */ j, apart = false) => {
    const ids = ranking.tokens.subarray(j * layer.largest, j * layer.largest + NAMED_TOKENS);
    const words = Array.from(ids, name).join("  ");
    const made = listRow(ranking, j, { group, words, onPick: () => go({ neuron: j }) });
    made.classList.toggle("ctx-neurons-apart", apart);
    return made;
  };
  const fill = inStep(
    (
      /** @type {{ranking: Ranking, count: number, more: boolean, apart: number}} */ now,
      changed,
    ) => {
      if (!changed("ranking", "count", "more", "apart")) return;
      const { ranking, count, apart } = now;
      const made = Array.from(ranking.order.slice(0, count), (j) => row(ranking, j));
      if (apart >= 0) made.push(row(ranking, apart, true));
      rows.replaceChildren(...made);
      holder.hidden = !made.length;
      more.hidden = !now.more;
      fewer.hidden = room <= FIRST_ROWS;
      turns.hidden = more.hidden && fewer.hidden;
    },
  );
  /** @type {Ranking | null} */ let before = null;
  const paint = (/** @type {Scene} */ scene) => {
    if (scene.ranking !== before) room = FIRST_ROWS; // another list begins at its head
    before = scene.ranking;
    last = scene;
    note.replaceChildren(...foundSaid(scene, layer));
    const focused = /** @type {HTMLInputElement | null} */ (focusIn(holder))?.value;
    const { ranking, found } = scene;
    const count = Math.min(found, room);
    fill({ ranking, count, more: found > room, apart: strayed(scene, room) });
    for (const input of holder.querySelectorAll("input")) {
      input.checked = Number(input.value) === scene.neuron;
      input.closest("tr")?.classList.toggle("ctx-chosen", input.checked);
      if (input.value === focused && !focusIn(holder)) input.focus();
    }
  };
  const show = (/** @type {number} */ count) => {
    room = count;
    if (last) paint(last);
    if (more.hidden && !fewer.hidden) fewer.focus();
    if (fewer.hidden && !more.hidden) more.focus();
  };
  const saved = element("p", {}, file);
  return { root: element("section", {}, title, note, holder, turns, saved), paint };
}

/** @param {Ranking} ranking @param {number} j
 *  @param {{group: string, words: string, onPick: () => void}} options */
function listRow(ranking, j, { group, words, onPick }) {
  const said = { "aria-label": `Neuron ${j}`, onchange: onPick };
  const input = element("input", { type: "radio", name: group, value: j, ...said });
  const within = (/** @type {Event} */ event) => event.stopPropagation();
  return element(
    "tr",
    // the whole row is a target for pointers; what keys reach is the input in it
    { onclick: () => input.click() },
    numberCell(String(ranking.places[j] + 1)),
    numberCell(element("label", { onclick: within }, input, String(j))),
    numberCell(figure(ranking.top[j], 1)),
    numberCell(figure(ranking.z[j], 1)),
    element("td", {}, element("span", {}, words)),
  );
}

/** Every neuron, as a file. @param {Ranking} ranking @param {Layer} layer
 *  @param {(id: number) => string} name @returns {import("../ui/csv.js").Table} */
function rankingTable({ order, top, z, mean, tokens, heads, circuit }, layer, name) {
  const titles = ["rank", "neuron", "top", "z", "mean of all", "first tokens"];
  const rows = Array.from(order, (j, place) => {
    const ids = tokens.subarray(j * layer.largest, j * layer.largest + NAMED_TOKENS);
    return [place + 1, j, top[j], z[j], mean[j], Array.from(ids, name).join(" ")];
  });
  const place = [`n-${circuit.n}`, `token-${circuit.token}`];
  return { name: [layer.model, "neurons", headsSaid(heads), ...place], titles, rows };
}

/** One neuron's contributions over the vocabulary, as a file. @param {Scene} scene @param {Layer} layer
 *  @param {(id: number) => string} name @returns {import("../ui/csv.js").Table} */
function columnTable({ ranking, neuron }, layer, name) {
  const column = columnOf(ranking, neuron);
  const ids = Array.from(layer.counted).sort((a, b) => column[b] - column[a]);
  const rows = ids.map((id) => [id, name(id), column[id]]);
  const of = [layer.model, `neuron ${neuron}`, headsSaid(ranking.heads)];
  const place = [`n-${ranking.circuit.n}`, `token-${ranking.circuit.token}`];
  return { name: [...of, ...place], titles: ["token id", "token", "contribution"], rows };
}

/** The chosen neuron, if the list does not show it; -1 else.
 *  @param {Scene} scene @param {number} room */
function strayed({ ranking, neuron, found }, room) {
  return ranking.places[neuron] < Math.min(found, room) ? -1 : neuron;
}

/** @param {Scene} scene @param {Layer} layer @returns {string[]} */
function foundSaid({ found, ranking, theta }, layer) {
  const loudest = ranking.order[0];
  const some = found
    ? `${grouped(found)} of ${several(ranking.top.length, "neuron")} ${found === 1 ? "has" : "have"} a top above θ: the mean of the ${layer.largest} largest contributions, less the mean of all.`
    : `No neuron passes: the largest top is ${figure(ranking.most, 1)} (neuron ${loudest}), and θ is ${figure(theta, 1)}. Move θ to the left.`;
  const told = layer.told(ranking.circuit, ranking.heads);
  const few = !told && layer.ranked.length < layer.counted.length;
  const looked = ` Looked at are the ${several(layer.ranked.length, "token")} of ${grouped(layer.counted.length)} that can contribute most.`;
  const left =
    ` This page knows ${grouped(layer.counted.length)} of the vocabulary’s ` +
    `${several(layer.trained, "token")}: those of its passages, usual ones, and those that weigh most.`;
  return [some, few ? looked : "", layer.counted.length < layer.trained ? left : ""];
}

// ---------------------------------------------------------------- the search

/** Which neurons a typed token drives; before one is typed, the chosen neuron's first.
 *  @param {Tools} tools @returns {Section} */
function searchSection(tools) {
  const { go, name, layer, heading } = tools;
  const [task, waiting] = [latest(), waitingLine()];
  let asked = -1; // a token that did not come is not asked for at once again
  const fetchRare = (/** @type {number} */ id) => {
    const missing = layer.lacks([], [id]);
    if (asked === id || !missing.length) return;
    asked = id;
    task(async (signal) => {
      if (await brought(waiting, layer, missing, `the token ${name(id)}`, signal)) tools.again();
    }).catch((error) => failed(waiting.root, error));
  };
  const id = fresh("search");
  const input = /** @type {HTMLInputElement} */ (
    element("input", {
      type: "search",
      id,
      maxlength: LONGEST_SEARCH,
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      oninput: () => go({ search: input.value }),
    })
  );
  const field = element(
    "div",
    { class: "ctx-control" },
    element("label", { for: id }, "A word, or any token"),
    input,
  );
  const said = element("div", { role: "status", tabindex: -1 });
  const result = element("div", { class: "ctx-neurons-ends" });
  const counted = new Set(layer.counted);
  const say = inStep((/** @type {Found & {typed: string}} */ { typed, ...found }, changed) => {
    if (!changed("typed", "id", "unknown")) return;
    const pressed = focusIn(said);
    said.replaceChildren(...searchSaid(found, tools, counted.has(found.id)));
    if (pressed) said.focus(); // the button is gone
    // what is being typed is ahead of what is painted
    if (input !== document.activeElement && input.value !== typed) input.value = typed;
    input.placeholder = typed ? "" : name(found.id);
  });
  const fill = inStep((/** @type {{ranking: Ranking, id: number}} */ { ranking, id }, changed) => {
    if (changed("ranking", "id"))
      result.replaceChildren(...(id < 0 ? [] : drivenBy(id, ranking, tools)));
  });
  const paint = (/** @type {Scene} */ { ranking, neuron, search }) => {
    const first = ranking.tokens[neuron * layer.largest];
    const typed = search ? tokensOf(search, tools) : { id: first, parts: [], kin: [] };
    const unknown = typed.id >= 0 && !layer.knows(typed.id) ? typed.id : -1;
    if (unknown >= 0) fetchRare(unknown);
    const found = unknown < 0 ? { ...typed, unknown } : { ...typed, unknown, id: -1 };
    say({ typed: search, ...found });
    fill({ ranking, id: found.id });
  };
  const title = heading(0, "Which neurons does a token drive?");
  return { root: element("section", {}, title, field, waiting.root, said, result), paint };
}

/** @typedef {{id: number, parts: number[], kin: number[]}} Typed what a reader typed: `id` is the
 *  token that is looked up (-1 for none), `parts` are the tokens of what is not a single one, `kin`
 *  are others that spell the same word
 *  @typedef {Typed & {unknown: number}} Found and the token, if it is one that the page does not know */

/** @param {string} typed @param {Tools} tools @returns {Typed} */
function tokensOf(typed, tools) {
  const { read } = tools;
  const word = typed.trim();
  // in a text a word has a space before it, and mostly that is a token of its own
  const [exact, inText] = [read(typed), word ? read(` ${word}`) : []];
  const [id] = [exact, inText].find((ids) => ids.length === 1) ?? [-1];
  if (id < 0) {
    const parts = typed.startsWith(" ") || !word ? exact : inText;
    // what a long word is about mostly stands in its longest piece
    const size = (/** @type {number} */ part) => tools.text(part).trim().length;
    const whole = parts.filter((part) => sameAgain(part, tools)).sort((a, b) => size(b) - size(a));
    return { id: whole[0] ?? -1, parts, kin: [] };
  }
  const capital = word.charAt(0).toUpperCase() + word.slice(1);
  const spelt = [word, capital, word.toLowerCase()].flatMap((form) => [` ${form}`, form]);
  const single = spelt.map(read).filter((ids) => ids.length === 1);
  return { id, parts: [], kin: [...new Set(single.flat())].filter((other) => other !== id) };
}

/** @param {Found} found @param {Tools} tools @param {boolean} counted @returns {HTMLElement[]} */
function searchSaid({ id, parts, kin, unknown }, tools, counted) {
  const { layer, text, name, go } = tools;
  const offered = (/** @type {number} */ other) =>
    sameAgain(other, tools) ? pick(name(other), () => go({ search: text(other) })) : name(other);
  const row = (/** @type {any[]} */ ...held) => {
    const items = held.flat().map((item) => element("span", {}, item));
    return element("p", { class: "ctx-neurons-said" }, items);
  };
  if (unknown >= 0)
    return [row("This page does not know the token ", tokenMark(name(unknown)), ".")];
  if (id < 0 && !parts.length) return [row("The vocabulary has no such token.")];
  const made = [];
  if (parts.length)
    made.push(row(`No single token, but ${parts.length}: `, parts.slice(0, 12).map(offered)));
  if (id >= 0) {
    const why = layer.untrained.has(id) ? "was never trained" : "is rare";
    const left = counted ? "" : ` It ${why}, so no ranking counts it.`;
    const about = ["What ", tokenMark(name(id)), ` contributes, in ${UNIT}:${left}`];
    made.push(element("p", { class: "ctx-neurons-said" }, element("span", {}, about)));
  }
  if (kin.length) made.push(row("Also", kin.map(offered)));
  return made;
}

/** @param {number} token @param {Ranking} ranking @param {Tools} tools */
function drivenBy(token, { circuit, heads }, { layer, text, go }) {
  const all = circuit.driven(token, heads);
  const { up, down } = outermost(all, layer.everyNeuron, DRIVEN);
  const rows = (/** @type {number[]} */ neurons) =>
    neurons.map((j) => ({
      label: String(j),
      spoken: `Neuron ${j}`,
      value: all[j],
      // the token stays, even if it was only the last neuron's first
      onPick: () => go({ search: text(token), neuron: j }),
    }));
  return [
    barTable("Neurons driven up", "neuron", rows(up), all),
    barTable("Neurons driven down", "neuron", rows(down), all),
  ];
}

/** Names to press with a number and a bar each, as long as the largest of `among` allows.
 *  @param {string} title @param {string} kind
 *  @param {{label: string, spoken: string, value: number, onPick: (() => void) | null}[]} rows
 *  @param {ArrayLike<number>} among @returns {HTMLElement} */
function barTable(title, kind, rows, among) {
  const most = largest(among) || 1;
  const digits = digitsFor(most);
  const made = rows.map(({ label, spoken, value, onPick }) => {
    const bar = element("span", { class: "ctx-neurons-bar", "aria-hidden": "true" });
    bar.style.width = `${((100 * Math.abs(value)) / most).toFixed(1)}%`;
    bar.style.backgroundColor = value < 0 ? DOWN : UP;
    const named = element("td", {}, onPick ? pick(label, onPick, spoken) : label, bar);
    return element("tr", {}, named, numberCell(signed(value, digits)));
  });
  return element(
    "table",
    { class: "ctx-neurons-barred" },
    element("caption", {}, title),
    unseenHead([kind, "contribution"]),
    element("tbody", {}, made),
  );
}

// ---------------------------------------------------------------- one neuron

/** A neuron's contributions over the vocabulary, kept while it is looked at or pinned.
 *  @param {Ranking} ranking @param {number} neuron @returns {Float64Array} */
function columnOf(ranking, neuron) {
  const known = columns.get(ranking) ?? new Kept(2);
  columns.set(ranking, known);
  return known.get(neuron, () => ranking.circuit.contribution(neuron, ranking.heads));
}

/** @type {WeakMap<Ranking, Kept<Float64Array>>} */
const columns = new WeakMap();

/** Name, place, and the outermost tokens. @param {Tools} tools @param {HTMLElement} drawing saves its
 *  histogram */
function neuronSection(tools, drawing) {
  const { layer, name, text, go, heading } = tools;
  const title = heading(0);
  const place = element("p", { class: "ctx-quiet", role: "status" });
  const held = element("div", { class: "ctx-neurons-ends" });
  /** @type {Scene | null} */ let last = null;
  const file = csvButton("Column as CSV", () =>
    columnTable(/** @type {Scene} */ (last), layer, name),
  );
  const pin = button("Pin for comparison", () => {
    const { neuron, pinned } = /** @type {Scene} */ (last);
    go({ pinned: pinned === neuron ? -1 : neuron });
  });
  const turns = element("p", { class: "ctx-turns" }, file, drawing, pin);
  const paint = inStep((/** @type {Scene} */ scene, changed) => {
    last = scene;
    const { ranking, neuron, pinned } = scene;
    pin.textContent = pinned === neuron ? "Unpin" : "Pin for comparison";
    if (!changed("ranking", "neuron")) return;
    const column = columnOf(ranking, neuron);
    const rank = ranking.places[neuron] + 1;
    title.textContent = `Neuron ${neuron}`;
    const { top, z, heads, circuit } = ranking;
    place.replaceChildren(
      `top ${figure(top[neuron], digitsFor(ranking.most))} (z = ${figure(z[neuron], 1)}), ` +
        `rank ${grouped(rank)} of ${grouped(top.length)}; ` +
        `${headsSaid(heads)}, n = ${circuit.n}, destination token `,
      tokenMark(name(circuit.token)),
    );
    const ends = outermost(column, layer.counted, OUTERMOST);
    const rows = (/** @type {number[]} */ ids) =>
      ids.map((id) => ({
        label: name(id),
        spoken: `Token ${name(id)}: which neurons does it drive?`,
        value: column[id],
        onPick: sameAgain(id, tools) ? () => go({ search: text(id) }) : null,
      }));
    const [up, down] = [rows(ends.up), rows(ends.down)];
    const among = [...up, ...down].map(({ value }) => value);
    held.replaceChildren(
      barTable("Tokens that push up", "token", up, among),
      barTable("Tokens that push down", "token", down, among),
    );
  });
  return {
    root: element("section", { class: "ctx-neurons-one" }, title, place, held, turns),
    paint,
  };
}

/** What every token contributes, counted; the threshold moves over it. @param {Tools} tools */
function histogramSection({ layer, name, heading }) {
  const root = element("section", { class: "ctx-neurons-histogram" });
  /** @type {Scene | null} */ let shown = null;
  const file = svgButton("Histogram as SVG", () => {
    const { ranking, neuron } = /** @type {Scene} */ (shown);
    const title = `Contributions of ${several(layer.counted.length, "token")} to neuron ${neuron}`;
    const name = [layer.model, `neuron ${neuron}`, headsSaid(ranking.heads), "histogram"];
    const marks = histogramMarks(/** @type {Scene} */ (shown), layer);
    return { name, title, root: root.querySelector("svg"), marks };
  });
  /** @type {{held: Bins, bin: number} | null} where a reader last looked */
  let last = null;
  const paint = inStep((/** @type {Scene} */ scene, changed) => {
    if (!changed("ranking", "neuron", "theta", "width")) return;
    shown = scene;
    const held = binsOf(scene.ranking, scene.neuron, layer.counted);
    const marks = histogramMarks(scene, layer);
    const on = histogramAxes(scene, held, layer, root.clientWidth || 420);
    const crossed = marks.filter(({ at }) => at >= held.edges[0] && at <= held.edges[BINS]);
    const reader = readableBars(on, {
      edges: held.edges,
      heights: held.counts.map((count) => count || 0.6), // no logarithm: as low as the foot
      style: { fill: "currentColor", opacity: 0.55 },
      over: crossed.map(({ at, style }) =>
        rule(on, { x: at }, { class: "ctx-neurons-rule", ...style }),
      ),
      label: "Read the histogram at a contribution",
      value: last?.held === held ? last.bin : BINS - 1,
      said: (bin) => {
        const [count, outer] = [held.counts[bin], held.outer[bin]];
        const tokens = count && count <= NAMED_IN_BIN ? `: ${outer.map(name).join("  ")}` : "";
        return `: ${several(count, "token")}${tokens}`;
      },
      onMove: (bin) => (last = { held, bin }),
    });
    renewed(root, heading(1, "All its contributions"), reader, legend(marks));
  });
  return { root, file, paint };
}

/** @typedef {{edges: number[], counts: number[], outer: number[][]}} Bins some tokens of each, to name it by */
/** @type {WeakMap<Ranking, {neuron: number, held: Bins}>} the last one of a ranking */
const binned = new WeakMap();

/** @param {Ranking} ranking @param {number} neuron @param {Int32Array} ids @returns {Bins} */
function binsOf(ranking, neuron, ids) {
  const known = binned.get(ranking);
  if (known?.neuron === neuron) return known.held;
  const column = columnOf(ranking, neuron);
  let [low, high] = [Infinity, -Infinity];
  for (const id of ids) {
    low = Math.min(low, column[id]);
    high = Math.max(high, column[id]);
  }
  const edges = Array.from({ length: BINS + 1 }, (_, i) => low + (i / BINS) * (high - low || 1));
  const counts = Array(BINS).fill(0);
  /** @type {number[][]} */ const outer = counts.map(() => []);
  for (const id of ids) {
    const bin = Math.min(binAt(edges, column[id]), BINS - 1);
    if ((counts[bin] += 1) <= NAMED_IN_BIN) outer[bin].push(id);
  }
  const held = { edges, counts, outer };
  binned.set(ranking, { neuron, held });
  return held;
}

/** The lines across the histogram. @param {Scene} scene @param {Layer} layer */
function histogramMarks({ ranking, neuron, theta }, layer) {
  const [mean, top] = [ranking.mean[neuron], ranking.top[neuron]];
  return [
    {
      label: "mean of all",
      at: mean,
      style: { stroke: "currentColor", "stroke-width": 1.4, "stroke-dasharray": "2 3" },
    },
    {
      label: `mean of the ${layer.largest} largest`,
      at: mean + top,
      style: { stroke: UP, "stroke-width": 2 },
    },
    {
      label: "mean of all + θ",
      at: mean + theta,
      style: { stroke: DOWN, "stroke-width": 2, "stroke-dasharray": "6 4" },
    },
  ];
}

/** @param {Scene} scene @param {Bins} held @param {Layer} layer @param {number} width */
function histogramAxes({ ranking, neuron, theta }, held, layer, width) {
  const { edges, counts } = held;
  const [low, high] = [edges[0], edges[BINS]];
  const tallest = Math.max(...counts);
  const top = ranking.top[neuron];
  return chart({
    alt:
      `How many of ${several(layer.counted.length, "token")} contribute how much to neuron ` +
      `${neuron}: from ${figure(low)} to ${figure(high)}, mean ${figure(ranking.mean[neuron])}; ` +
      `its top, ${figure(top)}, is ${top > theta ? "above" : "not above"} θ = ${figure(theta)}.`,
    x: {
      label: `contribution, ${UNIT}`,
      domain: [low, high],
      ticks: linearTicks([low, high], Math.floor(width / 60)),
    },
    y: {
      label: "tokens",
      log: true,
      domain: [0.6, tallest * 1.6],
      ticks: [1, 10, 100, 1000, 1e4, 1e5].filter((count) => count <= tallest),
      format: grouped,
    },
    width,
    height: 210,
  });
}

// ---------------------------------------------------------------- its passages

/** @param {Responses | null} responses @param {number} passage @param {number} neuron
 *  @returns {number} the passage shown: that of the largest summary, unless the reader chose one */
function passageOf(responses, passage, neuron) {
  if (passage !== -1 || !responses) return passage;
  let [best, most] = [0, -Infinity];
  for (const { values, passages } of responses.of(neuron))
    values.forEach((value, i) => {
      if (value > most) [best, most] = [passages[i], value];
    });
  return best;
}

/** Summaries of the labelled passages, domain after domain. @param {Tools} tools */
function domainsSection({ layer, go, heading }) {
  const title = heading(0);
  const note = element("p", { class: "ctx-quiet" });
  const held = element("div");
  const paint = inStep((/** @type {Scene} */ scene, changed) => {
    const { responses, neuron, read } = scene;
    if (!responses || !changed("responses", "neuron", "width", "read")) return;
    const answers = responses.of(neuron).sort((a, b) => b.mean - a.mean);
    const { usual, count } = overall(answers);
    title.textContent = `What neuron ${neuron} answers to`;
    note.textContent =
      `Summary of each of ${several(count, "passage")}, in ${UNIT}: a dot each; the bar ` +
      `runs from the mean of all (${signed(usual)}) to the mean of the domain. The ring is the ` +
      "passage that is read. At n each has the destination token, as in chapter 8.";
    const focused = focusIn(held)?.textContent;
    const width = held.clientWidth || 360;
    const onPick = (/** @type {number} */ passage) => go({ passage });
    held.replaceChildren(
      domainTable(answers, { passages: layer.passages, chosen: read, width, onPick }),
    );
    for (const press of held.querySelectorAll("button"))
      if (press.textContent === focused) press.focus();
  });
  return { root: element("section", {}, title, note, held), paint };
}

/** A pinned neuron beside the chosen one: their numbers, and their domains on one scale.
 *  @param {Tools} tools @returns {Section} */
function comparedSection(tools) {
  const { layer, go, heading } = tools;
  const title = heading(0);
  const held = element("div");
  const unpin = button("Unpin", () => go({ pinned: -1 }));
  const root = element("section", { hidden: true }, title, held, element("p", {}, unpin));
  const paint = inStep((/** @type {Scene} */ scene, changed) => {
    const { neuron, pinned, responses } = scene;
    root.hidden = pinned < 0;
    if (root.hidden || !responses) return;
    if (!changed("ranking", "responses", "neuron", "pinned", "read", "width")) return;
    const alone = pinned === neuron;
    title.textContent = alone
      ? `Neuron ${pinned} is pinned`
      : `Neuron ${neuron} beside neuron ${pinned}`;
    const asked = "Choose another neuron, and both stand here side by side.";
    if (alone) return held.replaceChildren(element("p", { class: "ctx-quiet" }, asked));
    const mine = responses.of(neuron).sort((a, b) => b.mean - a.mean);
    const places = new Map(mine.map(({ domain }, place) => [domain, place]));
    const placeOf = (/** @type {{domain: string}} */ { domain }) => Number(places.get(domain));
    const other = responses.of(pinned).sort((a, b) => placeOf(a) - placeOf(b)); // row by row
    const values = [mine, other].map((answers) => answers.flatMap(({ values }) => values));
    const columns = [neuron, pinned].map((j) => {
      const column = columnOf(scene.ranking, j);
      return Array.from(layer.counted, (id) => column[id]);
    });
    const reach = { low: Math.min(...values.flat()), high: Math.max(...values.flat()) };
    const width = Math.min(scene.width, Math.max(scene.width / 2 - 20, 320));
    const options = { passages: layer.passages, chosen: scene.read, width, reach };
    held.replaceChildren(
      scrolling(title.textContent, comparedTable(scene, tools)),
      element(
        "p",
        { class: "ctx-quiet" },
        `Over ${several(layer.counted.length, "token")} their contributions correlate at ` +
          `${figure(correlation(columns[0], columns[1]))}, over ` +
          `${several(values[0].length, "passage")} their summaries at ` +
          `${figure(correlation(values[0], values[1]))}. Below, both on one scale, in ${UNIT}.`,
      ),
      element(
        "div",
        { class: "ctx-split" },
        domainTable(mine, { ...options, caption: `Neuron ${neuron}` }),
        domainTable(other, { ...options, caption: `Neuron ${pinned}, pinned` }),
      ),
    );
    return undefined;
  });
  return { root, paint };
}

/** @param {Scene} scene @param {Tools} tools */
function comparedTable({ ranking, neuron, pinned }, { layer, name, go }) {
  const { top, z, mean, places, tokens } = ranking;
  const digits = digitsFor(ranking.most);
  const rows = [neuron, pinned].map((j) => {
    const first = Array.from(tokens.subarray(j * layer.largest, j * layer.largest + 4), name);
    const said = j === pinned ? pick(String(j), () => go({ neuron: j }), `Neuron ${j}`) : String(j);
    const numbers = [grouped(places[j] + 1), figure(top[j], digits), figure(z[j], 1)];
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, said, j === pinned ? ", pinned" : ""),
      [...numbers, figure(mean[j], digits)].map(numberCell),
      element(
        "td",
        {},
        first.flatMap((token) => [tokenMark(token), " "]),
      ),
    );
  });
  const figures = ["rank", "top", "z", "mean of all"].map((figures) => ({ figures }));
  const columns = [{ words: "neuron" }, ...figures, { words: "first tokens" }];
  return table({ kind: "ctx-figures", columns, rows });
}

/** A passage, shaded by what each token adds to the neuron's summary. @param {Tools} tools */
function passageSection(tools) {
  const { layer, go, heading } = tools;
  const title = heading(0);
  const which = passageChoice({
    passages: layer.passages,
    first: "with the largest summary",
    value: -1,
    onChange: (passage) => go({ passage }),
  });
  const [held, why] = [element("div"), whyHere()];
  const paint = inStep((/** @type {Scene} */ scene, changed) => {
    which.update(scene.passage);
    if (!changed("responses", "neuron", "read")) return;
    title.textContent = `What neuron ${scene.neuron} hears`;
    renewed(held, passageRead(scene, tools, why));
  });
  return { root: element("section", {}, title, which, held, why.root), paint };
}

/** Where a source is, from n. @param {number} n @param {number} source */
function awayFrom(n, source) {
  return source > n ? `${source - n} ahead` : `${n - source} back`;
}

/** @param {Scene} scene @param {Tools} tools @param {ReturnType<typeof whyHere>} why
 *  @returns {HTMLElement[]} */
function passageRead({ ranking, neuron, read: at }, { layer, inText }, why) {
  const { circuit, heads } = ranking;
  const passage = layer.passages[at];
  const ids = Array.from(circuit.placed(passage.ids));
  const text = circuit.read(ids);
  const terms = text.terms(heads, neuron);
  const { tokens, names } = inText(ids);
  const summary = terms.reduce((a, b) => a + b, 0);
  const { n } = text.circuit;
  const order = Array.from(terms.keys()).sort((a, b) => Math.abs(terms[b]) - Math.abs(terms[a]));
  const titled = passage.title ? `${passage.title} (${passage.name}, ` : `${passage.name} (`;
  const said =
    `${titled}${passage.domain}), read ${ids.length > n + 1 ? `around n = ${n}` : `up to n = ${n}`}: summary ${signed(summary)}, ` +
    "the sum of what its tokens add. Numbers are rounded: they hold to about a hundredth of their range. ";
  const digits = digitsFor(largest(terms));
  const explain = (/** @type {number} */ i) =>
    why.show(names[i], () => text.parts(heads, neuron, i));
  explain(order[0]);
  const reader = tokenReader({
    label: "Read a token: what it adds",
    tokens,
    names,
    values: terms,
    at: order[0],
    digits,
    onMove: explain,
    read: (i) => `“${names[i]}”, ${awayFrom(n, i)}: ${signed(terms[i], digits)}`,
  });
  return [element("p", { class: "ctx-quiet" }, said, shadeKey(largest(terms), digits)), ...reader];
}

export default { render: ofModels(render) };
