// The graph: what is drawn at a threshold, the panel of a pair, search and focus, and export.

import cytoscape from "cytoscape";
import { button, download, el, field, share, shown } from "./dom.js";
import { figure } from "./figure.js";
import { layered } from "./layers.js";
import { BACKWARD, LINE, around, drawn, effect, measure, pairsOf, quality, relations, size, strongest, words } from "./pairs.js";

const MANY_NODES = 60, LONGEST = 28, TINY = 0.38, READABLE = 0.6;
const FOCUS = { blanket: "Markov blanket", neighbours: "neighbours", parents: "parents", children: "children", ancestors: "ancestors", descendants: "descendants" };
const shortened = (name) => (name.length <= LONGEST ? name : `${name.slice(0, LONGEST - 1)}…`);

/** The colours of the page, which follow its theme. */
export function colours(root) {
  const style = getComputedStyle(root);
  const names = ["ink", "soft", "box", "border", "positive", "negative", "plain", "accent", "paper"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** What one pair is, in a list of terms. */
export function pairPanel(pair, graph, names) {
  const confidence = graph.kind === "frequency" ? "Frequency" : "Probability";
  const [a, b] = [names[pair.a], names[pair.b]];
  const rows = [];
  if (graph.kind) {
    rows.push([`${confidence} of a connection`, share(pair.adjacent)]);
    if (pair.low !== null) rows.push(["Its 95 % interval", `${share(pair.low)} to ${share(pair.high)}`]);
    if (pair.forward !== null) rows.push([`${confidence} of ${a} → ${b}`, share(pair.forward)], [`${confidence} of ${b} → ${a}`, share(pair.backward)]);
  }
  if (pair.weight !== null) rows.push(["Coefficient", shown(pair.weight)]);
  if (pair.weightLow !== null) rows.push(["Its 95 % interval", `${shown(pair.weightLow)} to ${shown(pair.weightHigh)}`]);
  if (pair.standardised !== null) rows.push(["Standardised coefficient", shown(pair.standardised)]);
  if (pair.strength !== null) rows.push(["Partial correlation, without sign", share(pair.strength)]);
  if (pair.rHat !== null) rows.push(["R-hat of the chains", shown(pair.rHat)]);
  if (pair.ess !== null) rows.push(["Effective sample size of the chains", shown(Math.round(pair.ess))]);
  const learned = pair.edge ? words(pair, names, pair.edge) : "not connected";
  const unsure = graph.kind && drawn(pair) === LINE && pair.adjacent >= 0.5
    ? el("p", {}, "Connected, but the direction is not determined: drawn as a line without arrowhead.") : null;
  return [el("h3", {}, `${a} and ${b}`), el("dl", {}, [["Learned graph", learned], ...rows].map(([term, value]) => [el("dt", {}, term), el("dd", {}, value)])), unsure];
}

/** The bends of an edge as cytoscape has them: along and beside the straight line between its ends. */
function bends(points, from, to) {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]], square = dx * dx + dy * dy || 1, length = Math.sqrt(square);
  const weights = [], distances = [];
  for (let k = 0; k < points.length; k += 2) {
    const [px, py] = [points[k] - from[0], points[k + 1] - from[1]];
    weights.push((px * dx + py * dy) / square);
    distances.push((py * dx - px * dy) / length);
  }
  return { weights, distances };
}

/** A graph with its controls; `beside` is another graph over the same pairs, from which it is told apart by colour. */
export class GraphView {
  constructor(run, graph, { root, choose = () => {}, beside = null }) {
    Object.assign(this, { run, root, choose, graph, names: run.nodes, beside: beside && pairsOf(beside) });
    this.pairs = pairsOf(this.graph);
    this.of = measure(this.graph);
    this.largest = this.graph.kind ? 1 : Math.max(...this.pairs.map(this.of), 0) || 1;
    this.signed = this.pairs.some((pair) => (effect(pair) ?? 0) < 0) || (!this.graph.kind && this.pairs.some((pair) => ![null, 1].includes(effect(pair))));
    this.focus = null;
    this.controls();
  }

  controls() {
    const { graph, names, pairs } = this, many = names.length > MANY_NODES;
    const low = graph.kind ? 0.05 : 0;
    const start = graph.kind === "probability" ? 0.5 : low;
    const what = graph.kind ? `${graph.kind} of a connection` : pairs.some((pair) => pair.standardised !== null || pair.strength !== null) ? "standardised effect" : "|weight|";
    this.slider = el("input", { type: "range", min: String(low), max: String(this.largest), step: String(this.largest / 200), "aria-label": `Smallest ${what} shown` });
    this.slider.value = String(start);
    this.level = el("output", {});
    this.top = el("input", { type: "number", min: "1", max: String(Math.max(pairs.length, 1)), "aria-label": "Strongest edges shown" });
    this.top.value = String(many ? Math.max(1, Math.min(graph.layout?.first.length ?? 80, pairs.length)) : Math.max(pairs.length, 1));
    this.learned = el("input", { type: "checkbox", checked: graph.kind !== "probability" });
    this.count = el("output", { class: "count", "aria-live": "polite" });
    const list = `nodes-${Math.random().toString(36).slice(2)}`;
    this.search = el("input", { type: "search", list, placeholder: "name of a variable", "aria-label": "Search a variable" });
    this.mode = el("select", { "aria-label": "What to show around it" }, Object.entries(FOCUS).map(([value, text]) => el("option", { value }, text)));
    const redraw = () => this.update();
    for (const input of [this.slider, this.top, this.learned]) input.addEventListener("input", redraw);
    this.search.addEventListener("input", () => this.find(this.search.value));
    this.search.addEventListener("keydown", (event) => event.key === "Enter" && this.find(this.search.value, true));
    this.mode.addEventListener("change", () => this.focus !== null && this.focusOn(this.focus));
    this.tools = el("div", { class: "tools" },
      field(`Smallest ${what}`, el("span", { class: "row" }, this.slider, this.level)),
      field("Strongest edges", this.top),
      graph.kind && el("label", { class: "check" }, this.learned, " only edges of the learned graph"),
      field("Search", el("span", { class: "row" }, this.search, this.mode)), el("datalist", { id: list }, names.map((name) => el("option", { value: name }))),
      button("Show all", () => this.focusOn(null)));
    this.buttons = el("div", { class: "tools" },
      button("Fit", () => this.fit()), button("Rearrange", () => this.rearrange()), button("Unpin all", () => this.unpin()),
      button("Save PNG", () => download("graph.png", this.cy.png({ output: "blob", full: true, scale: 2, bg: colours(this.root).paper }))),
      button("Save SVG", () => download("graph.svg", this.svg(), "image/svg+xml")),
      button("Save PDF", () => this.print()));
    this.canvas = el("div", { class: "canvas", tabIndex: 0, role: "application", onkeydown: (event) => this.key(event) });
    this.panel = el("aside", { class: "panel", tabIndex: 0, "aria-label": "The chosen pair", "aria-live": "polite" }, el("p", { class: "hint" }, "Choose an edge, or a pair in the table below, to see what is known about it."));
    this.element = this.beside ? el("figure", { class: "graph" }, el("figcaption", {}, graph.name), this.count, this.canvas)
      : el("div", { class: "graph" }, this.tools, this.count, el("div", { class: "split" }, this.canvas, this.panel), this.legend(), this.buttons);
  }

  legend() {
    const line = (kind, text) => el("li", { class: kind }, text);
    return el("ul", { class: "legend" },
      this.signed && [line("positive", "positive"), line("negative", "negative")],
      line("thick", this.graph.kind && !this.signed ? `thicker: higher ${this.graph.kind} of a connection` : "thicker: stronger"),
      line("plain", "no arrowhead: direction not determined"));
  }

  /** Draws for the first time; the canvas must be in the document. */
  start() {
    const { layout } = this.graph, theme = colours(this.root);
    this.cy = cytoscape({
      container: this.canvas,
      elements: this.names.map((name, i) => ({ data: { id: `n${i}`, node: i, name, label: shortened(name), w: layout.boxes[i][2] },
        position: { x: layout.boxes[i][0], y: layout.boxes[i][1] } })),
      layout: { name: "preset" },
      style: this.style(theme),
      minZoom: 0.02, maxZoom: 4, boxSelectionEnabled: false,
      hideEdgesOnViewport: this.pairs.length > 3000, pixelRatio: this.names.length > 200 ? 1 : "auto",
    });
    this.made = new Set();
    this.drawnIds = new Set();
    this.bent = true;
    this.cy.on("tap", "edge", ({ target }) => this.choose(this.pairs[target.data("pair")]));
    this.cy.on("tap", "node", ({ target }) => { this.search.value = target.data("name"); this.focusOn(target.data("node"), { stay: true }); });
    this.cy.on("dragfree", "node", ({ target }) => target.addClass("pinned"));
    this.update();
    this.fit();
    if (this.cy.zoom() < TINY) this.legible();
  }

  /** Where a narrow window would show all but no name, the first corner at a size that can be read. */
  legible() {
    const box = this.cy.elements().not(".off").boundingBox();
    this.cy.zoom(READABLE);
    this.cy.pan({ x: 12 - box.x1 * READABLE, y: 12 - box.y1 * READABLE });
  }

  style(theme) {
    return [
      { selector: "node", style: { shape: "round-rectangle", width: "data(w)", height: 30, label: "data(label)", "text-valign": "center", "font-size": 13,
        "font-family": "system-ui, Helvetica, Arial, sans-serif", color: theme.ink, "background-color": theme.box, "border-width": 1, "border-color": theme.border, "min-zoomed-font-size": 4 } },
      { selector: "edge", style: { width: "data(width)", "line-color": "data(colour)", "target-arrow-color": "data(colour)", "curve-style": "straight", "arrow-scale": 1.1 } },
      { selector: "edge[how != 3]", style: { "target-arrow-shape": "triangle" } },
      { selector: "edge[weights]", style: { "curve-style": "round-segments", "segment-weights": "data(weights)", "segment-distances": "data(distances)", "segment-radii": 60, "edge-distances": "node-position" } },
      { selector: ".off", style: { display: "none" } },
      { selector: ".centre", style: { "border-width": 3, "border-color": theme.accent } },
      { selector: ".pinned", style: { "border-style": "double", "border-width": 3 } },
      { selector: "edge.chosen", style: { "underlay-color": theme.accent, "underlay-opacity": 0.35, "underlay-padding": 5 } },
    ];
  }

  restyle() {
    if (!this.cy) return;
    const theme = colours(this.root);
    this.cy.edges().forEach((edge) => { edge.data("colour", this.colour(this.pairs[edge.data("pair")], theme)); });
    this.cy.style(this.style(theme));
  }

  colour(pair, theme) {
    if (this.beside) return this.beside[pair.id].edge === pair.edge ? theme.plain : theme.negative;
    const value = effect(pair);
    return !this.signed || !value ? theme.plain : value > 0 ? theme.positive : theme.negative;
  }

  width(pair) {
    if (this.beside) return 2.5;
    const value = this.signed && pair.edge ? size(pair) / (this.widest ??= Math.max(...this.pairs.filter((p) => p.edge).map(size)) || 1) : this.of(pair) / this.largest;
    return Number((1.2 + 4 * Math.min(1, value)).toFixed(2));
  }

  /** The pairs to draw now. */
  visible() {
    if (this.beside) return this.pairs.filter((pair) => pair.edge && this.graph.layout.first.includes(pair.id));
    const threshold = Number(this.slider.value), top = Number(this.top.value) || Infinity;
    const kept = this.pairs.filter((pair) => this.of(pair) >= threshold - 1e-9 && (pair.edge || !this.learned.checked));
    return kept.length > top ? strongest(kept, this.of).slice(0, top) : kept;
  }

  edge(pair, theme) {
    const how = drawn(pair), [from, to] = how === BACKWARD ? [pair.b, pair.a] : [pair.a, pair.b];
    const data = { id: `p${pair.id}`, pair: pair.id, source: `n${from}`, target: `n${to}`, how, width: this.width(pair), colour: this.colour(pair, theme), tip: words(pair, this.names) };
    const route = this.graph.layout.bends[pair.id];
    if (route && this.bent) {
      const points = how === BACKWARD ? route.reduceRight((out, value, k) => (k % 2 ? out : [...out, value, route[k + 1]]), []) : route;
      Object.assign(data, bends(points, this.graph.layout.boxes[from], this.graph.layout.boxes[to]));
    }
    return { group: "edges", data };
  }

  update() {
    const all = this.visible(), near = relations(all, this.names.length);
    const inside = this.focus === null ? null : around(this.focus, this.mode.value, near);
    const shownPairs = inside ? all.filter((pair) => inside.has(pair.a) && inside.has(pair.b)) : all;
    const ids = new Set(shownPairs.map((pair) => pair.id)), theme = colours(this.root);
    const linked = new Set(shownPairs.flatMap((pair) => [pair.a, pair.b]));
    const hide = this.names.length > MANY_NODES;
    this.cy.batch(() => {
      this.cy.add(shownPairs.filter((pair) => !this.made.has(pair.id)).map((pair) => { this.made.add(pair.id); return this.edge(pair, theme); }));
      for (const id of this.drawnIds) if (!ids.has(id)) this.cy.getElementById(`p${id}`).addClass("off");
      for (const id of ids) if (!this.drawnIds.has(id)) this.cy.getElementById(`p${id}`).removeClass("off");
      this.cy.nodes().forEach((node) => {
        const i = node.data("node"), off = inside ? !inside.has(i) : hide && !linked.has(i);
        if (node.hasClass("off") !== off) node.toggleClass("off", off);
        if (node.hasClass("centre") !== (i === this.focus)) node.toggleClass("centre", i === this.focus);
      });
    });
    this.drawnIds = ids;
    this.now = { pairs: shownPairs, nodes: inside ? [...inside] : this.names.map((_, i) => i).filter((i) => !hide || linked.has(i)) };
    this.report(shownPairs, hide && !inside ? this.names.length - linked.size : 0);
  }

  report(pairs, hidden) {
    const truth = this.run.truth, all = this.beside ? this.pairs.filter((pair) => pair.edge).length : this.pairs.length;
    const parts = [`${pairs.length} ${pairs.length === 1 ? "edge" : "edges"} shown of ${all}`];
    if (hidden) parts.push(`${hidden} variables without such an edge are hidden`);
    if (truth && this.focus === null && !this.beside) {
      const { adjacency, arrowhead } = quality(pairs, truth);
      parts.push(`against the truth: adjacency precision ${share(adjacency[0])}, recall ${share(adjacency[1])}; arrowhead precision ${share(arrowhead[0])}, recall ${share(arrowhead[1])}`);
    }
    this.level.textContent = share(Number(this.slider.value));
    this.count.textContent = parts.join("; ");
    this.canvas.setAttribute("aria-label", `Graph: ${parts.join("; ")}. Arrow keys move, plus and minus zoom, Escape shows all; the table of pairs has the same content.`);
  }

  find(text, enter = false) {
    const exact = this.names.indexOf(text.trim()), part = text.trim().toLowerCase();
    const found = exact >= 0 || !enter || !part ? exact : this.names.findIndex((name) => name.toLowerCase().includes(part));
    if (found >= 0) this.focusOn(found);
    else if (!part) this.focusOn(null);
  }

  focusOn(node, { stay = false } = {}) {
    if (stay && node === this.focus) node = null;
    this.focus = node;
    if (node === null) this.search.value = "";
    this.update();
    if (node === null) this.restore();
    else this.rearrange();
  }

  restore() {
    this.cy.nodes().not(".pinned").forEach((item) => { const [x, y] = this.graph.layout.boxes[item.data("node")]; item.position({ x, y }); });
    this.routes(true);
    this.fit();
  }

  rearrange() {
    const place = layered(this.now.nodes, this.now.pairs, this.graph.layout.boxes.map((box) => box[2]));
    this.routes(false);
    this.cy.nodes().not(".pinned").forEach((node) => { const to = place.get(node.data("node")); if (to) node.position(to); });
    this.fit();
  }

  /** Bends belong to the first layout only. */
  routes(on) {
    if (on === this.bent) return;
    this.bent = on;
    const theme = colours(this.root);
    this.cy.remove(this.cy.edges());
    this.made.clear();
    this.drawnIds.clear();
    this.cy.add(this.now.pairs.map((pair) => { this.made.add(pair.id); this.drawnIds.add(pair.id); return this.edge(pair, theme); }));
  }

  unpin() {
    this.cy.nodes().removeClass("pinned");
    if (this.focus === null) this.restore();
    else this.rearrange();
  }

  fit() {
    const seen = this.cy.elements().not(".off");
    if (seen.empty()) return;
    this.cy.fit(seen, 20);
    if (this.cy.zoom() > 1.3) { this.cy.zoom(1.3); this.cy.center(seen); }
  }

  mark(pair) {
    this.cy?.edges().removeClass("chosen");
    this.cy?.getElementById(`p${pair.id}`).addClass("chosen");
    this.panel.replaceChildren(...pairPanel(pair, this.graph, this.names).filter(Boolean));
  }

  key(event) {
    const step = 60, moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    const zoom = { "+": 1.25, "=": 1.25, "-": 0.8 }[event.key];
    if (moves[event.key]) this.cy.panBy({ x: moves[event.key][0], y: moves[event.key][1] });
    else if (zoom) this.cy.zoom({ level: this.cy.zoom() * zoom, renderedPosition: { x: this.cy.width() / 2, y: this.cy.height() / 2 } });
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") this.focusOn(null);
    else return;
    event.preventDefault();
  }

  svg() {
    return figure(this.cy, { ...colours(this.root) }, `Graph with ${this.now.nodes.length} nodes and ${this.now.pairs.length} edges`);
  }

  /** Prints the drawing alone, which every browser saves as PDF with its vectors and fonts. */
  print() {
    const sheet = el("div", { class: "sheet" });
    sheet.append(document.importNode(new DOMParser().parseFromString(this.svg(), "image/svg+xml").documentElement, true));
    document.body.append(sheet);
    document.body.classList.add("printing");
    const over = () => { sheet.remove(); document.body.classList.remove("printing"); };
    addEventListener("afterprint", over, { once: true });
    window.print();
  }
}
