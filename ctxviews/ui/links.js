/** What a page, but no notebook, offers beside a view: ways to other views in its state. */

import { element } from "./dom.js";

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
