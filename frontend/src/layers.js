// A small layered layout for part of a graph, such as the neighbourhood of a node.

import { BACKWARD, LINE, drawn } from "./pairs.js";

const DOWN = 90, GAP = 26, SWEEPS = 12;

/** Positions by node: layers by longest path, order by barycentres; lines follow the order of the nodes. */
export function layered(nodes, pairs, widths) {
  const level = new Map(nodes.map((node) => [node, 0]));
  const arrows = pairs.map((pair) => (drawn(pair) === BACKWARD ? [pair.b, pair.a] : [pair.a, pair.b]));
  const sure = arrows.filter((_, k) => drawn(pairs[k]) !== LINE);
  for (let round = 0, moved = true; moved && round < nodes.length; round++) {
    moved = false;
    for (const [from, to] of round ? sure : arrows) {
      if (level.get(to) <= level.get(from)) { level.set(to, level.get(from) + 1); moved = true; }
    }
  }
  const used = [...new Set(level.values())].sort((x, y) => x - y);
  const layers = used.map((value) => nodes.filter((node) => level.get(node) === value));
  const near = new Map(nodes.map((node) => [node, []]));
  for (const [from, to] of arrows) { near.get(from).push(to); near.get(to).push(from); }
  const x = new Map();
  const place = (layer) => {
    const total = layer.reduce((sum, node) => sum + widths[node] + GAP, -GAP);
    let left = -total / 2;
    for (const node of layer) { x.set(node, left + widths[node] / 2); left += widths[node] + GAP; }
  };
  layers.forEach(place);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      const centre = new Map(layer.map((node) => {
        const around = near.get(node);
        return [node, around.length ? around.reduce((sum, other) => sum + x.get(other), 0) / around.length : x.get(node)];
      }));
      layer.sort((p, q) => centre.get(p) - centre.get(q));
      place(layer);
    }
  }
  return new Map(layers.flatMap((layer, k) => layer.map((node) => [node, { x: x.get(node), y: k * DOWN }])));
}
