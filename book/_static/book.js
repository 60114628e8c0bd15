// The bibliography's list holds links between its entries, which a list may not: it is no list to a screen reader.
document.addEventListener("DOMContentLoaded", () => {
  for (const list of document.querySelectorAll(".citation-list[role=list]")) list.removeAttribute("role");
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
        await window.MathJax.typesetPromise(places.splice(0, atOnce));
      }
    },
  };
}
