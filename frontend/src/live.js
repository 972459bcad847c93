// Follows a run that goes on: the server sends a message for every step, and one at the end.

import { el } from "./dom.js";

export function follow(place) {
  const list = el("ul", { class: "progress" }), tasks = new Map();
  const state = el("p", { role: "status" }, "Waiting for the run …");
  place.append(state, list);
  const source = new EventSource(`events${location.search}`);
  source.addEventListener("step", (event) => {
    const { task, done, total, note } = JSON.parse(event.data);
    if (!tasks.has(task)) {
      const bar = el("progress", { "aria-label": task }), text = el("span", {});
      tasks.set(task, { bar, text });
      list.append(el("li", {}, el("strong", {}, task), bar, text));
    }
    const { bar, text } = tasks.get(task);
    if (total) { bar.max = total; bar.value = done; }
    text.textContent = `${total ? `${done} of ${total}` : done || ""} ${note}`;
    state.textContent = "The run goes on; this page updates by itself.";
  });
  source.addEventListener("log", (event) => { place.querySelector(".log")?.append(`${JSON.parse(event.data)}\n`); });
  source.addEventListener("end", (event) => {
    source.close();
    state.textContent = JSON.parse(event.data) || "The run has ended.";
    if (!JSON.parse(event.data)) location.reload();
  });
  source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED) state.textContent = "The run has ended, or its server was stopped."; });
}
