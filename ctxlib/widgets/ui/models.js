/** A view of one of several models, with the choice in front of it. */

import { either } from "./controls.js";
import { element } from "./dom.js";
import { heard, sound, turn } from "./state.js";

/** @typedef {import("./state.js").Model} Model
 *  @typedef {(view: {model: Model, el: HTMLElement}) => Promise<(() => void) | undefined>} Render */

/** A view that begins anew when another model is chosen, where the page has several: the trait `model`
 *  is the first of the traits, so that what an address says of the others is told to the new view only.
 *  @param {Render} render @returns {Render} */
export function ofModels(render) {
  return async ({ model, el }) => {
    /** @type {Record<string, string> | undefined} */
    const labels = model.get("models");
    if (!labels) return render({ model, el });
    const first = Object.keys(labels)[0];
    const chosen = () => sound(model, "model", (name) => Object.hasOwn(labels, name), first);
    const choice = either({
      label: "Model",
      options: Object.entries(labels).map(([value, label]) => ({ value, label })),
      value: chosen(),
      onChange: (name) => turn(model, { model: name, ...numbers(model) }),
    });
    let [shown, place] = ["", element("div")];
    /** @type {(() => void) | undefined} */ let end;
    const begin = async () => {
      const name = chosen();
      choice.update(name);
      if (name === shown) return;
      end?.();
      end = undefined;
      const mine = element("div", { class: "ctx-of-model" });
      [shown, place] = [name, mine];
      el.replaceChildren(choice, mine);
      const ended = await render({ model, el: mine });
      if (mine === place) end = ended;
      else ended?.();
    };
    const deaf = heard(model, ["model"], begin);
    await begin();
    return () => {
      deaf();
      end?.();
    };
  };
}

/** What is chosen by number, as it was at first: another model numbers its heads and neurons anew.
 *  @param {Model} model */
function numbers({ first = {} }) {
  return Object.fromEntries(Object.entries(first).filter(([, value]) => typeof value !== "string"));
}
