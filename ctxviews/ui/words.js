/** Numbers and tokens in words. */

import { element } from "./dom.js";

/** Of a contribution, a summary, a threshold. */
export const UNIT = "units of the pre-activation";

/** A number for readers: fixed digits, from 10,000 on in groups and whole, a true minus sign, no minus in front of
 *  zero.
 *  @param {number} value @param {number} [digits] @returns {string} */
export function figure(value, digits = 2) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "–" : value > 0 ? "∞" : "−∞";
  const fixed = Math.abs(value) < 1e4 ? value.toFixed(digits) : grouped(Math.round(value));
  return (Number(fixed) === 0 ? fixed.replace("-", "") : fixed).replace("-", "\u2212");
}

/** The same, with a sign above zero as well.
 *  @param {number} value @param {number} [digits] @returns {string} */
export function signed(value, digits = 2) {
  const fixed = figure(value, digits);
  return Number(value.toFixed(digits)) > 0 ? `+${fixed}` : fixed;
}

/** A count. The first Intl.NumberFormat costs a phone more than a drawing. @param {number} count */
export function grouped(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** @param {number} count @param {string} noun @returns {string} */
export function several(count, noun) {
  return `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** @param {number[]} heads */
export function headsName(heads) {
  return `${heads.length > 1 ? "heads" : "head"} ${heads.join(", ")}`;
}

const PART = "▫"; // of a character that a later token completes, or nothing that can be seen
const UNSEEN = /^[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]*$/;

/** A token in a text, with what could not be seen of it made visible. @param {string} text */
export function shown(text) {
  if (/^ +$/.test(text)) return "␣".repeat(text.length);
  if (UNSEEN.test(text)) return PART;
  return text
    .replace(/\r\n|\r|\n/g, "↵")
    .replace(/\t/g, "⇥")
    .replace(/[\0-\x1f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/\x7f/g, "␡");
}

/** A token of a text by name; the stretch of a part of a character is empty. @param {string} stretch */
export function nameInText(stretch) {
  return stretch ? tokenName(stretch) : PART;
}

/** A token by name, as the book's tables have it: spaces, line breaks and whatever cannot be seen
 *  are spelt out. Lines of plain text put it in quotation marks, sentences in a `tokenMark`. @param {string} text @returns {string} */
export function tokenName(text) {
  const spelt = text
    .replaceAll(" ", "␣")
    .replaceAll("\n", "↵")
    .replaceAll("\t", "⇥")
    .replace(/[\p{C}\p{Z}]/gu, (c) => `\\u{${(c.codePointAt(0) ?? 0).toString(16)}}`);
  return spelt || "(empty)";
}

/** The beginning of a text, of so many letters at most. @param {string} text @param {number} most */
export function cutShort(text, most) {
  const letters = Array.from(text);
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

/** A token's name in a sentence. @param {string} name @returns {HTMLElement} */
export function tokenMark(name) {
  return element("span", { class: "ctx-word" }, name);
}

/** Tokens named in a line or a table. @param {string[]} names @returns {(Node | string)[]} */
export function tokenMarks(names) {
  return names.flatMap((name) => [tokenMark(name), " "]);
}

/** Digits after the point for numbers up to this size: the page's are Python's to about a hundredth of
 *  their range, so that a step of less than half of that would claim what does not hold.
 *  @param {number} most */
export function digitsFor(most) {
  return Math.min(6, Math.max(1, Math.floor(-Math.log10((most || 1) / 200) + 1e-9)));
}

/** Three digits that count, whatever the size. @param {number} value */
export function threeDigits(value) {
  const size = Math.abs(value);
  return figure(value, size > 0 ? Math.min(7, Math.max(0, 2 - Math.floor(Math.log10(size)))) : 0);
}
