/** The explorer's heads and query token. */

import { destinationChoice, fixedDestination, headChooser } from "../ui/controls.js";
import { element } from "../ui/dom.js";

/** @import { Tools, Turned } from "./scene.js" */

/** @param {Tools} tools @param {HTMLElement | null} copy */
export function controlsSection({ layer, name, go }, copy) {
  const heads = headChooser(layer, (chosen) => go({ heads: chosen }));
  const token = layer.fixed
    ? fixedDestination(layer, name)
    : destinationChoice(layer, name, (id) => go({ token: id }));
  return {
    root: element("div", { class: "ctx-controls" }, heads, token, copy),
    paint(/** @type {Turned} */ now) {
      heads.update(now.heads);
      token.update(now.token);
    },
  };
}
