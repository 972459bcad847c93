// The report: builds the page from its data. In a notebook, `render` shows the graph alone.

import { button, el, shown } from "./dom.js";
import { GraphView } from "./graph.js";
import { follow } from "./live.js";
import { matrices } from "./matrix.js";
import { comparison, course, difference, naive, pairTable, sites, trust } from "./sections.js";

const section = (id, title, ...content) => el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), content);

/** The graph with its table of pairs, for one run; one of several graphs is chosen by name. */
function explorer(run, root) {
  const place = el("div", {}), listing = el("div", {});
  let view = null;
  const choose = (pair, index = null) => {
    if (index !== null && run.graphs[index] !== view?.graph) show(index);
    view?.mark(pair);
  };
  const show = (index) => {
    view?.cy?.destroy();
    view = null;
    const graph = run.graphs[index];
    if (graph.layout) {
      view = new GraphView(run, graph, { root, choose: (pair) => choose(pair) });
      place.replaceChildren(view.element);
      if (place.isConnected) view.start();
    } else {
      place.replaceChildren(el("p", { class: "note" }, `${run.nodes.length} variables are too many to draw: see the matrix and the table of pairs.`));
    }
    listing.replaceChildren(pairTable(run, graph, (pair) => choose(pair)));
    if (select) select.value = String(index);
  };
  const select = run.graphs.length > 1 && el("select", { "aria-label": "Which graph" }, run.graphs.map((graph, k) => el("option", { value: String(k) }, graph.name)));
  if (select) select.addEventListener("change", () => show(Number(select.value)));
  show(run.graphs.length > 1 ? 1 : 0);
  return { element: el("div", {}, select && el("div", { class: "tools" }, el("label", { class: "field" }, el("span", {}, "Graph of"), select)), place), listing, choose,
    start: () => view?.start(), restyle: () => view?.restyle() };
}

function report(run, runs, root) {
  const parts = [], started = [], restyled = [];
  if (run.partial) parts.push(section("partial", "Not finished", el("p", { class: "warning" }, run.partial), el("pre", { class: "log" }, run.log.join("\n"))));
  if (run.trust.length) parts.push(section("trust", "How far to trust it", trust(run)));
  if (run.nodes.length) {
    const graph = explorer(run, root), map = matrices(run, { root, choose: graph.choose });
    started.push(graph.start);
    restyled.push(graph.restyle, map.redraw);
    parts.push(section("graph", "Graph", graph.element), section("pairs", "Pairs", graph.listing), section("matrix", "Matrix", map.element));
  } else if (!run.partial) parts.push(section("graph", "Graph", el("p", {}, "There are no variables.")));
  if (run.naive) {
    const views = run.naive.graphs[0].layout ? run.naive.graphs.map((graph, k) => new GraphView(run, graph, { root, beside: run.naive.graphs[1 - k] })) : [];
    started.push(() => views.forEach((view) => view.start()));
    restyled.push(() => views.forEach((view) => view.restyle()));
    parts.push(section("naive", "With and without the links between rows", naive(run.naive, views.map((view) => view.element))));
  }
  if (run.difference) parts.push(section("difference", "What tasks share, and what is unique", difference(run.difference)));
  if (runs.length > 1 || run.truth) parts.push(section("compare", "Compare", comparison(runs)));
  if (run.charts.length || run.traces.length || run.facts.length || run.correlations.length || run.clusters.length || Object.keys(run.measures).length) parts.push(section("course", "How it went", course(run)));
  if (run.sites) parts.push(section("sites", "What left each site", sites(run.sites)));
  return { parts, start: () => started.forEach((go) => go()), restyle: () => restyled.forEach((go) => go()) };
}

function themed(root, restyle) {
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
  return button("Dark or light", () => { root.dataset.theme = dark() ? "light" : "dark"; restyle(); });
}

/** Builds the whole page into `root`. */
export function mount(root, { runs, live }) {
  root.classList.add("polydag");
  let current = null;
  const main = el("main", {}), menu = el("nav", { "aria-label": "Sections" }), about = el("p", { class: "about" });
  const title = el("h1", {});
  const show = (index) => {
    const run = runs[index];
    current = report(run, runs, root);
    title.textContent = run.name || "report";
    about.textContent = [run.method, run.rows !== null && run.rows !== undefined && `${shown(run.rows)} rows`, run.nodes.length && `${run.nodes.length} variables`, run.data.length > 3 ? `${run.data.length} sources` : run.data.join(", "), run.seed !== null && run.seed !== undefined && `seed ${run.seed}`].filter(Boolean).join(" · ");
    main.replaceChildren(...current.parts);
    menu.replaceChildren(...current.parts.map((part) => el("a", { href: `#${part.id}` }, part.querySelector("h2").textContent)));
    current.start();
  };
  const choice = runs.length > 1 && el("select", { "aria-label": "Run", onchange: (event) => show(Number(event.target.value)) }, runs.map((run, k) => el("option", { value: String(k) }, run.name)));
  root.append(el("header", {}, el("div", {}, title, about), el("div", { class: "tools" }, choice && el("label", { class: "field" }, el("span", {}, "Run"), choice), themed(root, () => current?.restyle()))), menu, main);
  show(0);
  if (live) follow(main);
}

/** For anywidget: the graph and its pairs. */
function render({ model, el: place }) {
  const run = model.get("view");
  place.classList.add("polydag", "widget");
  const graph = explorer(run, place);
  place.append(graph.element, graph.listing);
  requestAnimationFrame(graph.start);
  return () => place.replaceChildren();
}

const data = document.getElementById("polydag-data");
if (data) mount(document.body, JSON.parse(data.textContent));

export default { render };
