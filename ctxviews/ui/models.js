/** A view of one of several models, with the choice above it. */

import { latest } from "../engine/slices.js";
import { choice } from "./controls.js";
import { element, failed } from "./dom.js";
import { held } from "./source.js";
import { observe, sound, turn } from "./state.js";
import { fetched, waitingLine } from "./waiting.js";

/** @typedef {(view: {model: Model, el: HTMLElement}) => Promise<(() => void) | undefined>} Render */

/** A view that begins anew when another model is chosen, where the page has several: the trait `model`
 *  is the first of the traits, so that only the new view gets the others' values from an address. An error
 *  in it is shown in its place. @param {Render} render @returns {Render} */
export function ofModels(render) {
  return async ({ model, el }) => {
    /** @type {Record<string, string> | undefined} */ const labels = model.get("models");
    if (!labels) return render({ model, el });
    const first = Object.keys(labels)[0];
    const chosen = () => sound(model, "model", (name) => Object.hasOwn(labels, name), first);
    const [waiting, task] = [waitingLine(), latest()];
    // the view that is there stays until the other model's layer has come
    const change = async (/** @type {string} */ name, /** @type {AbortSignal} */ signal) => {
      if (name === shown) return; // back before another came: what was chosen since stays
      const bring = (/** @type {Bringing} */ how) => held(model, how, name);
      if (!(await fetched(waiting, `the layer of ${labels[name]}`, bring, signal))) {
        picker.update(chosen());
        return;
      }
      // what is chosen by number is as it was at first: another model numbers its heads and neurons anew
      const first = Object.entries(model.first ?? {});
      const numbers = first.filter(([, value]) => typeof value !== "string");
      turn(model, { model: name, ...Object.fromEntries(numbers) });
    };
    const picker = choice({
      label: "Model",
      options: Object.entries(labels).map(([value, label]) => ({ value, label })),
      onChange: (name) => task((signal) => change(name, signal)),
    });
    const [head, root] = [element("div", { class: "ctx-models" }, picker), element("div")];
    /** @type {string | undefined} */ let shown;
    let place = root;
    /** @type {(() => void) | void} */ let ended;
    const begin = async () => {
      const name = chosen();
      picker.update(name);
      task(async () => {}); // an address leads elsewhere, or a reset back
      if (name === shown) return;
      ended?.();
      ended = undefined;
      const mine = element("div", { class: "ctx-of-model" });
      [shown, place] = [name, mine];
      root.replaceChildren(mine);
      const end = await render({ model, el: mine }).catch((error) => {
        console.info(error);
        failed(mine, new Error(`The view of ${labels[name]} could not be started.`));
      });
      if (mine !== place) return end?.();
      ended = end;
      return undefined;
    };
    el.replaceChildren(head, waiting.root, root);
    const stop = observe(model, ["model"], begin);
    await begin();
    return () => [stop, () => ended?.()].forEach((end) => end());
  };
}
