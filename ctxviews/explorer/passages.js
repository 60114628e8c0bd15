/** The domains that a neuron responds to, and what drives it in a passage. */

import { largest } from "../engine/linalg.js";
import { passageChoice } from "../ui/controls.js";
import { element, quiet, renewed } from "../ui/dom.js";
import { byDomain, domainTable, overall } from "../ui/domains.js";
import { inStep } from "../ui/state.js";
import { shadeKey, tokenReader } from "../ui/tokens.js";
import { whyHere } from "../ui/why.js";
import { digitsFor, several, signed } from "../ui/words.js";

/** @import { Scene, Tools } from "./scene.js" */

const START = "▸";

/** Summaries of the labelled passages, domain after domain. @param {Tools} tools */
export function domainsSection(tools) {
  const { layer, go, heading } = tools;
  const title = heading();
  const note = quiet();
  const held = element("div");
  const paint = inStep((/** @type {Scene} */ scene, changed) => {
    const { responses, neuron, read } = scene;
    if (!responses || !changed("responses", "neuron", "width", "read")) return;
    const answers = byDomain(layer.passages, scene.summariesOf(neuron));
    const { usual, count } = overall(answers);
    title.textContent = `What neuron ${neuron} responds to`;
    note.textContent =
      `Summary (what its tokens add up to) of each of ${several(count, "passage")}: a dot each; the bar ` +
      `runs from the mean of all (${signed(usual)}) to the mean of the domain. The ring is the ` +
      "passage that is read. At n each has the query token, as in chapter 6.";
    const width = held.clientWidth || 360;
    const onPick = (/** @type {number} */ passage) => (go({ passage }), tools.show("passage"));
    const options = { passages: layer.passages, chosen: read, width, onPick };
    held.replaceChildren(domainTable(answers, options));
  });
  return { root: element("section", {}, title, note, held), paint };
}

/** A passage, shaded by what each token adds to the neuron's summary. @param {Tools} tools */
export function passageSection(tools) {
  const { layer, go, heading } = tools;
  const title = heading();
  const which = passageChoice({
    passages: layer.passages,
    first: "with the largest summary",
    onChange: (passage) => go({ passage }),
  });
  const [held, why] = [element("div"), whyHere()];
  const paint = inStep((/** @type {Scene} */ scene, changed) => {
    which.update(scene.passage);
    if (!changed("responses", "neuron", "read")) return;
    title.textContent = `What drives neuron ${scene.neuron} in a passage`;
    renewed(held, passageRead(scene, layer.passages[scene.read], tools, why));
  });
  return { root: element("section", {}, title, which, held, why.root), paint };
}

/** Where a source is, from n. @param {number} n @param {number} source */
function awayFrom(n, source) {
  return source > n ? `${source - n} ahead` : `${n - source} back`;
}

/** @param {{ranking: {circuit: Scene["ranking"]["circuit"], heads: number[]}, neuron: number}} scene
 *  @param {Passage} passage @param {Pick<Tools, "inText">} tools @param {ReturnType<typeof whyHere>} why */
export function passageRead({ ranking, neuron }, passage, { inText }, why) {
  const { circuit, heads } = ranking;
  const ids = Array.from(circuit.placed(passage.ids));
  const text = circuit.read(ids);
  const terms = text.terms(heads, neuron);
  const { tokens, names } = inText(ids);
  const summary = terms.reduce((a, b) => a + b, 0);
  const { n } = text.circuit;
  const order = Array.from(terms.keys()).sort((a, b) => Math.abs(terms[b]) - Math.abs(terms[a]));
  const own = ids[n] === passage.ids[n] ? "" : `, with ${names[n]} in place of its own token there`;
  const titled = passage.title ? `${passage.title} (${passage.name}, ` : `${passage.name} (`;
  const caption =
    `${titled}${passage.domain}), read ${ids.length > n + 1 ? `around n = ${n}` : `up to n = ${n}`}${own}: summary ${signed(summary)}, ` +
    "the sum of what its tokens add. Press one: “Why here” takes its share apart, head by head. " +
    `${START} is the token ${names[0]} in front of every text. ` +
    "Numbers are rounded: they hold to about a hundredth of their range. ";
  const digits = digitsFor(largest(terms));
  const first = order.find((i) => i) ?? 0; // a word, and not what stands in front of every text
  const explain = (/** @type {number} */ i) =>
    why.show({ name: names[i], away: awayFrom(n, i), neuron }, () => text.parts(heads, neuron, i));
  explain(first);
  const reader = tokenReader({
    label: "Read a token: what it adds",
    tokens: [`${START} `, ...tokens.slice(1)],
    names,
    values: terms,
    at: first,
    digits,
    onMove: explain,
    read: (i) => `“${names[i]}”, ${awayFrom(n, i)}: ${signed(terms[i], digits)}`,
  });
  return [quiet(caption, shadeKey(largest(terms), digits)), ...reader];
}
