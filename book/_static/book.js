// The bibliography's list holds links between its entries, which a list may not: it is no list to a screen reader.
document.addEventListener("DOMContentLoaded", () => {
  for (const list of document.querySelectorAll(".citation-list[role=list]")) list.removeAttribute("role");
});

// In a table, columns of numbers are flush right, and a short entry is not broken.
document.addEventListener("DOMContentLoaded", () => {
  const NUMBER = /^[+\-−±]?[\d.,]+( ?%)?$/;
  for (const table of document.querySelectorAll(".bd-article table:is(.dataframe, .table)")) {
    const rows = [...table.querySelectorAll("tr")].map((row) => [...row.cells]);
    for (const cell of rows.flat()) if (cell.textContent.trim().length <= 20) cell.classList.add("short");
    for (const column of rows.at(-1)?.keys() ?? []) { // from the right: a name may stand left of several rows
      const cells = rows.map((row) => row.at(-1 - column)).filter((cell) => cell && cell.colSpan === 1);
      const entries = cells.filter((cell) => cell.matches("td")).map((cell) => cell.textContent.trim()).filter((entry) => entry);
      if (entries.length && entries.every((entry) => NUMBER.test(entry))) for (const cell of cells) cell.classList.add("number");
    }
  }
});

// What is larger than its box is scrolled by keys too. A box is measured when it has been laid out for the reader anyway.
document.addEventListener("DOMContentLoaded", () => {
  const larger = (box) => box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
  const boxes = new ResizeObserver((entries) => {
    const scrolled = entries.map(({ target }) => larger(target)); // all of them before one is marked
    entries.forEach(({ target }, i) => (scrolled[i] ? target.setAttribute("tabindex", 0) : target.removeAttribute("tabindex")));
  });
  for (const box of document.querySelectorAll(".bd-article :is(pre, .cell_output > .output, figure.picture > div, .pst-scrollable-table-container)")) boxes.observe(box);
});

// A minus is longer than the hyphen that programs print for it.
document.addEventListener("DOMContentLoaded", () => {
  const MINUS = /(^|[\s([,±])-(?=\.?\d)/g;
  for (const place of document.querySelectorAll(".bd-article :is(table.dataframe td, figcaption, p, li)")) {
    for (const part of place.childNodes) if (part instanceof Text && part.data.includes("-")) part.data = part.data.replace(MINUS, "$1−");
  }
});

// A line does not begin with the comma after a formula, nor end with the bracket before one.
document.addEventListener("DOMContentLoaded", () => {
  for (const formula of document.querySelectorAll("span.math")) {
    const [before, after] = [formula.previousSibling, formula.nextSibling];
    const opens = before instanceof Text ? before.data.match(/[(\[“‘]$/) : null;
    const closes = after instanceof Text ? after.data.match(/^[)\]”’.,;:?!]+(’?s\b)?/) : null;
    if (!opens && !closes) continue;
    const together = document.createElement("span");
    together.className = "together";
    formula.replaceWith(together);
    together.append(formula);
    if (opens) together.prepend(before.splitText(before.length - 1));
    if (closes) {
      after.splitText(closes[0].length);
      together.append(after);
    }
  }
});

// What unfolds the reference in the navigation has an icon and no name.
document.addEventListener("DOMContentLoaded", () => {
  for (const toggle of document.querySelectorAll("summary:has(> .toctree-toggle)")) toggle.setAttribute("aria-label", "its pages");
});

// The appendices are folded in the navigation, but for a reader of one.
document.addEventListener("DOMContentLoaded", () => {
  const captions = [...document.querySelectorAll(".bd-sidebar-primary .caption")];
  const caption = captions.find((part) => part.textContent === "Appendices");
  const list = caption?.nextElementSibling;
  if (!list) return;
  const fold = document.createElement("details");
  fold.open = list.matches(".current");
  caption.replaceWith(fold);
  fold.append(document.createElement("summary"), list);
  fold.firstChild.append(caption);
});

// Evidence is folded, but for whoever is sent into it or prints it.
document.addEventListener("DOMContentLoaded", () => {
  const folds = [...document.querySelectorAll('section[id|="evidence"]')].map((section) => {
    const [fold, summary, inside] = ["details", "summary", "small"].map((tag) => document.createElement(tag));
    fold.className = "evidence";
    inside.textContent = "controls, intervals, other models, published claims";
    summary.append(section.querySelector("h2"), inside);
    fold.append(summary, ...section.childNodes);
    section.append(fold);
    return fold;
  });
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const fold = folds.find((of) => of.parentElement === target || of.contains(target));
    if (!fold || fold.open) return;
    fold.open = true;
    target.scrollIntoView();
  };
  open();
  addEventListener("hashchange", open);
  addEventListener("beforeprint", () => folds.forEach((fold) => (fold.open = true)));
});

// What has been opened once can be read again without a network (offline.js).
if ("serviceWorker" in navigator && document.currentScript) {
  const worker = new URL("../offline.js", document.currentScript.src);
  const QUIET = 3000; // milliseconds: whoever has come to read is served first
  addEventListener("load", async () => {
    do await new Promise((later) => setTimeout(later, QUIET));
    while (document.querySelector("[data-view][aria-busy]"));
    const first = !navigator.serviceWorker.controller;
    await navigator.serviceWorker.register(worker).catch(() => {}); // a file or a strict browser has none
    if (!first || !(await navigator.serviceWorker.getRegistration())) return;
    const { active } = await navigator.serviceWorker.ready;
    const tell = (loaded) => active.postMessage(loaded.map(({ name }) => name));
    tell([{ name: location.href.split("#")[0] }]);
    new PerformanceObserver((list) => tell(list.getEntries())).observe({ type: "resource", buffered: true });
  });
}
