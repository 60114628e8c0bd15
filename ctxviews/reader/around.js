/** A text for a model that reads it from both sides: around its middle, where the destination token stands. */

import { CHARACTERS, leading } from "../engine/reading.js";
import { passageRead } from "../explorer/passages.js";
import { textBox } from "../ui/controls.js";
import { element, quiet, renewed } from "../ui/dom.js";
import { spelling } from "../ui/source.js";
import { belowOrLeft, circuitHeads, kept, sound, turn } from "../ui/state.js";
import { needed, waitingLine } from "../ui/waiting.js";
import { whyHere } from "../ui/why.js";

/** What each token of a typed text adds to a neuron, the one that it excites most if none is chosen.
 *  @param {Model} model @param {HTMLElement} el @param {Layer} layer */
export function aroundView(model, el, layer) {
  const tools = spelling(layer);
  const [picture, waiting, why] = [element("div"), waitingLine(), whyHere()];
  const save = () => {
    model.unshared = ["text", "other"]; // what is typed stays out of the address
    turn(model, { text: box.value.toWellFormed() });
  };
  const { box, title } = textBox("A text of your own", CHARACTERS * layer.positions, save);
  const here = needed(layer, waiting, () => end.again());
  const state = () => ({
    heads: circuitHeads(model, layer),
    chosen: sound(model, "neuron", belowOrLeft(layer.nNeurons), -1),
    text: sound(model, "text", (text) => typeof text === "string", ""),
  });
  /** @param {ReturnType<typeof state>} now */
  const update = ({ heads, chosen, text }) => {
    if (box.value !== text) box.value = text;
    const ids = Int32Array.of(layer.bos, ...(tools.tokenizer?.encode(text) ?? []));
    const [circuit, short] = [layer.circuit(), ids.length < 4];
    const read = short ? ids : circuit.placed(ids);
    why.root.hidden = short || !here(heads, read, "rarer tokens of the text");
    if (why.root.hidden) return renewed(picture, quiet(short ? "Nothing to read yet." : ""));
    const [excited] = leading(circuit.read(read).summary(heads));
    const scene = { ranking: { circuit, heads }, neuron: chosen < 0 ? excited : chosen };
    const lacks = read.filter((id) => !layer.hasToken(id)).length;
    const about = `Neuron ${scene.neuron}. Of ${ids.length} tokens ${read.length} are read; the page lacks data for ${lacks}.`;
    const passage = { name: "your text", domain: "typed here", title: "", ids };
    return renewed(picture, quiet(about), ...passageRead(scene, passage, tools, why));
  };
  el.replaceChildren(title, box, waiting.root, picture, why.root);
  const end = kept({ model, place: picture, traits: ["heads", "neuron", "text"], state, update });
  return end;
}
