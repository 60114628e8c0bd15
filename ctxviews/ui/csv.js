/** Tables as files. */

import { button } from "./controls.js";
import { element } from "./dom.js";

/** @param {any} value a number has the digits that hold, six of them; a token that a spreadsheet would
 *    take for a formula is quoted as one types it there @returns {string} */
function field(value) {
  if (typeof value === "number") return String(Number(value.toPrecision(6)));
  const cell = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

/** Saves a file of comma-separated values. @param {string[]} name in pieces @param {string[]} held */
function save(name, held) {
  const href = URL.createObjectURL(new Blob(held, { type: "text/csv" }));
  const pieces = name.filter((piece) => piece).map((piece) => piece.replace(/[^\w.]+/g, "-"));
  element("a", { href, download: `${pieces.join("-")}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000); // a browser may ask first where to
}

/** A button that saves a table as a file of comma-separated values, made when it is pressed.
 *  @param {string} label @param {() => Table} made */
export function csvButton(label, made) {
  return button(label, () => {
    const { name, titles, rows } = made();
    const bytes = "\ufeff"; // by which Excel recognises UTF-8
    const lines = [titles, ...rows].map((row) => `${row.map(field).join(",")}\r\n`);
    save(name, [bytes, ...lines]);
  });
}

/** The rows of such a file by their titles. @param {string} text @returns {Record<string, string>[]} */
export function csvRows(text) {
  /** @type {string[][]} */ const rows = [[]];
  const fields = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g;
  for (const [, quoted, plain, end] of text.matchAll(fields)) {
    rows[rows.length - 1].push(quoted?.replaceAll('""', '"') ?? plain);
    if (end !== ",") rows.push([]);
  }
  const [titles, ...others] = rows;
  return others
    .filter((row) => row.length === titles.length)
    .map((row) => Object.fromEntries(titles.map((title, i) => [title, row[i]])));
}
