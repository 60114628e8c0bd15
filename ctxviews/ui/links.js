/** What a page, but no notebook, offers beside a view: its first state, and ways to other views in this one. */

import { button } from "./controls.js";
import { element } from "./dom.js";

/** Sets a view back to its first state, where a page can; its address holds the present one.
 *  @param {Model} model @returns {HTMLElement | null} */
export function resetButton(model) {
  return model.reset ? button("Reset", () => model.reset?.()) : null;
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
