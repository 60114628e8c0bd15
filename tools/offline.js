/** The book without a network: what a reader has opened once is there again.
 *
 *  Modules and data lie in a folder that is named for what is in it, and other files carry a version:
 *  these never change under their address and come from the cache. A page itself comes from the network
 *  while there is one. Since a page names the folder that it was built with, no old weights stand beside
 *  new words: where its own are not kept, a view says that it failed. */

const FIXED = /\/_static\/(?:at-\w+\/|.*[?&](?:v|digest)=)/;
const FOLDER = /\/_static\/(at-\w+)\//;
const kept = caches.open(registration.scope);

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));

addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || !request.url.startsWith(registration.scope)) return;
  event.respondWith(FIXED.test(request.url) ? first(event) : newest(event));
});

// what the first page has loaded before there was anybody to keep it
addEventListener("message", (event) => {
  const loads = event.data.map(async (url) => {
    const cache = await kept;
    if (url.startsWith(registration.scope) && !(await cache.match(url)))
      await keep(url, await fetch(url));
  });
  event.waitUntil(Promise.allSettled(loads));
});

/** From the cache, or else from the network. @param {FetchEvent} event */
async function first(event) {
  return (await (await kept).match(event.request)) ?? fetched(event, await fetch(event.request));
}

/** From the network, or else as it was when there was one. @param {FetchEvent} event */
async function newest(event) {
  try {
    return fetched(event, await fetch(event.request, { cache: "no-cache" }));
  } catch (error) {
    const known = await (await kept).match(event.request, { ignoreSearch: true });
    if (known) return known;
    if (event.request.mode === "navigate") return absent();
    throw error;
  }
}

/** What stands in for a page that is not kept: a line, and the pages that are. */
async function absent() {
  const pages = (await (await kept).keys()).map(({ url }) => url).filter((url) => url.endsWith(".html"));
  const named = (url) => url.slice(url.lastIndexOf("/") + 1, -".html".length).replace(/[^\w-]/g, "_");
  const links = pages.sort().map((url) => `<li><a href="${url}">${named(url)}</a>`);
  const words =
    "<p>There is no network, and this page of the book has not been opened here before. These have:";
  const head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>No network</title>';
  const type = { "Content-Type": "text/html; charset=utf-8" };
  return new Response(`${head}${words}<ul>${links.join("")}</ul>`, { headers: type, status: 503 });
}

/** @param {FetchEvent} event @param {Response} response */
function fetched(event, response) {
  event.waitUntil(keep(event.request.url, response.clone()));
  return response;
}

/** What is kept of a folder of another build goes. @param {string} url @param {Response} response */
async function keep(url, response) {
  if (response.status !== 200) return;
  const cache = await kept;
  await cache.put(url.split("#")[0], response);
  const folder = FOLDER.exec(url)?.[1];
  if (!folder) return;
  for (const { url: other } of await cache.keys())
    if ((FOLDER.exec(other)?.[1] ?? folder) !== folder) await cache.delete(other);
}
