/** What Python has recorded for a view, in the page's state: whether all of it is there. */

import { failed } from "./dom.js";
import { sound } from "./state.js";

/** @typedef {(value: any) => boolean} Test
 *  @typedef {Test | any[] | {[name: string]: any}} Shape a test, a list of one shape, or shapes by their names */

/** Whether a value has a shape. @param {any} value @param {Shape} shape @returns {boolean} */
export function fits(value, shape) {
  if (typeof shape === "function") return shape(value);
  if (!Array.isArray(shape))
    return Object.entries(shape).every(([name, of]) => fits(value?.[name], of));
  return Array.isArray(value) && value.every((held) => fits(held, shape[0]));
}

/** A list of one shape that holds something. @param {Shape} shape @returns {Test} */
export function some(shape) {
  return (value) => fits(value, [shape]) && value.length > 0;
}

export const isText = (/** @type {any} */ value) => typeof value === "string";
export const isNumber = (/** @type {any} */ value) => Number.isFinite(value);
export const isSize = (/** @type {any} */ value) => Number.isFinite(value) && value >= 0;
export const isCount = (/** @type {any} */ value) => Number.isInteger(value) && value >= 0;

/** One shape under several names. @param {string[]} names @param {Shape} shape */
export function each(names, shape) {
  return Object.fromEntries(names.map((name) => [name, shape]));
}

/** Whether there are so many lists, each of one length.
 *  @param {any[][]} lists @param {number} count @param {number} length */
export function sized(lists, count, length) {
  return lists.length === count && lists.every((list) => list.length === length);
}

/** The trait `record`, if it is whole; else one line says so in the place of the view.
 *  @param {Model} model @param {HTMLElement} place @param {Test} isWhole @returns {any} */
export function recordOf(model, place, isWhole) {
  const record = sound(model, "record", isWhole, null);
  if (!record)
    failed(place, new Error("This view’s record is damaged. Reload the page to try again."));
  return record;
}
