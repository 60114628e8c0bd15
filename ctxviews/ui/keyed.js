/** Rows that stay while their contents change. */

import { focusIn } from "./dom.js";

/** A function that shows a list in a place: one row an item, found again by its key, so that a
 *  keyboard keeps its place and what has not changed is not made anew.
 *  @template T @template {HTMLElement} R
 *  @param {HTMLElement} place @param {(item: T) => any} key @param {(item: T) => R} make
 *  @param {(row: R, item: T) => void} fill @returns {(items: T[]) => void} */
export function keyed(place, key, make, fill) {
  /** @type {Map<any, R>} */ let held = new Map();
  return (items) => {
    const focused = focusIn(place);
    const now = new Map(items.map((item) => [key(item), held.get(key(item)) ?? make(item)]));
    for (const item of items) fill(/** @type {R} */ (now.get(key(item))), item);
    held = now;
    const rows = [...now.values()];
    const stand = rows.length === place.children.length;
    if (!stand || rows.some((row, i) => row !== place.children[i])) place.replaceChildren(...rows);
    if (focused?.isConnected && focusIn(place) !== focused) focused.focus();
  };
}
