// The bibliography's list holds links between its entries, which a list may not: it is no list to a screen reader.
document.addEventListener("DOMContentLoaded", () => {
  for (const list of document.querySelectorAll(".citation-list[role=list]")) list.removeAttribute("role");
});
