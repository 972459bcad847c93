// Small line charts of how a fit went.

import { el, shown, svg } from "./dom.js";

const WIDTH = 320, HEIGHT = 190, LEFT = 52, RIGHT = 10, TOP = 12, BOTTOM = 34;

function scale(values, start, end) {
  const low = Math.min(...values), high = Math.max(...values);
  const log = low > 0 && high / low > 1000;
  const at = log ? Math.log10 : (value) => value;
  const [from, to] = at(low) === at(high) ? [at(low) - 0.5, at(high) + 0.5] : [at(low), at(high)];
  const ticks = [0, 1, 2, 3].map((k) => from + ((to - from) * k) / 3).map((value) => (log ? 10 ** value : value));
  return { log, ticks, place: (value) => start + ((at(value) - from) / (to - from)) * (end - start) };
}

/** One chart: { title, x, lines: [{ label, x, y }] }. */
export function chart({ title, x: axis, lines }) {
  const x = scale(lines.flatMap((line) => line.x), LEFT, WIDTH - RIGHT);
  const y = scale(lines.flatMap((line) => line.y), HEIGHT - BOTTOM, TOP);
  const last = lines.map((line) => `${line.label ? `${line.label}: ` : ""}${shown(line.y.at(-1))}`).join("; ");
  return el("figure", { class: "chart" },
    el("figcaption", {}, title, y.log ? el("small", {}, " (logarithmic)") : null),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title} by ${axis}; last value ${last}` },
      y.ticks.map((tick) => [
        svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y.place(tick), y2: y.place(tick) }),
        svg("text", { x: LEFT - 6, y: y.place(tick) + 4, "text-anchor": "end" }, shown(tick)),
      ]),
      [x.ticks[0], x.ticks[3]].map((tick, k) => svg("text", { x: x.place(tick), y: HEIGHT - 18, "text-anchor": k ? "end" : "start" }, shown(tick))),
      svg("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, axis),
      lines.map((line, k) => svg("polyline", { class: `line line-${k % 6}`,
        points: line.x.map((value, i) => `${x.place(value).toFixed(1)},${y.place(line.y[i]).toFixed(1)}`).join(" ") },
      svg("title", {}, line.label || title)))),
    lines.length > 1 && el("ul", { class: "key" }, lines.map((line, k) => el("li", { class: `key-${k % 6}` }, line.label))));
}

/** Horizontal bars of named numbers between 0 and 1. */
export function bars(label, rows) {
  return el("figure", { class: "bars" }, el("figcaption", {}, label),
    rows.map(({ name, value }) => el("div", { class: "bar" }, el("span", {}, name),
      el("meter", { min: "0", max: "1", value: String(Math.max(0, value ?? 0)), "aria-label": name }), el("span", {}, shown(value, 2)))));
}
