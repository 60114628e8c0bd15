/** Predicts what some heads add to one neuron on any text (`neuronfile.py`): their attention from kernels,
 *  content and the calibration text's denominators, with the text placed right before the query. */

import { equalParts } from "./linalg.js";
import { Tokenizer } from "./tokenizer.js";

/** @typedef {{heads: number, length: number, bos: number, vocab: string[], first_merged: number,
 *    words?: string, added?: [string, boolean][], own?: number, middles: Record<string, number[]>, steps: Record<string, number[]>}} NeuronHeader */

export class NeuronPredictor {
  /** @param {NeuronHeader} header @param {Record<string, any>} tensors */
  constructor(header, tensors) {
    const { heads, length, bos, vocab, first_merged: from, middles, steps } = header;
    const merges = Array.from(tensors.left, (left, i) => {
      const token = vocab[from + i];
      return /** @type {[string, string]} */ ([token.slice(0, left), token.slice(left)]);
    });
    this.tokenizer = new Tokenizer({ ...header, merges });
    this.bos = bos;
    this.room = length - 1; // tokens of a text that are read
    this.kernels = equalParts(tensors.kernels, heads);
    this.denominators = equalParts(tensors.denominators, heads);
    const value = (/** @type {string} */ name) => {
      const rows = equalParts(tensors[name], heads);
      return (/** @type {number} */ h, /** @type {number} */ id) =>
        middles[name][h] + steps[name][h] * rows[h][id];
    };
    this.content = value("content");
    this.adds = value("adds");
  }

  /** The predicted contribution of the words so far, at every token of a text that is read.
   *  @param {string} text @returns {{pieces: {id: number, text: string}[], predicted: Float64Array}} */
  read(text) {
    const pieces = this.tokenizer.pieces(text);
    const ids = [this.bos, ...pieces.slice(0, this.room).map(({ id }) => id)];
    const predicted = new Float64Array(ids.length - 1);
    this.kernels.forEach((kernel, h) => {
      const adds = ids.map((id) => Math.exp(this.content(h, id)) * this.adds(h, id));
      for (let m = 1; m < ids.length; m++) {
        let sum = 0;
        for (let i = 0, at = kernel.length - 1 - m; i <= m; i++, at++) sum += kernel[at] * adds[i];
        predicted[m - 1] += sum / this.denominators[h][m];
      }
    });
    return { pieces, predicted };
  }
}
