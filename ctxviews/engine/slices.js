/** Work that takes longer, in slices between which the page lives. */

export const TOKENS_AT_ONCE = 64; // of the vocabulary, in a step of such work
export const NEURONS_AT_ONCE = 64;
const SLICE = 10; // ms of work before the page is let breathe: a picture comes every 16

/** Does all of a work that pauses now and then, and gives what it has made.
 *  @template T @param {Iterator<void, T>} work @returns {T} */
export function doneAtOnce(work) {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

/** Does it a few milliseconds at a time, so that the page stays alive.
 *  @template T @param {Iterator<number | void, T>} work @param {AbortSignal} [signal]
 *  @param {(share: any) => void} [onPause] gets what the work has yielded @returns {Promise<T>} */
export async function doneInSlices(work, signal, onPause) {
  const pause = sliced(signal, onPause);
  signal?.throwIfAborted();
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
    await pause(value);
  }
}

/** Returns a function to await between two pieces of work: whenever a slice is over, it lets the
 *  browser handle events and draw, and it ends work that is no longer wanted.
 *  @param {AbortSignal} [signal] @param {(share: any) => void} [onPause] gets what that function is given
 *  @returns {(share?: any) => Promise<void>} */
export function sliced(signal, onPause = () => {}) {
  let until = performance.now() + SLICE;
  return async (share) => {
    if (performance.now() < until) return;
    onPause(share);
    await nextTurn();
    signal?.throwIfAborted();
    until = performance.now() + SLICE;
  };
}

/** When the page has done what waits. By a message, since browsers make a timer wait 4 ms.
 *  @returns {Promise<void>} */
export function nextTurn() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/** Runs one task at a time: a new one ends the last and waits until it has let go. A task that was
 *  ended is no failure. @returns {(run: (signal: AbortSignal) => Promise<void>) => Promise<void>} */
export function latest() {
  let control = new AbortController();
  let done = Promise.resolve();
  return (run) => {
    control.abort();
    control = new AbortController();
    const { signal } = control;
    const mine = done.then(() => (signal.aborted ? undefined : run(signal)));
    const outcome = mine.catch((error) => {
      if (!signal.aborted) throw error;
    });
    done = outcome.catch(() => {});
    return outcome;
  };
}
