/** Where neurons are ranked: by workers, each with a share of the neurons, so that the page stays free; in the
 *  page itself where there are none. A worker is this module once more, or the bundle that it came in. It
 *  knows no layer: of a head it gets the values of the ranked tokens and its neurons' readouts. */

import { Ranking } from "./ranking.js";
import { doneInSlices, NEURONS_AT_ONCE, nextTurn } from "./slices.js";

/** @import { Given, Weighing } from "./ranking.js"
 *  @typedef {{head?: number, given?: Given, rank?: Weighing}} Work fills the table of a head, or ranks
 *  @typedef {(work: Work, signal?: AbortSignal, onShare?: (share: number) => void) => Promise<any>} Door
 *    to a ranking that does one work after the other; what is given stays when a signal ends the work */

const MOST = 3; // workers: more would wait for the page, and each has its own copy of the values
const PATIENCE = 2000; // milliseconds in which they have to begin

/** @returns {Door} */
function doorHere() {
  const ranking = new Ranking();
  /** @type {Promise<unknown>} */ let turn = Promise.resolve();
  return ({ head = -1, given, rank }, signal, onShare) => {
    if (given) ranking.take(head, given);
    const next = () =>
      doneInSlices(rank ? ranking.rank(rank) : ranking.fill(head), signal, onShare);
    const mine = turn.then(next);
    turn = mine.catch(() => {});
    return mine;
  };
}

/** @param {Worker} worker @param {number} of which of its rankings @returns {Door} */
function doorTo(worker, of) {
  return (work, signal, onShare) =>
    new Promise((done, fail) => {
      const { port1, port2 } = new MessageChannel();
      const stop = () => {
        port1.postMessage("stop");
        fail(signal?.reason);
      };
      port1.onmessage = ({ data: { share, made, failed } }) => {
        if (share !== undefined) return void onShare?.(share);
        port1.close();
        signal?.removeEventListener("abort", stop);
        return failed ? fail(new Error(failed)) : done(made);
      };
      const { V, R } = work.given ?? {};
      worker.postMessage({ of, work }, [port2, ...(V && R ? [V.buffer, R.buffer] : [])]);
      signal?.addEventListener("abort", stop);
      if (signal?.aborted) stop();
    });
}

if ("WorkerGlobalScope" in globalThis) {
  /** @type {Map<number, Door>} */ const doors = new Map();
  globalThis.onmessage = ({ data: { of, work }, ports: [port] }) => {
    const door = doors.get(of) ?? doorHere();
    doors.set(of, door);
    const control = new AbortController();
    port.onmessage = () => control.abort();
    door(work, control.signal, (share) => port.postMessage({ share })).then(
      (made) => port.postMessage({ made }),
      (error) => port.postMessage({ failed: error.message }),
    );
  };
  postMessage("begun");
}

/** All workers, or none unless each begins: a page that is one file or a notebook's cell has no module to begin
 *  them with, and some hosts forbid them. @returns {Promise<Worker[]>} */
async function begunWorkers() {
  if (!/^https?:.*\.js$/.test(import.meta.url)) return [];
  /** @type {Worker[]} */ const workers = [];
  const begun = (/** @type {Worker} */ worker) =>
    new Promise((done, fail) => {
      Object.assign(worker, { onmessage: done, onerror: fail });
      setTimeout(fail, PATIENCE);
    });
  try {
    while (workers.length < Math.min(navigator.hardwareConcurrency, MOST))
      workers.push(new Worker(import.meta.url, { type: "module" }));
    await Promise.all(workers.map(begun));
    return workers;
  } catch {
    for (const worker of workers) worker.terminate();
    return [];
  }
}

/** @type {Promise<Worker[]> | undefined} of the page */ let workers;
let made = 0;

/** The rankings of a layer's neurons at its n. */
export class Rankings {
  #of = (made += 1);
  /** @type {Door[]} */ #doors = [];
  /** @type {Set<number>} heads that they know */ #given = new Set();
  /** @type {Set<number>} and those whose tables are there */ #filled = new Set();
  /** @type {{name: string, found?: Ranked}} */ #last = { name: "" };

  /** @param {Layer} layer */
  constructor(layer) {
    this.layer = layer;
  }

  /** Whether a ranking by these heads is quick. @param {number[]} heads */
  has(heads) {
    return heads.every((head) => this.#filled.has(head));
  }

  /** Has the tables of heads filled; while it gathers for one of them what that takes, those before are made.
   *  @param {number[]} heads @param {Bringing} [how] */
  async fill(heads, { onProgress = () => {}, signal } = {}) {
    const there = await (workers ??= begunWorkers());
    if (!this.#doors.length)
      this.#doors = there.length ? there.map((worker) => doorTo(worker, this.#of)) : [doorHere()];
    const missing = heads.filter((head) => !this.#filled.has(head));
    const shares = new Float64Array(missing.length * this.#doors.length);
    /** @type {Promise<void>[]} */ const filling = [];
    for (const head of missing) {
      const given = await doneInSlices(this.#gathered(head), signal);
      for (const [k, door] of this.#doors.entries()) {
        const i = filling.length;
        const onShare = (/** @type {number} */ share) => {
          shares[i] = share;
          onProgress(shares.reduce((a, b) => a + b) / shares.length);
        };
        filling.push(door({ head, given: given[k] }, signal, onShare));
        filling[i].catch(() => {}); // where a signal ends what is gathered meanwhile
      }
    }
    await Promise.all(filling);
    for (const head of missing) this.#filled.add(head);
  }

  /** For each door the values of a head and its readouts of some of the neurons; nothing where it has them.
   *  @param {number} head @returns {Generator<void, Given[]>} */
  *#gathered(head) {
    const { ranked, n, dHead, nNeurons } = this.layer;
    /** @type {Given[]} */ const all = [];
    if (this.#given.has(head)) return all;
    const V = new Float64Array(ranked.length * dHead);
    yield* this.layer.values(ranked, n, head, V);
    const share = Math.ceil(nNeurons / NEURONS_AT_ONCE) / this.#doors.length; // blocks for each
    for (const k of this.#doors.keys()) {
      const [from, to] = [k, k + 1].map((k) => Math.floor(k * share) * NEURONS_AT_ONCE);
      const R = new Float64Array((Math.min(to, nNeurons) - from) * dHead);
      for (let j = from; j < to; j += NEURONS_AT_ONCE) {
        R.set(this.layer.readout(head, j / NEURONS_AT_ONCE), (j - from) * dHead);
        yield;
      }
      all.push({ V: k ? V.slice() : V, R, dHead });
    }
    this.#given.add(head); // what is gathered is handed over at once
    return all;
  }

  /** What is done stays done when a signal ends it. @param {Circuit} circuit @param {number[]} heads in order
   *  @param {Bringing} [how] @returns {Promise<Ranked>} */
  async rank(circuit, heads, how = {}) {
    const name = `${circuit.n} ${circuit.token}: ${heads}`;
    if (this.#last.found && this.#last.name === name) return this.#last.found;
    await Promise.all([this.fill(heads, how), doneInSlices(circuit.weigh(), how.signal)]);
    const { token, weights, means } = circuit;
    const parts = heads.map((head) => ({ head, weights: weights[head], mean: means[head] }));
    const rank = { token, parts, largest: this.layer.largest };
    const made = await Promise.all(this.#doors.map((door) => door({ rank }, how.signal)));
    const found = this.#joined(made);
    await nextTurn(); // what follows from it takes a phone as long again
    this.#last = { name, found };
    return found;
  }

  /** @param {Ranked[]} parts neurons after neurons, tokens by their places among the ranked @returns {Ranked} */
  #joined(parts) {
    const { nNeurons, ranked, largest } = this.layer;
    const kept = Math.min(largest, ranked.length);
    const [top, mean] = [new Float64Array(nNeurons), new Float64Array(nNeurons)];
    const tokens = new Int32Array(nNeurons * kept);
    let at = 0;
    for (const part of parts) {
      top.set(part.top, at);
      mean.set(part.mean, at);
      tokens.set(part.tokens.map((place) => ranked[place]), at * kept); // prettier-ignore
      at += part.top.length;
    }
    return { top, mean, tokens };
  }
}
