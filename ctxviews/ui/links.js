/** What a page offers beside a view, and a notebook does not: its address, its first state again, and
 *  the way to other views in the same state. */

import { button } from "./controls.js";
import { element } from "./dom.js";

/** Copies the address of the view's present state, or sets it back, where a page can; nothing
 *  elsewhere. @param {Model} model @returns {HTMLElement | null} */
export function stateButtons(model) {
  if (!model.address) return null;
  const status = element("span", { role: "status", class: "ctx-quiet" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(model.address?.() ?? location.href);
      status.textContent = model.unshared?.length ? "copied, without what you typed" : "copied";
    } catch {
      status.textContent = "the address bar holds it";
    }
    setTimeout(() => status.replaceChildren(), 2500);
  };
  const reset = button("Reset", () => model.reset?.());
  const keep = button("Copy this state's address", copy);
  return element("span", { class: "ctx-copy" }, keep, reset, status);
}

/** A line of links to other views' pages, each in a state, where a page has them. `update` gets the ways
 *  each time, since a link is to be right before it is pressed. @param {Model} model */
export function waysOn(model) {
  const root = element("p", { class: "ctx-quiet ctx-ways" });
  const update = (/** @type {Way[]} */ ways) => {
    const links = ways.flatMap(({ page, label, state }) => {
      const href = model.link?.(page, state);
      return href ? [element("a", { href }, label)] : [];
    });
    if (String(links) !== String([...root.children])) root.replaceChildren(...links);
  };
  return { root, update };
}
