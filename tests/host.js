/** A host of the plain anywidget protocol: a model has these six functions and nothing else, and an
 *  event is one name. Every view gets a bundle of its own, as in a notebook. With a style sheet it
 *  stands in a shadow; a `silent` host sends nothing, and the view is not awaited. */
window.host = async ({ source, state, data, css, silent }) => {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const module = await import(url);
  const larger =
    data && (await new Blob(["-------", await (await fetch(data)).blob()]).arrayBuffer());
  const values = { ...state };
  const listeners = new Map();
  const listenersOf = (name) => {
    if (!/^(change(:\w+)?|msg:custom)$/.test(name)) throw new Error(`no event: ${name}`);
    if (!listeners.has(name)) listeners.set(name, new Set());
    return listeners.get(name);
  };
  const model = {
    get: (name) => values[name],
    set(name, value) {
      if (JSON.stringify(values[name]) === JSON.stringify(value)) return;
      values[name] = value;
      for (const event of [`change:${name}`, "change"]) for (const run of listenersOf(event)) run();
    },
    save_changes() {},
    on: (name, run) => void listenersOf(name).add(run),
    off: (name, run) => void listenersOf(name).delete(run),
    async send(message) {
      window.requests = (window.requests ?? 0) + 1;
      await null; // an answer is never there at once
      const [answer, buffers] = [{ layer: values.layer }, [new DataView(larger, 7)]];
      if (message.wanted === "layer" && !silent)
        for (const run of listenersOf("msg:custom")) run(answer, buffers);
    },
  };
  const el = document.createElement("div");
  const place = document.createElement("div");
  document.querySelector("main").append(place);
  if (css) {
    const style = document.createElement("style");
    style.textContent = css;
    place.attachShadow({ mode: "open" }).append(style, el);
  } else place.append(el);
  const rendered = module.default.render({ model, el });
  const end = silent ? null : await rendered;
  window.hosted = [...(window.hosted ?? []), { model, el, end, listeners, values }];
};
