/** What a text tells the neurons, while it is typed (chapters 6 and 8); two texts side by side.
 *
 *  A text is read as the model would: its first token, then the text's own, with the destination
 *  at the last one. A keystroke is answered at once with tokens, shades and the summaries at the
 *  end; the summaries of earlier prefixes follow in slices, which the next keystroke cuts short. */

import { Kept } from "../engine/kept.js";
import { largest, outermost } from "../engine/linalg.js";
import { latest, nextTurn, sliced } from "../engine/slices.js";
import { Tokenizer } from "../engine/tokenizer.js";
import { checkbox, copyButton, headChooser, pick } from "../ui/controls.js";
import {
  atWidth,
  eachFrame,
  element,
  failed,
  focusIn,
  fresh,
  numberCell,
  renewed,
  scrolling,
  table,
} from "../ui/dom.js";
import { COLOURS } from "../ui/marks.js";
import { band, chart, legend, line, readable, rule } from "../ui/plot.js";
import { layerOf } from "../ui/source.js";
import { below, belowOrLeft, circuitHeads, heard, sound, turn } from "../ui/state.js";
import { shadeKey, shadedTokens, whyHere } from "../ui/tokens.js";
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

/** @typedef {import("../engine/layer.js").Layer} Layer
 *  @typedef {import("../engine/circuit.js").Circuit} Circuit
 *  @typedef {{paper: Float32Array, own: Float32Array}} Summaries of every neuron, by both circuits
 *  @typedef {{n: number, mean: Float64Array, sd: Float64Array}} Reference of every neuron
 *  @typedef {{neuron: number, figures: string[], tokens: string[]}} Listed a row of a table */

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
const BY_OWN = { stroke: COLOURS[1], "stroke-width": 1.7, "stroke-dasharray": "6 3" };
const USUAL = { stroke: "var(--ctx-soft)", "stroke-width": 6, opacity: 0.3 };
const PLACES = 128; // at most so many prefixes of a text are summed up for the drawing
const FEWEST = 8; // tokens of a prefix: before, the token in front of every text says most
const LISTED = 8; // neurons in a list
const LOUD = 1 / 4; // of all neurons, those whose summary varies most over texts, may be listed
const NAMED = 4; // tokens that a list names
const KEPT = 64; // neurons whose terms in a text, and lengths whose passages, are remembered
const REPAINT = 200; // milliseconds between two drawings of a line that grows
const QUIET = 300; // milliseconds without a keystroke until Python, or the address, is told
const CHARACTERS = 16; // per token of the context, that a box keeps
const CHUNK = 4000; // characters that are counted in one go
const START = "⟨start⟩"; // the token in front of every text

/** @param {0 | 1} spelling British, American @returns {string} */
function openingText(spelling) {
  return OPENING.replace(/\{(.*?)\|(.*?)\}/g, (_, ...both) => both[spelling]);
}

// ---------------------------------------------------------------- reading, without a page

/** A layer that reads texts; knows what does not depend on them. */
class LayerReader {
  /** @param {Layer} layer */
  constructor(layer) {
    this.layer = layer;
    this.tokenizer = new Tokenizer(layer.vocab, layer.merges);
    /** Tokens of a text that are read, the first one of every text not counted: the calibration
     *  text has to reach as far. */
    this.room = Math.min(layer.positions, layer.calibration.ids.length + 1) - 1;
    this.characters = CHARACTERS * this.room;
    /** @type {Kept<Circuit>} */
    this.circuits = new Kept(3 * PLACES);
    /** @type {Kept<Promise<Reference>>} */
    this.references = new Kept(KEPT);
  }

  /** The circuit whose destination is n. Calibrating one takes as long as reading a text, and both
   *  texts need the same ones again and again. @param {number} n */
  at(n) {
    return this.circuits.get(n, () => this.layer.circuit({ n }));
  }

  /** Every neuron's summaries over the labelled passages, cut about as long as a text with its
   *  last token at n: at the power of two next to it, so that a keystroke seldom asks for others.
   *  @param {number[]} heads @param {number} n @returns {Promise<Reference>} */
  reference(heads, n) {
    const most = Math.min(this.room, ...this.layer.passages.map(({ ids }) => ids.length - 1));
    const near = Math.min(2 ** Math.round(Math.log2(n)), most);
    const key = `${heads} ${near}`;
    const known = this.references.get(key, () => this.#measured(heads, near));
    known.catch(() => this.references.drop(key));
    return known;
  }

  /** @param {number[]} heads @param {number} n @returns {Promise<Reference>} */
  async #measured(heads, n) {
    const { values } = await this.layer.byDomain(heads, { n });
    const size = this.layer.nNeurons;
    const count = values.length / size;
    const [mean, sd] = [new Float64Array(size), new Float64Array(size)];
    for (let i = 0; i < values.length; i++) mean[i % size] += values[i] / count;
    for (let i = 0; i < values.length; i++) sd[i % size] += (values[i] - mean[i % size]) ** 2;
    for (let j = 0; j < size; j++) sd[j] = Math.sqrt(sd[j] / Math.max(count - 1, 1));
    return { n, mean, sd };
  }

  /** The tokens that drive a neuron most, up and down, over the vocabulary and at the usual
   *  destination. @param {number} neuron @param {number[]} heads */
  drivers(neuron, heads) {
    const all = this.layer.circuit().contribution(neuron, heads);
    const { up, down } = outermost(all, this.layer.counted, LISTED);
    const spelt = (/** @type {number[]} */ ids) =>
      ids.map((id) => tokenName(this.tokenizer.decode([id])));
    return { up: spelt(up), down: spelt(down) };
  }
}

/** One text as it stands, and what is known of it so far. */
class TextReading {
  /** @param {LayerReader} reader */
  constructor(reader) {
    this.reader = reader;
    /** @type {number[]} */
    this.heads = [];
    /** @type {number[]} */
    this.ids = [];
    /** @type {string[]} as the text shows them, the one in front of every text first */
    this.tokens = [];
    /** @type {string[]} as sentences and tables name them */
    this.names = [];
    this.counted = 0; // tokens in the box
    /** @type {Map<number, Summaries>} by the place of the prefix's last token */
    this.sums = new Map();
    /** @type {Kept<Float64Array>} by neuron, of the whole text */
    this.known = new Kept(KEPT);
  }

  /** @returns {number} where the last token stands, which is the destination */
  get n() {
    return this.ids.length - 1;
  }

  /** @returns {boolean} whether there is a context to speak of: two tokens of the text's own */
  get speaks() {
    return this.n > 1;
  }

  /** @param {string} text @param {number[]} heads */
  take(text, heads) {
    const { layer, tokenizer, room } = this.reader;
    const pieces = tokenizer.pieces(text);
    this.counted = pieces.length;
    const read = pieces.slice(0, room);
    const ids = [layer.bos, ...read.map(({ id }) => id)];
    this.tokens = [`${START}\u2009`, ...read.map((piece) => piece.text)];
    this.names = [START, ...read.map((piece) => nameInText(piece.text))];
    const same = ids.findIndex((id, i) => id !== this.ids[i]);
    this.known.clear();
    const kept = String(heads) === String(this.heads) ? (same < 0 ? ids.length : same) : 0;
    [this.ids, this.heads] = [ids, heads];
    for (const n of this.sums.keys()) if (n >= kept || !this.drawnAt(n)) this.sums.delete(n);
    if (this.speaks) this.sumUp(this.n);
  }

  /** Every so many tokens, a power of two so that a longer text still uses what a shorter one left.
   *  @returns {number} */
  get step() {
    return 2 ** Math.max(0, Math.ceil(Math.log2(this.n / PLACES)));
  }

  /** @param {number} n @returns {boolean} whether the drawing has a point for that prefix */
  drawnAt(n) {
    return n === this.n || (n >= FEWEST && n < this.n && n % this.step === 0);
  }

  /** The prefixes that are not summed up yet, the longest first. @returns {number[]} */
  missing() {
    const places = Array.from({ length: Math.max(this.n, 0) }, (_, i) => this.n - 1 - i);
    return this.speaks ? places.filter((n) => this.drawnAt(n) && !this.sums.has(n)) : [];
  }

  /** @param {number} n */
  sumUp(n) {
    if (this.sums.has(n)) return;
    const circuit = this.reader.at(n);
    const ids = this.ids.slice(0, n + 1);
    this.sums.set(n, {
      paper: Float32Array.from(circuit.summary(ids, this.heads)),
      own: Float32Array.from(circuit.selfNormalised(ids, this.heads)),
    });
  }

  /** @returns {Summaries} of the whole text */
  get whole() {
    return /** @type {Summaries} */ (this.sums.get(this.n));
  }

  /** What each token adds to a neuron, by the paper's circuit. @param {number} neuron */
  terms(neuron) {
    return this.known.get(neuron, () =>
      this.reader.at(this.n).bySource(this.ids, this.heads, neuron),
    );
  }

  /** What one of them adds, head by head. @param {number} neuron @param {number} place */
  parts(neuron, place) {
    return this.reader.at(this.n).parts(this.ids, this.heads, neuron, place);
  }

  /** A neuron's line: where there is a point, and what both circuits say there.
   *  @param {number} neuron */
  curve(neuron) {
    const places = [...this.sums.keys()].sort((a, b) => a - b);
    const sums = places.map((n) => /** @type {Summaries} */ (this.sums.get(n)));
    return {
      places,
      paper: sums.map(({ paper }) => paper[neuron]),
      own: sums.map(({ own }) => own[neuron]),
    };
  }

  /** The tokens that add most to a neuron, each once. @param {number} neuron @returns {string[]} */
  raisers(neuron) {
    return mostAdding([{ terms: this.terms(neuron), names: this.names, sign: 1 }]);
  }
}

/** The tokens whose terms add up to most, each token once.
 *  @param {{terms: Float64Array, names: string[], sign: number}[]} texts @returns {string[]} */
function mostAdding(texts) {
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const { terms, names, sign } of texts)
    terms.forEach((term, i) => sums.set(names[i], (sums.get(names[i]) ?? 0) + sign * term));
  const order = [...sums].filter(([, sum]) => sum > 0).sort(([, a], [, b]) => b - a);
  return order.slice(0, NAMED).map(([name]) => name);
}

/** Distances in standard deviations, of neurons that texts can move far; the others have none:
 *  what little they do is mostly noise, and in standard deviations it would look like much.
 *  @param {Float32Array} from @param {ArrayLike<number>} to @param {Float64Array} sd */
function standing(from, to, sd) {
  const edge = sd.toSorted()[Math.floor(sd.length * (1 - LOUD))];
  return Float64Array.from(from, (value, j) =>
    sd[j] >= edge && sd[j] > 0 ? (value - to[j]) / sd[j] : 0,
  );
}

/** @param {Float64Array} scores @returns {number[]} where they are largest, in order */
function leading(scores) {
  return outermost(scores, Array.from(scores.keys()), LISTED).up;
}

/** Tokens of a text of any length, counted piece by piece. In front of a single space between two
 *  words a text can be cut without a change of its tokens; where there is none for long, the count
 *  may be a few too high. @param {Tokenizer} tokenizer @param {string} text
 *  @param {() => Promise<void>} pause @returns {Promise<number>} */
async function tokenCount(tokenizer, text, pause) {
  let count = 0;
  for (let from = 0, to; from < text.length; from = to) {
    to = from + CHUNK;
    if (to < text.length)
      to = from + (/^[^]*\S(?= \S)/.exec(text.slice(from, to))?.[0].length ?? CHUNK);
    count += tokenizer.encode(text.slice(from, to)).length;
    await pause();
  }
  return count;
}

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

// ---------------------------------------------------------------- what is on the page

/** A list of neurons whose rows stay while what they say changes, so that a keyboard keeps its
 *  place. @param {string} caption @param {string} whose @param {string[]} figures titles
 *  @param {string} words title of the tokens @param {(neuron: number) => void} onChoose */
function neuronTable(caption, whose, figures, words, onChoose) {
  /** @type {(number | null)[]} */
  const held = Array(LISTED).fill(null);
  const rows = held.map((_, row) => {
    const choose = pick("", () => {
      const neuron = held[row];
      if (neuron !== null) onChoose(neuron);
    });
    const cells = figures.map(() => numberCell(""));
    const named = element("td");
    const root = element("tr", { hidden: true }, element("td", {}, choose), cells, named);
    return { root, choose, cells, named };
  });
  const made = table({
    kind: "ctx-reader-table",
    caption,
    columns: [{ words: "neuron" }, ...figures.map((title) => ({ figures: title })), { words }],
    rows: rows.map(({ root }) => root),
  });
  /** @param {Listed[]} listed @param {number} chosen */
  const show = (listed, chosen) => {
    rows.forEach(({ root, choose, cells, named }, row) => {
      const item = listed[row];
      root.hidden = !item;
      held[row] = item ? item.neuron : null;
      if (!item) return;
      choose.textContent = String(item.neuron);
      choose.setAttribute("aria-label", `Read neuron ${item.neuron}`);
      choose.setAttribute("aria-pressed", String(item.neuron === chosen));
      cells.forEach((cell, i) => (cell.textContent = item.figures[i]));
      named.replaceChildren(...tokenMarks(item.tokens));
      root.classList.toggle("ctx-chosen", item.neuron === chosen);
    });
  };
  return { root: scrolling(`${whose}: ${caption}`, made), show };
}

/** Tokens named in a line or a table. @param {string[]} names @returns {(Node | string)[]} */
function tokenMarks(names) {
  return names.flatMap((name) => [tokenMark(name), " "]);
}

/** One text's part of the page.
 *  @param {string} label @param {number} limit characters that the box keeps
 *  @param {(full: string | null) => void} onInput told a text that was longer than the box keeps
 *  @param {(neuron: number) => void} onChoose */
function textPart(label, limit, onInput, onChoose) {
  const id = fresh("text");
  const box = /** @type {HTMLTextAreaElement} */ (
    element("textarea", {
      id,
      rows: 7,
      maxlength: limit, // the browser cuts a long paste before it lays it out
      spellcheck: "false",
      autocomplete: "off",
      autocapitalize: "off",
      dir: "auto",
    })
  );
  /** @type {string | null} */
  let pasted = null;
  const remember = (/** @type {DataTransfer | null} */ data) => {
    const added = data?.getData("text/plain") ?? "";
    const whole =
      box.value.slice(0, box.selectionStart) + added + box.value.slice(box.selectionEnd);
    pasted = whole.length > limit ? whole : null;
  };
  box.addEventListener("paste", (event) => remember(event.clipboardData));
  box.addEventListener("drop", (event) => remember(event.dataTransfer));
  box.addEventListener("input", () => {
    const long = box.value.length > limit ? box.value : null;
    if (long) box.value = long.slice(0, limit);
    onInput(pasted ?? long);
    pasted = null;
  });
  const parts = {
    box,
    count: element("p", { class: "ctx-quiet ctx-reader-count" }),
    note: element("p", { class: "ctx-quiet", role: "status" }),
    tokens: element("div", { class: "ctx-reader-text", dir: "auto" }),
    silence: element("p", { class: "ctx-quiet" }),
    picture: element("div"),
    why: whyHere(),
    table: neuronTable(
      "Neurons that this text excites most",
      label,
      ["z", "summary"],
      "tokens that add most",
      onChoose,
    ),
  };
  const root = element(
    "section",
    { "aria-label": label },
    element("label", { for: id, class: "ctx-label" }, label),
    box,
    parts.count,
    parts.note,
    parts.tokens,
    parts.silence,
    parts.picture,
    parts.why.root,
    parts.table.root,
  );
  return { ...parts, root, label };
}

/** @typedef {ReturnType<typeof textPart>} Part
 *  @typedef {{part: Part, reading: TextReading, full: string | null, total: number | null,
 *    at: number | null, terms: Float64Array | null, reference: Reference | null, written: string,
 *    painted: string, mark: (place: number) => void, move: (place: number) => void,
 *    explain: () => void}} Side a text: its
 *    part of the page, what is known of it, and where it is read: `at` (null: at its end), `mark` in
 *    the text, `move` in the drawing; `explain` says why */

/** @param {Side} side @param {number} room */
function sayCount({ part, reading, full, total }, room) {
  const { counted } = reading;
  const read = Math.min(counted, room);
  const all = read === counted && full === null;
  part.count.textContent = all
    ? `${several(counted, "token")}; up to ${grouped(room)} are read`
    : `${several(read, "token")} read`;
  const there = full === null ? counted : total;
  const { maxLength, value } = part.box;
  const note = [
    full !== null && total === null ? "Counting what is left out." : null,
    there !== null && there > read ? leftOut(read, there) : null,
    value.length >= maxLength ? `The box keeps ${several(maxLength, "character")}.` : null,
  ];
  const said = note.filter((sentence) => sentence !== null).join(" ");
  if (part.note.textContent !== said) part.note.textContent = said;
}

/** @param {number} read @param {number} total */
function leftOut(read, total) {
  return `The first ${grouped(read)} of ${several(total, "token")} are read: the model’s context holds no more.`;
}

/** What there is to say of a text without a context. @param {TextReading} reading */
function silence({ n }) {
  return n < 1
    ? "Nothing to read yet."
    : "One token stands at the destination alone: a context begins with the next.";
}

/** @param {Side} side @param {number} most strength of a full shade */
function showTokens(side, most) {
  const { part, reading, terms } = side;
  const values = terms ?? new Float64Array(reading.tokens.length);
  const made = shadedTokens(reading.tokens, values, {
    most,
    digits: digitsFor(most),
    names: reading.names,
    onPick: terms ? (place) => readAt(side, place) : undefined,
  });
  side.mark = made.mark;
  made.querySelector(".ctx-token")?.setAttribute("dir", "ltr"); // the start is no word of the text's language
  part.tokens.replaceChildren(made);
}

/** Reads a text at a token, in the text and in the drawing. @param {Side} side
 *  @param {number} place */
function readAt(side, place) {
  side.at = place === side.reading.n ? null : place;
  side.mark(place);
  side.move(place);
  side.explain();
}

/** The running summaries of a text by both circuits.
 *  @param {Side} side @param {number} neuron
 *  @param {{x: number, y: [number, number]}} domain @param {number} shade @param {number} width */
function runningSummary(side, neuron, domain, shade, width) {
  const { part, reading, terms, reference } = side;
  const { places, paper, own } = reading.curve(neuron);
  const finer = digitsFor(shade);
  const digits = digitsFor(domain.y[1] - domain.y[0]);
  const ends = [paper, own].map((values) => figure(values[values.length - 1], digits));
  const on = chart({
    alt:
      `${part.label}: running summary of neuron ${neuron}; at the end ${ends[0]} by the paper’s ` +
      `circuit and ${ends[1]} by the self-normalised one.`,
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
  const read = (/** @type {number} */ place) => {
    const near = nearest(places, place);
    const [a, b] = [paper, own].map((values) => figure(values[places.indexOf(near)], digits));
    const upTo = near === reading.n ? "At the end" : `Up to token ${near}`;
    const adds = `Token ${place}, “${reading.names[place]}”, adds ${signed(terms?.[place] ?? NaN, finer)}`;
    return `${adds}. ${upTo}: ${a} by the paper’s circuit, ${b} self-normalised.`;
  };
  const label = `Read the ${part.label.toLowerCase()} token by token`;
  const value = Math.min(side.at ?? reading.n, reading.n);
  const onMove = (/** @type {number} */ place) => readAt(side, place);
  const made = readable(on, { label, min: 0, max: reading.n, value, read, onMove });
  side.move = made.update;
  return made;
}

/** @param {number[]} places in order @param {number} place @returns {number} the one closest to it */
function nearest(places, place) {
  return places.reduce((a, b) => (Math.abs(b - place) < Math.abs(a - place) ? b : a), Infinity);
}

/** What the lines of a drawing are. @param {Reference | null} reference */
function drawingLegend(reference) {
  const usual = reference
    ? [{ label: `passages at token ${reference.n}, mean ± sd`, style: USUAL }]
    : [];
  return legend([
    { label: "paper’s circuit", style: BY_PAPER },
    { label: "self-normalised", style: BY_OWN },
    ...usual,
  ]);
}

// ---------------------------------------------------------------- the view

/** The view at work: what a reader turns, what follows at once, and what follows in slices. */
class ReaderView {
  /** @param {any} model @param {HTMLElement} el @param {Layer} layer */
  constructor(model, el, layer) {
    this.model = model;
    this.el = el;
    this.layer = layer;
    this.reader = new LayerReader(layer);
    /** @type {number | null} what the view chose where it was left to choose */
    this.auto = null;
    this.shade = 1;
    this.telling = false;
    this.task = latest();
    this.ended = false;
    this.waiting = 0;
    this.begun = 0;
    this.redraw = eachFrame(() => this.ended || this.follow());
    /** @type {Side[]} */
    this.sides = ["First text", "Second text"].map((label) => this.#side(label));
    /** @type {Listed[][]} the neurons of both texts' lists, and of the one between them */
    this.listed = [[], [], []];
    this.between = neuronTable(
      "Neurons in which the two differ most",
      "Both texts",
      ["apart", "first", "second"],
      "tokens that part them",
      (neuron) => this.choose(neuron),
    );
    this.heads = headChooser({
      count: layer.nHeads,
      chosen: this.now().heads,
      note: (head) => layer.families[head].family,
      onChange: (heads) => {
        this.auto = null;
        turn(model, { heads });
      },
    });
    this.neuron = this.#neuronField();
    this.described = "";
    this.listedOf = "";
    this.width = 400;
    this.about = element("p", { class: "ctx-reader-about" });
    this.key = element("p", { class: "ctx-quiet" });
    this.method = element("p", { class: "ctx-quiet" });
    /** @type {HTMLInputElement | null} whether the address holds the texts */
    this.keep = null;
    this.unkept = element("span", { role: "status" });
    this.#furnish();
    this.fill();
  }

  /** @param {string} label @returns {Side} */
  #side(label) {
    const side = {
      part: textPart(
        label,
        this.reader.characters,
        (full) => this.typed(side, full),
        (neuron) => this.choose(neuron),
      ),
      reading: new TextReading(this.reader),
      /** @type {Reference | null} */ reference: null,
      /** @type {string | null} */ full: null,
      /** @type {number | null} */ total: null,
      /** @type {number | null} */ at: null,
      /** @type {Float64Array | null} */ terms: null,
      mark: () => {},
      move: () => {},
      explain: () => {
        const { neuron } = this.now();
        const { reading, part } = side;
        const at = Math.min(side.at ?? reading.n, reading.n);
        part.why.root.hidden = !reading.speaks || neuron === null;
        if (reading.speaks && neuron !== null)
          part.why.show(reading.names[at], () => reading.parts(neuron, at));
      },
      written: "",
      painted: "",
    };
    return side;
  }

  /** Puts everything where it belongs. */
  #furnish() {
    const asked = element(
      "div",
      { class: "ctx-control" },
      element("label", { for: this.neuron.id }, "Neuron"),
      this.neuron,
    );
    this.el.replaceChildren(
      element("div", { class: "ctx-controls" }, this.heads, asked),
      this.about,
      this.key,
      element(
        "div",
        { class: "ctx-split ctx-reader" },
        this.sides.map(({ part }) => part.root),
      ),
      this.between.root,
      this.method,
      ...this.#sharing().flatMap((node) => node ?? []),
    );
  }

  #neuronField() {
    const size = this.layer.nNeurons;
    const attributes = { id: fresh("neuron"), type: "number", min: 0, max: size - 1, step: 1 };
    const field = /** @type {HTMLInputElement} */ (element("input", attributes));
    field.addEventListener("input", () => {
      if (field.value !== "" && below(size)(Number(field.value))) this.choose(Number(field.value));
    });
    field.addEventListener("blur", this.redraw); // what is no neuron goes away
    return field;
  }

  /** What a page with an address offers: to put the texts into it, which it does not do unasked. */
  #sharing() {
    const { model } = this;
    if (!model.address) return [];
    this.keep = checkbox(null, () => this.tell());
    const asked = " Put both texts into the address of the page, to keep or to share them";
    const promise =
      "Nothing you type leaves the page. The address holds the texts only while the box is ticked. ";
    return [
      element("p", {}, element("label", {}, this.keep, asked)),
      element("p", { class: "ctx-quiet" }, promise, this.unkept),
      copyButton(model),
    ];
  }

  /** The state, sound. */
  now() {
    const { model, layer } = this;
    const neuron = sound(model, "neuron", belowOrLeft(layer.nNeurons), -1);
    const isText = (/** @type {any} */ v) => typeof v === "string";
    return {
      heads: circuitHeads(model, layer),
      neuron: neuron < 0 ? this.auto : neuron,
      texts: [sound(model, "text", isText, ""), sound(model, "other", isText, "")],
    };
  }

  /** @param {number} neuron */
  choose(neuron) {
    turn(this.model, { neuron });
  }

  /** Texts that come from Python, or with an address. */
  fill() {
    if (this.telling) return;
    const { texts } = this.now();
    const opening = texts.every((text) => text === "");
    this.sides.forEach((side, i) => {
      const text = opening ? openingText(/** @type {0 | 1} */ (i)) : texts[i];
      const kept = text.slice(0, this.reader.characters);
      if (side.part.box.value === kept) return;
      [side.part.box.value, side.full, side.total] = [kept, kept === text ? null : text, null];
      this.auto = null;
    });
    const { text, other } = this.model.first ?? {};
    if (this.keep && (texts[0] !== text || texts[1] !== other)) this.keep.checked = true;
    this.redraw();
  }

  /** @param {Side} side @param {string | null} full */
  typed(side, full) {
    [side.full, side.total] = [full, null];
    this.redraw();
    clearTimeout(this.waiting);
    this.waiting = window.setTimeout(() => this.tell(), QUIET);
  }

  /** Tells Python, or the address, what was typed. Lone surrogates fit in neither. */
  tell() {
    const { model, keep } = this;
    const [text, other] = this.sides.map(({ part }) => part.box.value.toWellFormed());
    const opening = text === openingText(0) && other === openingText(1);
    const shared = !keep || keep.checked;
    this.telling = true;
    turn(model, {
      text: shared ? (opening ? "" : text) : model.first.text,
      other: shared ? (opening ? "" : other) : model.first.other,
      ...(model.get("neuron") === -1 && this.auto !== null ? { neuron: this.auto } : {}),
    });
    this.telling = false;
    if (keep) this.lost().then((said) => (this.unkept.textContent = said));
  }

  /** Which texts an address does not hold though it should, as a sentence. */
  async lost() {
    const { model } = this;
    const address = await model.address();
    const names = { text: "first", other: "second" };
    const lost = Object.entries(names).flatMap(([name, which]) =>
      model.get(name) !== model.first[name] && !RegExp(`[#&]${name}(\\.z)?=`).test(address)
        ? [which]
        : [],
    );
    if (!lost.length) return "";
    const many = lost.length > 1 ? "texts are" : "text is";
    return `The ${lost.join(" and the ")} ${many} too long for an address and left out of it.`;
  }

  /** What follows a keystroke or a turn at once. */
  follow() {
    const { heads } = this.now();
    for (const side of this.sides) {
      const written = `${heads} ${side.part.box.value}`;
      if (side.written === written) continue;
      if (String(side.reading.heads) !== String(heads)) side.reference = null;
      side.reading.take(side.part.box.value, heads);
      side.written = written;
    }
    this.paint();
    this.work();
  }

  /** Draws what is known. */
  paint() {
    const { heads, neuron } = this.now();
    this.width = this.sides[0].part.picture.clientWidth || 400; // asked before anything changes
    this.heads.update(heads);
    if (neuron !== null && focusIn(this.el) !== this.neuron) this.neuron.value = String(neuron);
    for (const side of this.sides)
      side.terms = neuron !== null && side.reading.speaks ? side.reading.terms(neuron) : null;
    this.shade = roundedUp(Math.max(...this.sides.map(({ terms }) => largest(terms ?? []))));
    for (const side of this.sides) this.paintSide(side, neuron);
    this.showLists(neuron);
    this.caption(neuron);
  }

  /** @param {Side} side @param {number | null} neuron */
  paintSide(side, neuron) {
    const { reading, terms } = side;
    sayCount(side, this.reader.room);
    const painted = `${neuron} ${terms ? this.shade : ""} ${side.written}`;
    if (side.painted !== painted) showTokens(side, this.shade);
    side.painted = painted;
    this.drawSums(side);
    if (side.at !== null && reading.speaks) side.mark(Math.min(side.at, reading.n));
    side.explain();
  }

  /** @param {number | null} neuron that is chosen */
  showLists(neuron) {
    [...this.sides.map(({ part }) => part.table), this.between].forEach((table, i) => {
      table.show(this.listed[i], neuron ?? -1);
      table.root.hidden = !this.listed[i].length;
    });
  }

  /** The running summaries of a text, on axes that both texts share. @param {Side} side */
  drawSums(side) {
    const { part, reading, terms, reference } = side;
    const { neuron } = this.now();
    part.silence.hidden = reading.speaks;
    part.silence.textContent = reading.speaks ? "" : silence(reading);
    if (!terms || neuron === null) return part.picture.replaceChildren();
    const picture = runningSummary(side, neuron, this.axes(neuron), this.shade, this.width);
    return renewed(part.picture, picture, drawingLegend(reference));
  }

  /** How far both drawings reach. @param {number} neuron @returns {{x: number, y: [number, number]}} */
  axes(neuron) {
    const speaking = this.sides.filter(({ reading }) => reading.speaks);
    const values = speaking.flatMap(({ reading, reference }) => {
      const { paper, own } = reading.curve(neuron);
      const [mean, sd] = reference ? [reference.mean[neuron], reference.sd[neuron]] : [0, 0];
      return [0, mean - sd, mean + sd, ...paper, ...own];
    });
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = 0.06 * (high - low || 1);
    return {
      x: Math.max(...speaking.map(({ reading }) => reading.n)),
      y: [low - room, high + room],
    };
  }

  /** What is shown, in words. @param {number | null} neuron */
  caption(neuron) {
    const most = Number(this.shade.toPrecision(2));
    const digits = String(most).split(".")[1]?.length ?? 0;
    this.key.replaceChildren(
      ...(neuron === null
        ? []
        : [
            `What each token adds to neuron ${neuron} at the text’s end, by the paper’s circuit. `,
            ...shadeKey(most, digits),
          ]),
    );
    this.method.textContent = this.methodInWords();
  }

  /** How lists and lines are made. @returns {string} */
  methodInWords() {
    const speaking = this.sides.filter(({ reference }) => reference);
    if (!speaking.length) return "";
    const { passages, nNeurons } = this.layer;
    const cut = new Set(speaking.map(({ reference }) => reference?.n));
    const step = Math.max(...speaking.map(({ reading }) => reading.step));
    return (
      `z and apart are in standard deviations of the ${passages.length} labelled passages’ ` +
      `summaries at token ${[...cut].join(" or ")}, by the paper’s circuit: z counts from their ` +
      "mean, apart is the first text less the second. Listed are neurons among the " +
      `${grouped(Math.ceil(LOUD * nNeurons))} of ${grouped(nNeurons)} that vary most over ` +
      `the passages. The lines begin at token ${FEWEST} and have a point at every ${ordinal(step)}. ` +
      "Numbers are rounded: they hold to about a hundredth of their range."
    );
  }

  /** What follows in slices, until the next keystroke cuts it short. */
  work() {
    const steps = async (/** @type {AbortSignal} */ signal) => {
      const pause = sliced(signal);
      if (await this.refer(signal)) this.paint();
      await nextTurn();
      await this.list(pause);
      await this.describe(pause);
      await this.sumUp(pause);
      await this.count(pause);
    };
    const mine = (this.begun += 1);
    this.el.dataset.working = ""; // until lists and lines are complete
    this.task(steps)
      .catch((error) => failed(this.el, error))
      .finally(() => mine === this.begun && delete this.el.dataset.working);
  }

  /** Measures the passages. @param {AbortSignal} signal @returns {Promise<boolean>} whether a
   *  reference or the neuron has changed */
  async refer(signal) {
    const before = this.sides.map((side) => side.reference);
    for (const side of this.sides) {
      const { n, heads, speaks } = side.reading;
      const reference = speaks ? await this.reader.reference(heads, n) : null;
      signal.throwIfAborted();
      side.reference = reference;
    }
    return this.settle() || this.sides.some((side, i) => side.reference !== before[i]);
  }

  /** Chooses a neuron where that was left to the view: the one in which two texts differ most, or
   *  that the only one excites most. It then stays, whatever is typed. Returns whether it did. */
  settle() {
    if (this.now().neuron !== null) return false;
    const scores = this.differences()?.map(Math.abs) ?? this.excitements().find((z) => z);
    if (scores) this.auto = leading(scores)[0];
    return this.auto !== null;
  }

  /** Each text's summaries in standard deviations from the passages' mean. */
  excitements() {
    return this.sides.map(({ reading, reference }) =>
      reading.speaks && reference
        ? standing(reading.whole.paper, reference.mean, reference.sd)
        : null,
    );
  }

  /** The first text's summaries less the second's, in the passages' standard deviations. */
  differences() {
    const [a, b] = this.sides;
    if (!a.reading.speaks || !b.reading.speaks || !a.reference || !b.reference) return null;
    const { sd } = a.reference.n < b.reference.n ? a.reference : b.reference;
    return standing(a.reading.whole.paper, b.reading.whole.paper, sd);
  }

  /** Makes the three lists. @param {() => Promise<void>} pause */
  async list(pause) {
    const texts = this.sides.map(({ written }) => written).join();
    if (this.listedOf === texts) return;
    /** @type {Listed[][]} */
    const listed = [[], [], []];
    for (const [i, z] of this.excitements().entries()) {
      const { reading } = this.sides[i];
      if (!z) continue;
      for (const neuron of leading(z)) {
        const figures = [signed(z[neuron], 1), figure(reading.whole.paper[neuron])];
        listed[i].push({ neuron, figures, tokens: reading.raisers(neuron) });
        await pause();
      }
    }
    const apart = this.differences() ?? new Float64Array();
    for (const neuron of leading(apart.map(Math.abs))) {
      const both = this.sides.map(({ reading }) => figure(reading.whole.paper[neuron]));
      const tokens = this.distinctive(neuron, Math.sign(apart[neuron]));
      listed[2].push({ neuron, figures: [signed(apart[neuron], 1), ...both], tokens });
      await pause();
    }
    [this.listed, this.listedOf] = [listed, texts];
    this.showLists(this.now().neuron);
  }

  /** The tokens that add more to a neuron in one text than in the other. @param {number} neuron
   *  @param {number} sign above zero: more in the first */
  distinctive(neuron, sign) {
    return mostAdding(
      this.sides.map(({ reading }, i) => ({
        terms: reading.terms(neuron),
        names: reading.names,
        sign: i ? -sign : sign,
      })),
    );
  }

  /** Says which tokens drive the neuron. @param {() => Promise<void>} pause */
  async describe(pause) {
    const { heads, neuron } = this.now();
    const key = `${heads} ${neuron}`;
    if (neuron === null || this.described === key) return;
    const { up, down } = this.reader.drivers(neuron, heads);
    this.described = key;
    this.about.replaceChildren(
      `Tokens that raise neuron ${neuron} most, of the whole vocabulary: `,
      ...tokenMarks(up),
      "; those that lower it most: ",
      ...tokenMarks(down),
    );
    await pause();
  }

  /** Fills in the lines of both texts, from the end. @param {() => Promise<void>} pause */
  async sumUp(pause) {
    const missing = this.sides.flatMap(({ reading }) =>
      reading.missing().map((n) => ({ reading, n })),
    );
    let since = performance.now();
    for (const { reading, n } of missing.sort((a, b) => b.n - a.n)) {
      reading.sumUp(n);
      if (performance.now() - since > REPAINT) {
        this.sides.forEach((side) => this.drawSums(side));
        since = performance.now();
      }
      await pause();
    }
    if (missing.length) this.sides.forEach((side) => this.drawSums(side));
  }

  /** Counts what does not fit. @param {() => Promise<void>} pause */
  async count(pause) {
    for (const side of this.sides) {
      if (side.full === null || side.total !== null) continue;
      side.total = await tokenCount(this.reader.tokenizer, side.full, pause);
      sayCount(side, this.reader.room);
    }
  }

  /** Listens; returns what ends the view. */
  start() {
    const ends = [
      heard(this.model, ["text", "other"], () => this.fill()),
      heard(this.model, ["heads", "neuron"], this.redraw),
      atWidth(this.el, this.redraw),
    ];
    return () => {
      ends.forEach((end) => end());
      clearTimeout(this.waiting);
      this.ended = true;
      this.task(async () => {});
    };
  }
}

/** @param {{model: any, el: HTMLElement}} view traits: text, other, neuron, heads */
async function render({ model, el }) {
  const layer = await layerOf(model, el);
  if (!layer) return undefined;
  if (!layer.byteLevel) {
    const said = "This model’s tokenizer is no byte-level one, so a page cannot read text for it.";
    el.replaceChildren(element("p", {}, said));
    return undefined;
  }
  return new ReaderView(model, el, layer).start();
}

export default { render };
