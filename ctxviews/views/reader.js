/** What the heads add to the neurons on a text, while it is typed (chapters 5 and 11); two texts side by side.
 *
 *  A text is read as the model would: its first token, then the text's own, with the destination
 *  at the last one. A keystroke is seen at once, with the next picture come tokens, shades and the
 *  summaries at the end; those of earlier prefixes follow in slices, which the next one cuts short. */

import { LayerReader } from "../engine/reading.js";
import { latest, nextTurn } from "../engine/slices.js";
import { aroundView } from "../reader/around.js";
import { captionSection, controlsSection } from "../reader/controls.js";
import { follow } from "../reader/follow.js";
import { OF_TEXTS, sceneOf, turned, waysFrom } from "../reader/scene.js";
import { QUIET, openingText, sharingSection } from "../reader/sharing.js";
import { neuronTable, textSection } from "../reader/text.js";
import { button } from "../ui/controls.js";
import { element, failed, focusIn, guarded, quiet } from "../ui/dom.js";
import { ofModels } from "../ui/models.js";
import { downloaded, layerOf } from "../ui/source.js";
import { inStep, kept, observe, turn } from "../ui/state.js";
import { brought, waitingLine } from "../ui/waiting.js";
import { waysOn } from "../ui/links.js";

/** @import { Found, Scene } from "../reader/scene.js" */

/** @param {{model: Model, el: HTMLElement}} view traits: heads, neuron, and those of `OF_TEXTS` */
async function render({ model, el }) {
  const layer = await layerOf(model, el);
  if (!layer) return undefined;
  if (!layer.words) {
    const reason = "This model’s tokenizer splits text in its own way";
    el.replaceChildren(element("p", {}, `${reason}, so a page cannot read text for it.`));
    return undefined;
  }
  if (layer.bothSides) return aroundView(model, el, layer);
  const reader = new LayerReader(layer);
  /** @type {Found} */
  const found = { auto: null, listed: [[], [], []], listedOf: [], points: 0 };
  const learn = (/** @type {Partial<Found>} */ more) => {
    Object.assign(found, more);
    tools.again();
  };
  const tools = {
    layer,
    reader,
    again: () => {}, // before there is anything
    go: (/** @type {Record<string, any>} */ values) => turn(model, values),
    choose: (/** @type {number} */ neuron) => turn(model, { neuron }),
    forget: () => (found.auto = null),
    typed: () => {
      // what was typed is seen first; what follows from it is computed between two pictures
      requestAnimationFrame(async () => {
        await nextTurn();
        guarded(el, state)();
        tools.again();
      });
      sharing.later();
    },
  };
  const sides = OF_TEXTS.map(({ label }) => textSection(label, tools));
  const sharing = sharingSection(model, sides, found);
  const controls = controlsSection(el, tools);
  const titles = ["apart", "first", "second"];
  const between = neuronTable(
    "Neurons in which the two differ most",
    "Both texts",
    titles,
    "tokens that part them",
    tools.choose,
  );
  const caption = captionSection(reader);
  const waiting = waitingLine();
  const ways = waysOn(model);
  /** @type {Scene | null} */ let scene = null;
  const boxes = sides.map(({ box }) => box);
  const add = button("Compare with a second text", () => {
    tools.forget(); // the neuron is now the one in which they differ
    const [{ value }, other] = boxes; // a copy, as if it were typed there
    other.value = value === openingText(0) ? openingText(1) : value;
    other.dispatchEvent(new Event("input", { bubbles: true }));
    [roots[1].hidden, hint.hidden, add.hidden] = [false, false, true];
    other.focus();
  });
  const hint = quiet("Swap a word in either text, and see which neurons part the two.");
  const roots = sides.map(({ root }) => root);
  el.replaceChildren(
    element("div", { class: "ctx-controls" }, controls.parts),
    quiet(add),
    hint,
    waiting.root,
    caption.key,
    element("div", { class: "ctx-split ctx-reader" }, roots),
    between.root,
    ways.root,
    caption.method,
    ...sharing.parts,
  );

  // heads and tokens that are not here yet are requested; what was there goes on until they come
  let heads = layer.usual;
  /** @type {Set<number>} */ const requested = new Set(); // once, whether or not they came
  /** @param {Scene} now @param {AbortSignal} signal */
  const bring = async ({ wanted, texts }, signal) => {
    const rare = texts.flatMap(({ ids }) => ids).filter((id) => !requested.has(id));
    const ofHeads = layer.lacks(wanted, []);
    const ofTokens = layer.lacks([], [...rare, ...layer.available]);
    if (!ofHeads.length && !ofTokens.length) return;
    if (!layer.waits) await new Promise((done) => setTimeout(done, QUIET));
    signal.throwIfAborted();
    if (!(await brought(waiting, layer, ofHeads, "what these heads write to neurons", signal)))
      turn(model, { heads });
    if (await brought(waiting, layer, ofTokens, "rarer tokens of the texts", signal))
      sides.forEach((side) => side.forget());
    for (const id of rare) requested.add(id);
    tools.again();
  };
  const task = latest();
  let begun = 0;
  const work = (/** @type {Scene} */ now) => {
    const mine = (begun += 1);
    el.dataset.working = ""; // until lists and lines are complete
    task(async (signal) => {
      await bring(now, signal);
      if (!layer.waits) await follow(now, found, learn, reader, signal);
    })
      .catch((error) => failed(el, error))
      .finally(() => mine === begun && delete el.dataset.working);
  };
  const relink = inStep((/** @type {Record<string, any>} */ _, changed) => {
    if (changed("first", "second", "neuron"))
      ways.update(waysFrom(/** @type {Scene} */ (scene), sharing.given()));
  });
  const state = () => {
    const { heads: wanted, ...now } = turned(model, layer);
    if (!layer.lacks(wanted, []).length) heads = wanted;
    const [first, second] = sides.map((side) => side.take(heads));
    return { ...now, heads, wanted, first, second };
  };
  /** @param {ReturnType<typeof state>} now @param {Changed} changed */
  const update = ({ first, second, ...now }, changed) => {
    const alone = !boxes[1].value && focusIn(el) !== boxes[1];
    [roots[1].hidden, hint.hidden, add.hidden] = [alone, alone, !alone];
    const width = sides[0].width(); // measured before anything but that changes
    scene = sceneOf(now, [first, second], sides, found);
    for (const [i, text] of scene.texts.entries()) sides[i].update({ ...text, width });
    controls.update(scene);
    between.show(found.listed[2], scene.neuron);
    caption.update(scene);
    relink({ first, second, neuron: scene.neuron });
    if (changed("first", "second", "chosenNeuron", "wanted")) work(scene);
  };
  // texts are set anew whenever they are named: a box is ahead of them
  const fill = () => {
    if (!sharing.fill()) return;
    if (!boxes[1].value) boxes[1].blur(); // it is not there any more
    tools.forget();
    tools.again();
  };
  fill();
  const unobserve = observe(model, ["text", "other"], fill);
  const end = kept({ model, place: el, traits: ["heads", "neuron"], state, update });
  tools.again = end.again;
  return () => {
    [end, sharing.end, unobserve].forEach((stop) => stop());
    task(async () => {});
  };
}

export default { render: ofModels(render), downloaded };
