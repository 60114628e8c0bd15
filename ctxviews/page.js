/** Views on a page without a kernel: what anywidget does in a notebook, in a few lines.
 *
 *  A page holds `<div data-view="rows" data-state="{...}">` with a picture inside. When it comes
 *  near the screen, the view's module is loaded and takes the picture's place. If anything fails,
 *  a line above the picture explains it, and the rest of the page goes on. */

const LONGEST = 6000; // characters that an address has of one trait
const READ = 50_000; // that are read of one
const APART = 400; // milliseconds between two writes of an address
const GESTURE = 1000; // milliseconds after which another turn is a step of its own
const NEAR = "400px"; // this far below the screen a view begins to load
const DATA = new URL("../data/", import.meta.url);
const LAYER = "layer.bin"; // what a view computes with that names no other file
/** Traits that have another name in an address. @type {Record<string, string>} */
const CALLED = { threshold: "theta" };

/** A state as it stands in an address, trait by trait; a text that is too long is left out.
 *  @param {Record<string, any>} values @param {string} prefix of the names */
function written(values, prefix) {
  const parts = Object.entries(values).map(([name, value]) => {
    const text = encodeURIComponent(String(value).toWellFormed()).replaceAll("%2C", ",");
    return text.length > LONGEST ? "" : `${prefix}${CALLED[name] ?? name}=${text}`;
  });
  return parts.filter((part) => part);
}

/** A view's state: what a notebook's model is to a widget, kept in the page and in its address. */
class PageModel extends EventTarget {
  /** @param {Record<string, any>} state @param {Record<string, any>} found what the address holds
   *  @param {string} prefix of its names in the address; none where the page is the view's own
   *  @param {DOMStringMap} page what else the page has: `labels`, a table of neurons, and `models`,
   *    the names of several */
  constructor(state, found, prefix, { labels, models }) {
    super();
    this.labels = labels;
    this.models = models && JSON.parse(models);
    this.first = { ...state };
    /** @type {string[]} texts that a reader typed, which stay out of the address */
    this.unshared = [];
    this.values = { ...state, ...found };
    this.prefix = prefix;
    addEventListener("hashchange", async () => {
      const { hash } = location; // that of a heading has nothing to do with the view
      if (hash && !hash.includes("=")) return;
      const followed = await addressedState(state, hash, prefix);
      if (hash !== location.hash) return;
      this.unshared = [];
      for (const [name, value] of Object.entries({ ...state, ...followed })) this.set(name, value);
    });
  }

  /** @param {string} name @param {string} [model] whose data, where it is not the one that is shown */
  get(name, model = this.values.model) {
    if (name === "models") return this.models;
    const another = Object.keys(this.models ?? {}).indexOf(model) > 0;
    if (name === "data")
      return new URL(another ? `${model}.bin` : (this.values.file ?? LAYER), DATA);
    if (name !== "labels") return this.values[name];
    return (
      this.labels && (another ? new URL(`${model}.csv`, DATA) : new URL(this.labels, location.href))
    );
  }

  /** @param {string} name @param {any} value */
  set(name, value) {
    if (JSON.stringify(this.values[name]) === JSON.stringify(value)) return;
    this.values[name] = value;
    this.dispatchEvent(new Event(`change:${name}`));
  }

  save_changes() {
    address.write(!this.prefix);
  }

  on = this.addEventListener;
  off = this.removeEventListener;

  /** The first state again. */
  reset() {
    this.values = { ...this.first };
    this.unshared = [];
    for (const name of Object.keys(this.first)) this.dispatchEvent(new Event(`change:${name}`)); // also where a value came without an event
    this.save_changes();
  }

  /** What differs from the first state. */
  parts() {
    const changed = Object.entries(this.values).filter(
      ([name, value]) =>
        Object.hasOwn(this.first, name) &&
        !this.unshared.includes(name) &&
        JSON.stringify(value) !== JSON.stringify(this.first[name]) &&
        (Array.isArray(value) || typeof value !== "object"),
    );
    return written(Object.fromEntries(changed), this.prefix);
  }

  /** The address of another view's page in a state; null for the page that is open.
   *  @param {string} page @param {Record<string, any>} state @returns {string | null} */
  link(page, state) {
    const there = new URL(`${page}.html`, location.href); // all of them lie side by side
    if (there.pathname === location.pathname) return null;
    const { model } = this.values;
    const values = model === this.first.model ? state : { model, ...state };
    return `${there.href}#${written(values, "").join("&")}`;
  }
}

/** The page's address, which all its views share. */
const address = {
  /** Views that have begun. @type {PageModel[]} */
  models: [],
  written: -Infinity, // when
  later: 0,

  hash() {
    const parts = this.models.flatMap((model) => model.parts());
    return parts.length ? `#${parts.join("&")}` : "";
  },

  /** Browsers refuse a page that writes its address all the time: what a hand has reached in the end is
   *  always there. @param {boolean} stepwise whether the way back leads to what was there a while ago */
  write(stepwise) {
    clearTimeout(this.later);
    const since = performance.now() - this.written;
    if (since < APART) {
      this.later = window.setTimeout(() => this.write(stepwise), APART - since);
      return;
    }
    this.written = performance.now();
    const hash = this.hash();
    if (hash === location.hash) return;
    const step = stepwise && since > GESTURE ? "pushState" : "replaceState";
    history[step](null, "", hash || location.pathname + location.search);
  },
};

/** A long text as addresses had it before: deflated, under a name that ends in `.z`.
 *  @param {string} packed @returns {Promise<string | undefined>} */
async function unpackedText(packed) {
  try {
    const letters = atob(packed.slice(0, LONGEST).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return (await new Response(stream).text()).slice(0, READ);
  } catch {
    return undefined; // cut off, or none of ours
  }
}

/** The part of an address that belongs to this state; whatever cannot be read is left out.
 *  @param {Record<string, any>} state @param {string} hash @param {string} prefix */
async function addressedState(state, hash, prefix) {
  /** @type {Record<string, any>} */
  const found = {};
  for (const part of hash.slice(1).split("&")) {
    const [key, ...rest] = part.split("=");
    if (!key.startsWith(prefix)) continue;
    const called = key.slice(prefix.length).replace(/\.z$/, "");
    const name = Object.keys(state).find((trait) => (CALLED[trait] ?? trait) === called);
    if (!name || !rest.length) continue;
    const [like, written, packed] = [state[name], rest.join("="), key.endsWith(".z")];
    if (packed && typeof like !== "string") continue;
    const value = packed ? await unpackedText(written) : readAs(like, written);
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

/** The view's module that the page's head names, read while the page still arrives; again if that fails. */
const named = /** @type {HTMLLinkElement | null} */ (
  document.querySelector("link[rel=modulepreload]")
);
const early = named && import(named.href).catch(() => undefined);

// So is the layer that it needs; which is let go where the address is about another model's.
const layer = /** @type {HTMLLinkElement | null} */ (document.querySelector("link[as=fetch]"));
if (layer && /[#&]model=/.test(location.hash))
  fetch(layer.href).then(
    ({ body }) => body?.cancel(),
    () => {},
  );
else if (layer)
  early?.then((module) => module?.default.downloaded(new URL(layer.href)).catch(() => {}));

/** @returns {HTMLElement[]} */
function places() {
  return [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-view]"))];
}

/** What a view's names begin with in the address: none where the page is its own; else its kind, and
 *  a number behind the first of a kind. @param {HTMLElement} place */
function prefixOf(place) {
  if (place.hasAttribute("data-addressed")) return "";
  const { view } = place.dataset;
  const nth = places()
    .filter((other) => other.dataset.view === view)
    .indexOf(place);
  return `${view}${nth ? nth + 1 : ""}.`;
}

/** @param {HTMLElement} place */
async function start(place) {
  near.unobserve(place);
  const fallback = [...place.childNodes];
  const view = document.createElement("div");
  view.className = "ctx-view";
  place.prepend(view);
  place.ariaBusy = "true"; // what keeps files for later waits: `book.js`
  try {
    const state = JSON.parse(place.dataset.state ?? "{}");
    const name = place.dataset.view ?? "";
    if (!/^\w+$/.test(name)) throw new Error(`no view is called “${name}”`);
    const source = new URL(`./views/${name}.js`, import.meta.url).href;
    const module = (named?.href === source && (await early)) || (await import(source));
    const prefix = prefixOf(place);
    const found = await addressedState(state, location.hash, prefix);
    const model = new PageModel(state, found, prefix, place.dataset);
    address.models.push(model);
    await module.default.render({ model, el: view });
    if (!view.querySelector(".ctx-failed")) for (const node of fallback) node.remove();
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
      if (isIntersecting) start(/** @type {HTMLElement} */ (target));
  },
  { rootMargin: NEAR },
);

/** Whether the address is about a view's state, or leads to its section. @param {HTMLElement} place */
function isMeant(place) {
  const [hash, prefix] = [location.hash.slice(1), prefixOf(place)];
  if (!prefix) return true;
  const named = hash.split("&").some((part) => part.startsWith(prefix));
  // one that has begun stays where it is if it can be seen
  const block = place.querySelector(".ctx-view") ? "nearest" : "start";
  if (named) place.scrollIntoView({ block });
  return named || document.getElementById(hash)?.contains(place);
}

// with ?embed a page shows its view alone, to stand in another page
document.documentElement.classList.toggle("ctx-embed", /[?&]embed\b/.test(location.search));

// This module may run before the page is there; and the scripts that wait for the page come after it.
if (document.readyState === "loading")
  await new Promise((read) => document.addEventListener("readystatechange", read, { once: true }));
for (const place of places()) {
  if (isMeant(place)) start(place);
  else near.observe(place);
}
// a link in the text sets a view (PageModel), which may be out of sight
addEventListener("hashchange", () => places().forEach(isMeant));
