/** What a text tells the neurons, while it is typed (chapters 5 and 9); two texts side by side.
 *
 *  A text is read as the model would: its first token, then the text's own, with the destination
 *  at the last one. A keystroke is seen at once, with the next picture come tokens, shades and the
 *  summaries at the end; those of earlier prefixes follow in slices, which the next one cuts short. */

import { largest } from "../engine/linalg.js";
import {
  CHARACTERS,
  FEWEST,
  LOUD,
  LayerReader,
  differing,
  leading,
  mostAdding,
  standing,
  tokenCount,
} from "../engine/reading.js";
import { latest, nextTurn, sliced } from "../engine/slices.js";
import { checkbox, headChooser, pick, slider } from "../ui/controls.js";
import { csvButton } from "../ui/csv.js";
import {
  element,
  failed,
  focusIn,
  fresh,
  numberCell,
  renewed,
  scrolling,
  table,
} from "../ui/dom.js";
import { keyed } from "../ui/keyed.js";
import { ofModels } from "../ui/models.js";
import { COLOURS } from "../ui/marks.js";
import { band, chart, legend, line, readable, rule } from "../ui/plot.js";
import { layerOf, spelling } from "../ui/source.js";
import { below, belowOrLeft, circuitHeads, heard, inStep, kept, sound, turn } from "../ui/state.js";
import { svgButton } from "../ui/svg.js";
import { textBox } from "../ui/textbox.js";
import { shadeKey, shadedTokens, whyHere } from "../ui/tokens.js";
import { brought, waitingLine } from "../ui/waiting.js";
import { stateButtons, waysOn } from "../ui/ways.js";
import {
  UNIT,
  digitsFor,
  figure,
  grouped,
  nameInText,
  several,
  signed,
  tokenMark,
  tokenName,
} from "../ui/words.js";

/** @typedef {import("../ui/state.js").Model} Model */
/** @typedef {import("../engine/layer.js").Layer} Layer
 *  @typedef {import("../engine/reading.js").Reading} Reading
 *  @typedef {import("../engine/reading.js").Reference} Reference
 *  @typedef {import("../engine/reading.js").Taken} Taken
 *  @typedef {ReturnType<typeof turned> & {wanted: number[]}} Turned what a reader chose; the heads that are
 *    wanted may not be here yet
 *  @typedef {{neuron: number, figures: string[], tokens: string[]}} Listed a row of a table
 *  @typedef {{auto: number | null, references: (Reference | null)[], listed: Listed[][],
 *    listedOf: Reading[], drivers: {of: string, neuron: number, up: string[], down: string[]} | null, points: number}} Found
 *    what follows in slices: the neuron that the view chose where it was left to choose, the rows of
 *    both texts' lists and of the one between them, what raises the neuron, and how often a line has
 *    grown
 *  @typedef {Omit<Taken, "text" | "pieces" | "asked"> & {ids: number[], counted: number, names: string[],
 *    full: string | null, total: number | null, apart: Set<number>, reference: Reference | null,
 *    neuron: number | null, terms: Float64Array | null, at: number, upTo: number, shade: number,
 *    axes: string, listed: Listed[], points: number}} Text one text as it is shown: the tokens in which
 *    it is not the other, where it is read (`at`), up to where the shades know it
 *  @typedef {Turned & {neuron: number | null, shade: number, texts: Text[]}} Scene `shade` is the
 *    strength of a full one
 *  @typedef {ReturnType<typeof textSection>} Side */

/** What an address calls the two texts, and where each is read. */
const OF_TEXTS = [
  { label: "First text", text: "text", window: "window", cursor: "cursor" },
  { label: "Second text", text: "other", window: "other_window", cursor: "other_cursor" },
];

/** One paragraph in two spellings, word for word the same otherwise. */
const OPENING =
  "My {neighbour|neighbor} {travelled|traveled} to the {harbour|harbor} in a {grey|gray} car with " +
  "one tired {tyre|tire}. She had been asked to {organise|organize} the {programme|program} of a " +
  "small {theatre|theater} in the {centre|center} of town, and she {realised|realized} at once " +
  "that the {labour|labor} of many years lay behind its faded {colours|colors}. The manager, who " +
  "was fond of {jewellery|jewelry} and good {humour|humor}, {apologised|apologized} for the smell " +
  "of {mould|mold}, {analysed|analyzed} the {catalogue|catalog} with her, and offered a " +
  "{licence|license}, a {cheque|check} and a cup of something whose {flavour|flavor} she never " +
  "{recognised|recognized}. It was an {honour|honor}, she said, but she would have to " +
  "{practise|practice}. By evening they had {labelled|labeled} every {plough|plow} and every " +
  "{sceptre|scepter} in the store, and {rumours|rumors} of a new season had {travelled|traveled} " +
  "as far as the pier, where sailors in {pyjamas|pajamas} {marvelled|marveled} at them.";

const BY_PAPER = { stroke: COLOURS[0], "stroke-width": 1.9 };
const TRUE = { stroke: "var(--ctx-ink)", "stroke-width": 1.3 };
const BY_OWN = { stroke: COLOURS[1], "stroke-width": 1.7, "stroke-dasharray": "6 3" };
const USUAL = { stroke: "var(--ctx-soft)", "stroke-width": 6, opacity: 0.3 };
const NAMED = 4; // tokens that a list names
const REPAINT = 200; // milliseconds between two drawings of a line that grows
const QUIET = 300; // milliseconds without a keystroke until Python, or the address, is told
const START = "⟨start⟩"; // the token in front of every text

/** @param {0 | 1} spelling British, American @returns {string} */
function openingText(spelling) {
  return OPENING.replace(/\{(.*?)\|(.*?)\}/g, (_, ...both) => both[spelling]);
}

// ---------------------------------------------------------------- in words

/** The next round number above a value: the strength of a full shade, so that it can be said.
 *  @param {number} value @returns {number} */
function roundedUp(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return ([1, 1.5, 2, 3, 4, 5, 6, 8].find((f) => f * size >= value) ?? 10) * size;
}

/** @param {number} step a power of two @returns {string} */
function ordinal(step) {
  return step === 1 ? "token" : `${step}${step % 10 === 2 ? "nd" : "th"} token`;
}

// ---------------------------------------------------------------- the view

/** @param {{model: Model, el: HTMLElement}} view traits: heads, neuron, shades, and those of `OF_TEXTS` */
async function render({ model, el }) {
  const layer = await layerOf(model, el);
  if (!layer) return undefined;
  if (!layer.byteLevel || layer.bothSides) {
    const said = layer.byteLevel
      ? "This model reads a text from both sides at once: there is no text so far."
      : "This model’s tokenizer is no byte-level one, so a page cannot read text for it.";
    el.replaceChildren(element("p", {}, said));
    return undefined;
  }
  const reader = new LayerReader(layer);
  /** @type {Found} */
  const found = {
    auto: null,
    references: [null, null],
    listed: [[], [], []],
    listedOf: [],
    drivers: null,
    points: 0,
  };
  const learn = (/** @type {Partial<Found>} */ more) => {
    Object.assign(found, more);
    tools.again();
  };
  const tools = {
    layer,
    reader,
    again: () => {}, // before there is anything
    go: (/** @type {Record<string, any>} */ values) => turn(model, values),
    choose: (/** @type {number} */ neuron) => turn(model, { neuron }),
    forget: () => (found.auto = null),
    typed: () => {
      requestAnimationFrame(() => tools.again()); // what was typed is seen first
      sharing.later();
    },
  };
  const sides = OF_TEXTS.map((of) => textSection(of, tools));
  const sharing = sharingSection(model, sides, found);
  const controls = controlsSection(model, el, tools);
  const titles = ["apart", "first", "second"];
  const between = neuronTable(
    "Neurons in which the two differ most",
    "Both texts",
    titles,
    "tokens that part them",
    tools.choose,
  );
  const caption = captionSection(layer);
  const waiting = waitingLine();
  const ways = waysOn(model);
  /** @type {Scene | null} */ let scene = null;
  const file = csvButton("Terms as CSV", () => termsTable(/** @type {Scene} */ (scene), layer));
  const drawings = OF_TEXTS.map(({ label }, i) =>
    svgButton(`${label}’s lines as SVG`, () => {
      const { neuron, heads, texts } = /** @type {Scene} */ (scene);
      const title = `${label}: what it says to neuron ${neuron}`;
      const name = [layer.model, `neuron ${neuron}`, `heads ${heads.join(" ")}`, label];
      const marks = drawingMarks(texts[i]);
      return { name, title, root: sides[i].root.querySelector(".ctx-readable svg"), marks };
    }),
  );
  el.replaceChildren(
    element("div", { class: "ctx-controls" }, controls.parts),
    waiting.root,
    caption.about,
    caption.key,
    element(
      "div",
      { class: "ctx-split ctx-reader" },
      sides.map(({ root }) => root),
    ),
    between.root,
    element("p", { class: "ctx-turns" }, file, drawings),
    ways.root,
    caption.method,
    ...sharing.parts,
  );

  // heads and tokens that are not here yet are asked for; what was there goes on until they are
  let heads = [layer.stable, layer.everyHead].find((some) => some.length) ?? [];
  /** @type {Set<number>} */ const refused = new Set();
  /** @param {Scene} now @param {AbortSignal} signal */
  const bring = async ({ wanted, texts }, signal) => {
    const rare = texts.flatMap(({ ids }) => ids).filter((id) => !refused.has(id));
    const [ofHeads, ofTokens] = [layer.lacks(wanted, []), layer.lacks([], rare)];
    if (!ofHeads.length && !ofTokens.length) return;
    await new Promise((done) => setTimeout(done, QUIET));
    signal.throwIfAborted();
    if (!(await brought(waiting, layer, ofHeads, "what these heads write to neurons", signal)))
      turn(model, { heads });
    if (!(await brought(waiting, layer, ofTokens, "rarer tokens of the texts", signal)))
      rare.forEach((id) => refused.add(id));
    else if (ofTokens.length) sides.forEach((side) => side.forget());
    tools.again();
  };
  const task = latest();
  let begun = 0;
  const work = (/** @type {Scene} */ now) => {
    const mine = (begun += 1);
    el.dataset.working = ""; // until lists and lines are complete
    task(async (signal) => {
      await bring(now, signal);
      await follow(now, sides, found, learn, reader, signal);
    })
      .catch((error) => failed(el, error))
      .finally(() => mine === begun && delete el.dataset.working);
  };
  const relink = inStep((/** @type {Record<string, any>} */ _, changed) => {
    if (changed("first", "second", "neuron"))
      ways.update(waysFrom(/** @type {Scene} */ (scene), sharing.given()));
  });
  const compare = compared();
  const state = () => {
    const { heads: wanted, ...now } = turned(model, layer);
    if (!layer.lacks(wanted, []).length) heads = wanted;
    const [first, second] = sides.map((side, i) =>
      side.take(now.windows[i], { heads, shades: now.shades }),
    );
    return {
      ...now,
      heads,
      wanted,
      first,
      second,
      typings: sides[0].typings() + sides[1].typings(),
    };
  };
  /** @param {ReturnType<typeof state>} now @param {import("../ui/state.js").Changed} changed */
  const update = ({ first, second, ...now }, changed) => {
    const width = sides[0].width(); // asked before anything changes
    const apart = compare(first.reading.ids, second.reading.ids);
    scene = sceneOf(now, [first, second], apart, sides, found);
    for (const [i, text] of scene.texts.entries()) sides[i].update({ ...text, width });
    controls.update(scene);
    between.show(found.listed[2], scene.neuron);
    caption.update(scene, found);
    relink({ first, second, neuron: scene.neuron });
    if (changed("first", "second", "asked", "typings", "wanted")) work(scene);
  };
  // texts and cursors are set anew whenever they are named: a box and a hand are ahead of both
  const named = (/** @type {"text" | "cursor"} */ kind) => OF_TEXTS.map((of) => of[kind]);
  const place = () => {
    const { cursors } = turned(model, layer);
    sides.forEach((side, i) => side.place(cursors[i]));
    tools.again();
  };
  const fill = () => {
    if (!sharing.fill()) return;
    tools.forget();
    place();
  };
  fill();
  const deaf = [heard(model, named("text"), fill), heard(model, named("cursor"), place)];
  const traits = ["heads", "neuron", "shades", ...OF_TEXTS.map(({ window }) => window)];
  const end = kept({ model, place: el, traits, state, update });
  tools.again = end.again;
  return () => {
    [end, sharing.end, ...deaf].forEach((stop) => stop());
    task(async () => {});
  };
}

// ---------------------------------------------------------------- state

/** The traits, where sound; texts are in their boxes. @param {Model} model @param {Layer} layer */
function turned(model, layer) {
  const [characters, places] = [CHARACTERS * layer.positions, layer.positions];
  return {
    heads: circuitHeads(model, layer),
    asked: sound(model, "neuron", belowOrLeft(layer.nNeurons), -1),
    shades: sound(model, "shades", (value) => value === "end" || value === "cursor", "end"),
    windows: OF_TEXTS.map(({ window }) => sound(model, window, below(characters), 0)),
    cursors: OF_TEXTS.map(({ cursor }) => sound(model, cursor, belowOrLeft(places), -1)),
  };
}

/** A function that says in which tokens two texts differ, if they have most in common: else there is no
 *  telling. @returns {(first: number[], second: number[]) => Set<number>[]} */
function compared() {
  /** @type {number[][]} */ let last = [];
  let apart = [new Set(), new Set()];
  return (...texts) => {
    if (texts.every((ids, i) => ids === last[i])) return apart;
    last = texts;
    const places = differing(texts[0], texts[1]);
    const alike = places.every(({ size }, i) => 2 * size <= texts[i].length);
    return (apart = alike ? places : [new Set(), new Set()]);
  };
}

/** Everything the sections show. @param {Turned} now @param {Taken[]} taken
 *  @param {Set<number>[]} apart @param {Side[]} sides @param {Found} found @returns {Scene} */
function sceneOf(now, taken, apart, sides, found) {
  const neuron = now.asked < 0 ? found.auto : now.asked;
  const termsOf = (/** @type {Reading} */ reading, n = reading.n) =>
    neuron !== null && reading.speaks ? reading.terms(neuron, n) : null;
  // a full shade is that of the whole texts, wherever the cursor stands
  const shade = roundedUp(Math.max(...taken.map(({ reading }) => largest(termsOf(reading) ?? []))));
  // of other heads they would say nothing
  const references = found.references.map((of) =>
    String(of?.heads) === String(now.heads) ? of : null,
  );
  const axes = axesOf(taken, neuron, references);
  const texts = taken.map(({ reading, pieces, spare, from, stretches }, i) => {
    const { names, full, total } = sides[i].known();
    const at = Math.min(sides[i].at() ?? reading.n, reading.n);
    const upTo = now.shades === "cursor" ? Math.max(at, Math.min(1, reading.n)) : reading.n;
    return {
      ...{ reading, spare, from, stretches, names, full, total, neuron, shade, axes, at, upTo },
      ids: reading.ids,
      counted: pieces.length,
      terms: termsOf(reading, upTo),
      apart: apart[i],
      reference: references[i],
      listed: found.listed[i],
      points: found.points,
    };
  });
  return { ...now, neuron, shade, texts };
}

/** How far the drawings of both texts reach, in words. @param {Taken[]} taken
 *  @param {number | null} neuron @param {(Reference | null)[]} references */
function axesOf(taken, neuron, references) {
  if (neuron === null) return "";
  const reach = taken.map(({ reading }) => (reading.speaks ? reading.n : 0));
  const values = taken.flatMap(({ reading }, i) => {
    if (!reading.speaks) return [];
    const { paper, own, truth } = reading.curve(neuron);
    const { mean, sd } = references[i] ?? { mean: [0], sd: [0] };
    const usual = references[i] ? [mean[neuron] - sd[neuron], mean[neuron] + sd[neuron]] : [];
    return [0, ...usual, ...paper, ...own, ...truth];
  });
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = 0.06 * (high - low || 1);
  return JSON.stringify({ x: Math.max(...reach), y: [low - room, high + room] });
}

/** Where else this can be looked at. @param {Scene} scene @param {Record<string, any>} given texts that
 *  may stand in an address @returns {import("../ui/ways.js").Way[]} */
function waysFrom({ heads, neuron }, given) {
  const state = { heads, ...(neuron === null ? {} : { neuron }) };
  return [
    { page: "explorer", label: "This neuron in the explorer", state },
    { page: "reader", label: "Open the live reader", state: { ...state, ...given } },
  ];
}

/** What each token of both texts adds to the neuron, as a file. @param {Scene} scene
 *  @param {Layer} layer @returns {import("../ui/csv.js").Table} */
function termsTable({ heads, neuron, texts }, layer) {
  const rows = texts.flatMap(({ terms, reading, names }, i) =>
    Array.from(terms ?? [], (term, at) => [i + 1, at, reading.ids[at], names[at], term]),
  );
  const of = [`neuron ${neuron ?? ""}`, `heads ${heads.join(" ")}`];
  const titles = ["text", "place", "token id", "token", "adds"];
  return { name: [layer.model, ...of], titles, rows };
}

// ---------------------------------------------------------------- controls and words

/** Heads, neuron, and whether the shades follow the cursor.
 *  @param {Model} model @param {HTMLElement} el
 *  @param {{layer: Layer, go: (values: Record<string, any>) => void, choose: (neuron: number) => void,
 *    forget: () => void, again: () => void}} tools */
function controlsSection(model, el, tools) {
  const { layer, go, choose } = tools;
  const heads = headChooser({
    count: layer.nHeads,
    chosen: circuitHeads(model, layer),
    note: (head) => layer.families[head].family,
    onChange: (heads) => {
      tools.forget();
      go({ heads });
    },
  });
  const size = layer.nNeurons;
  const attributes = { id: fresh("neuron"), type: "number", min: 0, max: size - 1, step: 1 };
  const field = /** @type {HTMLInputElement} */ (element("input", attributes));
  field.addEventListener("input", () => {
    if (field.value !== "" && below(size)(Number(field.value))) choose(Number(field.value));
  });
  field.addEventListener("blur", () => tools.again()); // what is no neuron goes away
  const label = element("label", { for: field.id }, "Neuron");
  const box = checkbox(null, () => go({ shades: box.checked ? "cursor" : "end" }));
  const follows = "Shades follow the cursor: what the text says up to there";
  return {
    parts: [
      heads,
      element("div", { class: "ctx-control" }, label, field),
      element("label", { class: "ctx-control" }, box, " ", follows),
    ],
    /** @param {Scene} scene */
    update(scene) {
      heads.update(scene.wanted);
      if (scene.neuron !== null && focusIn(el) !== field) field.value = String(scene.neuron);
      box.checked = scene.shades === "cursor";
    },
  };
}

/** What is shown, in words: what drives the neuron, what shades say, how lists and lines are made.
 *  @param {Layer} layer */
function captionSection(layer) {
  const about = element("p", { class: "ctx-reader-about" });
  const counted = layer.counted.length;
  const vocabulary =
    counted < layer.trained ? `${grouped(counted)} common tokens` : "the whole vocabulary";
  const key = element("p", { class: "ctx-quiet" });
  const method = element("p", { class: "ctx-quiet" });
  const say = inStep((/** @type {Record<string, any>} */ { drivers, ...now }, changed) => {
    if (drivers && changed("drivers"))
      about.replaceChildren(
        `Tokens that raise neuron ${drivers.neuron} most, of ${vocabulary}: `,
        ...tokenMarks(drivers.up),
        "; those that lower it most: ",
        ...tokenMarks(drivers.down),
      );
    if (changed("made")) method.textContent = now.made;
    if (!changed("neuron", "shades", "shade", "differ")) return;
    const where = now.shades === "end" ? "the text’s end" : "the cursor";
    const most = Number(now.shade.toPrecision(2));
    const digits = String(most).split(".")[1]?.length ?? 0;
    const said = [
      `What each token adds to neuron ${now.neuron} at ${where}, by the paper’s circuit. `,
      ...shadeKey(most, digits),
      now.differ ? " Underlined: the tokens in which the texts differ." : "",
    ];
    key.replaceChildren(...(now.neuron === null ? [] : said));
  });
  /** @param {Scene} scene @param {Found} found */
  const update = ({ neuron, shades, shade, texts }, { drivers }) => {
    const differ = texts.some(({ apart }) => apart.size);
    say({ drivers, neuron, shades, shade, differ, made: methodInWords(texts, layer) });
  };
  return { about, key, method, update };
}

/** @param {Text[]} texts @param {Layer} layer @returns {string} */
function methodInWords(texts, layer) {
  const { passages, nNeurons, fixed, n } = layer;
  const asking = `“${spelling(layer).name(layer.destinations[0].id)}”`;
  const speaking = texts.filter(({ reference }) => reference);
  if (!speaking.length) return "";
  const cut = new Set(speaking.map(({ reference }) => reference?.n));
  const step = Math.max(...speaking.map(({ reading }) => reading.step));
  return (
    `z and apart are in standard deviations of the ${passages.length} labelled passages’ ` +
    `summaries at token ${[...cut].join(" or ")}, by the paper’s circuit: z counts from their ` +
    "mean, apart is the first text less the second. Listed are neurons among the " +
    `${grouped(Math.ceil(LOUD * nNeurons))} of ${grouped(nNeurons)} that vary most over ` +
    `the passages. The lines begin at token ${FEWEST} and have a point at every ${ordinal(step)}. ` +
    "Numbers are rounded: they hold to about a hundredth of their range." +
    (fixed
      ? ` The destination is fixed: a text is read as if ${asking} at n = ${n} asked at its end; what ` +
        "this model’s own attention would add is not in the page."
      : "")
  );
}

/** What a page with an address offers: to put the texts into it, which it does not do unasked; and what
 *  Python, or the address, is told of them. @param {Model} model @param {Side[]} sides @param {Found} found */
function sharingSection(model, sides, found) {
  let [telling, waiting] = [false, 0];
  const unkept = element("span", { role: "status" });
  const keep = model.address ? checkbox(null, () => tell()) : null;
  // lone surrogates fit in neither
  const tell = () => {
    const [text, other] = sides.map(({ box }) => box.value.toWellFormed());
    const opening = text === openingText(0) && other === openingText(1);
    const shared = !keep || keep.checked;
    telling = true;
    turn(model, {
      text: shared ? (opening ? "" : text) : model.first?.text,
      other: shared ? (opening ? "" : other) : model.first?.other,
      ...(model.get("neuron") === -1 && found.auto !== null ? { neuron: found.auto } : {}),
    });
    telling = false;
    if (keep) textsLost(model).then((said) => (unkept.textContent = said));
  };
  const asked = " Put both texts into the address of the page, to keep or to share them";
  const promise =
    "Nothing you type leaves the page. The address holds the texts only while the box is ticked. ";
  const parts = keep && [
    element("p", {}, element("label", {}, keep, asked)),
    element("p", { class: "ctx-quiet" }, promise, unkept),
    stateButtons(model) ?? "",
  ];
  return {
    parts: parts ?? [],
    later() {
      clearTimeout(waiting);
      waiting = window.setTimeout(tell, QUIET);
    },
    end: () => clearTimeout(waiting),
    /** Texts that come from Python, or with an address. @returns {boolean} whether there were others */
    fill() {
      if (telling) return false;
      const isText = (/** @type {any} */ value) => typeof value === "string";
      const said = OF_TEXTS.map(({ text }) => sound(model, text, isText, ""));
      const opening = said.every((text) => text === "");
      if (keep) keep.checked = OF_TEXTS.some(({ text }, i) => said[i] !== model.first?.[text]);
      return sides
        .map((side, i) => side.fill(opening ? openingText(/** @type {0 | 1} */ (i)) : said[i]))
        .includes(true);
    },
    /** The texts that may stand in an address: those that the page gave, or all where a reader asked. */
    given() {
      const texts = OF_TEXTS.map(({ text }, i) => [text, sides[i].box.value]);
      return Object.fromEntries(
        texts.filter(([name, value]) => keep?.checked || model.first?.[name] === value),
      );
    },
  };
}

/** Which texts an address does not hold though it should, as a sentence. @param {Model} model */
async function textsLost(model) {
  const address = (await model.address?.()) ?? "";
  const names = { text: "first", other: "second" };
  const lost = Object.entries(names).flatMap(([name, which]) =>
    model.get(name) !== model.first?.[name] && !RegExp(`[#&]${name}(\\.z)?=`).test(address)
      ? [which]
      : [],
  );
  if (!lost.length) return "";
  const many = lost.length > 1 ? "texts are" : "text is";
  return `The ${lost.join(" and the ")} ${many} too long for an address and left out of it.`;
}

// ---------------------------------------------------------------- one text

/** A text: its box, its window, its tokens, its lines, its neurons.
 *  @param {typeof OF_TEXTS[number]} of
 *  @param {{reader: LayerReader, go: (values: Record<string, any>) => void, again: () => void,
 *    choose: (neuron: number) => void, typed: () => void}} tools */
function textSection({ label, window, cursor }, tools) {
  const { reader, go } = tools;
  /** @type {{taken: Taken | undefined, names: string[], full: string | null, total: number | null,
   *    at: number | null, kept: number | null, typings: number}} what is known of it: where it is read,
   *    and where when nobody points, null at its end */
  const side = {
    taken: undefined,
    names: [],
    full: null,
    total: null,
    at: null,
    kept: null,
    typings: 0,
  };
  const { box, title } = textBox(label, reader.characters, (full) => {
    [side.full, side.total, side.typings] = [full, null, side.typings + 1];
    tools.typed();
  });
  const count = countLines();
  const from = slider({
    label: "The window begins behind token",
    min: 0,
    max: 1,
    value: 0,
    format: grouped,
    onInput: (from) => go({ [window]: from }),
  });
  const hand = { held: () => Math.min(side.kept ?? Infinity, end()), show: read, hold };
  const tokens = tokensSection(hand, () => side.kept);
  const silent = element("p", { class: "ctx-quiet" });
  const picture = pictureSection(label, hand);
  const why = whyHere();
  const figures = ["z", "summary"];
  const list = neuronTable(
    "Neurons that this text excites most",
    label,
    figures,
    "tokens that add most",
    tools.choose,
  );

  const end = () => side.taken?.reading.n ?? 0;
  /** What a hand asks for is there at once; the rest with the next picture.
   *  @param {number} place */
  function read(place) {
    side.at = place === end() ? null : place;
    tokens.mark(place);
    picture.mark(place);
    tools.again();
  }
  const atCaret = () => {
    if (!side.taken?.reading.speaks) return;
    const place = reader.placeOf(side.taken, box.selectionStart);
    if (place !== (side.at ?? side.taken.reading.n)) read(place);
  };
  /** Pointing reads, pressing keeps. @param {number | null} place */
  function hold(place) {
    read(place ?? end());
    side.kept = side.at;
    tokens.hold();
    go({ [cursor]: side.at ?? -1 });
  }
  let follows = false;
  for (const pressed of ["click", "keyup"]) {
    box.addEventListener(pressed, () => {
      if (!follows) return;
      atCaret();
      hold(side.at);
    });
  }

  const update = inStep((/** @type {Text & {width: number}} */ text, changed) => {
    const { reading, terms, neuron, at, upTo } = text;
    if (changed("counted", "reading", "full", "total")) count.update(text, reader, box);
    from.hidden = !text.spare;
    from.update(text.from, { max: text.spare });
    tokens.update({ ...text, picks: terms !== null });
    silent.hidden = reading.speaks;
    silent.textContent = reading.speaks ? "" : silence(reading);
    picture.update(text);
    why.root.hidden = terms === null;
    if (neuron !== null && terms && changed("reading", "neuron", "at", "upTo"))
      why.show(text.names[at], () => reading.parts(neuron, at, upTo));
    list.show(text.listed, neuron);
  });
  const root = element(
    "section",
    { "aria-label": label },
    title,
    box,
    count.said,
    element("div", {}, count.note, from), // one row of the grid that both texts share
    tokens.root,
    silent,
    picture.root,
    why.root,
    list.root,
  );
  return {
    root,
    box,
    update,
    at: () => side.at,
    known: () => side,
    typings: () => side.typings,
    forget: () => (side.taken = undefined), // its tokens say more now
    width: () => picture.root.clientWidth || 400,
    /** @param {number} cursor */
    place(cursor) {
      side.at = side.kept = cursor < 0 ? null : cursor;
      tokens.hold();
    },
    /** @param {string} text @returns {boolean} whether it is another */
    fill(text) {
      const held = text.slice(0, reader.characters);
      if (box.value === held) return false;
      [box.value, side.full, side.total] = [held, held === text ? null : text, null];
      side.typings += 1;
      return true;
    },
    /** @param {number} asked where its window is to begin
     *  @param {Pick<Turned, "heads" | "shades">} now */
    take(asked, { heads, shades }) {
      const taken = reader.take(box.value, asked, heads, side.taken);
      const written = taken.stretches !== side.taken?.stretches;
      if (written) side.names = [START, ...taken.stretches.map(nameInText)];
      side.taken = taken;
      follows = shades === "cursor";
      if (written && follows && focusIn(root) === box) atCaret();
      return taken;
    },
    /** Counts what does not fit. @param {() => Promise<void>} pause */
    async count(pause) {
      if (side.full === null || side.total !== null) return;
      side.total = await tokenCount(reader.tokenizer, side.full, pause);
    },
  };
}

/** How many tokens a text has, and which are read. */
function countLines() {
  const said = element("p", { class: "ctx-quiet ctx-reader-count" });
  const note = element("p", { class: "ctx-quiet", role: "status" });
  /** @param {Text} text @param {LayerReader} reader @param {HTMLTextAreaElement} box */
  const update = ({ counted, full, total, from, ids }, { room, layer }, { maxLength, value }) => {
    const unknown = ids.filter((id) => !layer.knows(id)).length;
    const read = Math.min(counted, room);
    said.textContent =
      read === counted && full === null
        ? `${several(counted, "token")}; up to ${grouped(room)} are read`
        : `${several(read, "token")} read`;
    const there = full === null ? counted : total;
    const notes = [
      full !== null && total === null ? "Counting what is left out." : null,
      there !== null && there > read ? leftOut(from, read, there, layer.fixed) : null,
      unknown ? `${several(unknown, "token")} the page does not know: they say nothing.` : null,
      value.length >= maxLength ? `The box keeps ${several(maxLength, "character")}.` : null,
    ];
    const told = notes.filter((sentence) => sentence !== null).join(" ");
    if (note.textContent !== told) note.textContent = told;
  };
  return { said, note, update };
}

/** @param {number} from @param {number} read @param {number} total @param {boolean} fixed */
function leftOut(from, read, total, fixed) {
  const which = from
    ? `Tokens ${grouped(from + 1)} to ${grouped(from + read)}`
    : `The first ${grouped(read)}`;
  return `${which} of ${several(total, "token")} are read: ${fixed ? "the destination sees" : "the model’s context holds"} no more.`;
}

/** What there is to say of a text without a context. @param {Reading} reading */
function silence({ n }) {
  return n < 1
    ? "Nothing to read yet."
    : "One token stands at the destination alone: a context begins with the next.";
}

/** A text's tokens with their shades. @param {Omit<import("../ui/hand.js").Hand, "at">} hand
 *  @param {() => number | null} kept the place that is held */
function tokensSection(hand, kept) {
  const root = element("div", { class: "ctx-reader-text", dir: "auto" });
  /** @type {ReturnType<typeof shadedTokens> | null} */ let made = null;
  const update = inStep((/** @type {Text & {picks: boolean}} */ text, changed) => {
    const { stretches, names, apart, shade, picks } = text;
    const digits = digitsFor(shade);
    const tokens = [`${START}\u2009`, ...stretches];
    const anew = changed("picks");
    if (anew) {
      const values = text.terms ?? new Float64Array(tokens.length);
      const said = { most: shade, digits, names, apart, hand: picks ? hand : undefined };
      made = shadedTokens(tokens, values, said);
      made.hold(kept());
      made.querySelector(".ctx-token")?.setAttribute("dir", "ltr"); // the start is no word of the text's language
      root.replaceChildren(made);
    } else {
      if (changed("ids", "apart")) made?.write(tokens, names, apart);
      if (text.terms && changed("terms", "shade")) made?.shade(text.terms, shade, digits);
      else if (changed("ids")) made?.shade(new Float64Array(tokens.length));
    }
    // tokens that were written have no frame; the last one has it when it is asked for
    const written = anew || changed("ids", "apart");
    if (written ? text.at < text.reading.n : changed("at")) made?.mark(text.at);
  });
  return {
    root,
    update,
    mark: (/** @type {number} */ place) => made?.mark(place),
    hold: () => made?.hold(kept()),
  };
}

/** A text's lines. @param {string} label @param {Omit<import("../ui/hand.js").Hand, "at">} hand */
function pictureSection(label, hand) {
  const root = element("div");
  let mark = (/** @type {number} */ _) => {};
  /** @type {Text | null} */ let shown = null;
  const drawnOf = ["reading", "neuron", "axes", "shade", "reference", "points", "width"];
  const update = inStep((/** @type {Text & {width: number}} */ text, changed) => {
    shown = text;
    if (!text.terms) root.replaceChildren();
    else if (changed(...drawnOf)) {
      const made = runningSummary(label, text, () => shown?.terms ?? [], hand);
      mark = made.update;
      renewed(root, made, legend(drawingMarks(text)), errorSaid(text));
    } else if (changed("at", "terms")) mark(text.at);
  });
  return { root, update, mark: (/** @type {number} */ place) => mark(place) };
}

/** The running summaries of a text by both circuits. @param {string} label
 *  @param {Text & {width: number}} text @param {() => ArrayLike<number>} terms as the shades have them
 *  @param {Omit<import("../ui/hand.js").Hand, "at">} hand */
function runningSummary(label, text, terms, { held, show, hold }) {
  const { reading, names, reference, shade, width, at } = text;
  const neuron = /** @type {number} */ (text.neuron);
  const { places, paper, own, truth } = reading.curve(neuron);
  const domain = JSON.parse(text.axes);
  const finer = digitsFor(shade);
  const digits = digitsFor(domain.y[1] - domain.y[0]);
  const ends = [paper, own, truth].map((values) => figure(values.at(-1) ?? NaN, digits));
  const known = truth.length > 0;
  const on = chart({
    alt:
      `${label}: running summary of neuron ${neuron}; at the end ${ends[0]} by the paper’s ` +
      `circuit and ${ends[1]} by the self-normalised one` +
      (known ? `; the model computes ${ends[2]}.` : "."),
    x: { label: "tokens read", domain: [0, domain.x] },
    y: { label: UNIT, domain: domain.y },
    width,
    height: 230,
    title: `neuron ${neuron}, summary of the text so far`,
  });
  if (reference) {
    const [mean, sd] = [reference.mean[neuron], reference.sd[neuron]];
    on.add(
      band(on, [0, domain.x], [mean - sd, mean - sd], [mean + sd, mean + sd], {
        fill: "var(--ctx-soft)",
      }),
    );
  }
  on.add(rule(on, { y: 0 }), line(on, places, paper, BY_PAPER), line(on, places, own, BY_OWN));
  if (known) on.add(line(on, places, truth, TRUE));
  const read = (/** @type {number} */ place) => {
    const near = nearest(places, place);
    const [a, b, c] = [paper, own, truth].map((values) =>
      figure(values[places.indexOf(near)] ?? NaN, digits),
    );
    const upTo = near === reading.n ? "At the end" : `Up to token ${near}`;
    const adds = `Token ${place}, “${names[place]}”, adds ${signed(terms()[place] ?? NaN, finer)}`;
    const computed = known ? `; the model computes ${c}` : "";
    return `${adds}. ${upTo}: ${a} by the paper’s circuit, ${b} self-normalised${computed}.`;
  };
  const asked = `Read the ${label.toLowerCase()} token by token`;
  const moved = { held, onMove: show, onHold: hold };
  return readable(on, { label: asked, min: 0, max: reading.n, value: at, read, ...moved });
}

/** @param {number[]} places in order @param {number} place @returns {number} the one closest to it */
function nearest(places, place) {
  return places.reduce((a, b) => (Math.abs(b - place) < Math.abs(a - place) ? b : a), Infinity);
}

/** How far both lines are from what the model computes. @param {Text} text */
function errorSaid({ reading, neuron }) {
  const { paper, own, truth } = reading.curve(/** @type {number} */ (neuron));
  if (!truth.length) return "";
  const off = (/** @type {number[]} */ line) =>
    Math.hypot(...line.map((value, i) => value - truth[i])) / Math.sqrt(line.length);
  const [first, second] = [paper, own].map((line) => figure(off(line), 2));
  const said = `Off by ${first} on the way (root mean square) by the paper’s circuit, by ${second} self-normalised.`;
  return element("p", { class: "ctx-quiet" }, said);
}

/** What the lines of a drawing are. @param {Text} text */
function drawingMarks({ reading, reference }) {
  const computed = reading.whole?.truth ? [{ label: "the model computes", style: TRUE }] : [];
  const usual = reference
    ? [{ label: `passages at token ${reference.n}, mean ± sd`, style: USUAL }]
    : [];
  return [
    { label: "paper’s circuit", style: BY_PAPER },
    { label: "self-normalised", style: BY_OWN },
    ...computed,
    ...usual,
  ];
}

/** A list of neurons. @param {string} caption @param {string} whose @param {string[]} figures titles
 *  @param {string} words title of the tokens @param {(neuron: number) => void} onChoose */
function neuronTable(caption, whose, figures, words, onChoose) {
  const columns = [{ words: "neuron" }, ...figures.map((title) => ({ figures: title })), { words }];
  const made = table({ kind: "ctx-reader-table", caption, columns, rows: [] });
  const body = /** @type {HTMLElement} */ (made.querySelector("tbody"));
  /** @type {number | null} */ let chosen = null;
  const fill = keyed(
    body,
    (/** @type {Listed} */ { neuron }) => neuron,
    ({ neuron }) => {
      const choose = pick(String(neuron), () => onChoose(neuron), `Read neuron ${neuron}`);
      return element("tr", {}, element("td", {}, choose), figures.map(numberCell), element("td"));
    },
    (row, { neuron, figures, tokens }) => {
      const [choose, ...cells] = [...row.children];
      choose.firstElementChild?.setAttribute("aria-pressed", String(neuron === chosen));
      figures.forEach((said, i) => (cells[i].textContent = said));
      cells[figures.length].replaceChildren(...tokenMarks(tokens));
      row.classList.toggle("ctx-chosen", neuron === chosen);
    },
  );
  const root = scrolling(`${whose}: ${caption}`, made);
  /** @type {Listed[] | null} */ let shown = null;
  const show = (/** @type {Listed[]} */ listed, /** @type {number | null} */ now) => {
    if (listed === shown && chosen === now) return;
    [shown, chosen] = [listed, now];
    fill(listed);
    root.hidden = !listed.length;
  };
  return { root, show };
}

/** Tokens named in a line or a table. @param {string[]} names @returns {(Node | string)[]} */
function tokenMarks(names) {
  return names.flatMap((name) => [tokenMark(name), " "]);
}

// ---------------------------------------------------------------- what follows in slices

/** Measures the passages, chooses a neuron, makes the lists, says what drives the neuron, completes the
 *  lines and counts what is not read, until the next keystroke cuts it short.
 *  @param {Scene} scene @param {Side[]} sides @param {Found} found
 *  @param {(more: Partial<Found>) => void} learn @param {LayerReader} reader @param {AbortSignal} signal */
async function follow(scene, sides, found, learn, reader, signal) {
  const { heads, texts } = scene;
  const readings = texts.map(({ reading }) => reading);
  const references = [];
  for (const { n, speaks } of readings) {
    references.push(speaks ? await reader.reference(heads, n) : null);
    signal.throwIfAborted();
  }
  const told = {
    excited: excitements(readings, references),
    apart: apartness(readings, references),
  };
  const neuron = scene.neuron ?? settled(told);
  learn({ references, ...(scene.neuron === null ? { auto: neuron } : {}) });
  await nextTurn();
  const pause = sliced(signal);
  if (readings.some((reading, i) => reading !== found.listedOf[i]))
    learn({ listed: await listedNeurons(texts, told, pause), listedOf: readings });
  const of = `${heads} ${neuron}`;
  if (neuron !== null && found.drivers?.of !== of) {
    const { up, down } = reader.drivers(neuron, heads);
    const spelt = (/** @type {number} */ id) => tokenName(reader.tokenizer.decode([id]));
    learn({ drivers: { of, neuron, up: up.map(spelt), down: down.map(spelt) } });
    await pause();
  }
  await sumUp(readings, () => learn({ points: found.points + 1 }), pause);
  for (const side of sides) await side.count(pause);
  learn({});
}

/** Each text's summaries in standard deviations from the passages' mean. @param {Reading[]} readings
 *  @param {(Reference | null)[]} references */
function excitements(readings, references) {
  return readings.map(({ whole }, i) => {
    const of = references[i];
    return of && standing(whole.paper, of.mean, of.sd);
  });
}

/** The first text's summaries less the second's, in the passages' standard deviations.
 *  @param {Reading[]} readings @param {(Reference | null)[]} references */
function apartness([a, b], [first, second]) {
  if (!first || !second) return null;
  const { sd } = first.n < second.n ? first : second;
  return standing(a.whole.paper, b.whole.paper, sd);
}

/** @typedef {{excited: (Float64Array | null)[], apart: Float64Array | null}} Told */

/** The neuron where that was left to the view: the one in which two texts differ most, or that the only
 *  one excites most. It then stays, whatever is typed. @param {Told} told @returns {number | null} */
function settled({ excited, apart }) {
  const scores = apart?.map(Math.abs) ?? excited.find((z) => z);
  return scores ? leading(scores)[0] : null;
}

/** The three lists. @param {Text[]} texts @param {Told} told @param {() => Promise<void>} pause */
async function listedNeurons(texts, { excited, apart }, pause) {
  /** @type {Listed[][]} */
  const listed = [[], [], []];
  for (const [i, { reading, names }] of texts.entries()) {
    const z = excited[i];
    for (const neuron of z ? leading(z) : []) {
      const figures = [signed(z?.[neuron] ?? NaN, 1), figure(reading.whole.paper[neuron])];
      const tokens = mostAdding([{ terms: reading.terms(neuron), names, sign: 1 }], NAMED);
      listed[i].push({ neuron, figures, tokens });
      await pause();
    }
  }
  for (const neuron of apart ? leading(apart.map(Math.abs)) : []) {
    const far = apart?.[neuron] ?? NaN;
    const both = texts.map(({ reading }) => figure(reading.whole.paper[neuron]));
    // the tokens that add more to the neuron in one text than in the other
    const terms = texts.map(({ reading, names }, i) => ({
      terms: reading.terms(neuron),
      names,
      sign: (i ? -1 : 1) * Math.sign(far),
    }));
    listed[2].push({
      neuron,
      figures: [signed(far, 1), ...both],
      tokens: mostAdding(terms, NAMED),
    });
    await pause();
  }
  return listed;
}

/** Fills in the lines of both texts, from the end. @param {Reading[]} readings
 *  @param {() => void} onPoints @param {() => Promise<void>} pause */
async function sumUp(readings, onPoints, pause) {
  const missing = readings.flatMap((reading) => reading.missing().map((n) => ({ reading, n })));
  let since = performance.now();
  for (const { reading, n } of missing.sort((a, b) => b.n - a.n)) {
    reading.sumUp(n);
    if (performance.now() - since > REPAINT) {
      onPoints();
      since = performance.now();
    }
    await pause();
  }
  if (missing.length) onPoints();
}

export default { render: ofModels(render) };
