/** The opening texts, and which texts are passed on to Python or put into an address. */

import { checkbox, resetButton } from "../ui/controls.js";
import { element, quiet } from "../ui/dom.js";
import { sound, turn } from "../ui/state.js";
import { OF_TEXTS } from "./scene.js";

/** @import { Found } from "./scene.js"
 *  @import { Side } from "./text.js" */

/** One paragraph in two spellings, word for word the same otherwise. */
const OPENING =
  "My {neighbour|neighbor} {travelled|traveled} to the {harbour|harbor} in a {grey|gray} car with " +
  "one tired {tyre|tire}. She had been asked to {organise|organize} the {programme|program} of a " +
  "small {theatre|theater} in the {centre|center} of town, and she {realised|realized} at once " +
  "that the {labour|labor} of many years lay behind its faded {colours|colors}.";

export const QUIET = 300; // milliseconds without a keystroke until Python, or the address, gets the texts

/** @param {0 | 1} spelling British, American @returns {string} */
export function openingText(spelling) {
  return OPENING.replace(/\{(.*?)\|(.*?)\}/g, (_, ...both) => both[spelling]);
}

/** What a page with an address offers: to put the texts into it, which it only does on request; and which
 *  texts Python, or the address, gets. @param {Model} model @param {Side[]} sides @param {Found} found */
export function sharingSection(model, sides, found) {
  let [saving, waiting] = [false, 0];
  const names = OF_TEXTS.map(({ text }) => text);
  const keep = "text" in (model.first ?? {}) ? checkbox(null, () => save()) : null;
  const write = (more = {}) => {
    // lone surrogates fit in neither
    const [text, other] = sides.map(({ box }) => box.value.toWellFormed());
    const opening = text === openingText(0) && !other;
    saving = true;
    model.unshared = keep && !keep.checked ? names : [];
    turn(model, { text: opening ? "" : text, other, ...more });
    saving = false;
  };
  const save = () =>
    write(model.get("neuron") === -1 && found.auto !== null ? { neuron: found.auto } : {});
  const offer = " Put the texts into the address of the page, to keep or to share them";
  const promise =
    "What you type stays in this page, and out of its address unless the box is ticked. " +
    "A text that is too long for an address is left out of it.";
  const parts = keep && [
    element("p", {}, element("label", {}, keep, offer)),
    quiet(promise),
    resetButton(model) ?? "",
  ];
  return {
    parts: parts ?? [],
    later() {
      clearTimeout(waiting);
      waiting = window.setTimeout(save, QUIET);
    },
    end() {
      clearTimeout(waiting);
      write(); // the next model is to read the same
    },
    /** Texts that come from Python, or with an address. @returns {boolean} whether there were others */
    fill() {
      if (saving) return false;
      const isText = (/** @type {any} */ value) => typeof value === "string";
      const values = names.map((name) => sound(model, name, isText, ""));
      if (keep)
        keep.checked =
          !model.unshared?.length && names.some((name, i) => values[i] !== model.first?.[name]);
      if (!values.join("")) values[0] = openingText(0);
      return sides.map((side, i) => side.fill(values[i])).includes(true);
    },
    /** The texts that may stand in an address. */
    given() {
      const shared = names.filter((name) => model.get(name) && !model.unshared?.includes(name));
      return Object.fromEntries(shared.map((name) => [name, model.get(name)]));
    },
  };
}
