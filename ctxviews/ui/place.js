/** A passage of a layer, read up to a destination: what views of attention rows turn. */

import { destinationSlider, passageChoice } from "./controls.js";
import { below, sound, turn } from "./state.js";

/** @typedef {{passage: number, n: number}} Place */

/** The traits `passage` and `n`, of which 0 stands for the circuit's own destination.
 *  @param {Model} model @param {Layer} layer @param {Record<string, any>} [more] that a passage turns */
export function placeOn(model, layer, more) {
  return {
    controls: {
      passage: passageChoice({
        passages: layer.passages,
        onChange: (passage) => turn(model, { passage, ...more }),
      }),
      n: destinationSlider(1, (n) => turn(model, { n })),
    },
    /** As far as it is sound. @returns {Place} */
    state() {
      const passage = sound(model, "passage", below(layer.passages.length), 0);
      const n = sound(model, "n", below(layer.longest(passage)), 0);
      return { passage, n: n || Math.max(1, Math.min(layer.n, layer.longest(passage) - 1)) };
    },
    /** How far the slider goes. @param {Place} now */
    scales: ({ passage }) => ({ n: { max: layer.longest(passage) - 1 } }),
    /** The tokens that are read. @param {Place} now */
    ids: ({ passage, n }) => layer.passages[passage].ids.slice(0, n + 1),
  };
}
