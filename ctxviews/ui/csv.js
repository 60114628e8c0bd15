/** Tables in files. */

import { element } from "./dom.js";

/** A number has the digits that hold, six of them; a token that a spreadsheet would take for a formula is
 *  quoted as one types it there. @param {string | number} value */
function field(value) {
  if (typeof value === "number") return String(Number(value.toPrecision(6)));
  return `"${value.replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
}

/** Saves a table as a file of comma-separated values. @param {string} name @param {(string | number)[][]} rows */
export function saveCsv(name, rows) {
  const lines = rows.map((row) => `${row.map(field).join(",")}\r\n`);
  const held = ["\ufeff", ...lines]; // Excel recognises UTF-8 by its first mark
  const href = URL.createObjectURL(new Blob(held, { type: "text/csv" }));
  element("a", { href, download: `${name.replace(/[^\w.]+/g, "-")}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000); // a browser may ask first where to
}

/** The rows of comma-separated values by their titles. @param {string} text @returns {Record<string, string>[]} */
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
