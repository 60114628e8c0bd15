/** A few numbers as bars. */

import { largest } from "../engine/linalg.js";
import { pick } from "../ui/controls.js";
import { element, numberCell, unseenHead } from "../ui/dom.js";
import { DOWN, UP } from "../ui/marks.js";
import { digitsFor, signed } from "../ui/words.js";

/** Names to press with a number and a bar each, as long as the largest of `among` allows.
 *  @param {string} title @param {string} kind
 *  @param {{label: string, spoken: string, value: number, onPick: (() => void) | null}[]} rows
 *  @param {ArrayLike<number>} among @returns {HTMLElement} */
export function barTable(title, kind, rows, among) {
  const most = largest(among) || 1;
  const digits = digitsFor(most);
  const made = rows.map(({ label, spoken, value, onPick }) => {
    const bar = element("span", { class: "ctx-neurons-bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", (Math.abs(value) / most).toFixed(3));
    bar.style.backgroundColor = value < 0 ? DOWN : UP;
    const named = element("td", {}, onPick ? pick(label, onPick, spoken) : label, bar);
    return element("tr", {}, named, numberCell(signed(value, digits)));
  });
  return element(
    "table",
    { class: "ctx-neurons-barred" },
    element("caption", {}, title),
    unseenHead([kind, "contribution"]),
    element("tbody", {}, made),
  );
}
