/** A table of labelled neurons that can be searched and sorted: what chapter 6 found, and what that is
 *  worth. */

import { button, field, pick } from "./controls.js";
import { csvRows } from "./csv.js";
import { element, failed, numberCell, quiet, scrolling, table } from "./dom.js";
import { keyed } from "./keyed.js";
import { figure, grouped, several } from "./words.js";

/** @typedef {Record<string, string>} Row by the titles of chapter 6's file, with `above`, the tokens that
 *    weigh most and their languages; `from` is the label as the file has it */

const ROWS = 20; // at first, and as many more at a time
/** @type {{title: string, from: string, digits?: number, hint?: string}[]} */
const COLUMNS = [
  { title: "neuron", from: "neuron", digits: 0 },
  { title: "label", from: "label" },
  { title: "AUC", from: "auc", digits: 3, hint: "AUC on half B" },
  { title: "mixtures", from: "null", digits: 3, hint: "what one mixture in twenty exceeds" },
  { title: "above", from: "above", digits: 3, hint: "AUC above the mixtures’" },
  { title: "difference", from: "difference", digits: 2 },
  { title: "top", from: "top", digits: 1 },
  { title: "tokens that drive it", from: "by_drive" },
  { title: "tokens that weigh most", from: "first", hint: "over the vocabulary, by the weights" },
];
const LANGUAGES = (
  "Arabic Persian Urdu/Cyrillic Russian Ukrainian Bulgarian/Devanagari Hindi/Greek/Han Chinese " +
  "Japanese/Hangul Korean/Hebrew/Hiragana Japanese/Katakana Japanese/Thai"
)
  .split("/") // a script and what is written in it
  .map((names) => ({ names, letters: new RegExp(`\\p{Script=${names.split(" ")[0]}}`, "u") }));
const ABOUT =
  "Label: the domain whose texts lift the neuron’s summary most, on half A of the held-out texts, for " +
  "the stable heads (chapter 6). AUC: the chance that on half B a text of that domain has the larger summary " +
  "than another text. Mixtures: what one in twenty random mixtures of neurons with the same label " +
  "reaches. A row in bold has more than that; the others’ labels say little about the neuron. Tokens that drive it: " +
  "those of its domain’s texts; that weigh most: those of the whole vocabulary. These can be searched by their " +
  "script and its languages, too: Cyrillic or Russian, Han or Chinese. Labels have the names of the passages’ " +
  "domains: scripture is bible-kjv in chapter 6.";

/** A label in the words that passages have for their domains. @param {string} label */
const labelName = (label) => (label === "bible-kjv" ? "scripture" : label.replaceAll("-", " "));

/** @param {Row[]} rows @param {string} typed @param {string} by @param {boolean} falling */
export function foundRows(rows, typed, by, falling) {
  const words = typed.toLowerCase().match(/\S+/g) ?? [];
  const searched = (
    /** @type {Row} */ { neuron, label, from, by_drive: driving, first, languages },
  ) => `${neuron} ${label} ${from} ${driving} ${first} ${languages}`.toLowerCase();
  const numeric = COLUMNS.find(({ from }) => from === by)?.digits !== undefined;
  const order = (/** @type {Row} */ a, /** @type {Row} */ b) =>
    numeric ? Number(a[by] || -1) - Number(b[by] || -1) : a[by].localeCompare(b[by], "en");
  return rows
    .filter((row) => words.every((word) => searched(row).includes(word)))
    .sort((a, b) => (falling ? -1 : 1) * order(a, b) || Number(a.neuron) - Number(b.neuron));
}

/** @typedef {{label: string, auc: string}} Label in the words of the passages, and its AUC on half B */

/** The file's rows; raises an Error if it cannot be had. @param {URL} source */
async function rowsOf(source) {
  const answer = await fetch(source);
  if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
  return csvRows(await answer.text());
}

/** Every neuron's label; none where there is no such file. @param {URL | undefined} source
 *  @returns {Promise<Map<number, Label>>} */
export async function labelsOf(source) {
  const rows = source ? await rowsOf(source).catch(() => []) : [];
  return new Map(
    rows.map(({ neuron, label, auc }) => [Number(neuron), { label: labelName(label), auc }]),
  );
}

/** @param {URL | undefined} source a file; none where there is no such table
 *  @param {(neuron: number) => string} firstOf the tokens that weigh most in a neuron
 *  @param {(neuron: number) => void} onChoose */
export function labelTable(source, firstOf, onChoose) {
  let [rows, by, falling, room, chosen] = [/** @type {Row[]} */ ([]), "above", true, ROWS, -1];
  const input = element("input", { type: "search", autocomplete: "off", spellcheck: "false" });
  const count = element("p", { class: "ctx-quiet", role: "status" });
  const more = button("More", () => show((room += ROWS)));
  const columns = COLUMNS.map(({ title, from, digits, hint }) => {
    const sort = () => {
      falling = by === from ? !falling : digits !== undefined && from !== "neuron";
      by = from;
      show((room = ROWS));
    };
    const press = pick(title, sort, hint);
    return digits === undefined ? press : [press];
  });
  const made = table({ columns, rows: [] });
  const heads = [...made.querySelectorAll("th")];
  for (const [i, { hint }] of COLUMNS.entries()) if (hint) heads[i].title = hint;
  const fill = keyed(
    made.tBodies[0],
    (/** @type {Row} */ { neuron }) => neuron,
    (row) =>
      element(
        "tr",
        { class: Number(row.above) > 0 ? "ctx-labels-beyond" : null },
        COLUMNS.map(({ from, digits }) => {
          const value = row[from] ?? "";
          if (from === "neuron")
            return numberCell(pick(value, () => onChoose(Number(value)), `Neuron ${value}`));
          if (digits === undefined) return element("td", {}, value);
          return numberCell(value ? figure(Number(value), digits) : "–");
        }),
      ),
    (made, { neuron }) => made.classList.toggle("ctx-chosen", Number(neuron) === chosen),
  );
  const show = (/** @type {number} */ upTo) => {
    const found = foundRows(rows, input.value, by, falling);
    count.textContent = `${grouped(found.length)} of ${several(rows.length, "neuron")}`;
    heads.forEach((head, i) => {
      if (COLUMNS[i].from !== by) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    });
    fill(found.slice(0, upTo));
    more.hidden = found.length <= upTo;
  };
  input.addEventListener("input", () => show((room = ROWS)));
  const held = element("div");
  const open = async () => {
    if (!root.open || rows.length || !source) return;
    try {
      rows = (await rowsOf(source)).map((row) => {
        const first = firstOf(Number(row.neuron));
        // empty where no mixture has its label
        const above = row.null && String(Number(row.auc) - Number(row.null));
        const scripts = LANGUAGES.filter(({ letters }) => letters.test(first));
        const languages = scripts.map(({ names }) => names).join(" ");
        const label = { label: labelName(row.label), from: row.label };
        return { ...row, ...label, above, first, languages };
      });
    } catch (error) {
      const why = /** @type {Error} */ (error).message;
      failed(held, new Error(`The table of labels cannot be had: ${why}.`));
      return;
    }
    held.replaceChildren(
      field("Search label, token, language or number", input),
      count,
      scrolling("Neurons and their labels", made),
      more,
      quiet(ABOUT),
    );
    show(room);
  };
  const title = element("summary", {}, "All neurons by label");
  const ways = { class: "ctx-labels", ontoggle: open, hidden: !source };
  const root = element("details", ways, title, held);
  return {
    root,
    /** @param {number} neuron that is looked at */
    update(neuron) {
      chosen = neuron;
      if (rows.length) show(room);
    },
  };
}
