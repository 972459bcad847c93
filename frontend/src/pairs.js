// What is known of each pair of variables, and what follows for a drawing: which edges, which arrowheads.

const FIELDS = ["a", "b", "edge", "adjacent", "forward", "backward", "low", "high", "weight", "standardised",
  "weightLow", "weightHigh", "rHat", "ess", "strength"];
export const FORWARD = 1, BACKWARD = 2, LINE = 3;
const SURE = 0.75; // a direction is drawn if it has this share of the connection's probability

/** The pairs of a graph as objects. */
export const pairsOf = (graph) =>
  graph.pairs.map((values, id) => Object.fromEntries([["id", id], ...FIELDS.map((name, k) => [name, values[k] ?? null])]));

/** How a pair is drawn: FORWARD (a to b), BACKWARD, or LINE for a connection without a sure direction. */
export function drawn(pair) {
  if (pair.edge === LINE) return LINE;
  if (pair.forward === null || !pair.adjacent) return pair.edge || LINE;
  if (pair.forward >= SURE * pair.adjacent) return FORWARD;
  return pair.backward >= SURE * pair.adjacent ? BACKWARD : LINE;
}

/** The size of an effect: standardised if known, since raw coefficients depend on units. */
export const effect = (pair) => pair.standardised ?? pair.weight;

/** Its size without a sign, which undirected edges and labels have as well. */
export const size = (pair) => Math.abs(pair.standardised ?? pair.strength ?? pair.weight ?? 1);

/** What the threshold applies to: the confidence of a connection, or else the size of its effect. */
export const measure = (graph) => (graph.kind ? (pair) => pair.adjacent ?? 0 : size);

/** Pairs from the strongest to the weakest. */
export const strongest = (pairs, of) => [...pairs].sort((p, q) => of(q) - of(p) || size(q) - size(p) || p.id - q.id);

/** The pair in words: "a → b", or "a — b". */
export function words(pair, names, how = drawn(pair)) {
  const [from, to] = how === BACKWARD ? [pair.b, pair.a] : [pair.a, pair.b];
  return `${names[from]} ${how === LINE ? "—" : "→"} ${names[to]}`;
}

/** Parents, children and lines of every node, over the pairs given. */
export function relations(pairs, n) {
  const near = Array.from({ length: n }, () => ({ parents: new Set(), children: new Set(), lines: new Set() }));
  for (const pair of pairs) {
    const how = drawn(pair);
    if (how === LINE) {
      near[pair.a].lines.add(pair.b);
      near[pair.b].lines.add(pair.a);
    } else {
      const [from, to] = how === FORWARD ? [pair.a, pair.b] : [pair.b, pair.a];
      near[from].children.add(to);
      near[to].parents.add(from);
    }
  }
  return near;
}

/** The nodes to show around one: its Markov blanket, parents, children, ancestors, descendants or neighbours. */
export function around(node, what, near) {
  const own = near[node], found = new Set([node]);
  const add = (set) => set.forEach((i) => found.add(i));
  const reach = (from, along) => near[from][along].forEach((i) => {
    if (!found.has(i)) { found.add(i); reach(i, along); }
  });
  if (what === "parents") add(own.parents);
  else if (what === "children") add(own.children);
  else if (what === "ancestors") reach(node, "parents");
  else if (what === "descendants") reach(node, "children");
  else {
    [own.parents, own.children, own.lines].forEach(add);
    if (what === "blanket") own.children.forEach((child) => add(near[child].parents));
  }
  return found;
}

/** Precision and recall of the pairs drawn: of adjacencies, and of arrowheads; 1 where there is nothing to ask. */
export function quality(pairs, truth) {
  const true_ = new Map(truth.map(([a, b, edge]) => [`${a},${b}`, edge]));
  const count = { joined: 0, arrows: 0, right: 0, trueArrows: truth.filter(([, , edge]) => edge !== LINE).length };
  for (const pair of pairs) {
    const edge = true_.get(`${pair.a},${pair.b}`) ?? 0, how = drawn(pair);
    count.joined += edge > 0;
    count.arrows += how !== LINE;
    count.right += how !== LINE && how === edge;
  }
  const ratio = (part, whole) => (whole ? part / whole : 1);
  return {
    adjacency: [ratio(count.joined, pairs.length), ratio(count.joined, truth.length)],
    arrowhead: [ratio(count.right, count.arrows), ratio(count.right, count.trueArrows)],
  };
}
