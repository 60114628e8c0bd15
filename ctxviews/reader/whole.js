/** The whole neuron, from tables and in the model (chapter 10): its output along a text, and its terms. */

import { largest } from "../engine/linalg.js";
import { term } from "../ui/controls.js";
import { element, renewed, row, scrolling, table } from "../ui/dom.js";
import { chart, namedLines, readable, rule } from "../ui/plot.js";
import { inStep } from "../ui/state.js";
import { digitsFor, figure } from "../ui/words.js";
import { BY_OWN, NAMES, TRUE, nearest } from "./lines.js";

/** @import { Text } from "./scene.js" */

/** A text's neuron as a whole. @param {string} label @param {Omit<Hand, "at">} hand */
export function wholeSection(label, hand) {
  const [picture, terms] = [element("div"), element("div")];
  let mark = (/** @type {number} */ _) => {};
  const drawnOf = ["reading", "neuron", "axes", "points", "width"];
  const root = element("div", {}, picture, terms);
  const update = inStep((/** @type {Text & {width: number}} */ text, changed) => {
    root.hidden = !text.outputs.length;
    if (root.hidden || !changed(...drawnOf, "at")) return;
    if (changed(...drawnOf)) {
      const made = outputChart(label, text, hand);
      mark = made.update;
      renewed(picture, made);
    } else mark(text.at);
    terms.replaceChildren(scrolling(`${label}: the terms of neuron ${text.neuron}`, termsAt(text)));
  });
  return { root, update };
}

/** The whole neuron at a place, and how many digits of it count. @param {Text} text @param {number} at */
function outputAt({ outputs }, at) {
  const places = outputs.map(({ place }) => place);
  const output = outputs[places.indexOf(nearest(places, at))];
  const values = [output.tables, output.model].flatMap((of) => Object.values(of));
  return { ...output, digits: digitsFor(largest(values)) };
}

/** A neuron's output. @param {string} label @param {Text & {width: number}} text @param {Omit<Hand, "at">} hand */
function outputChart(label, text, { held, show, hold }) {
  const { outputs, neuron, axes, width, names, reading, at } = text;
  const domain = JSON.parse(axes);
  const xs = outputs.map(({ place }) => place);
  const lines = [
    { label: "from tables", style: BY_OWN, xs, ys: outputs.map(({ tables }) => tables.post) },
    { label: "computed", style: TRUE, xs, ys: outputs.map(({ model }) => model.post) },
  ];
  const read = (/** @type {number} */ here) => {
    const { place, tables, model, digits } = outputAt(text, here);
    const [predicted, computed] = [tables, model].map(({ post }) => figure(post, digits));
    const none = here === place ? "" : `Token ${here}, “${names[here]}”, has no point. `;
    return `${none}At token ${place}, “${names[place]}”: ${predicted} from tables; the model computes ${computed}.`;
  };
  const on = chart({
    alt: `${label}: output of neuron ${neuron}. ${read(reading.n)}`,
    x: { label: "token", domain: [0, domain.x] },
    y: { label: "output", domain: domain.output },
    width,
    height: 180,
    names: NAMES, // as wide as the chart above
    title: `neuron ${neuron}, output at each token`,
  });
  on.add(rule(on, { y: 0 }));
  namedLines(on, lines);
  const reads = `Read the output in the ${label.toLowerCase()}`;
  const moved = { held, onMove: show, onHold: hold };
  return readable(on, { label: reads, max: reading.n, value: at, read, ...moved });
}

/** The terms of the pre-activation, and what follows from them. @param {Text} text */
function termsAt(text) {
  const { tables, model, digits } = outputAt(text, text.at);
  const { heads, reader } = text.reading;
  /** @type {[any, keyof Whole][]} */
  const terms = [
    [`${heads.length > 1 ? "heads" : "head"} ${heads.join(", ")}`, "chosen"],
    ["the other heads", "others"],
    ["the token and its position", "own"],
    ["bias", "bias"],
    [term("pre-activation"), "pre"],
    ["output", "post"],
  ];
  const rows = terms.map(([title, k]) => {
    const figures = [tables, model].map((of) => figure(of[k], digits));
    return row(title, figures, ["pre", "post"].includes(k) && "ctx-why-sum");
  });
  rows[1].hidden = heads.length === reader.layer.nHeads;
  return table({ kind: "ctx-figures", columns: ["", ["from tables"], ["computed"]], rows });
}
