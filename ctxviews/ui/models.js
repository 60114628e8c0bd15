/** A view of one of several models, with the choice in front of it; where a page has room for it, a
 *  second model's view beside the first, of the same texts. */

import { latest } from "../engine/slices.js";
import { choice } from "./controls.js";
import { element, failed, headingsIn } from "./dom.js";
import { held } from "./source.js";
import { observe, sound, turn } from "./state.js";
import { fetched, waitingLine } from "./waiting.js";

/** @typedef {(view: {model: Model, el: HTMLElement}) => Promise<(() => void) | undefined>} Render */

/** A view that begins anew when another model is chosen, where the page has several: the trait `model`
 *  is the first of the traits, so that only the new view gets the others' values from an address.
 *  @param {Render} render @returns {Render} */
export function ofModels(render) {
  return async ({ model, el }) => {
    /** @type {Record<string, string> | undefined} */ const labels = model.get("models");
    if (!labels) return render({ model, el });
    const sides = [sideOf(render, model, "Model", labels, el)];
    if (model.beside)
      sides.push(sideOf(render, model.beside, "Beside it", { "": "none", ...labels }, el));
    const [first, second] = sides;
    const follow = () => second && write(first.root, second.root);
    const begin = async (/** @type {typeof first} */ side) => {
      await side.begin();
      const two = second && !second.root.hidden;
      for (const { title } of sides) title.hidden = !two;
      follow();
    };
    const choices = sides.map(({ picker }) => picker);
    const views = sides.map(({ root }) => root);
    el.replaceChildren(
      element("div", { class: "ctx-models" }, choices),
      ...sides.map(({ waiting }) => waiting.root),
      element("div", { class: "ctx-split" }, views),
    );
    el.addEventListener("input", ({ target }) => {
      if (second?.root.contains(/** @type {Node} */ (target))) write(second.root, first.root);
      else follow();
    });
    const observers = [
      ...sides.map((side) => observe(side.model, ["model"], () => begin(side))),
      observe(model, ["text", "other"], () => requestAnimationFrame(follow)), // they are in the boxes then
    ];
    for (const side of sides) await begin(side); // who reads the first is not to wait for the second
    return () => [...observers, ...sides.map(({ end }) => end)].forEach((stop) => stop());
  };
}

/** The view of a model that is chosen, and the choice; of a name that is empty there is none. An error
 *  in it is shown in its place. @param {Render} render @param {Model} model @param {string} label
 *  @param {Record<string, string>} labels @param {HTMLElement} el */
function sideOf(render, model, label, labels, el) {
  const first = Object.keys(labels)[0];
  const chosen = () => sound(model, "model", (name) => Object.hasOwn(labels, name), first);
  const [waiting, task] = [waitingLine(), latest()];
  // the view that is there stays until the other model's layer has come
  const change = async (/** @type {string} */ name, /** @type {AbortSignal} */ signal) => {
    const bring = (/** @type {Bringing} */ how) => held(model, how, name);
    if (name && !(await fetched(waiting, `the layer of ${labels[name]}`, bring, signal))) {
      picker.update(chosen());
      return;
    }
    read = place;
    // what is chosen by number is as it was at first: another model numbers its heads and neurons anew
    const first = Object.entries(model.first ?? {});
    const numbers = first.filter(([, value]) => typeof value !== "string");
    turn(model, { model: name, ...Object.fromEntries(numbers) });
  };
  const picker = choice({
    label,
    options: Object.entries(labels).map(([value, label]) => ({ value, label })),
    onChange: (name) => task((signal) => change(name, signal)),
  });
  const title = headingsIn(el)(0);
  const root = element("section", {});
  /** @type {string | undefined} */ let shown;
  let place = root;
  /** @type {HTMLElement | null} */ let read = null; // whose texts the next model is to read
  /** @type {(() => void) | void} */ let ended;
  const begin = async () => {
    const name = chosen();
    picker.update(name);
    if (name === shown) return;
    task(async () => {}); // an address leads elsewhere
    ended?.();
    ended = undefined;
    const mine = element("div", { class: "ctx-of-model" });
    const typed = read;
    [shown, place, read] = [name, mine, null];
    title.textContent = labels[name];
    root.setAttribute("aria-label", labels[name]);
    root.replaceChildren(title, mine);
    root.hidden = !name;
    if (!name) return;
    const end = await render({ model, el: mine }).catch((error) => {
      console.info(error);
      failed(mine, new Error(`The view of ${labels[name]} could not be started.`));
    });
    if (typed) write(typed, mine);
    if (mine === place) ended = end;
    else end?.();
  };
  return { model, picker, waiting, title, root, begin, end: () => ended?.() };
}

/** Writes what stands in the boxes of one place into those of the other, as if it were typed there.
 *  @param {HTMLElement} from @param {HTMLElement} to */
function write(from, to) {
  const boxes = to.querySelectorAll("textarea");
  for (const [i, { value }] of from.querySelectorAll("textarea").entries()) {
    if (!boxes[i] || boxes[i].value === value.slice(0, boxes[i].maxLength)) continue;
    boxes[i].value = value;
    boxes[i].dispatchEvent(new Event("input")); // that goes no further: it is not written back
  }
}
