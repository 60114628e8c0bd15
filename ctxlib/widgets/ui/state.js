/** The state of a view: its traits, sound; and what follows when one is turned. */

import { atWidth, eachFrame } from "./dom.js";

/** @typedef {import("../engine/layer.js").Layer} Layer */

/** The value of a trait if it is sound, else what it was at first, else `otherwise`; and puts it
 *  right, so that addresses and controls say the same.
 *  @template T @param {any} model @param {string} name @param {(value: any) => boolean} test
 *  @param {T} otherwise @returns {T} */
export function sound(model, name, test, otherwise) {
  const value = model.get(name);
  if (test(value)) return value;
  const first = model.first?.[name];
  const better = test(first) ? first : otherwise;
  model.set(name, better);
  return better;
}

/** @param {number} size @returns {(value: any) => boolean} whether it is one of 0 ... size - 1 */
export function below(size) {
  return (value) => Number.isInteger(value) && value >= 0 && value < size;
}

/** @param {number} size @returns {(value: any) => boolean} whether it is one of them, or -1, which
 *  leaves the choice to the view */
export function belowOrLeft(size) {
  return (value) => value === -1 || below(size)(value);
}

/** @param {number} size @returns {(value: any) => boolean} whether they are some of them, or none */
export function listBelow(size) {
  return (value) => Array.isArray(value) && value.every(below(size));
}

/** The heads of a circuit, in order: none stand for the layer's stable ones, or for all where no
 *  head is stable. @param {any} model @param {Layer} layer @returns {number[]} */
export function circuitHeads(model, layer) {
  const heads = sound(model, "heads", listBelow(layer.nHeads), /** @type {number[]} */ ([]));
  const chosen = [heads, layer.stable, layer.everyHead].find((some) => some.length) ?? [];
  return [...new Set(chosen)].sort((a, b) => a - b);
}

/** Tell the page, or Python, what a reader turned. @param {any} model
 *  @param {Record<string, any>} values */
export function turn(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

/** Runs a function when one of these traits has changed; returns what ends it. Each trait is an event
 *  of its own: only some hosts understand several in one. @param {any} model
 *  @param {string[]} traits @param {() => void} run @returns {() => void} */
export function heard(model, traits, run) {
  const events = traits.map((name) => `change:${name}`);
  for (const event of events) model.on(event, run);
  return () => events.forEach((event) => model.off(event, run));
}

/** Draws a view now, and again when one of these traits or its width has changed; returns what ends
 *  it. @param {any} model @param {HTMLElement} place @param {string[]} traits
 *  @param {() => void} draw @returns {() => void} */
export function keptDrawn(model, place, traits, draw) {
  let ended = false;
  const redraw = eachFrame(() => ended || draw());
  const deaf = heard(model, traits, redraw);
  const rest = atWidth(place, redraw);
  draw();
  return () => {
    ended = true;
    deaf();
    rest();
  };
}
