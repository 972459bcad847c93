// The parts of a report that are text, tables and charts.

import { bars, chart } from "./charts.js";
import { el, share, shown } from "./dom.js";
import { LINE, drawn, measure, pairsOf, quality, strongest, words } from "./pairs.js";
import { table } from "./table.js";

/** How far to trust the run, in sentences. */
export const trust = (run) => el("ul", { class: "trust" }, run.trust.map(({ level, text }) => el("li", { class: level },
  el("strong", {}, level === "warning" ? "Caution: " : ""), text)));

/** All pairs in a table, the strongest first. */
export function pairTable(run, graph, choose) {
  const names = run.nodes, kind = graph.kind, rows = strongest(pairsOf(graph), measure(graph));
  const known = (field) => rows.some((row) => row[field] !== null);
  const columns = [{ name: "pair", value: (row) => words(row, names), text: (row) => words(row, names) }];
  const number = (name, value, text = kind ? share : shown) => columns.push({ name, value, number: true, text: (row) => text(value(row)) });
  if (kind) number(`${kind} of a connection`, (row) => row.adjacent);
  if (known("forward")) {
    number("→", (row) => (drawn(row) === 2 ? row.backward : row.forward));
    number("←", (row) => (drawn(row) === 2 ? row.forward : row.backward));
  }
  if (known("weight")) number("coefficient", (row) => row.weight, shown);
  if (known("standardised")) number("standardised", (row) => row.standardised, shown);
  if (known("strength")) number("partial correlation", (row) => row.strength, share);
  if (known("rHat")) number("R-hat", (row) => row.rHat, share);
  if (known("ess")) number("ESS", (row) => row.ess, (value) => shown(value === null ? null : Math.round(value)));
  columns.push({ name: "learned graph", value: (row) => (row.edge ? words(row, names, row.edge) : ""), text: (row) => (row.edge ? words(row, names, row.edge) : "") });
  const filters = [{ label: "all pairs", keep: () => true }, { label: "edges of the learned graph", keep: (row) => row.edge > 0 },
    { label: "no sure direction", keep: (row) => drawn(row) === LINE }];
  return table({ label: "pairs", columns, rows, file: "pairs.csv", choose, filters });
}

/** What tasks share and what is unique to one. */
export function difference({ columns, rows, basis }) {
  const shared = columns.indexOf("shared") + 2;
  const filters = [{ label: "all connections", keep: () => true }, ...(shared > 1 ? [{ label: "probably shared", keep: (row) => row[shared] > 0.5 }] : []),
    ...columns.map((name, k) => [name, k]).filter(([name]) => name.startsWith("only in ")).map(([name, k]) => ({ label: `probably ${name}`, keep: (row) => row[k + 2] > 0.5 }))];
  return el("div", {}, basis && el("p", {}, `Probabilities of differences are of the kind: ${basis}.`), table({
    label: "differences", file: "differences.csv", rows, filters, sort: { column: 1, down: true },
    columns: [{ name: "connection", value: (row) => `${row[0]} — ${row[1]}`, text: (row) => `${row[0]} — ${row[1]}` },
      ...columns.map((name, k) => ({ name, number: true, value: (row) => row[k + 2], text: (row) => share(row[k + 2]) }))],
  }));
}

const MARKS = { 0: "·", 1: "→", 2: "←", 3: "—" };

function status(first, other) {
  if (first === other) return "common";
  if (!first) return "added";
  if (!other) return "removed";
  return first === LINE || other === LINE ? "undirected in one" : "reversed";
}

/** Several runs, or a run and the truth, edge by edge and in one table of figures. */
export function comparison(runs) {
  const truth = runs.find((run) => run.truth)?.truth, names = runs[0].nodes;
  const columns = [...(truth ? [{ name: "truth", edges: truth }] : []), ...runs.map((run) => ({
    name: run.name, edges: run.graphs[0]?.pairs.filter((pair) => pair[2]).map((pair) => pair.slice(0, 3)
      .map((value, k) => (k < 2 ? names.indexOf(run.nodes[value]) : value))).map(([a, b, edge]) => (a < b ? [a, b, edge] : [b, a, edge === LINE ? edge : 3 - edge])) ?? [] }))];
  const found = new Map();
  columns.forEach(({ edges }, k) => edges.forEach(([a, b, edge]) => {
    const key = `${a},${b}`;
    if (!found.has(key)) found.set(key, { a, b, edges: columns.map(() => 0) });
    found.get(key).edges[k] = edge;
  }));
  const rows = [...found.values()].map((row) => ({ ...row, states: row.edges.slice(1).map((edge) => status(row.edges[0], edge)) }));
  const states = ["common", "added", "removed", "reversed", "undirected in one"];
  const counts = el("table", {}, el("thead", {}, el("tr", {}, ["against", columns[0].name, ...(truth ? ["adjacency precision", "recall", "arrowhead precision", "recall"] : [])].map((text, k) => (k === 0 ? el("th", { scope: "col" }, "run") : k === 1 ? states.map((state) => el("th", { scope: "col", class: "number" }, state)) : el("th", { scope: "col", class: "number" }, text))))),
    el("tbody", {}, columns.slice(1).map((column, k) => el("tr", {}, el("th", { scope: "row" }, column.name),
      states.map((state) => el("td", { class: "number" }, String(rows.filter((row) => row.states[k] === state).length))),
      truth && (({ adjacency, arrowhead }) => [...adjacency, ...arrowhead])(quality(column.edges.map(([a, b, edge]) => ({ a, b, edge, forward: null, adjacent: null })), truth))
        .map((value) => el("td", { class: "number" }, share(value)))))));
  return el("div", {}, el("p", {}, `Every graph is compared with ${truth ? "the truth" : columns[0].name}. An edge that is undirected in one of them is not counted as reversed.`),
    el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Comparison" }, counts), table({
      label: "compared edges", file: "comparison.csv", rows,
      filters: [{ label: "all edges", keep: () => true }, ...states.map((state) => ({ label: state, keep: (row) => row.states.includes(state) })), { label: "differing", keep: (row) => row.states.some((state) => state !== "common") }],
      columns: [{ name: "pair", value: (row) => `${names[row.a]} and ${names[row.b]}`, text: (row) => `${names[row.a]} and ${names[row.b]}` },
        ...columns.map((column, k) => ({ name: column.name, value: (row) => MARKS[row.edges[k]], text: (row) => MARKS[row.edges[k]] })),
        { name: "status", value: (row) => row.states.join("; "), text: (row) => row.states.join("; ") }],
    }));
}

/** The graph of linked rows beside the one that ignores their links. */
export const naive = ({ text }, drawings) => el("div", {}, el("p", {}, text),
  drawings.length > 0 && [el("div", { class: "pair" }, drawings), el("ul", { class: "legend" },
    el("li", { class: "plain" }, "in both graphs"), el("li", { class: "negative" }, "in this graph only, or with other arrowheads"))]);

/** Clusters of linked rows, in a table. */
const clusters = (rows) => table({ label: "clusters of linked rows", file: "clusters.csv", rows, sort: null,
  columns: [{ name: "cluster", value: (row) => row.name, text: (row) => row.name }, { name: "rows", number: true, value: (row) => row.rows },
    { name: "correlation before", number: true, value: (row) => row.correlation, text: (row) => share(row.correlation) },
    { name: "after", number: true, value: (row) => row.correlation_after, text: (row) => share(row.correlation_after) },
    { name: "effective rows before", number: true, value: (row) => row.effective_n },
    { name: "after", number: true, value: (row) => row.decorrelated_n }] });

/** How the fit went. */
export function course(run) {
  const { effective_n: effective } = run.measures;
  return el("div", {},
    effective !== undefined && el("p", {}, `Linked rows: ${shown(run.rows)} rows carry as much information about edges as ${shown(Math.round(effective))} independent ones where their links are ignored, and as ${shown(Math.round(run.measures.decorrelated_n ?? run.rows))} once they are decorrelated.`),
    run.facts.length > 0 && el("dl", {}, run.facts.map(({ name, value }) => [el("dt", {}, name), el("dd", {}, value)])),
    Object.keys(run.measures).length > 0 && el("dl", {}, Object.entries(run.measures).map(([name, value]) => [el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, shown(value, 4))])),
    el("div", { class: "charts" }, run.charts.map(chart)),
    run.traces.length > 0 && [el("h3", {}, "Traces of the Markov chains"), el("p", { class: "note" }, "The pairs that the chains know least well. Chains that agree overlap; every pair's R-hat and effective sample size are in the table of pairs."), el("div", { class: "charts" }, run.traces.map(chart))],
    run.clusters.length > 0 && [el("h3", {}, "Row correlations by cluster"), clusters(run.clusters)],
    run.correlations.length > 0 && bars("Correlation of linked rows by column", run.correlations.map(({ column, of, value }) => ({ name: of ? `${of}: ${column}` : column, value }))));
}

/** What left each party. */
export function sites({ privacy, settings, budget, parties }) {
  return el("div", {},
    el("p", {}, `Privacy: ${privacy}.`, Object.entries(settings).map(([name, value]) => ` ${name} = ${value}.`)),
    budget.map((text) => el("p", {}, text)),
    parties.map((party) => el("details", {}, el("summary", {}, el("strong", {}, party.name), ` ${party.text}`),
      el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ["what", "shape", "times", "bytes", "masked or key"].map((text) => el("th", { scope: "col" }, text)))),
        el("tbody", {}, party.entries.map(([name, shape, times, bytes, masked]) => el("tr", {}, [name, shape, times, bytes, masked ? "yes" : "no"].map((value) => el("td", {}, String(value)))))))))));
}
