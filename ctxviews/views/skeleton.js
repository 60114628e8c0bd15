/** A view to copy: how much of a head's kernel lies within so many tokens.
 *
 *  What it is. One ES module, used twice: in notebooks through anywidget, and on built pages through
 *  `page.js`, which stands in for anywidget's model (`get`, `set`, `save_changes`, `on`, `off`, `send`,
 *  one event name at a time) and nothing more. It exports `render`. Its state is a handful of traits,
 *  which a page takes from `data-state` and keeps in its address: behind the view's name
 *  (`#rows.head=3`) or, where the page is the view's own (`data-addressed`), without it. What views
 *  share lies beside it: `engine/` computes and needs no page, `ui/` draws and needs no model, `types.js`
 *  names their types; large views have a folder of their own around a `scene.js`, which holds
 *  what is shown.
 *
 *  What it keeps to.
 *  - One way to stay in step: `kept` calls `update(state, changed)` with the sound state, now and at the
 *    next picture after something was turned; `changed("head", "n")` decides what to compute again. A
 *    control turns a trait (`turn`) and is itself set by `update`: nothing is drawn from what it holds.
 *  - Numbers come from the engine, of the layer that `layerOf` fetches by name (layerfile.py,
 *    fixedfile.py, neuronfile.py), or from a record that Python makes (record.py). A test holds what is
 *    shown against ctxlib.
 *  - Texts are never markup: elements and text nodes by `ui/dom.js` (a test checks it). What an address
 *    holds is checked (`sound`), and nonsense falls back.
 *  - `bundle.py` wraps all modules into one for notebooks: they import by name, in no circle, and export
 *    functions, classes and constants. No build step, no framework, nothing from another host.
 *  - Controls are the browser's own, so a keyboard reaches them; colour is never alone; a picture stands
 *    in where no script runs.
 *
 *  A new one.
 *  1. Copy this file. State what it answers in the first line, what it computes in functions of
 *     numbers, what it shows in `update`; name its traits in `state` and in `controls`. `ui/` has
 *     the parts: choices and sliders, tables, charts that are read by pointer, keys and screen reader
 *     (`readable`), shaded texts, `whyHere`.
 *  2. Declare it in views.py, its traits with what they refuse, and name it in `__init__.pyi`:
 *         class Shares(LayerView):
 *             module = "shares"
 *             _esm = bundled("views/shares.js")
 *             head = Whole(0, head_count, "head").tag(sync=True, turned=True)
 *  3. Show it in a chapter, `cv.Shares(weights, picture=..., head=3)`, where the picture stands
 *     in without a script; or on a page of its own, as `book/explorer.md` does.
 *  4. With its name in `tests/viewing.py` and a line in each table of `tests/test_views.py` it is held to
 *     what every view keeps; `tests/test_widgets.py` looks at its traits; its numbers are held by a
 *     `tests/test_view_shares.py` of its own (`cells` and `check` of `tests/viewing.py`). */

import { controlRow, headChoice } from "../ui/controls.js";
import { element, renewed } from "../ui/dom.js";
import { COLOURS } from "../ui/marks.js";
import { TOKENS_BACK, chart, line, readable } from "../ui/plot.js";
import { layerOf } from "../ui/source.js";
import { below, kept, sound, turn } from "../ui/state.js";
import { figure } from "../ui/words.js";

/** What is shown, made of numbers alone. @param {Float64Array} kernel of the sources 0 ... n */
function within(kernel) {
  let sum = 0;
  return Float64Array.from(kernel.toReversed(), (weight) => (sum += weight));
}

/** @param {Float64Array} shares by distance @param {number} head @param {number} width */
function drawing(shares, head, width) {
  const n = shares.length - 1;
  const half = shares.findIndex((share) => share >= 0.5);
  const on = chart({
    alt: `Share of head ${head}’s kernel within a distance: half of it within ${half} tokens.`,
    x: { label: TOKENS_BACK, domain: [0, n], flip: true },
    y: { label: "share within", domain: [0, 1] },
    width,
  });
  const distances = shares.map((_, distance) => distance);
  on.add(line(on, distances, shares, { stroke: COLOURS[0] }));
  const read = (/** @type {number} */ at) => `within ${at} tokens: ${figure(100 * shares[at], 1)}%`;
  return readable(on, { label: "Read the share at a distance", max: n, value: half, read });
}

/** @param {{model: Model, el: HTMLElement}} view traits: head */
async function render({ model, el }) {
  const layer = await layerOf(model, el);
  if (!layer) return undefined; // a line explains why, or the view was removed
  const state = () => ({ head: sound(model, "head", below(layer.nHeads), 0) });
  const controls = controlRow({
    head: headChoice({ count: layer.nHeads, onChange: (head) => turn(model, { head }) }),
  });
  const picture = element("div");
  el.replaceChildren(controls, picture);
  let shares = new Float64Array(0);
  /** @param {{head: number, width: number}} now @param {Changed} changed */
  const update = ({ head, width }, changed) => {
    controls.update({ head });
    if (changed("head")) shares = within(layer.kernels()[head]);
    renewed(picture, drawing(shares, head, width));
  };
  return kept({ model, place: el, state, update });
}

export default { render };
