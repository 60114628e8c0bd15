/** A text up to the destination of a circuit, as that circuit reads it (chapters 4 to 11).
 *
 *  What no choice of heads or neurons changes is worked out once: another head then costs its own
 *  contribution, another neuron its own terms. */

import { wholeBelow } from "./linalg.js";

export class Prefix {
  /** @type {Float64Array[]} by head */ #contents = [];
  /** @type {Attended | undefined} */ #attention;
  /** @type {Attended | null | undefined} */ #exact;

  /** @param {Circuit} circuit @param {Numbers} ids of at least as many tokens as it reads
   *  @param {(make: () => Seen) => Seen} [kept] how the heads read it, where it is remembered */
  constructor(circuit, ids, kept = (make) => make()) {
    const { layer, reach, split } = circuit;
    this.circuit = circuit;
    this.layer = layer;
    this.ids = layer.text(ids, reach - 1);
    this.seen = () => kept(() => split.seen(this.ids));
  }

  /** content_h of every source, one row for each of these heads. @param {number[]} heads */
  contents(heads) {
    const missing = heads.filter((head) => !this.#contents[head]);
    if (missing.length)
      this.seen()
        .contents(missing)
        .forEach((row, k) => (this.#contents[missing[k]] = row));
    return heads.map((head) => this.#contents[head]);
  }

  /** The paper's circuit: sum_i pos_i contribution[x_i, j] for every neuron. @param {number[]} heads */
  summary(heads) {
    const chosen = this.layer.heads(heads);
    return this.layer.read(chosen, this.paper(chosen));
  }

  /** The z of these heads by the paper's circuit. @param {number[]} heads @returns {Attended} */
  paper(heads) {
    const { circuit } = this;
    const [seen, kernel] = [this.seen(), circuit.kernelOf(heads)];
    const inside = this.contents(heads).map((contents, k) => {
      const denominator = circuit.denominators[heads[k]];
      const weights = contents.map((content, i) => (kernel[i] * content) / denominator);
      return seen.inside(heads[k], weights);
    });
    return { inside, scale: circuit.scale };
  }

  /** By the self-normalised circuit (chapter 11): the text's own denominators, scale and token at n.
   *  @param {number[]} heads */
  own(heads) {
    this.#attention ??= this.seen().own();
    return of(heads, this.#attention);
  }

  /** By the model's own heads, which the circuits predict; null where the page lacks the weights.
   *  @param {number[]} heads */
  truth(heads) {
    this.#exact ??= this.layer.exact(this.ids);
    return this.#exact && of(heads, this.#exact);
  }

  /** The terms of the summary for one neuron, one a source. @param {number[]} heads
   *  @param {number} neuron @returns {Float64Array} */
  terms(heads, neuron) {
    const partOf = this.#parted(heads, neuron);
    return new Float64Array(this.ids.length).map((_, i) => {
      let sum = 0;
      for (const { adds } of partOf(i)) sum += adds;
      return sum;
    });
  }

  /** One of these terms, head by head: kernel times content over denominator times value.
   *  @param {number[]} heads @param {number} neuron @param {number} source
   *  @returns {Part[]} in the order of the heads; what they add sums to the term */
  parts(heads, neuron, source) {
    return this.#parted(heads, neuron)(wholeBelow(source, this.ids.length, "source"));
  }

  /** @param {number[]} heads @param {number} neuron @returns {(source: number) => Part[]} */
  #parted(heads, neuron) {
    const { circuit, layer } = this;
    const chosen = layer.heads(heads);
    const valueOf = this.seen().along(chosen, circuit.directions(neuron, chosen));
    const contents = this.contents(chosen);
    const kernels = circuit.kernelOf(chosen);
    return (i) =>
      chosen.map((head, k) => {
        const [kernel, content] = [kernels[i], contents[k][i]];
        const denominator = circuit.denominators[head];
        const value = valueOf(i, k);
        const adds = (kernel * content * value) / denominator;
        return { head, kernel, content, denominator, value, adds };
      });
  }
}

/** Of what all heads put together, that of these.
 *  @param {number[]} heads @param {Attended} attended @returns {Attended} */
function of(heads, attended) {
  return { ...attended, inside: heads.map((head) => attended.inside[head]) };
}
