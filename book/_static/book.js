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
    for (const column of rows.at(-1)?.keys() ?? []) {
      const cells = rows.map((row) => row[column]).filter((cell) => cell && cell.colSpan === 1);
      const entries = cells.filter((cell) => cell.matches("td")).map((cell) => cell.textContent.trim()).filter((entry) => entry);
      if (entries.length && entries.every((entry) => NUMBER.test(entry))) for (const cell of cells) cell.classList.add("number");
    }
  }
});

// A minus is longer than the hyphen that programs print for it.
document.addEventListener("DOMContentLoaded", () => {
  const MINUS = /(^|[\s([,±])-(?=\.?\d)/g;
  for (const place of document.querySelectorAll(".bd-article :is(table.dataframe td, figcaption)")) {
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

// A formula that is longer than its line goes on in the next, before a relation or a sign; inside brackets only if it must.
const glyphs = (text) => [...text].map((glyph) => `mjx-c${glyph.codePointAt(0).toString(16).toUpperCase()}`);
const [SIGNS, OPENING, CLOSING] = ["=≈≤≥<>∝+−", "([", ")]"].map(glyphs);
const base = (part) => (part.matches("mjx-msup, mjx-msub, mjx-msubsup") ? part.firstElementChild : part); // of a bracket with an exponent
const shows = (part, glyphs) => base(part)?.matches("mjx-mo") && glyphs.some((glyph) => base(part).querySelector("mjx-c")?.classList.contains(glyph));
function cut(parts, inBrackets) {
  let piece;
  let depth = 0;
  for (const part of parts) {
    if (!piece || (shows(part, SIGNS) && (inBrackets || !depth))) {
      piece = document.createElement("span");
      piece.className = "piece";
      part.before(piece);
    }
    depth += Number(shows(part, OPENING)) - Number(shows(part, CLOSING));
    piece.append(part);
  }
}
function breakLong(formula) {
  const set = formula.querySelector("mjx-math");
  const line = formula.closest("p, li, dd, td, figcaption")?.clientWidth || innerWidth;
  formula.classList.add("broken");
  cut([...set.children], false);
  for (const piece of [...set.children].filter((long) => long.offsetWidth > line)) {
    piece.classList.remove("piece");
    cut([...piece.children], true);
  }
  formula.closest(".together")?.classList.add("loose");
  for (const piece of set.querySelectorAll(".piece")) piece.classList.toggle("wide", piece.offsetWidth > line);
}
const tooLong = (place) => place.matches("span") && place.scrollWidth > place.clientWidth + 1;

// Equations are set when everything else has begun, a few at a time, those in sight first: the page answers meanwhile.
// A view that is starting goes before them, for a second at most.
if (window.MathJax) {
  const LONGEST = 1000;
  const begun = async () => {
    for (const until = performance.now() + LONGEST; performance.now() < until && document.querySelector("[data-view][aria-busy]"); )
      await new Promise((breathed) => setTimeout(breathed, 20));
  };
  const waiting = () => [...document.querySelectorAll(".math")].map((place) => [Math.abs(place.getBoundingClientRect().top), place]);
  window.MathJax.startup = {
    async pageReady() {
      if (document.readyState !== "complete") await new Promise((loaded) => addEventListener("load", loaded));
      await begun();
      const places = waiting().sort(([a], [b]) => a - b).map(([, place]) => place);
      const atOnce = Math.max(6, Math.ceil(places.length / 40)); // more on a long page, which takes long to lay out again
      while (places.length) {
        await new Promise((breathed) => setTimeout(breathed));
        const next = places.splice(0, atOnce);
        await window.MathJax.typesetPromise(next);
        // measured all at once, and changed after that: each turn from the one to the other lays the page out
        next.filter(tooLong).forEach(breakLong);
      }
      // what is folded has no width before it is unfolded
      const unfolded = new ResizeObserver((folds) => {
        for (const { target } of folds) [...target.querySelectorAll(".math:not(.broken)")].filter(tooLong).forEach(breakLong);
      });
      document.querySelectorAll(".dropdown").forEach((fold) => unfolded.observe(fold));
    },
  };
}
