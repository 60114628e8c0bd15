/** Tokens with a shade behind each. */

import { largest } from "../engine/linalg.js";
import { slider } from "./controls.js";
import { element } from "./dom.js";
import { byHand } from "./pointer.js";
import { DOWN, UP } from "./marks.js";
import { figure, shown, signed, tokenName } from "./words.js";

export const STRONGEST = 0.6; // of the shade behind a token, as in ctxbook.figures

/** A background as strong as a share of one: one colour above zero, another below.
 *  @param {number} value @param {number} share @returns {string} */
export function shade(value, share) {
  const percent = (100 * share).toFixed(1);
  return `color-mix(in srgb, ${value < 0 ? DOWN : UP} ${percent}%, transparent)`;
}

/** Puts a shade behind a token, and a dotted line under it below zero.
 *  @param {HTMLElement} token @param {number} value @param {number} share of the strongest shade */
function shadeToken(token, value, share) {
  token.classList.toggle("ctx-below", value < 0 && share > 0.05);
  token.style.backgroundColor = share > 0.02 ? shade(value, share * STRONGEST) : "";
}

/** Tokens with a shade behind each, as strong as its value. A pointer shows the value of each, and
 *  the `hand` gets its place; `mark` frames the one that is read, `hold` the one that is held, and `shade`
 *  has other values, in other strengths. `write` has other tokens, of which those that begin as before are not made anew.
 *  @param {string[]} tokens @param {ArrayLike<number>} values
 *  @param {{most?: number, digits?: number, names?: string[], hand?: Omit<Hand, "at">}} [options] */
export function shadedTokens(tokens, values, { most, digits = 2, names, hand } = {}) {
  // it can be focused, so that keys work where a token was pressed
  const text = element("p", { class: "ctx-tokens", ...(hand ? { tabindex: -1 } : {}) });
  const readout = element("p", { class: "ctx-touched", "aria-hidden": "true" });
  /** @type {HTMLElement | undefined} */ let marked;
  /** @type {number | null} */ let pressed = null;
  /** @type {HTMLElement[]} */ let spans = [];
  /** @type {string[]} */ let written = [];
  /** @param {string[]} now @param {string[]} [called] */
  const write = (now, called) => {
    const other = written.findIndex((token, i) => token !== now[i]);
    const same = other < 0 ? written.length : other;
    const first = spans[same]?.previousSibling;
    while (first?.nextSibling) text.lastChild?.remove();
    first?.remove();
    const added = now.slice(same).map((token, i) => {
      const word = shown(token).replace(/^ /, "");
      const ends = token.includes("\n") ? word.lastIndexOf("↵") + 1 : 0; // what follows is indented
      const parts = ends ? [word.slice(0, ends), element("br"), word.slice(ends)] : [word];
      const span = element("span", { class: "ctx-token", "data-place": same + i }, parts);
      // the space before a word has no shade
      text.append(shown(token).slice(0, -word.length), span);
      return span;
    });
    marked?.classList.remove("ctx-at");
    readout.textContent = "";
    [spans, written, names] = [[...spans.slice(0, same), ...added], now, called];
    spans.forEach((span, i) => span.classList.toggle("ctx-held", i === pressed));
  };
  write(tokens, names);
  /** @param {ArrayLike<number>} values */
  const shadeAll = (values, top = most ?? (largest(values) || 1), exact = digits) =>
    spans.forEach((span, i) => {
      const name = names?.[i] ?? tokenName(written[i]);
      span.title = `${name} ${figure(values[i], exact)}`;
      shadeToken(span, values[i], Math.min(Math.abs(values[i]) / top, 1));
    });
  shadeAll(values);
  const at = (/** @type {MouseEvent} */ event) => {
    const place = /** @type {HTMLElement} */ (event.target).dataset?.place;
    return place === undefined ? null : Number(place);
  };
  if (hand) byHand(text, { at, ...hand });
  const made = element("div", {}, text, hand && readout); // a finger has no title to read
  return Object.assign(made, {
    write,
    shade: shadeAll,
    mark(/** @type {number} */ place) {
      marked?.classList.remove("ctx-at");
      marked = spans[place];
      marked?.classList.add("ctx-at");
      readout.textContent = marked?.title ?? "";
    },
    hold(/** @type {number | null} */ place) {
      spans[pressed ?? -1]?.classList.remove("ctx-held");
      spans[(pressed = place) ?? -1]?.classList.add("ctx-held");
    },
  });
}

/** What the shades behind tokens mean. @param {number} most @param {number} [digits] */
export function shadeKey(most, digits = 2) {
  const whole = (/** @type {string} */ word, /** @type {1 | -1} */ sign) => {
    const text = `${word} to ${signed(sign * most, digits)}`;
    const made = element("span", { class: "ctx-token ctx-key" }, text);
    shadeToken(made, sign, 1);
    return made;
  };
  return ["Shade: ", whole("up", 1), ", ", whole("down", -1), "."];
}

/** Shaded tokens under a slider that reads them one by one, as a hand does.
 *  @param {{label: string, tokens: string[], names?: string[], values: ArrayLike<number>, at: number, digits?: number, most?: number,
 *    read: (place: number) => string, onMove?: (place: number) => void,
 *    held?: number | null, onHold?: (place: number | null) => void}} options `held` is held from the beginning */
export function tokenReader({ label, tokens, names, values, at, digits, read, onMove, ...ways }) {
  const move = (/** @type {number} */ place) => {
    reader.update(place);
    text.mark(place);
    onMove?.(place);
  };
  const { held = null, onHold, most } = ways;
  let kept = held ?? at;
  const hold = (/** @type {number | null} */ place) => {
    kept = place ?? at;
    text.hold(place);
    move(kept);
    onHold?.(place);
  };
  const reader = slider({ label, max: tokens.length - 1, format: read, onInput: hold });
  reader.classList.add("ctx-token-reader");
  const hand = { held: () => kept, show: move, hold };
  const text = shadedTokens(tokens, values, { most, digits, names, hand });
  text.hold(held);
  reader.update(kept);
  text.mark(kept);
  return [reader, text];
}
