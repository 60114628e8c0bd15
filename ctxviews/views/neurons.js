/** The neuron explorer (chapter 6): which neurons the context can move far, and what moves one.
 *  What a reader needs first is computed first; last, unseen, what a turn of a head starts from. */

import { latest, nextTurn } from "../engine/slices.js";
import { cardsSection } from "../explorer/cards.js";
import { controlsSection } from "../explorer/controls.js";
import { dotsSection } from "../explorer/dots.js";
import { findBox } from "../explorer/find.js";
import { listSection } from "../explorer/list.js";
import { neuronSection } from "../explorer/neuron.js";
import { domainsSection, passageSection } from "../explorer/passages.js";
import { firstColumn, rankingOf, sceneOf, toolsOf } from "../explorer/scene.js";
import { turned, waysFrom, withPassages } from "../explorer/scene.js";
import { drivenLine } from "../explorer/search.js";
import { resetButton } from "../ui/controls.js";
import { eachFrame, element, failed, quiet } from "../ui/dom.js";
import { labelsOf } from "../ui/labels.js";
import { ofModels } from "../ui/models.js";
import { downloaded, layerOf } from "../ui/source.js";
import { kept, observe } from "../ui/state.js";
import { brought, stoppable, waitingLine } from "../ui/waiting.js";
import { waysOn } from "../ui/links.js";
import { headsName, several } from "../ui/words.js";

/** @import { Ranking, Scene, Section, Turned } from "../explorer/scene.js"
 *  @import { Label } from "../ui/labels.js" */

const NARROW = 672; // pixels: 42rem, as in the style sheet

/** @param {{model: Model, el: HTMLElement}} view traits: heads, threshold, neuron, passage, search */
async function render({ model, el }) {
  const layer = await layerOf(model, el);
  if (!layer) return undefined;
  const tools = toolsOf(model, layer, el);
  const source = model.get("labels");
  const file = source && quiet(element("a", { href: source, download: "" }, "All labels as CSV"));
  const search = drivenLine(tools);
  const find = findBox(tools);
  const controls = controlsSection(tools, find.root);
  /** @type {Record<string, Section>} */
  const sections = {
    heads: { root: controls.root, paint: controls.tell },
    find,
    cards: cardsSection(tools, Boolean(source)),
    dots: dotsSection(tools, resetButton(model)),
    list: listSection(tools),
    search,
    neuron: neuronSection(tools, search.root),
    domains: domainsSection(tools),
    passage: passageSection(tools),
  };
  // a choice moves nothing where its answer stands beside it
  tools.show = (section) => {
    if (body.clientWidth < NARROW)
      sections[section].root.children[0].scrollIntoView({ block: "nearest" });
  };
  const waiting = waitingLine();
  const ways = waysOn(model);
  // the neuron stands beside dots and list, its passages below; where there is no room, right behind the dots
  const { dots, list, neuron, domains, passage } = sections;
  const columns = [
    [dots, neuron, list],
    [domains, passage],
  ].map((row) => {
    const parts = row.map(({ root }) => element("div", {}, root));
    return element("div", { class: "ctx-neurons-columns" }, parts);
  });
  const caption = quiet("Each dot is a neuron. Drag the line, or press a dot.");
  const above = [controls.root, sections.cards.root, waiting.root, caption];
  const body = element("div", { class: "ctx-neurons" }, above, columns, file, ways.root);
  el.replaceChildren(body);

  /** @type {Ranking | null} */ let ranking = null;
  /** @type {Map<number, Label>} */ let labels = new Map();
  let ranked = ""; // the heads that the ranking is of, or will be
  const task = latest();

  /** @type {Scene | null} */ let scene = null;
  const paintSections = (/** @type {string[]} */ ...painted) => {
    if (scene) for (const section of painted) sections[section].paint(scene);
  };
  // what was turned follows the hand at once, what it means a moment later: a picture each
  const later = [["list"], ["search", "neuron"], ["domains"], ["passage"]];
  let next = 0;
  const drawNext = eachFrame(body, () => {
    if (!scene) return;
    if (next === 2) scene = withPassages(scene);
    paintSections(...later[next]);
    next += 1;
    if (next < later.length) return void drawNext();
    ways.update(waysFrom(scene, tools));
    if (String(ranking?.heads) === ranked) body.removeAttribute("aria-busy");
  });
  const drawFrom = (first = 0) => {
    next = Math.min(next, first);
    drawNext();
  };
  const follow = (/** @type {Turned} */ now) => {
    const wanted = String(now.heads);
    if (wanted === ranked) return;
    ranked = wanted;
    body.setAttribute("aria-busy", "true"); // from now on: the last task has to let go first
    body.toggleAttribute("data-stale", Boolean(ranking));
    task((signal) => rank(now, signal)).catch((error) => failed(el, error));
  };
  /** @param {Turned & {width: number}} now @param {Changed} changed */
  const paint = (now, changed) => {
    follow(now);
    controls.paint(now);
    if (!ranking || (changed("heads") && String(ranking.heads) !== ranked)) return; // it paints when it comes
    const before = String(ranking.heads) === tools.hand ? scene : null;
    scene = /** @type {Scene} */ (sceneOf(now, ranking, labels, before));
    paintSections("heads", "find", "cards", "dots"); // dots last: they ask for the style of what is there
    drawFrom();
  };

  const restoreHeads = () => {
    ranked = String(ranking?.heads);
    body.removeAttribute("data-stale");
    tools.go({ heads: ranking?.heads ?? [] });
  };
  /** The ranking of these heads, then what takes longer. @param {Turned} now @param {AbortSignal} signal */
  const rank = async (now, signal) => {
    const { heads } = now;
    if (ranking) await nextTurn(); // the hand sees its turn first
    signal.throwIfAborted();
    if (ranking) waiting.end(""); // what was said of an earlier turn goes
    const circuit = layer.circuit();
    const unread = heads.filter((head) => layer.lacks([head], []).length);
    const what = unread.length ? `the readout of ${headsName(unread)}` : "the vocabulary";
    const come = await brought(waiting, layer, layer.lacks(unread, layer.available), what, signal);
    const packed = layer.packedRanking(circuit, heads);
    const work = `Ranking ${several(layer.nNeurons, "neuron")} by ${headsName(heads)}`;
    const done = `Stopped: these are the neurons of ${headsName(ranking?.heads ?? heads)}.`;
    const make = (/** @type {Bringing} */ how) => circuit.rank(heads, how);
    const quick = packed || layer.rankings.has(heads);
    if (!come || !(quick || (await stoppable(waiting, work, done, make, signal))))
      return restoreHeads();
    signal.throwIfAborted();
    const found = rankingOf(circuit, heads, packed ?? (await make({ signal })));
    const { neuron } = sceneOf({ ...state(), width: 0 }, found, labels, null);
    for (const of of [ranking, found]) if (of) await firstColumn(of, neuron, signal);
    ranking = found;
    body.removeAttribute("data-stale");
    waiting.end();
    end.again(); // mostly before the picture of the turn is painted, which then is of it
    // even if the file has it, for a turn starts from it; but it costs a phone battery and memory
    if (matchMedia("(hover: hover) and (min-width: 40rem)").matches || !layer.fixed)
      await make({ signal });
  };

  labelsOf(source).then((found) => {
    labels = found;
    end.again();
  });
  const state = () => turned(model, layer);
  const end = kept({ model, place: body, state, update: paint });
  tools.again = drawFrom;
  tools.scene = () => /** @type {Scene} */ (scene);
  // a ranking begins with the hand, not with the picture after it
  const unobserve = observe(model, ["heads"], () => follow(state()));
  const theme = new MutationObserver(() => paintSections("dots")); // a canvas keeps its ink
  theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return () => {
    end();
    unobserve();
    theme.disconnect();
    task(async () => {});
  };
}

export default { render: ofModels(render), downloaded };
