// The bibliography's list holds links between its entries, which a list may not: it is no list to a screen reader.
document.addEventListener("DOMContentLoaded", () => {
  for (const list of document.querySelectorAll(".citation-list[role=list]")) list.removeAttribute("role");
});

// Equations are set when everything else has begun, a few at a time, those in sight first: the page answers meanwhile.
if (window.MathJax) {
  const waiting = () => [...document.querySelectorAll(".math")].map((place) => [Math.abs(place.getBoundingClientRect().top), place]);
  window.MathJax.startup = {
    async pageReady() {
      if (document.readyState !== "complete") await new Promise((loaded) => addEventListener("load", loaded));
      const places = waiting().sort(([a], [b]) => a - b).map(([, place]) => place);
      const atOnce = Math.max(6, Math.ceil(places.length / 40)); // more on a long page, which takes long to lay out again
      while (places.length) {
        await new Promise((breathed) => setTimeout(breathed));
        await window.MathJax.typesetPromise(places.splice(0, atOnce));
      }
    },
  };
}
