/** Views on a page without a kernel: what anywidget does in a notebook, in a few lines.
 *
 *  A page holds `<div data-view="rows" data-state="{...}">` with a picture inside. When it comes
 *  near the screen, the view's module is loaded and takes the picture's place. If anything fails,
 *  a line says so above the picture, and the rest of the page goes on. */

const PLAIN = 500; // characters of a text that an address carries as they are; longer ones are packed
const LONGEST = 6000; // characters of a packed text
const READ = 50_000; // characters that are read of one
const PACKED = ".z"; // behind the name of a packed text
const WRITES = 30; // of an address, at once
const NEAR = "400px"; // this far below the screen a view begins to load
const DATA = new URL("../data/layer.bin", import.meta.url);
/** Traits that have another name in an address. @type {Record<string, string>} */
const CALLED = { threshold: "theta" };

/** A view's state: what a notebook's model is to a widget, kept in the page and in its address. */
class PageModel {
  /** @param {Record<string, any>} state @param {Record<string, any> | null} found what the address
   *  says; null: it says nothing about this view */
  constructor(state, found) {
    const addressed = found !== null;
    this.first = { ...state };
    this.values = { ...state, ...found };
    this.addressed = addressed;
    /** @type {Map<string, Promise<string>>} long texts as an address has them */
    this.packed = new Map();
    this.asked = 0; // times that the address was to be written
    /** When the address was written. @type {number[]} */
    this.written = [];
    this.events = new EventTarget();
    /** @type {Map<Function, (event: Event) => void>} */
    this.listeners = new Map();
    if (addressed) {
      this.address = async () => new URL((await this.hash()) || " ", location.href).href.trim();
      addEventListener("hashchange", async () => {
        const { hash } = location; // of a heading, it says nothing about the view
        if (hash && !hash.includes("=")) return;
        const followed = await addressedState(state, hash);
        if (hash === location.hash) this.take(followed);
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
    const wait =
      this.written.length < WRITES ? 0 : 1000 - (now - this.written[this.written.length - 1]);
    if (wait > 0) {
      this.later = window.setTimeout(() => this.save_changes(), wait);
      return;
    }
    this.written.push(now);
    const mine = (this.asked += 1);
    this.hash().then((hash) => {
      if (mine === this.asked)
        history.replaceState(null, "", hash || location.pathname + location.search);
    });
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

  /** What differs from the first state, as an address says it; a text that is too long even when it
   *  is packed is left out. @returns {Promise<string>} */
  async hash() {
    const changed = Object.entries(this.values).filter(
      ([name, value]) =>
        JSON.stringify(value) !== JSON.stringify(this.first[name]) &&
        (Array.isArray(value) || typeof value !== "object"),
    );
    const parts = changed.map(async ([name, value]) => {
      const [called, said] = [CALLED[name] ?? name, String(value).toWellFormed()];
      if (said.length <= PLAIN)
        return `${called}=${encodeURIComponent(said).replaceAll("%2C", ",")}`;
      const known = this.packed.get(said) ?? packedText(said);
      if (this.packed.size > 8) this.packed.clear();
      this.packed.set(said, known);
      const packed = await known;
      return packed.length <= LONGEST ? `${called}${PACKED}=${packed}` : "";
    });
    const said = (await Promise.all(parts)).filter((part) => part);
    return said.length ? `#${said.join("&")}` : "";
  }
}

/** A text deflated, in letters that an address may hold. @param {string} text @returns {Promise<string>} */
async function packedText(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const letters = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return letters.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** The text again, as far as it is read: a small address can unpack to a large one.
 *  @param {string} packed @returns {Promise<string | undefined>} */
async function unpackedText(packed) {
  let text = "";
  try {
    const letters = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    while (text.length < READ) {
      const { done, value } = await reader.read();
      if (done) return text;
      text += value;
    }
    await reader.cancel();
    return text.slice(0, READ);
  } catch {
    return undefined; // cut off, or none of ours
  }
}

/** The part of an address that this state knows; whatever cannot be read is left out.
 *  @param {Record<string, any>} state @param {string} hash @returns {Promise<Record<string, any>>} */
async function addressedState(state, hash) {
  /** @type {Record<string, any>} */
  const found = {};
  for (const part of hash.slice(1).split("&")) {
    const [key, ...rest] = part.split("=");
    const packed = key.endsWith(PACKED);
    const called = packed ? key.slice(0, -PACKED.length) : key;
    const name = Object.keys(state).find((trait) => (CALLED[trait] ?? trait) === called);
    if (!name || !rest.length || (packed && typeof state[name] !== "string")) continue;
    const written = rest.join("=");
    const value = packed ? await unpackedText(written) : readAs(state[name], written);
    if (value !== undefined) found[name] = value;
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
  if (typeof like === "string") return text.slice(0, READ);
  if (typeof like !== "number" && !Array.isArray(like)) return undefined;
  if (Array.isArray(like) && !text) return [];
  const numbers = text.split(",").map((piece) => (piece.trim() ? Number(piece) : NaN));
  if (!numbers.every(Number.isFinite)) return undefined;
  return Array.isArray(like) ? [...new Set(numbers)].sort((a, b) => a - b) : numbers[0];
}

/** Modules that the page's head names, read while the page still arrives; one that fails is asked for again.
 *  @type {Map<string, Promise<any>>} */
const early = new Map(
  [
    .../** @type {NodeListOf<HTMLLinkElement>} */ (
      document.querySelectorAll("link[rel=modulepreload]")
    ),
  ].map(({ href }) => [href, import(href).catch(() => undefined)]),
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
    const address = new URL(`./views/${place.dataset.view}.js`, import.meta.url).href;
    const module = (await early.get(address)) ?? (await import(address));
    const addressed = place.hasAttribute("data-addressed");
    const model = new PageModel(
      state,
      addressed ? await addressedState(state, location.hash) : null,
    );
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
