/** What a text tells the neurons, while it is typed (chapters 6 and 8); two texts side by side.
 *
 *  A text is read as the model would: its first token, then the text's own, with the destination
 *  at the last one. A keystroke is answered at once with tokens, shades and the summaries at the
 *  end; the summaries of earlier prefixes follow in slices, which the next keystroke cuts short. */

import { largest } from "../engine/linalg.js";
import {
  FEWEST,
  LOUD,
  LayerReader,
  TextReading,
  differing,
  leading,
  mostAdding,
  standing,
  tokenCount,
} from "../engine/reading.js";
import { latest, nextTurn, sliced } from "../engine/slices.js";
import { checkbox, headChooser, pick, slider } from "../ui/controls.js";
import {
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
import { keyed } from "../ui/keyed.js";
import { COLOURS } from "../ui/marks.js";
import { band, chart, legend, line, readable, rule } from "../ui/plot.js";
import { layerOf } from "../ui/source.js";
import { below, belowOrLeft, circuitHeads, heard, kept, sound, turn } from "../ui/state.js";
import { shadeKey, shadedTokens, whyHere } from "../ui/tokens.js";
import { csvButton } from "../ui/csv.js";
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
 *  @typedef {import("../engine/reading.js").Reference} Reference
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

// ---------------------------------------------------------------- what is on the page

/** A list of neurons. @param {string} caption @param {string} whose @param {string[]} figures titles
 *  @param {string} words title of the tokens @param {(neuron: number) => void} onChoose */
function neuronTable(caption, whose, figures, words, onChoose) {
  const columns = [{ words: "neuron" }, ...figures.map((title) => ({ figures: title })), { words }];
  const made = table({ kind: "ctx-reader-table", caption, columns, rows: [] });
  const body = /** @type {HTMLElement} */ (made.querySelector("tbody"));
  let chosen = -1;
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
  const show = (/** @type {Listed[]} */ listed, /** @type {number} */ now) => {
    chosen = now;
    fill(listed);
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
 *  @param {(neuron: number) => void} onChoose @param {() => void} onCaret
 *  @param {(from: number) => void} onWindow */
function textPart(label, limit, onInput, onChoose, onCaret, onWindow) {
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
  for (const moved of ["keyup", "pointerup"]) box.addEventListener(moved, onCaret);
  const parts = {
    box,
    count: element("p", { class: "ctx-quiet ctx-reader-count" }),
    note: element("p", { class: "ctx-quiet", role: "status" }),
    window: slider({
      label: "The window begins behind token",
      min: 0,
      max: 1,
      value: 0,
      format: grouped,
      onInput: onWindow,
    }),
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
    element("div", {}, parts.note, parts.window), // one row of the grid that both texts share
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
 *    at: number | null, from: number, names: string[], apart: Set<number>,
 *    terms: Float64Array | null, reference: Reference | null, written: string, painted: string,
 *    mark: (place: number) => void, shade: (values: ArrayLike<number>) => void,
 *    move: (place: number) => void, explain: () => void}} Side a text: its part of the page, what is
 *    known of it, where its window begins, the tokens in which it is not the other text, and where it
 *    is read: `at` (null: at its end), `mark` and `shade` in the text, `move` in the drawing; `explain`
 *    says why */

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
    there !== null && there > read ? leftOut(reading.from, read, there) : null,
    value.length >= maxLength ? `The box keeps ${several(maxLength, "character")}.` : null,
  ];
  const said = note.filter((sentence) => sentence !== null).join(" ");
  if (part.note.textContent !== said) part.note.textContent = said;
}

/** @param {number} from @param {number} read @param {number} total */
function leftOut(from, read, total) {
  const which = from
    ? `Tokens ${grouped(from + 1)} to ${grouped(from + read)}`
    : `The first ${grouped(read)}`;
  return `${which} of ${several(total, "token")} are read: the model’s context holds no more.`;
}

/** What there is to say of a text without a context. @param {TextReading} reading */
function silence({ n }) {
  return n < 1
    ? "Nothing to read yet."
    : "One token stands at the destination alone: a context begins with the next.";
}

/** @param {Side} side @param {number} most strength of a full shade
 *  @param {(place: number) => void} onPick */
function showTokens(side, most, onPick) {
  const { part, reading, terms, names, apart } = side;
  const tokens = [`${START}\u2009`, ...reading.stretches];
  const values = terms ?? new Float64Array(tokens.length);
  const options = { most, digits: digitsFor(most), names, apart };
  const made = shadedTokens(tokens, values, { ...options, onPick: terms ? onPick : undefined });
  [side.mark, side.shade] = [made.mark, made.shade];
  made.querySelector(".ctx-token")?.setAttribute("dir", "ltr"); // the start is no word of the text's language
  part.tokens.replaceChildren(made);
}

/** The running summaries of a text by both circuits.
 *  @param {Side} side @param {number} neuron
 *  @param {{x: number, y: [number, number]}} domain @param {number} shade @param {number} width
 *  @param {(place: number) => void} onMove */
function runningSummary(side, neuron, domain, shade, width, onMove) {
  const { part, reading, names, reference } = side;
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
    const adds = `Token ${place}, “${names[place]}”, adds ${signed(side.terms?.[place] ?? NaN, finer)}`;
    return `${adds}. ${upTo}: ${a} by the paper’s circuit, ${b} self-normalised.`;
  };
  const label = `Read the ${part.label.toLowerCase()} token by token`;
  const value = Math.min(side.at ?? reading.n, reading.n);
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
  /** @param {Model} model @param {HTMLElement} el @param {Layer} layer */
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
    this.reshade = eachFrame(() => this.ended || this.shadeAgain());
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
    this.cursor = this.#cursorBox();
    this.described = "";
    this.listedOf = "";
    this.width = 400;
    this.about = element("p", { class: "ctx-reader-about" });
    this.key = element("p", { class: "ctx-quiet" });
    this.method = element("p", { class: "ctx-quiet" });
    this.ways = waysOn(model);
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
        () => this.atCaret(side),
        (from) => {
          side.from = from;
          this.redraw();
        },
      ),
      reading: new TextReading(this.reader),
      /** @type {Reference | null} */ reference: null,
      /** @type {string | null} */ full: null,
      /** @type {number | null} */ total: null,
      /** @type {number | null} */ at: null,
      from: 0,
      /** @type {string[]} */ names: [],
      /** @type {Set<number>} */ apart: new Set(),
      /** @type {Float64Array | null} */ terms: null,
      mark: () => {},
      shade: () => {},
      move: () => {},
      explain: () => {
        const { neuron } = this.now();
        const { reading, part } = side;
        const at = Math.min(side.at ?? reading.n, reading.n);
        part.why.root.hidden = !reading.speaks || neuron === null;
        if (reading.speaks && neuron !== null)
          part.why.show(side.names[at], () => reading.parts(neuron, at, this.upTo(side)));
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
      element("div", { class: "ctx-controls" }, this.heads, asked, this.cursor.root),
      this.about,
      this.key,
      element(
        "div",
        { class: "ctx-split ctx-reader" },
        this.sides.map(({ part }) => part.root),
      ),
      this.between.root,
      element(
        "p",
        {},
        csvButton("Terms as CSV", () => this.termsTable()),
      ),
      this.ways.root,
      this.method,
      ...this.#sharing().flatMap((node) => node ?? []),
    );
  }

  /** Whether shades are those of the whole text or of what stands before the cursor. */
  #cursorBox() {
    const box = checkbox(null, () => turn(this.model, { shades: box.checked ? "cursor" : "end" }));
    const label = "Shades follow the cursor: what the text says up to there";
    return { box, root: element("label", { class: "ctx-control" }, box, " ", label) };
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
      stateButtons(model),
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
      shades: model.get("shades") === "cursor" ? "cursor" : "end",
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
      [side.at, side.from] = [null, 0];
      this.auto = null;
    });
    const { text, other } = this.model.first ?? {};
    if (this.keep) this.keep.checked = texts[0] !== text || texts[1] !== other;
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
      text: shared ? (opening ? "" : text) : model.first?.text,
      other: shared ? (opening ? "" : other) : model.first?.other,
      ...(model.get("neuron") === -1 && this.auto !== null ? { neuron: this.auto } : {}),
    });
    this.telling = false;
    if (keep) this.lost().then((said) => (this.unkept.textContent = said));
  }

  /** Which texts an address does not hold though it should, as a sentence. */
  async lost() {
    const { model } = this;
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

  /** The last token that the shades know of. @param {Side} side @returns {number} */
  upTo({ reading, at }) {
    const cursor = this.now().shades === "cursor";
    return cursor
      ? Math.min(Math.max(at ?? reading.n, Math.min(1, reading.n)), reading.n)
      : reading.n;
  }

  /** Reads a text at a token, in the text and in the drawing. @param {Side} side
   *  @param {number} place */
  readAt(side, place) {
    const { reading } = side;
    side.at = place === reading.n ? null : place;
    side.mark(place);
    side.move(place);
    if (this.now().shades === "cursor") this.reshade();
    else side.explain();
  }

  /** What another cursor changes: not the lines, which are of all prefixes. */
  shadeAgain() {
    const { neuron } = this.now();
    for (const side of this.sides) {
      if (neuron === null || !side.terms) continue;
      side.terms = side.reading.terms(neuron, this.upTo(side));
      side.shade(side.terms);
      const place = Math.min(side.at ?? side.reading.n, side.reading.n);
      side.mark(place);
      side.move(place);
      side.explain();
    }
  }

  /** Where the shades follow the cursor, a text is read where a hand writes. @param {Side} side */
  atCaret(side) {
    if (this.now().shades !== "cursor" || !side.reading.speaks) return;
    const { box } = side.part;
    const place = side.reading.placeOf(box.selectionStart, box.value);
    if (place !== (side.at ?? side.reading.n)) this.readAt(side, place);
  }

  /** What follows a keystroke or a turn at once. */
  follow() {
    const { heads } = this.now();
    for (const side of this.sides) {
      const { reading, part } = side;
      const written = `${heads} ${side.from} ${part.box.value}`;
      if (side.written === written) continue;
      if (String(reading.heads) !== String(heads)) side.reference = null;
      reading.take(part.box.value, heads, side.from);
      [side.written, side.from] = [written, reading.from];
      side.names = [START, ...reading.stretches.map(nameInText)];
      part.window.hidden = !reading.spare;
      part.window.update(reading.from, { max: reading.spare });
      if (part.box === focusIn(this.el)) this.atCaret(side);
    }
    this.compare();
    this.paint();
    this.work();
  }

  /** Says in which tokens the texts differ, if they have most in common: else there is no telling. */
  compare() {
    const texts = this.sides.map(({ reading }) => reading.ids);
    const apart = differing(texts[0], texts[1]);
    const alike = apart.every((places, i) => 2 * places.size <= texts[i].length);
    this.sides.forEach((side, i) => (side.apart = alike ? apart[i] : new Set()));
  }

  /** Draws what is known. */
  paint() {
    const { heads, neuron, shades } = this.now();
    this.width = this.sides[0].part.picture.clientWidth || 400; // asked before anything changes
    this.heads.update(heads);
    if (neuron !== null && focusIn(this.el) !== this.neuron) this.neuron.value = String(neuron);
    this.cursor.box.checked = shades === "cursor";
    /** @param {Side} side @param {number} [upTo] */
    const termsOf = ({ reading }, upTo) =>
      neuron !== null && reading.speaks ? reading.terms(neuron, upTo) : null;
    // a full shade is that of the whole texts, wherever the cursor stands
    const most = Math.max(...this.sides.map((side) => largest(termsOf(side) ?? [])));
    this.shade = roundedUp(most);
    for (const side of this.sides) side.terms = termsOf(side, this.upTo(side));
    for (const side of this.sides) this.paintSide(side, neuron);
    this.showLists(neuron);
    this.caption(neuron);
    const state = { heads, ...(neuron === null ? {} : { neuron }) };
    this.ways.update([
      { page: "explorer", label: "This neuron in the explorer", state },
      { page: "reader", label: "Open the live reader", state: { ...state, ...this.given() } },
    ]);
  }

  /** The texts that may stand in an address: those that the page gave, or all where a reader asked. */
  given() {
    const { model, keep } = this;
    const shared = Object.entries({ text: 0, other: 1 }).filter(
      ([name, i]) => keep?.checked || model.first?.[name] === this.sides[i].part.box.value,
    );
    return Object.fromEntries(shared.map(([name, i]) => [name, this.sides[i].part.box.value]));
  }

  /** @param {Side} side @param {number | null} neuron */
  paintSide(side, neuron) {
    const { reading, terms } = side;
    sayCount(side, this.reader.room);
    const painted = `${neuron} ${terms ? this.shade : ""} ${side.written} ${[...side.apart]}`;
    if (side.painted !== painted) showTokens(side, this.shade, (place) => this.readAt(side, place));
    else if (terms) side.shade(terms);
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

  /** What each token of both texts adds to the neuron, as a file.
   *  @returns {import("../ui/csv.js").Table} */
  termsTable() {
    const { heads, neuron } = this.now();
    const rows = this.sides.flatMap(({ terms, reading, names }, i) =>
      Array.from(terms ?? [], (term, place) => [
        i + 1,
        place,
        reading.ids[place],
        names[place],
        term,
      ]),
    );
    const of = [`neuron ${neuron ?? ""}`, `heads ${heads.join(" ")}`];
    const titles = ["text", "place", "token id", "token", "adds"];
    return { name: [this.layer.model, ...of], titles, rows };
  }

  /** The running summaries of a text, on axes that both texts share. @param {Side} side */
  drawSums(side) {
    const { part, reading, terms, reference } = side;
    const { neuron } = this.now();
    part.silence.hidden = reading.speaks;
    part.silence.textContent = reading.speaks ? "" : silence(reading);
    if (!terms || neuron === null) return part.picture.replaceChildren();
    const onMove = (/** @type {number} */ place) => this.readAt(side, place);
    const picture = runningSummary(side, neuron, this.axes(neuron), this.shade, this.width, onMove);
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
            `What each token adds to neuron ${neuron} at ` +
              `${this.now().shades === "end" ? "the text’s end" : "the cursor"}, by the paper’s circuit. `,
            ...shadeKey(most, digits),
            ...(this.sides.some(({ apart }) => apart.size)
              ? [" Underlined: the tokens in which the texts differ."]
              : []),
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
        const terms = { terms: reading.terms(neuron), names: this.sides[i].names, sign: 1 };
        listed[i].push({ neuron, figures, tokens: mostAdding([terms], NAMED) });
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
    const texts = this.sides.map(({ reading, names }, i) => ({
      terms: reading.terms(neuron),
      names,
      sign: i ? -sign : sign,
    }));
    return mostAdding(texts, NAMED);
  }

  /** Says which tokens drive the neuron. @param {() => Promise<void>} pause */
  async describe(pause) {
    const { heads, neuron } = this.now();
    const key = `${heads} ${neuron}`;
    if (neuron === null || this.described === key) return;
    const drivers = this.reader.drivers(neuron, heads);
    const spelt = (/** @type {number} */ id) => tokenName(this.reader.tokenizer.decode([id]));
    const [up, down] = [drivers.up.map(spelt), drivers.down.map(spelt)];
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
    const traits = ["heads", "neuron", "shades"];
    const [model, place] = [this.model, this.el];
    const ends = [
      heard(model, ["text", "other"], () => this.fill()),
      kept({ model, place, traits, state: () => this.now(), update: () => this.follow() }),
    ];
    return () => {
      ends.forEach((end) => end());
      clearTimeout(this.waiting);
      this.ended = true;
      this.task(async () => {});
    };
  }
}

/** @param {{model: Model, el: HTMLElement}} view traits: text, other, neuron, heads, shades */
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
