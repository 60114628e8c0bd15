/** What chapter 6 found of every neuron: its label, and what that is worth. */

/** @typedef {{label: string, auc: number, chance: number, weak: boolean, top: number, words: string}} Label in the
 *    words of the passages; its AUC on half B, what one in twenty random mixtures with this label reaches (NaN: none
 *    has it), `weak` if that is no less; how far tokens push the neuron, and those on which the label rests most */

/** Every neuron's label; none where there is no such file, or where it cannot be had.
 *  @param {URL | undefined} source @returns {Promise<Map<number, Label>>} */
export async function labelsOf(source) {
  if (!source) return new Map();
  const answer = await fetch(source).catch(() => null);
  const rows = answer?.ok ? csvRows(await answer.text()) : [];
  return new Map(
    rows.map((row) => {
      const label = row.label
        .replace("bible-kjv", "scripture")
        .replace(/^(biology|economics|history|philosophy|physics|poetry)-/, "$1, ")
        .replaceAll("-", " ");
      const [auc, chance] = [Number(row.auc), Number(row.null || NaN)];
      const numbers = { auc, chance, weak: auc <= chance, top: Number(row.top) };
      return [Number(row.neuron), { label, ...numbers, words: row.by_drive ?? "" }];
    }),
  );
}

/** The rows of comma-separated values by their titles. @param {string} text @returns {Record<string, string>[]} */
function csvRows(text) {
  const fields = /(?:"((?:[^"]|"")*)"|([^",]*))(?:,|$)/g;
  const lines = text.trim().split(/\r?\n/);
  const [titles, ...rows] = lines.map((line) =>
    Array.from(
      line.matchAll(fields),
      ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain,
    ),
  );
  return rows.map((row) => Object.fromEntries(titles.map((title, i) => [title, row[i]])));
}
