// The graph as drawn on the screen, as an SVG picture of its own.

import { LINE } from "./pairs.js";

const MARGIN = 24;
const XML = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text) => text.replace(/[\u0000-\u001f]/g, " ").replace(/[&<>"]/g, (character) => XML[character]);
const at = (value) => value.toFixed(1);

function curve(points) {
  let path = `M${at(points[0].x)} ${at(points[0].y)}`;
  for (let k = 1; k < points.length - 1; k++) {
    const [here, next] = [points[k], points[k + 1]];
    const end = k === points.length - 2 ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    path += `Q${at(here.x)} ${at(here.y)} ${at(end.x)} ${at(end.y)}`;
  }
  return points.length === 2 ? `${path}L${at(points[1].x)} ${at(points[1].y)}` : path;
}

function head(from, tip, width, colour) {
  const length = 7 + 1.4 * width, half = 3 + 0.9 * width;
  const norm = Math.hypot(tip.x - from.x, tip.y - from.y) || 1;
  const [dx, dy] = [(tip.x - from.x) / norm, (tip.y - from.y) / norm];
  const base = { x: tip.x - dx * length, y: tip.y - dy * length };
  const corners = [tip, { x: base.x - dy * half, y: base.y + dx * half }, { x: base.x + dy * half, y: base.y - dx * half }];
  return `<polygon points="${corners.map((p) => `${at(p.x)},${at(p.y)}`).join(" ")}" fill="${colour}"/>`;
}

/** The SVG text of what the graph shows now. */
export function figure(cy, colours, title) {
  const seen = cy.elements().filter((item) => item.visible());
  const box = seen.empty() ? { x1: 0, y1: 0, w: 100, h: 60 } : seen.boundingBox({ includeOverlays: false });
  const edges = seen.edges().map((edge) => {
    const { how, width, colour, tip } = edge.data();
    const points = [edge.sourceEndpoint(), ...(edge.segmentPoints() ?? []), edge.targetEndpoint()];
    const arrow = how === LINE ? "" : head(points.at(-2), points.at(-1), width, colour);
    return `<g><title>${escaped(tip)}</title><path d="${curve(points)}" fill="none" stroke="${colour}" stroke-width="${width}"/>${arrow}</g>`;
  });
  const nodes = seen.nodes().map((node) => {
    const { x, y } = node.position(), { w, label, name } = node.data();
    return `<g><title>${escaped(name)}</title><rect x="${at(x - w / 2)}" y="${at(y - 15)}" width="${at(w)}" height="30" rx="8" `
      + `fill="${colours.box}" stroke="${colours.border}"/><text x="${at(x)}" y="${at(y + 4.5)}" text-anchor="middle" fill="${colours.ink}">${escaped(label)}</text></g>`;
  });
  const [w, h] = [box.w + 2 * MARGIN, box.h + 2 * MARGIN];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${at(box.x1 - MARGIN)} ${at(box.y1 - MARGIN)} ${at(w)} ${at(h)}" `
    + `width="${at(w)}" height="${at(h)}" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="13" role="img">\n`
    + `<title>${escaped(title)}</title>\n${[...edges, ...nodes].join("\n")}\n</svg>\n`;
}
