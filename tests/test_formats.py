"""Graph formats: round trips, conventions of other packages, and errors that name the line."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydag import Graph, formats
from polydag.discrete_network import DiscreteNetwork
from polydag.embedded import asia
from polydag.errors import DataError, UsageError
from polydag.formats import bif, causallearn, dagitty, dot, edgelist, graphjson, graphml, nx, pcalg

CARRIES_WEIGHTS = [graphjson, edgelist, dot, graphml, dagitty]
TEXT = [*CARRIES_WEIGHTS, pcalg, causallearn]

letters = st.characters(exclude_categories=["Cc", "Cs", "Cn"])
AWKWARD = [
    "a,b",
    "a b",
    " edge ",
    "",
    "node",
    "subgraph",
    "->",
    "x -> y",
    "ü λ 漢",
    "a\\",
    "\\",
    '"',
    '"quoted"',
    "'",
    "<b>",
    "&amp;",
    "{",
    "a;b",
    "a|b",
    "//",
    "#1",
    "property",
    "table",
    "1e5",
    "true",
    "]]>",
    "\u2028",
    "0",
    "\xa0",
]
names_lists = st.lists(st.sampled_from(AWKWARD) | st.text(letters, max_size=8), unique=True, max_size=7)
weight = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """An arbitrary mixture of directed and undirected edges, possibly with cycles, with finite weights."""
    names = draw(names_lists)
    directed, undirected = [], []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            kind = draw(st.sampled_from(["none", "none", "->", "<-", "--"]))
            if kind != "none":
                pair = (b, a) if kind == "<-" else (a, b)
                (undirected if kind == "--" else directed).append((*pair, draw(weight)))
    return Graph.from_edges(names, directed, undirected)


def unweighted(graph: Graph) -> Graph:
    return Graph(graph.adjacency, graph.names)


@given(graphs())
@settings(max_examples=80, deadline=None)
def test_text_round_trips(graph: Graph) -> None:
    for module in TEXT:
        back = module.from_text(module.to_text(graph))
        expected = graph if module in CARRIES_WEIGHTS else unweighted(graph)
        assert back == expected, module.__name__


@given(graphs())
@settings(max_examples=40, deadline=None)
def test_networkx_round_trip(graph: Graph) -> None:
    there = nx.to_networkx(graph)
    assert nx.from_networkx(there) == graph
    marked = {frozenset(e[:2]) for e in there.edges(data="directed") if not e[2]}
    assert marked == {frozenset(e[:2]) for e in graph.edges() if not e.directed}


def test_networkx_graphs_of_any_kind() -> None:
    assert nx.from_networkx(networkx.path_graph(3)).edges() == [
        ("0", "1", 1.0, False),
        ("1", "2", 1.0, False),
    ]
    one_arc = networkx.DiGraph()
    one_arc.add_edge("a", "b", weight=2.5, directed=False)
    assert nx.from_networkx(one_arc).edges() == [("a", "b", 2.5, False)]


def random_dag(seed: int, d: int = 8) -> Graph:
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((d, d)) < 0.4, 1)
    return Graph(A, [f"node {i}" for i in range(d)], np.where(A, rng.normal(size=(d, d)), 0))


@pytest.mark.parametrize("seed", range(5))
def test_graphml_agrees_with_networkx_both_ways(seed: int) -> None:
    graph = random_dag(seed)
    theirs = networkx.read_graphml(io.BytesIO(graphml.to_text(graph).encode()))
    named = networkx.relabel_nodes(theirs, dict(theirs.nodes(data="name")))
    assert nx.from_networkx(named) == graph
    out = io.BytesIO()
    networkx.write_graphml(nx.to_networkx(graph), out)
    assert graphml.from_text(out.getvalue().decode()) == graph


def test_graphml_with_a_node_inside_the_data_of_another() -> None:
    text = (
        '<graphml><key id="k" attr.name="name"/><graph><node id="a"><data key="k">A'
        '<node id="b"> </node></data></node></graph></graphml>'
    )
    assert graphml.from_text(text).names == ("A", "b")


def test_graphml_reads_undirected_defaults_and_refuses_control_characters() -> None:
    out = io.BytesIO()
    networkx.write_graphml(networkx.Graph([("a", "b")]), out)
    assert graphml.from_text(out.getvalue().decode()).edges() == [("a", "b", 1.0, False)]
    with pytest.raises(DataError, match="XML cannot represent"):
        graphml.to_text(Graph(np.zeros((1, 1)), ["bell\x07"]))


@pytest.mark.parametrize("seed", range(5))
def test_json_and_csv_agree_with_plain_readers(seed: int) -> None:
    graph = random_dag(seed)
    content = json.loads(graphjson.to_text(graph))
    assert content["nodes"] == list(graph.names)
    assert [tuple(edge.values()) for edge in content["edges"]] == [tuple(edge) for edge in graph.edges()]
    lines = [line.split(",") for line in edgelist.to_text(graph).splitlines()]
    assert lines[0] == ["source", "target", "weight", "directed"]
    edges = [(a, b, float(w), directed == "true") for a, b, w, directed in lines[1:] if b]
    assert edges == [tuple(edge) for edge in graph.edges()]


def test_edge_list_without_optional_columns_or_order() -> None:
    graph = edgelist.from_text("probability,target,source\n0.9,wet,rain\n0.5,,sun\n\n0.1,dry,sun\n")
    assert graph.names == ("rain", "wet", "sun", "dry")
    assert graph.edges() == [("rain", "wet", 1.0, True), ("sun", "dry", 1.0, True)]
    ordered = Graph.from_edges(["a", "b"], [("a", "b")])
    assert edgelist.to_text(ordered) == "source,target,weight,directed\na,b,1.0,true\n"


@given(graphs())
@settings(max_examples=40, deadline=None)
def test_matrix_conventions(graph: Graph) -> None:
    amat, marks = pcalg.to_pcalg(graph), causallearn.to_causallearn(graph)
    joined = np.zeros(amat.shape, dtype=bool)
    for edge in graph.edges():
        i, j = graph.index(edge.source), graph.index(edge.target)
        joined[i, j] = joined[j, i] = True
        assert (amat[i, j], amat[j, i]) == ((0, 1) if edge.directed else (1, 1))
        assert (marks[i, j], marks[j, i]) == ((-1, 1) if edge.directed else (-1, -1))
    assert not amat[~joined].any()
    assert not marks[~joined].any()
    assert pcalg.from_pcalg(amat, graph.names) == unweighted(graph)
    assert causallearn.from_causallearn(marks, graph.names) == unweighted(graph)


def test_foreign_matrices_that_are_no_graph_are_refused() -> None:
    with pytest.raises(DataError, match="x0 and x1 is bidirected"):
        causallearn.from_causallearn([[0, 1], [1, 0]])
    with pytest.raises(DataError, match="only one end"):
        causallearn.from_causallearn([[0, 1], [0, 0]])
    with pytest.raises(DataError, match=r"\[0, 1\] of the pcalg matrix is 2"):
        pcalg.from_pcalg([[0, 2], [3, 0]])
    with pytest.raises(DataError, match="square"):
        pcalg.from_pcalg([[0, 1]])


def test_dot_as_people_write_it() -> None:
    text = """
    // a comment
    strict digraph "my graph" {
        rankdir = LR; node [shape=box, style="filled"]
        # a preprocessor line
        rain -> {wet, "very wet"} -> slippery [weight=2 color=red];
        subgraph cluster_0 { label="inside"; a -> b:port:n [label=<<b>bold</b> text>] }
        a -> rain [dir=back]; b -> wet [dir=none]; lonely
    }
    """
    graph = dot.from_text(text)
    assert graph.names == ("rain", "wet", "very wet", "slippery", "a", "b", "lonely")
    assert graph.parents("slippery") == ["wet", "very wet"]
    assert graph.parents("a") == ["rain"]
    assert graph.neighbors("b") == ["wet"]
    assert graph.weights[graph.index("wet"), graph.index("slippery")] == 2
    assert dot.from_text("graph { a -- b }").has_undirected


def test_dagitty_as_people_write_it() -> None:
    text = (
        'dag {\nbb="0,0,1,1"\nX [exposure,pos="-1.2,0.5"]\nY [outcome]\nX -> Y [beta=-.5]\n{Z W} -> X <- U\n}'
    )
    graph = dagitty.from_text(text)
    assert graph.parents("X") == ["Z", "W", "U"]
    assert graph.weights[graph.index("X"), graph.index("Y")] == -0.5
    assert dagitty.to_text(graph).startswith("dag {")
    assert dagitty.to_text(graph.to_cpdag()).startswith(
        "pdag {" if graph.to_cpdag().has_undirected else "dag {"
    )
    with pytest.raises(DataError, match=r"line 2: an edge <-> .* common cause"):
        dagitty.from_text("dag {\n a <-> b }")


@pytest.mark.parametrize(
    ("module", "text", "message"),
    [
        (graphjson, '{\n"nodes": [,]}', "line 2: not valid JSON"),
        (graphjson, "[]", '"nodes": a list of names'),
        (graphjson, '{"nodes": ["a", "a"]}', "'a' twice"),
        (graphjson, '{"nodes": ["a"], "edges": [{"source": "a", "target": "b"}]}', "edge 1: 'b' is not"),
        (graphjson, '{"nodes": ["a"], "edges": [{"source": "a"}]}', 'needs names as "source" and "target"'),
        (edgelist, "from,to\na,b\n", "line 1: .* column source"),
        (edgelist, "", "line 1: .* column source"),
        (edgelist, "source,target,weight\na,b,1\nb,c\n", "line 3 has 2 cells"),
        (edgelist, "source,target,weight\na,b,1\nb,c,heavy\n", "line 3: the weight 'heavy'"),
        (edgelist, "source,target,weight\na,b,inf\n", "line 2: the weight 'inf'"),
        (edgelist, "source,target\na,b\nb,a\n", r"line 3: 'b' and 'a' already have an edge \(line 2\)"),
        (edgelist, "source,target\na,a\n", "line 2: 'a' has an edge to itself"),
        (edgelist, "source,target,weight,directed\na,b,1,maybe\n", "line 2: 'maybe' is neither"),
        (edgelist, 'source,target\na,"b\n', "line 2: not valid CSV"),
        (dot, "digraph {\n a -> b\n b -> ]\n}", "line 3: expected a name"),
        (dot, "digraph {\n a -- b }", "line 2: a digraph cannot have edges --"),
        (dot, 'digraph {\n a -> "b }', "line 2: .* cannot be parsed"),
        (dot, "digraph {\n a", "line 2: expected a name, found 'the end of the file'"),
        (dot, "digraph {} a", "line 1: unexpected 'a' after the graph"),
        (dot, "dag { a -> b }", "must start with graph or digraph"),
        (dot, "digraph {\na -> b [dir=both]}", "line 2: dir=both"),
        (dagitty, "mag { a -> b }", "must start with dag or pdag"),
        (graphml, "<graphml>\n<graph></graphml>", "line 2: not valid XML"),
        (graphml, "<graphml/>", "no <graph>"),
        (
            graphml,
            '<graphml><graph>\n<edge source="a" target="b"/></graph></graphml>',
            "line 2: there is no node",
        ),
        (
            graphml,
            '<graphml><graph>\n<node id="a"/><node id="a"/></graph></graphml>',
            "line 2: the node id 'a'",
        ),
        (pcalg, ",a,b\na,0,1\nb,0\n", "line 3: expected 3 cells, found 2"),
        (pcalg, ",a,b\na,0,1\nc,0,0\n", "line 3: rows must have the names"),
        (pcalg, ",a,b\na,0,x\n", "line 2: entries must be small whole"),
        (pcalg, ",a,b\na,0,1\n", "must be square; it has 1 rows and 2 columns"),
    ],
)
def test_errors_name_the_line(module, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        module.from_text(text)


BIF = """network "a b" { property version 1; }
variable rain { type discrete [2] { yes, no }; property "position = (1; 2)" ; }
variable sun { type discrete [ 3 ] { "<5", 5-10, "very much" }; }
variable wet { // a comment
  type discrete [ 2 ] { yes, no };
}
probability ( rain ) { table 0.2, 0.8; }
probability ( sun ) { table 0.2 0.3 0.5; }
probability ( wet | rain, sun ) {
  default 0.5, 0.5;
  (yes, "<5") 0.9, 0.1;
  (no, 5-10) 0.25, 0.75; /* another */
}
"""


def test_bif_default_rows_and_properties() -> None:
    network = bif.network_from_text(BIF)
    assert network.levels["sun"] == ("<5", "5-10", "very much")
    expected = np.full((2, 3, 2), 0.5)
    expected[0, 0], expected[1, 1] = [0.9, 0.1], [0.25, 0.75]
    assert np.array_equal(network.tables["wet"], expected)
    assert bif.from_text(BIF).parents("wet") == ["rain", "sun"]


def test_bif_table_has_the_variable_itself_slowest() -> None:
    body = "table 0.9 0.8 0.7 0.6 0.5 0.4 0.1 0.2 0.3 0.4 0.5 0.6;"
    network = bif.network_from_text(re.sub(r"  default.*another \*/", body, BIF, flags=re.DOTALL))
    assert network.tables["wet"][..., 0].tolist() == [[0.9, 0.8, 0.7], [0.6, 0.5, 0.4]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.9, 0.1", "0.9", "line 11: wet has 1 probabilities here but needs 2"),
        ("0.9, 0.1", "0.9, x", "line 11: not all probabilities of wet"),
        ("0.9, 0.1", "0.9, nan", "line 11: a probability of wet"),
        ("(no, 5-10)", "(no, 6)", r"line 12: \(no, 6\) is not a configuration"),
        ("(no, 5-10)", '(yes, "<5")', "line 12: .* given twice"),
        ("  default 0.5, 0.5;\n", "", r"no row for \(yes, 5-10\) and no default"),
        ("( sun )", "( moon )", "line 8: 'moon' is not a variable"),
        ("[ 3 ]", "[ 4 ]", "line 3: sun declares 4 labels but lists 3"),
        ("( sun )", "( rain )", "line 8: rain has two probability blocks"),
        ("probability ( rain ) { table 0.2, 0.8; }\n", "", "rain has no probability table"),
        ("0.2, 0.8", "0.2, 0.7", "probabilities of rain must"),
        ("variable wet", "variable rain", "line 4: the variable rain is declared twice"),
        ("discrete [2]", "continuous [2]", "line 2: rain is continuous"),
        ('"very much"', '"very much', "line 3"),
        ("\n}\n", "\n", "the file ends|expected"),
    ],
)
def test_bif_errors_name_the_line(old: str, new: str, message: str) -> None:
    assert old in BIF
    with pytest.raises(DataError, match=message):
        bif.network_from_text(BIF.replace(old, new))


@given(names_lists.filter(bool), st.integers(0, 1000))
@settings(max_examples=80, deadline=None)
def test_bif_round_trip_with_any_names_and_labels(names: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = [f"{name}?" for name in names] + ["", "yes"]
    levels = {name: labels[: int(rng.integers(1, 4))] for name in names}
    parents = {name: names[max(0, i - 2) : i] for i, name in enumerate(names)}
    tables = {
        name: rng.dirichlet(np.ones(len(levels[name])), size=[len(levels[p]) for p in parents[name]])
        for name in names
    }
    network = DiscreteNetwork(levels, parents, tables)
    assert bif.network_from_text(bif.network_to_text(network)) == network


@pytest.mark.parametrize("ending", [e for e in formats.FORMATS if e != ".bif"])
def test_files_by_their_ending(tmp_path: Path, ending: str) -> None:
    graph = random_dag(0).to_cpdag()
    path = tmp_path / f"graph{ending}"
    formats.write(graph, path)
    expected = unweighted(graph) if "pcalg" in ending or "causallearn" in ending else graph
    assert formats.read(path) == expected
    packed = tmp_path / f"packed{ending}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert formats.read(str(packed)) == expected
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([path.name, packed.name])


def test_networks_in_files(tmp_path: Path) -> None:
    formats.write(asia(), tmp_path / "asia.bif")
    assert formats.read_network(tmp_path / "asia.bif") == asia()
    assert formats.read(tmp_path / "asia.bif") == asia().graph
    formats.write(asia(), tmp_path / "asia.json")
    assert formats.read(tmp_path / "asia.json") == asia().graph
    with pytest.raises(DataError, match="probability tables"):
        formats.write(asia().graph, tmp_path / "graph.bif")
    assert not (tmp_path / "graph.bif").exists()


def test_file_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"graph\.xyz.*\.json"):
        formats.write(asia(), tmp_path / "graph.xyz")
    with pytest.raises(DataError, match=r"missing\.json: cannot be read"):
        formats.read(tmp_path / "missing.json")
    with pytest.raises(DataError, match=r"graph\.json cannot be written"):
        formats.write(asia(), tmp_path / "no folder" / "graph.json")
    (tmp_path / "bad.csv").write_text("source,target\na,a\n")
    with pytest.raises(DataError, match=r"bad\.csv: line 2"):
        formats.read(tmp_path / "bad.csv")
    (tmp_path / "latin.csv").write_bytes("source,target\nä,b\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin\.csv: line 2 is not UTF-8"):
        formats.read(tmp_path / "latin.csv")
    (tmp_path / "broken.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(DataError, match=r"broken\.csv\.gz: cannot be read"):
        formats.read(tmp_path / "broken.csv.gz")
    (tmp_path / "excel.csv").write_bytes(b"\xef\xbb\xbfsource,target\r\na,b\r\n")
    assert formats.read(tmp_path / "excel.csv").n_edges == 1


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "graph.json"
    formats.write(asia(), path)
    before = path.read_bytes()

    def full_disk(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(DataError, match="No space left"):
        formats.write(random_dag(1), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["graph.json"]
