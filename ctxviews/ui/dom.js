/** What the views are built of: elements, tables, headings.
 *
 *  Whatever comes from a text, a vocabulary or an address becomes a text node or an attribute's
 *  value, never markup. Every control is the browser's own, so a keyboard reaches it. */

/** An HTML element. Attributes that are null are left out; `on...` are listeners; children are
 *  nodes, texts, or lists of both.
 *  @template {keyof HTMLElementTagNameMap} Tag @param {Tag} tag
 *  @param {Record<string, any>} [attributes] @param {...any} children */
export function element(tag, attributes = {}, ...children) {
  return furnished(document.createElement(tag), attributes, children);
}

/** An element of a drawing. @template {keyof SVGElementTagNameMap} Tag @param {Tag} tag
 *  @param {Record<string, any>} [attributes] @param {...any} children */
export function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return furnished(made, attributes, children);
}

/** @template {Element} Made @param {Made} made @param {Record<string, any>} attributes
 *  @param {any[]} children */
function furnished(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), guarded(made, value));
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

const ours = Math.random().toString(36).slice(2, 10); // a notebook has this module once a widget
let named = 0;

/** A name that no other element of the page has. @param {string} stem @returns {string} */
export function fresh(stem) {
  return `ctx-${stem}-${ours}-${(named += 1)}`;
}

/** A table; the title of a column of figures stands in brackets, and a column may have none. Unseen ones
 *  are for those who cannot see the table.
 *  @param {{columns: (string | Node | (string | Node)[])[], rows: HTMLElement[], caption?: string,
 *    kind?: string, unseen?: boolean}} options */
export function table({ columns, rows, caption, kind, unseen = false }) {
  const titles = columns.map((title) => {
    const side = Array.isArray(title) && "ctx-number";
    const heading = unseen ? element("span", { class: "ctx-unseen" }, title) : title;
    return title ? element("th", { scope: "col", class: side }, heading) : element("td");
  });
  return element(
    "table",
    { class: kind },
    caption && element("caption", {}, caption),
    element("thead", { class: unseen && "ctx-flat" }, element("tr", {}, titles)),
    element("tbody", {}, rows),
  );
}

/** @param {any} held a figure, or what holds one */
export function numberCell(held) {
  return element("td", { class: "ctx-number" }, held);
}

/** A row of a table under its own title; a cell that is a text is a figure.
 *  @param {any} title @param {(string | HTMLElement)[]} cells @param {string | false} [kind] */
export function row(title, cells, kind) {
  const held = cells.map((cell) => (typeof cell === "string" ? numberCell(cell) : cell));
  return element("tr", { class: kind }, element("th", { scope: "row" }, title), held);
}

/** A paragraph beside what it is about. @param {...any} held */
export function quiet(...held) {
  return element("p", { class: "ctx-quiet" }, held);
}

/** What may be wider than the page, in a place that scrolls.
 *  @param {string} label @param {...any} held @returns {HTMLElement} */
export function scrolling(label, ...held) {
  const ways = { class: "ctx-scroll", tabindex: 0, role: "region", "aria-label": label };
  return element("div", ways, held);
}

/** Puts something new into a place; the slider that had the focus hands it to the new one.
 *  @param {HTMLElement} place @param {...any} held */
export function renewed(place, ...held) {
  const sliders = '[role="slider"], input[type="range"]';
  const focused = focusIn(place)?.matches(sliders);
  place.replaceChildren(...held.flat());
  if (focused) /** @type {HTMLElement | null} */ (place.querySelector(sliders))?.focus();
}

/** What has the focus, if it is in this place; notebooks may keep views in a shadow.
 *  @param {HTMLElement} place @returns {HTMLElement | null} */
export function focusIn(place) {
  const { activeElement } = /** @type {Document | ShadowRoot} */ (place.getRootNode());
  const found = /** @type {HTMLElement | null} */ (activeElement ?? null);
  return place.contains(found) ? found : null;
}

/** A function that makes the headings of a view, one level below the document's heading that it stands under.
 *  @param {HTMLElement} place @returns {(...held: any[]) => HTMLElement} */
export function headingsIn(place) {
  const page = place.closest("article, main") ?? document.body;
  const above = [...page.querySelectorAll(":is(h1, h2, h3, h4):not(.ctx-heading)")].filter(
    (heading) => heading.compareDocumentPosition(place) & Node.DOCUMENT_POSITION_FOLLOWING,
  );
  const level = 1 + Number(above.at(-1)?.tagName.slice(1) ?? 2);
  return (...held) =>
    element(/** @type {"h1"} */ (`h${Math.min(level, 6)}`), { class: "ctx-heading" }, held);
}

/** Runs a function with the next picture the browser draws, once however often it was called.
 *  @param {HTMLElement} place @param {() => void} run @returns {() => void} */
export function eachFrame(place, run) {
  let frame = 0;
  const draw = guarded(place, () => {
    frame = 0;
    run();
  });
  return () => {
    frame ||= requestAnimationFrame(draw);
  };
}

/** The same function; where it fails, a line is all that the view around `place` shows: no number of
 *  before stands under what is chosen now.
 *  @template {any[]} Given @param {Element} place @param {(...given: Given) => void} run
 *  @returns {(...given: Given) => void} */
export function guarded(place, run) {
  return (...given) => {
    try {
      run(...given);
    } catch (error) {
      console.info(error);
      const message = "This view could not be drawn. Reload the page to try again.";
      failed(viewAround(place), new Error(message));
    }
  };
}

/** The view that something stands in. @param {Element} place */
export function viewAround(place) {
  return place.closest(".ctx-of-model, .ctx-view") ?? place;
}

/** Calls `draw` when the width of an element has changed, and when it is first shown; returns what
 *  ends it. @param {HTMLElement} place @param {() => void} draw @returns {() => void} */
export function atWidth(place, draw) {
  let last = place.clientWidth;
  const observer = new ResizeObserver(() => {
    const width = place.clientWidth;
    if (!width || width === last) return;
    last = width;
    draw();
  });
  observer.observe(place);
  return () => observer.disconnect();
}

/** One readable line in place of a view. @param {Element} place @param {Error} error */
export function failed(place, error) {
  place.replaceChildren(element("p", { class: "ctx-failed", role: "alert" }, error.message));
}
