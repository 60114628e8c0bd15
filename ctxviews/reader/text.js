/** One text: its box, its tokens, its lines, its neurons. */

import { pick, term, textBox } from "../ui/controls.js";
import { element, numberCell, quiet, scrolling, table } from "../ui/dom.js";
import { keyed } from "../ui/keyed.js";
import { inStep } from "../ui/state.js";
import { shadedTokens } from "../ui/tokens.js";
import { whyHere } from "../ui/why.js";
import { digitsFor, grouped, nameInText, several, tokenMarks, tokenName } from "../ui/words.js";
import { pictureSection } from "./lines.js";
import { wholeSection } from "./whole.js";

/** @import { Kept, Listed, Text } from "./scene.js"
 *  @typedef {ReturnType<typeof textSection>} Side */

/** @param {string} label @param {{reader: LayerReader, again: () => void, choose: (neuron: number) => void,
 *    typed: () => void}} tools */
export function textSection(label, tools) {
  const { reader } = tools;
  const start = tokenName(reader.tokenizer.decode([reader.layer.bos])); // in front of every text
  /** @type {Kept} */
  const side = { taken: undefined, names: [], at: null, kept: null };
  const { box, title } = textBox(label, reader.characters, tools.typed);
  const count = element("p", { class: "ctx-quiet ctx-reader-count", role: "status" });
  const hand = { held: () => Math.min(side.kept ?? Infinity, end()), show: read, hold };
  const tokens = tokensSection(hand, start, () => side.kept);
  const silent = quiet();
  const picture = pictureSection(label, hand);
  const whole = wholeSection(label, hand);
  const why = whyHere();
  const figures = [term("z"), term("summary")];
  const list = neuronTable(
    "Neurons that this text excites most",
    label,
    figures,
    "tokens that add most",
    tools.choose,
  );

  const end = () => side.taken?.reading.n ?? 0;
  /** What a hand points at is there at once; the rest with the next picture. @param {number} place */
  function read(place) {
    side.at = place === end() ? null : place;
    tokens.mark(place);
    picture.mark(place);
    tools.again();
  }
  /** Pointing reads, pressing keeps. @param {number | null} place */
  function hold(place) {
    read(place ?? end());
    side.kept = side.at;
    tokens.hold();
  }
  const update = inStep((/** @type {Text & {width: number}} */ text, changed) => {
    const { reading, terms, neuron, at } = text;
    if (changed("reading")) count.textContent = countInWords(text, reader);
    tokens.update({ ...text, picks: terms !== null });
    silent.hidden = reading.hasContext;
    silent.textContent = reading.hasContext ? "" : silence(reading);
    picture.update(text);
    whole.update(text);
    why.root.hidden = terms === null;
    if (neuron !== null && terms && changed("reading", "neuron", "at"))
      why.show({ name: text.names[at], away: `${reading.n - at} back`, neuron }, () =>
        reading.parts(neuron, at),
      );
    list.show(text.listed, neuron);
  });
  const root = element(
    "section",
    { "aria-label": label },
    title,
    box,
    count,
    tokens.root,
    silent,
    why.root, // where the token is
    picture.root,
    whole.root,
    list.root,
  );
  return {
    root,
    box,
    update,
    side,
    forget: () => (side.taken = undefined), // its tokens contribute more now
    width: () => picture.root.clientWidth || 400,
    /** @param {string} text @returns {boolean} whether it is another */
    fill(text) {
      const held = text.slice(0, reader.characters);
      if (box.value === held) return false;
      box.value = held;
      side.at = side.kept = null;
      tokens.hold();
      return true;
    },
    /** @param {number[]} heads */
    take(heads) {
      const text = box.value.slice(0, reader.characters); // what no hand has put there may be longer
      const taken = reader.take(text, heads, side.taken);
      if (taken.stretches !== side.taken?.stretches)
        side.names = [start, ...taken.stretches.map(nameInText)];
      return (side.taken = taken);
    },
  };
}

/** How many tokens a text has, and which are read. @param {Text} text @param {LayerReader} reader */
function countInWords({ counted, text, ids }, { room, layer, characters }) {
  const missing = ids.filter((id) => !layer.hasToken(id)).length;
  const notes = [
    counted > room
      ? `The first ${grouped(room)} of ${several(counted, "token")} are read.`
      : `${several(counted, "token")}; up to ${grouped(room)} are read.`,
    missing ? `The page has no data for ${several(missing, "token")}: they add nothing.` : "",
    text.length >= characters ? `The box keeps ${several(characters, "character")}.` : "",
  ];
  return notes.filter((note) => note).join(" ");
}

/** A line in place of what a text without a context does not have. @param {Reading} reading */
function silence({ n }) {
  if (n < 1) return "Nothing to read yet.";
  if (n > 1) return "Its summary follows with the weights.";
  return "One token stands at the destination alone: a context begins with the next.";
}

/** A text's tokens with their shades. @param {Omit<Hand, "at">} hand @param {string} start
 *  @param {() => number | null} kept the place that is held */
function tokensSection(hand, start, kept) {
  const root = element("div", { class: "ctx-reader-text", dir: "auto" });
  /** @type {ReturnType<typeof shadedTokens> | null} */ let made = null;
  const update = inStep((/** @type {Text & {picks: boolean}} */ text, changed) => {
    const { stretches, names, shade, picks } = text;
    const digits = digitsFor(shade);
    const tokens = [`${start}\u2009`, ...stretches];
    const anew = changed("picks");
    if (anew) {
      const values = text.terms ?? new Float64Array(tokens.length);
      const options = { most: shade, digits, names, hand: picks ? hand : undefined };
      made = shadedTokens(tokens, values, options);
      made.hold(kept());
      made.querySelector(".ctx-token")?.setAttribute("dir", "ltr"); // the start is no word of the text's language
      root.replaceChildren(made);
    } else {
      if (changed("ids")) made?.write(tokens, names);
      if (text.terms && changed("terms", "shade")) made?.shade(text.terms, shade, digits);
      else if (changed("ids")) made?.shade(new Float64Array(tokens.length));
    }
    // tokens that were written have no frame; the last one has it when it is read
    const written = anew || changed("ids");
    if (written ? text.at < text.reading.n : changed("at")) made?.mark(text.at);
  });
  return {
    root,
    update,
    mark: (/** @type {number} */ place) => made?.mark(place),
    hold: () => made?.hold(kept()),
  };
}

/** A list of neurons. @param {string} caption @param {string} whose @param {(string | Node)[]} figures titles
 *  @param {string} words title of the tokens @param {(neuron: number) => void} onChoose */
export function neuronTable(caption, whose, figures, words, onChoose) {
  const columns = ["neuron", ...figures.map((title) => [title]), words];
  const made = table({ kind: "ctx-reader-table", caption, columns, rows: [] });
  /** @type {number | null} */ let chosen = null;
  const fill = keyed(
    made.tBodies[0],
    (/** @type {Listed} */ { neuron }) => neuron,
    ({ neuron }) => {
      const choose = pick(String(neuron), () => onChoose(neuron), `Read neuron ${neuron}`);
      const cells = figures.map(() => numberCell(""));
      return element("tr", {}, element("td", {}, choose), cells, element("td"));
    },
    (row, { neuron, figures, tokens }) => {
      const [choose, ...cells] = [...row.children];
      choose.firstElementChild?.setAttribute("aria-pressed", String(neuron === chosen));
      figures.forEach((figure, i) => (cells[i].textContent = figure));
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
