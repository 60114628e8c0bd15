/** Why a token adds what it does to a neuron: the path that it takes, and the book's equation with one
 *  row per head. What is pointed at lights up in drawing, equation and sentence. */

import { largest } from "../engine/linalg.js";
import { element, numberCell, quiet, row, scrolling, table } from "./dom.js";
import { byHand } from "./pointer.js";
import { headStyle, lineMark } from "./marks.js";
import { lighting, pathDrawing } from "./path.js";
import { UNIT, digitsFor, signed, threeDigits, tokenMark } from "./words.js";

/** @typedef {{name: string, away: string, neuron: number}} Source a token, where it is, what it adds to */

const EQUATION = /** @type {const} */ ([
  ["kernel", "kernel"],
  ["content", "×\u00a0content"],
  ["denominator", "/\u00a0denominator"],
  ["value", "×\u00a0value"],
]);

/** In braces the words that light up, behind the part that they stand for where it has another name. */
const SENTENCE =
  "By its {place:distance} alone the {token} gets the {kernel}, the same from all heads that are on. {content:Content} over " +
  "{denominator} multiplies that: it makes the {row:attention}. Times the {value} that the head carries, this is what the " +
  `{neuron} gets, in ${UNIT}.`;

/** Opens into path and equation; nothing is computed while it is shut. */
export function whyHere() {
  const summary = element("summary");
  const place = element("div");
  /** @type {number | null} */ let held = null; // a head, whatever token comes next
  let explain = () => {};
  const ways = { class: "ctx-why", ontoggle: () => explain() };
  const root = element("details", ways, summary, place);
  lighting(place);
  const hold = (/** @type {number | null} */ head) => {
    held = head;
    explain();
  };
  const show = (/** @type {Source} */ source, /** @type {() => Part[]} */ of) => {
    summary.replaceChildren("Why here: what ", tokenMark(source.name), " adds, head by head");
    explain = () => {
      if (!root.open) return;
      const width = place.clientWidth || root.clientWidth;
      place.replaceChildren(...explained(source, of(), width, held, hold));
    };
    explain();
  };
  return { root, show };
}

/** @param {Source} source @param {Part[]} parts @param {number} width
 *  @param {number | null} held a head @param {(head: number | null) => void} onHold */
function explained(source, parts, width, held, onHold) {
  const digits = digitsFor(largest(parts.map(({ adds }) => adds))) + 1; // so that the rows add up
  const sizes = parts.map(({ adds }) => Math.abs(adds));
  const most = sizes.indexOf(Math.max(...sizes));
  const whole = parts.reduce((sum, { adds }) => sum + adds, 0);
  const drawing = element("div");
  const rows = parts.map((part, k) => {
    const factors = EQUATION.map(([name]) => lightCell(name, threeDigits(part[name])));
    const adds = lightCell("neuron", signed(part.adds, digits));
    const made = row([lineMark(headStyle(part.head)), String(part.head)], [...factors, adds]);
    made.dataset.row = String(k);
    return made;
  });
  const show = (/** @type {number} */ k) => {
    drawing.replaceChildren(pathOf(source, parts[k], whole, digits, width));
    rows.forEach((row, i) => row.classList.toggle("ctx-chosen", i === k));
  };
  const kept = parts.findIndex(({ head }) => head === held);
  const first = kept < 0 ? most : kept;
  const hold = (/** @type {number | null} */ k) => onHold(k === null ? null : parts[k].head);
  const at = (/** @type {MouseEvent} */ event) => {
    const row = /** @type {Element} */ (event.target).closest("[data-row]");
    return row && Number(row.getAttribute("data-row"));
  };
  const sum = [...EQUATION.map(() => element("td")), lightCell("neuron", signed(whole, digits))];
  const equation = table({
    kind: "ctx-figures",
    columns: [
      "head",
      ...EQUATION.map(([name, word]) => [lightWord(name, word)]),
      [lightWord("neuron", "=\u00a0adds")],
    ],
    rows: [...rows, row("all", sum, "ctx-why-sum")],
  });
  byHand(equation, { at, held: () => first, show, hold });
  show(first);
  const sentence = SENTENCE.split(/[{}]/).map((piece, i) => {
    const [part, word = part] = piece.split(":");
    return i % 2 ? lightWord(part, word) : piece;
  });
  return [drawing, quiet(sentence), scrolling("Why here, head by head", equation)];
}

/** @param {string} part @param {string} text */
function lightCell(part, text) {
  const cell = numberCell(text);
  cell.dataset.part = part;
  return cell;
}

/** @param {string} part @param {string} word */
function lightWord(part, word) {
  return element("span", { "data-part": part, tabindex: 0 }, word);
}

/** @param {Source} source @param {Part} part @param {number} whole what all heads add
 *  @param {number} digits @param {number} width */
function pathOf({ name, away, neuron }, { head, adds, ...part }, whole, digits, width) {
  const row = (part.kernel * part.content) / part.denominator;
  const values = {
    token: name,
    place: away,
    kernel: threeDigits(part.kernel),
    content: threeDigits(part.content),
    denominator: threeDigits(part.denominator),
    row: threeDigits(row),
    value: threeDigits(part.value),
    neuron: `${neuron}: ${signed(adds, digits)}`,
  };
  const alt =
    `The path of ${name}, ${away}, through head ${head}: kernel ${values.kernel} times content ` +
    `${values.content} over denominator ${values.denominator} is attention ${values.row}; times value ` +
    `${values.value} it adds ${signed(adds, digits)} to neuron ${neuron}.`;
  const share = `Head ${head} brings ${signed(adds, digits)} of ${signed(whole, digits)}.`;
  const words = element("figcaption", {}, share, " Press another in the table.");
  return element("figure", { class: "ctx-path-figure" }, words, pathDrawing(values, alt, width));
}
