/** A line that shows what is waited for and how far it is; it takes no room when it is empty. */

import { latest } from "../engine/slices.js";
import { button } from "./controls.js";
import { element, failed } from "./dom.js";

/** @typedef {ReturnType<typeof waitingLine>} WaitingLine */

export function waitingLine() {
  const bar = element("progress", { max: 1, value: 0, "aria-label": "Working" });
  const status = element("span", { role: "status" });
  let stop = () => {};
  const halt = button("Stop", () => stop());
  const root = element("p", { class: "ctx-waiting" }, status, " ", bar, " ", halt);
  root.hidden = bar.hidden = true;
  return {
    root,
    /** @param {string} words @param {() => void} [onStop] where it can be stopped */
    show(words, onStop) {
      stop = onStop ?? (() => {});
      root.className = "ctx-waiting";
      status.textContent = words;
      [bar.value, bar.hidden, halt.hidden, root.hidden] = [0, false, !onStop, false];
    },
    share(/** @type {number} */ done) {
      if (done > bar.value + 0.04) bar.value = done; // each move is a picture
      if (done === 1) bar.removeAttribute("value"); // what has come is being unpacked
    },
    /** Nothing is waited for; what came of it may stay. @param {string} [words] */
    end(words = bar.hidden ? (status.textContent ?? "") : "") {
      status.textContent = words;
      root.className = "ctx-quiet";
      bar.hidden = halt.hidden = true;
      root.hidden = !words;
    },
  };
}

/** Fetches parts of a layer that are not here yet, as `fetched` does. @param {WaitingLine} line @param {Layer} layer
 *  @param {string[]} parts as `layer.lacks` names them @param {string} what they are, in words
 *  @param {AbortSignal} signal */
export async function brought(line, layer, parts, what, signal) {
  return !parts.length || fetched(line, what, (how) => layer.bring(parts, how), signal);
}

/** Whether something has come: if not, a hand has stopped it or it could not be had, and the line explains it.
 *  @param {WaitingLine} line @param {string} what it is, in words
 *  @param {(how: Bringing) => Promise<any>} bring @param {AbortSignal} signal
 *  @returns {Promise<boolean>} or the signal's own error */
export function fetched(line, what, bring, signal) {
  return stoppable(line, `Fetching ${what}`, `Stopped: ${what} did not come.`, bring, signal);
}

/** The same of any work, with what the line shows meanwhile and after a stop.
 *  @param {WaitingLine} line @param {string} words @param {string} stopped
 *  @param {(how: Bringing) => Promise<any>} bring @param {AbortSignal} signal */
export async function stoppable(line, words, stopped, bring, signal) {
  const byHand = new AbortController();
  line.show(words, () => byHand.abort());
  try {
    const either = AbortSignal.any([signal, byHand.signal]);
    await bring({ signal: either, onProgress: line.share });
    line.end();
    return true;
  } catch (error) {
    line.end();
    signal.throwIfAborted();
    line.end(byHand.signal.aborted ? stopped : /** @type {Error} */ (error).message);
    return false;
  }
}

/** A function that checks whether all is here that some heads and tokens need, and fetches what is not:
 *  `again` is called when it has come. What did not come is not requested at once again.
 *  @param {Layer} layer @param {WaitingLine} line @param {() => void} again
 *  @returns {(heads: ArrayLike<number>, ids: ArrayLike<number>, what: string) => boolean} */
export function needed(layer, line, again) {
  const task = latest();
  /** @type {string[]} */ let requested = [];
  return (heads, ids, what) => {
    const missing = layer.lacks(heads, ids);
    if (missing.some((part) => !requested.includes(part))) {
      requested = missing;
      task(async (signal) => {
        if (await brought(line, layer, missing, what, signal)) again();
      }).catch((error) => failed(line.root, error));
    }
    return !missing.length;
  };
}
