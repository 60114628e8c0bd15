/** Tables in files. */

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
