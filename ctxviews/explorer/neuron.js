/** One neuron, and the tokens that move it most. */

import { largest, outermost } from "../engine/linalg.js";
import { term } from "../ui/controls.js";
import { element, quiet } from "../ui/dom.js";
import { inStep } from "../ui/state.js";
import { digitsFor, figure, grouped, tokenMark, UNIT } from "../ui/words.js";
import { FOLLOWED, nameOf } from "./cards.js";
import { columnOf, headsName } from "./scene.js";
import { endTables, sameAgain } from "./search.js";

/** @import { Scene, Tools } from "./scene.js"
 *  @import { Label } from "../ui/labels.js" */

const OUTERMOST = 12; // tokens shown of each end of a neuron

const ADDS = `What a token adds for each unit of a head’s weight at its place, in ${UNIT}:`;

/** Name, outermost tokens, place. @param {Tools} tools */
export function neuronSection(tools) {
  const { layer, name, text, go, heading } = tools;
  const title = heading();
  const named = element("p", { class: "ctx-neurons-name" });
  const label = quiet();
  const place = element("p", { class: "ctx-quiet", role: "status" });
  const held = element("div", { class: "ctx-neurons-ends" });
  const paint = inStep((/** @type {Scene} */ scene, changed) => {
    const { ranking, neuron } = scene;
    if (!changed("ranking", "neuron", "labels")) return;
    const found = scene.labels.get(neuron);
    label.hidden = named.hidden = !found;
    if (found) {
      const chapter = FOLLOWED[layer.model]?.find((card) => card.neuron === neuron);
      const worth = found.auc > (found.chance || 0) ? "" : ", which random mixtures reach too";
      const more = chapter?.words ?? [term("AUC"), ` ${figure(found.auc, 3)}${worth}`];
      const called = element("b", {}, nameOf(layer.model, neuron, scene.labels));
      named.replaceChildren(called, ", ", ...[more].flat());
      label.textContent = labelNote(found);
    }
    const column = columnOf(ranking, neuron);
    const rank = ranking.places[neuron] + 1;
    title.textContent = `Neuron ${neuron}`;
    const { top, z, heads, circuit } = ranking;
    place.replaceChildren(
      `of layer ${layer.mlpLayer}'s MLP: top ${figure(top[neuron], digitsFor(ranking.most))} (z = ${figure(z[neuron], 1)}), ` +
        `rank ${grouped(rank)} of ${grouped(top.length)}; ` +
        `${headsName(heads)}, n = ${circuit.n}, query token `,
      tokenMark(name(circuit.token)),
    );
    const ends = outermost(column, layer.counted, OUTERMOST);
    const most = largest([...ends.up, ...ends.down].map((id) => column[id])) || 1;
    const tables = endTables("Tokens that push", "token", ends, most, (id) => ({
      label: name(id),
      ariaLabel: `Token ${name(id)}: which neurons does it drive?`,
      value: column[id],
      onPick: sameAgain(id, tools) ? () => (go({ search: text(id) }), tools.show("search")) : null,
    }));
    held.replaceChildren(...tables);
  });
  const parts = [title, named, element("p", { class: "ctx-label" }, ADDS), held, label, place];
  return { root: element("section", { class: "ctx-neurons-one" }, parts), paint };
}

/** What a neuron's label is worth. @param {Label} label */
function labelNote({ label, auc, chance }) {
  const mixtures = Number.isNaN(chance)
    ? ""
    : ` One in twenty random mixtures with this label reaches ${figure(chance, 3)}.`;
  return (
    `Label: ${label}, learned on half of the held-out texts. On the other half it tells such ` +
    `texts from others with an AUC of ${figure(auc, 3)}.${mixtures}`
  );
}
