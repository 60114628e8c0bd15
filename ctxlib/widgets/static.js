/** Views on a page without a kernel: what anywidget does in a notebook, in a few lines.
 *
 *  A page holds `<div data-view="rows" data-state="{...}">` with a picture inside. When it comes
 *  near the screen, the view's module is loaded and takes the picture's place. If anything fails,
 *  a line says so above the picture, and the rest of the page goes on. */

const LONGEST = 1500; // characters of a text that an address carries
const WRITES = 30; // of an address, at once
const NEAR = "400px"; // this far below the screen a view begins to load
const DATA = new URL("../data/layer.bin", import.meta.url);
/** Traits that have another name in an address. @type {Record<string, string>} */
const CALLED = { threshold: "theta" };

/** A view's state: what a notebook's model is to a widget, kept in the page and in its address. */
class PageModel {
  /** @param {Record<string, any>} state @param {boolean} addressed whether the address holds it */
  constructor(state, addressed) {
    this.first = { ...state };
    this.values = addressed ? { ...state, ...addressedState(state, location.hash) } : { ...state };
    this.addressed = addressed;
    /** When the address was written. @type {number[]} */
    this.written = [];
    this.events = new EventTarget();
    /** @type {Map<Function, (event: Event) => void>} */
    this.listeners = new Map();
    if (addressed) {
      this.address = () => new URL(this.hash() || " ", location.href).href.trim();
      addEventListener("hashchange", () => {
        const { hash } = location; // of a heading, it says nothing about the view
        if (!hash || hash.includes("=")) this.take(addressedState(state, hash));
      });
    }
  }

  /** @param {string} name */
  get(name) {
    return name === "data" ? DATA : this.values[name];
  }

  /** @param {string} name @param {any} value */
  set(name, value) {
    if (JSON.stringify(this.values[name]) === JSON.stringify(value)) return;
    this.values[name] = value;
    this.events.dispatchEvent(new Event(`change:${name}`));
    this.events.dispatchEvent(new Event("change"));
  }

  /** Browsers refuse a page that writes its address all the time: after WRITES in half a minute it is
   *  written once a second, and what a hand has reached in the end is always there. */
  save_changes() {
    if (!this.addressed) return;
    clearTimeout(this.later);
    const now = performance.now();
    this.written = this.written.filter((at) => now - at < 30_000);
    const wait = this.written.length < WRITES ? 0 : 1000 - (now - this.written[this.written.length - 1]);
    if (wait > 0) {
      this.later = window.setTimeout(() => this.save_changes(), wait);
      return;
    }
    this.written.push(now);
    history.replaceState(null, "", this.hash() || location.pathname + location.search);
  }

  /** @param {string} event @param {Function} callback */
  on(event, callback) {
    const heard = this.listeners.get(callback) ?? (() => callback());
    this.listeners.set(callback, heard);
    this.events.addEventListener(event, heard);
  }

  /** @param {string} event @param {Function} callback */
  off(event, callback) {
    const heard = this.listeners.get(callback);
    if (heard) this.events.removeEventListener(event, heard);
  }

  /** An address that was typed or followed. @param {Record<string, any>} state */
  take(state) {
    for (const [name, value] of Object.entries({ ...this.first, ...state })) this.set(name, value);
  }

  /** What differs from the first state, as an address says it. @returns {string} */
  hash() {
    const changed = Object.entries(this.values).filter(
      ([name, value]) =>
        JSON.stringify(value) !== JSON.stringify(this.first[name]) &&
        (Array.isArray(value) || typeof value !== "object") &&
        String(value).length <= LONGEST,
    );
    const parts = changed.map(
      ([name, value]) => `${CALLED[name] ?? name}=${encodeURIComponent(String(value).toWellFormed()).replaceAll("%2C", ",")}`,
    );
    return parts.length ? `#${parts.join("&")}` : "";
  }
}

/** The part of an address that this state knows; whatever cannot be read is left out.
 *  @param {Record<string, any>} state @param {string} hash @returns {Record<string, any>} */
function addressedState(state, hash) {
  /** @type {Record<string, any>} */
  const found = {};
  for (const part of hash.slice(1).split("&")) {
    const [key, ...rest] = part.split("=");
    const name = Object.keys(state).find((trait) => (CALLED[trait] ?? trait) === key);
    const value = name && rest.length ? readAs(state[name], rest.join("=")) : undefined;
    if (name && value !== undefined) found[name] = value;
  }
  return found;
}

/** A piece of an address as the kind of value that `like` is. @param {any} like @param {string} written */
function readAs(like, written) {
  let text;
  try {
    text = decodeURIComponent(written);
  } catch {
    return undefined;
  }
  if (typeof like === "string") return text.slice(0, LONGEST);
  if (typeof like !== "number" && !Array.isArray(like)) return undefined;
  const numbers = text.split(",").map((piece) => (piece.trim() ? Number(piece) : NaN));
  if (!numbers.every(Number.isFinite)) return undefined;
  return Array.isArray(like) ? [...new Set(numbers)].sort((a, b) => a - b) : numbers[0];
}

/** Modules that the page's head names, read while the page still arrives; one that fails is asked for again.
 *  @type {Map<string, Promise<any>>} */
const early = new Map(
  [.../** @type {NodeListOf<HTMLLinkElement>} */ (document.querySelectorAll("link[rel=modulepreload]"))].map(
    ({ href }) => [href, import(href).catch(() => undefined)],
  ),
);

/** @param {HTMLElement} place */
async function start(place) {
  const fallback = [...place.childNodes];
  const view = document.createElement("div");
  view.className = "ctx-view";
  place.prepend(view);
  place.ariaBusy = "true"; // equations are set later: `book.js`
  try {
    const state = JSON.parse(place.dataset.state ?? "{}");
    const address = new URL(`./${place.dataset.view}.js`, import.meta.url).href;
    const module = (await early.get(address)) ?? (await import(address));
    const model = new PageModel(state, place.hasAttribute("data-addressed"));
    await module.default.render({ model, el: view });
    if (!view.querySelector(":scope > .ctx-failed")) for (const node of fallback) node.remove();
  } catch (error) {
    console.info(error);
    const line = document.createElement("p");
    line.className = "ctx-failed";
    line.role = "alert";
    line.textContent = "This view could not be started. Reload the page to try again.";
    view.replaceChildren(line);
  } finally {
    place.ariaBusy = null;
  }
}

const near = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries)
      if (isIntersecting) begin(/** @type {HTMLElement} */ (target));
  },
  { rootMargin: NEAR },
);

/** @param {HTMLElement} place */
function begin(place) {
  near.unobserve(place);
  start(place);
}

/** Whether the address leads to the section that holds the place, or is about its state.
 *  @param {HTMLElement} place */
function isMeant(place) {
  const target = document.getElementById(location.hash.slice(1));
  return target?.contains(place) || place.hasAttribute("data-addressed");
}

// This module runs as soon as it is there, which may be before the page is; and the scripts that
// wait for the page, MathJax above all, come after it.
if (document.readyState === "loading")
  await new Promise((read) => document.addEventListener("readystatechange", read, { once: true }));
for (const place of /** @type {NodeListOf<HTMLElement>} */ (
  document.querySelectorAll("[data-view]")
)) {
  if (isMeant(place)) begin(place);
  else near.observe(place);
}
