/** The state of a view: its traits, sound; and what follows when one is turned. */

import { atWidth, eachFrame, viewAround } from "./dom.js";
import { lettingGo } from "./pointer.js";

/** The value of a trait if it is sound, else what it was at first, else `otherwise`; and puts it
 *  right, so that addresses and controls agree.
 *  @template T @param {Model} model @param {string} name @param {(value: any) => boolean} test
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

/** @param {number} size @returns {(value: any) => boolean} whether it is one of them, or -1: left to the view */
export function belowOrLeft(size) {
  return (value) => value === -1 || below(size)(value);
}

/** @param {number} size @returns {(value: any) => boolean} whether they are some of them, or none */
export function listBelow(size) {
  return (value) => Array.isArray(value) && value.every(below(size));
}

/** The heads of a circuit, in order: none stand for the usual ones. @param {Model} model @param {Layer} layer @returns {number[]} */
export function circuitHeads(model, layer) {
  const heads = sound(model, "heads", listBelow(layer.nHeads), /** @type {number[]} */ ([]));
  return [...new Set(heads.length ? heads : layer.usual)].sort((a, b) => a - b);
}

/** Sets traits that a reader turned. @param {Model} model @param {Record<string, any>} values */
export function turn(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

/** Runs a function when one of these traits has changed; returns a function that ends this. Each trait is an event
 *  of its own: only some hosts understand several in one. @param {Model} model
 *  @param {string[]} traits @param {() => void} run @returns {() => void} */
export function observe(model, traits, run) {
  const events = traits.map((name) => `change:${name}`);
  for (const event of events) model.on(event, run);
  return () => events.forEach((event) => model.off(event, run));
}

/** Two values of a state: lists are alike if what they hold is. @param {any} a @param {any} b */
function alike(a, b) {
  return Object.is(a, b) || (Array.isArray(a) && Array.isArray(b) && String(a) === String(b));
}

/** Calls `update` with each state and a test of which of its fields differ from the last one.
 *  @template {Record<string, any>} S @param {(state: S, changed: Changed) => void} update
 *  @returns {(state: S) => void} */
export function inStep(update) {
  /** @type {Record<string, any> | null} */ let last = null;
  return (state) => {
    const before = last;
    last = { ...state };
    update(state, (...names) => names.some((name) => !before || !alike(before[name], state[name])));
  };
}

/** Keeps a view in step with its traits: `update` gets the state now, and with the next picture
 *  after one of these traits or the width of the place has changed. Returns what ends it; its `again` is
 *  for what a view has learnt by itself.
 *  @template {Record<string, any>} S
 *  @param {{model: Model, place: HTMLElement, traits?: string[], state: () => S,
 *    update: (state: S & {width: number}, changed: Changed) => void}} view `state` makes the sound
 *    state of the traits, `width` is the place's in pixels */
export function kept({ model, place, state, traits = Object.keys(state()), update }) {
  let ended = false;
  const updateInStep = inStep(update);
  const refresh = () => ended || updateInStep({ ...state(), width: place.clientWidth || 700 });
  const redraw = eachFrame(place, refresh);
  const unobserve = observe(model, traits, redraw);
  const rest = atWidth(place, redraw);
  lettingGo(viewAround(place));
  refresh();
  const end = () => {
    ended = true;
    unobserve();
    rest();
  };
  return Object.assign(end, { again: redraw });
}
