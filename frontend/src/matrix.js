// Heat maps of all pairs: rows point to columns, ordered by structure; several graphs side by side.

import { button, download, el, shown } from "./dom.js";
import { colours } from "./graph.js";
import { effect, pairsOf, size as sizeOf } from "./pairs.js";

const SIDE = 420, MOST_LABELS = 50;

/** The value of each ordered pair, in the order of rows and columns. */
function values(graph, n, either) {
  const place = new Array(n);
  graph.order.forEach((node, k) => { place[node] = k; });
  const matrix = new Float32Array(n * n);
  for (const pair of pairsOf(graph)) {
    const [a, b] = [place[pair.a], place[pair.b]], size = graph.kind ? pair.adjacent ?? 0 : effect(pair) ?? sizeOf(pair);
    const directed = graph.kind && pair.forward !== null;
    matrix[a * n + b] = either ? size : directed ? pair.forward : pair.edge & 1 ? size : 0;
    matrix[b * n + a] = either ? size : directed ? pair.backward : pair.edge & 2 ? size : 0;
  }
  return matrix;
}

/** One map: its caption, its values row by row, and whether their sign has a colour. */
function heatMap(run, { name, matrix, signed, graph }, { root, choose, either, order }) {
  const n = run.nodes.length;
  const largest = !signed ? 1 : matrix.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  const label = n <= MOST_LABELS ? 90 : 0, cell = n > SIDE ? 1 : Math.max(1, Math.floor(SIDE / Math.max(n, 1)));
  const size = label + cell * n, ratio = n > 1000 ? 1 : Math.min(devicePixelRatio || 1, 2);
  const canvas = el("canvas", { width: size * ratio, height: size * ratio, tabIndex: 0, role: "img" });
  canvas.style.width = `${size}px`;
  const said = el("output", { class: "count", "aria-live": "polite" }, "Point at a cell, or use the arrow keys.");
  let cursor = null;

  function draw() {
    const theme = colours(root), context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, size, size);
    context.strokeStyle = theme.border;
    context.strokeRect(label + 0.5, label + 0.5, size - label - 1, size - label - 1);
    for (let k = 0; k < n * n; k++) {
      if (!matrix[k]) continue;
      context.globalAlpha = Math.min(1, 0.04 + 0.96 * Math.abs(matrix[k]) / largest);
      context.fillStyle = !signed ? theme.accent : matrix[k] > 0 ? theme.positive : theme.negative;
      context.fillRect(label + (k % n) * cell, label + Math.floor(k / n) * cell, cell, cell);
    }
    context.globalAlpha = 1;
    context.fillStyle = theme.ink;
    context.font = `${Math.min(11, cell)}px system-ui, sans-serif`;
    if (label) order.forEach((node, k) => {
      const text = run.nodes[node].length > 15 ? `${run.nodes[node].slice(0, 14)}…` : run.nodes[node];
      context.textAlign = "right";
      context.fillText(text, label - 4, label + (k + 0.75) * cell);
      context.save();
      context.translate(label + (k + 0.75) * cell, label - 4);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(text, 0, 0);
      context.restore();
    });
    if (cursor) {
      context.strokeStyle = theme.ink;
      context.strokeRect(label + cursor[1] * cell - 0.5, label + cursor[0] * cell - 0.5, cell + 1, cell + 1);
    }
  }
  function point(row, column) {
    if (row < 0 || column < 0 || row >= n || column >= n) return;
    cursor = [row, column];
    const [a, b] = [run.nodes[order[row]], run.nodes[order[column]]];
    said.textContent = row === column ? a : `${a} ${either() ? "—" : "→"} ${b}: ${shown(matrix[row * n + column])}`;
    draw();
  }
  const at = (event) => {
    const box = canvas.getBoundingClientRect(), scale = size / box.width;
    return [Math.floor(((event.clientY - box.top) * scale - label) / cell), Math.floor(((event.clientX - box.left) * scale - label) / cell)];
  };
  canvas.addEventListener("mousemove", (event) => point(...at(event)));
  const enter = () => {
    if (!cursor) return;
    const [a, b] = [order[cursor[0]], order[cursor[1]]].sort((x, y) => x - y);
    const pair = graph && pairsOf(graph).find((item) => item.a === a && item.b === b);
    if (pair) choose(pair);
  };
  canvas.addEventListener("click", (event) => { point(...at(event)); enter(); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (step) { const [r, c] = cursor ?? [0, -1]; point(r + step[0], c + step[1]); event.preventDefault(); }
    else if (event.key === "Enter") enter();
  });
  canvas.setAttribute("aria-label", `Matrix ${name}: ${n} variables; rows point to columns.`);
  draw();
  return { draw, element: el("figure", { class: "map" }, el("figcaption", {}, name), canvas, said,
    button("Save PNG", () => canvas.toBlob((blob) => download("matrix.png", blob)))) };
}

/** All heat maps of a run, in the same order, with a choice between directions and connections. */
export function matrices(run, { root, choose }) {
  const box = el("input", { type: "checkbox" }), place = el("div", { class: "maps" });
  let maps = [];
  const build = () => {
    const order = run.graphs[0].order, either = () => box.checked, n = run.nodes.length;
    const shownMaps = run.graphs.map((graph) => ({ graph, matrix: values({ ...graph, order }, n, box.checked), signed: !graph.kind,
      name: graph.name || (graph.kind ? `${graph.kind} of each edge` : "weight of each edge") }));
    const tasks = shownMaps.slice(1);
    if (tasks.length === 2) {
      const [first, second] = tasks;
      shownMaps.push({ name: `${first.name} − ${second.name}`, signed: true, matrix: first.matrix.map((value, k) => value - second.matrix[k]) });
    }
    maps = shownMaps.map((map, k) => heatMap(run, map, { root, choose: (pair) => choose(pair, k), either, order }));
    place.replaceChildren(...maps.map((map) => map.element));
  };
  box.addEventListener("change", build);
  build();
  return { redraw: () => maps.forEach((map) => map.draw()), element: el("div", {}, el("div", { class: "tools" }, el("label", { class: "check" }, box, " either direction")), place) };
}
