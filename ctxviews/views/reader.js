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
import { compared, OF_TEXTS, sceneOf, termsTable, turned, waysFrom } from "../reader/scene.js";
import { QUIET, sharingSection } from "../reader/sharing.js";
import { neuronTable, textSection } from "../reader/text.js";
import { button } from "../ui/controls.js";
import { csvButton } from "../ui/csv.js";
import { element, failed, guarded, quiet } from "../ui/dom.js";
import { ofModels } from "../ui/models.js";
import { downloaded, layerOf } from "../ui/source.js";
import { inStep, kept, observe, turn } from "../ui/state.js";
import { brought, waitingLine } from "../ui/waiting.js";
import { waysOn } from "../ui/links.js";

/** @import { Found, Scene } from "../reader/scene.js" */

/** @param {{model: Model, el: HTMLElement}} view traits: heads, neuron, shades, and those of `OF_TEXTS` */
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
  const found = {
    auto: null,
    references: [null, null],
    listed: [[], [], []],
    listedOf: [],
    drivers: null,
    points: 0,
  };
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
  const sides = OF_TEXTS.map((of) => textSection(of, tools));
  const sharing = sharingSection(model, sides, found);
  const controls = controlsSection(model, el, tools);
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
  const file = csvButton("Terms as CSV", () => termsTable(/** @type {Scene} */ (scene), layer));
  const copies = OF_TEXTS.map(({ label }, i) =>
    button(`${label} into the other box`, () => {
      const { box } = sides[1 - i]; // as if it were typed there
      box.value = sides[i].box.value;
      box.dispatchEvent(new Event("input", { bubbles: true }));
      box.focus();
    }),
  );
  const roots = sides.map(({ root }) => root);
  el.replaceChildren(
    element("div", { class: "ctx-controls" }, controls.parts),
    quiet("Swap a word in a copy of a text, and see which neurons part the two."),
    waiting.root,
    caption.key,
    element("div", { class: "ctx-split ctx-reader" }, roots),
    caption.about,
    between.root,
    element("p", { class: "ctx-turns" }, copies, file),
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
      if (!layer.waits) await follow(now, sides, found, learn, reader, signal);
    })
      .catch((error) => failed(el, error))
      .finally(() => mine === begun && delete el.dataset.working);
  };
  const relink = inStep((/** @type {Record<string, any>} */ _, changed) => {
    if (changed("first", "second", "neuron"))
      ways.update(waysFrom(/** @type {Scene} */ (scene), sharing.given()));
  });
  const compare = compared();
  const state = () => {
    const { heads: wanted, ...now } = turned(model, layer);
    if (!layer.lacks(wanted, []).length) heads = wanted;
    const [first, second] = sides.map((side, i) =>
      side.take(now.windows[i], { heads, shades: now.shades }),
    );
    return {
      ...now,
      heads,
      wanted,
      first,
      second,
      typings: sides[0].side.typings + sides[1].side.typings,
    };
  };
  /** @param {ReturnType<typeof state>} now @param {Changed} changed */
  const update = ({ first, second, ...now }, changed) => {
    const width = sides[0].width(); // measured before anything changes
    const apart = compare(first.reading.ids, second.reading.ids);
    scene = sceneOf(now, [first, second], apart, sides, found);
    for (const [i, text] of scene.texts.entries()) sides[i].update({ ...text, width });
    file.hidden = scene.texts.every(({ terms }) => terms === null);
    controls.update(scene);
    between.show(found.listed[2], scene.neuron);
    caption.update(scene, found);
    relink({ first, second, neuron: scene.neuron });
    if (changed("first", "second", "chosenNeuron", "typings", "wanted")) work(scene);
  };
  // texts and cursors are set anew whenever they are named: a box and a hand are ahead of both
  const named = (/** @type {"text" | "cursor"} */ kind) => OF_TEXTS.map((of) => of[kind]);
  const place = () => {
    const { cursors } = turned(model, layer);
    sides.forEach((side, i) => side.place(cursors[i]));
    tools.again();
  };
  const fill = () => {
    if (!sharing.fill()) return;
    tools.forget();
    place();
  };
  fill();
  const observers = [observe(model, named("text"), fill), observe(model, named("cursor"), place)];
  const traits = ["heads", "neuron", "shades", ...OF_TEXTS.map(({ window }) => window)];
  const end = kept({ model, place: el, traits, state, update });
  tools.again = end.again;
  return () => {
    [end, sharing.end, ...observers].forEach((stop) => stop());
    task(async () => {});
  };
}

export default { render: ofModels(render), downloaded };
