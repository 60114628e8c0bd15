/** What Python has recorded for a view, in the page's state: whether all of it is there. A shape is a
 *  test, from which follows what has passed it. */

import { failed } from "./dom.js";
import { sound } from "./state.js";

/** @template T
 *  @typedef {{(value: any, sizes?: Record<string, number>): boolean, held?: T}} Test of a value, given how
 *    long lists are by what they are of */
/** @template T @typedef {T extends Test<infer Held> ? Held : never} Infer */

/** @type {Test<string>} */
export const isText = (value) => typeof value === "string";
/** @type {Test<number>} */
export const isNumber = (value) => Number.isFinite(value);
/** @type {Test<number>} */
export const isSize = (value) => Number.isFinite(value) && value >= 0;
/** @type {Test<number>} */
export const isCount = (value) => Number.isInteger(value) && value >= 0;

/** A test that nothing at all passes as well. @template T @param {Test<T>} test @returns {Test<T | null>} */
export function orNone(test) {
  return (value, sizes) => value === null || test(value, sizes);
}

/** One test under several names.
 *  @template {string} const Name
 *  @template T
 *  @param {Name[]} names @param {Test<T>} test */
export function each(names, test) {
  return /** @type {{[name in Name]: Test<T>}} */ (
    Object.fromEntries(names.map((name) => [name, test]))
  );
}

/** These fields; the lengths of lists hold for all of them.
 *  @template {Record<string, Test<any>>} Fields @param {Fields} fields
 *  @returns {Test<{[Name in keyof Fields]: Infer<Fields[Name]>}>} */
export function object(fields) {
  return (value, sizes) => {
    const own = { ...sizes };
    return Object.entries(fields).every(([name, test]) => test(value?.[name], own));
  };
}

/** A list that holds something; all that are of one thing are as long as each other.
 *  @template T @param {Test<T>} test @param {string} [of] @param {number} [least] @returns {Test<T[]>} */
export function list(test, of, least = 1) {
  return (value, sizes = {}) => {
    if (!Array.isArray(value) || value.length < least) return false;
    if (of) sizes[of] ??= value.length;
    return (!of || value.length === sizes[of]) && value.every((held) => test(held, sizes));
  };
}

/** The trait `record`, if it is whole; else one line in the place of the view explains it.
 *  @template T @param {Model} model @param {HTMLElement} place @param {Test<T>} isWhole
 *  @returns {T | null} */
export function recordOf(model, place, isWhole) {
  const record = sound(model, "record", isWhole, null);
  if (!record)
    failed(place, new Error("This view’s record is damaged. Reload the page to try again."));
  return record;
}
