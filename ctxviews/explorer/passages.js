/** The domains that a neuron responds to, and what drives it in a passage. */

import { passageChoice, term } from "../ui/controls.js";
import { element, quiet, renewed } from "../ui/dom.js";
import { byDomain, domainChart } from "../ui/domains.js";
import { rule } from "../ui/plot.js";
import { inStep } from "../ui/state.js";
import { shadeKey, tokenReader } from "../ui/tokens.js";
import { whyHere } from "../ui/why.js";
import { digitsFor, several, signed, threeDigits, UNIT } from "../ui/words.js";

/** @import { Scene, Tools } from "./scene.js" */

const START = "▸";

/** Summaries of the labelled passages, domain after domain. @param {Tools} tools */
export function domainsSection(tools) {
  const { layer, go, heading } = tools;
  const [title, note, held] = [heading(), quiet(), element("div")];
  const kept = { neuron: -1, order: [""] }; // the domains, as they were when the neuron came
  const paint = inStep((/** @type {Scene} */ scene, changed) => {
    const { summaries: values, before, neuron, read, labels } = scene;
    if (!changed("ranking", "neuron", "width", "read", "labels")) return;
    const usual = values.reduce((a, b) => a + b, 0) / values.length;
    const answers = byDomain(layer.passages, values);
    if (kept.neuron !== neuron)
      Object.assign(kept, { neuron, order: answers.map(({ domain }) => domain) });
    answers.sort((a, b) => kept.order.indexOf(a.domain) - kept.order.indexOf(b.domain));
    title.textContent = `What neuron ${neuron} responds to`;
    const also = labels.size ? " They are other texts than those of the labels." : "";
    note.replaceChildren(
      `A dot is one of ${several(values.length, "passage")}, at its `,
      term("summary"),
      `: the average of what its tokens add, weighted by the kernel.${also} Upright ` +
        `marks are means, the dashed line that of all (${signed(usual)}); the ring is the passage that is read.`,
    );
    const drawn = [...values, ...before]; // the axis stays when a head is turned
    const [low, high] = [Math.min(...drawn), Math.max(...drawn)];
    const room = 0.03 * (high - low || 1);
    const drawing = domainChart(answers, {
      what: "Summaries",
      x: { label: `summary, in ${UNIT}`, domain: [low - room, high + room] },
      width: held.clientWidth || 360,
      chosen: read,
      figure: signed,
      named: (i) => layer.passages[i].name,
      kind: (i) => (i === read ? "ctx-domains-ring" : "ctx-domains-dot"),
      marks: (on) => [rule(on, { x: usual })],
      onPick: (passage) => (go({ passage }), tools.show("passage")),
    });
    held.replaceChildren(drawing);
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
  // the token that is held stays where heads or neuron change, and with it its passage
  const hold = { passage: -1, at: /** @type {number | null} */ (null) };
  const paint = inStep((/** @type {Scene} */ scene, changed) => {
    which.update(scene.passage);
    if (!changed("ranking", "neuron", "read")) return;
    title.textContent = `What drives neuron ${scene.neuron} in a passage`;
    if (hold.passage !== scene.read) Object.assign(hold, { passage: scene.read, at: null });
    const onHold = (/** @type {number | null} */ at) => {
      hold.at = at;
      if (at !== null) go({ passage: scene.read });
    };
    const ways = { held: hold.at, onHold };
    renewed(held, passageRead(scene, layer.passages[scene.read], tools, why, ways));
  });
  return { root: element("section", {}, title, which, held, why.root), paint };
}

/** Where a source is, from n. @param {number} n @param {number} source */
function awayFrom(n, source) {
  return source > n ? `${source - n} ahead` : `${n - source} back`;
}

/** @param {{ranking: {circuit: Scene["ranking"]["circuit"], heads: number[]}, neuron: number, most?: number}} scene
 *    `most` is what the strongest shade stands for: where it is left out, what a word of the passage adds at most
 *  @param {Passage} passage @param {Pick<Tools, "inText">} tools @param {ReturnType<typeof whyHere>} why
 *  @param {{held?: number | null, onHold?: (place: number | null) => void}} [ways] */
export function passageRead({ ranking, neuron, most }, passage, { inText }, why, ways) {
  const { circuit, heads } = ranking;
  const ids = Array.from(circuit.placed(passage.ids));
  const text = circuit.read(ids);
  const terms = text.terms(heads, neuron);
  const { tokens, names } = inText(ids);
  const summary = terms.reduce((a, b) => a + b, 0);
  const { n } = text.circuit;
  const own = ids[n] === passage.ids[n] ? "" : `, with ${names[n]} in place of its own token there`;
  const titled = passage.title ? `${passage.title} (${passage.name}, ` : `${passage.name} (`;
  const caption =
    `${titled}${passage.domain}), read ${ids.length > n + 1 ? `around n = ${n}` : `up to n = ${n}`}${own}: summary ${signed(summary)}. ` +
    `Press a token: “Why here” takes it apart, head by head. ${START} is the token ${names[0]} in front of every text; it may add more than its shade shows. `;
  const sizes = terms.map(Math.abs).fill(-1, 0, 1); // of words, and not what stands in front of every text
  const first = sizes.indexOf(Math.max(...sizes));
  most ||= Math.max(sizes[first], 0) || 1;
  const digits = digitsFor(most);
  const explain = (/** @type {number} */ i) =>
    why.show({ name: names[i], away: awayFrom(n, i), neuron }, () => text.parts(heads, neuron, i));
  explain(ways?.held ?? first);
  const kernel = text.circuit.kernelOf(heads);
  const share = (/** @type {number} */ i) =>
    `${signed(terms[i] / kernel[i], 1)} × weight ${threeDigits(kernel[i])} = ${signed(terms[i], digits)}`;
  const reader = tokenReader({
    label: "Read a token: what it adds",
    tokens: [`${START} `, ...tokens.slice(1)],
    names,
    values: terms,
    most,
    at: first,
    digits,
    onMove: explain,
    read: (i) => `“${names[i]}”, ${awayFrom(n, i)}: ${share(i)}`,
    ...ways,
  });
  return [quiet(caption, shadeKey(most, digits)), ...reader];
}
