"""Reports: what is read from run folders, what the page contains, and that names stay data."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from hypothesis import given, settings

import oracles
from polydag import BOSS, formats, runs, simulate
from polydag.errors import DataError
from polydag.graph import Graph
from polydag.plot.packing import packed
from polydag.report import RunFiles, page, read_folder, view_of
from polydag.report.course import charts
from polydag.report.pairs import pairs_of
from polydag.report.server import serving
from polydag.report.trust import ASSUMPTIONS
from polydag.studies import TableConfig
from polydag.studies.methods import METHODS

NASTY = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a & b", "\u2028line"]


def graph_files(graph: Graph, **more: str) -> RunFiles:
    from polydag.formats import graphjson

    return RunFiles("run", {"graph.json": graphjson.to_text(graph), **more})


def embedded(text: str) -> dict[str, object]:
    """The data inside a page."""
    found = re.search(r'<script type="application/json" id="polydag-data">(.*?)</script>', text, re.S)
    assert found is not None
    data: dict[str, object] = json.loads(found[1])
    return data


@pytest.fixture
def run(tmp_path: Path) -> Path:
    truth = simulate.dag(6, n_edges=7, random_state=1)
    simulate.linear(truth, n=300, random_state=1).to_csv(tmp_path / "data.csv", index=False)
    config = TableConfig(data=(str(tmp_path / "data.csv"),), method="ges", bootstrap=20, seed=1)
    runs.perform(config, tmp_path / "run", truth=truth)
    return tmp_path / "run"


def test_every_run_folder_has_a_report_that_rebuilding_repeats(run: Path) -> None:
    text = (run / "report.html").read_text(encoding="utf-8")
    assert text == page([view_of(read_folder(run))])
    assert (run / "report.html").stat().st_size < 1_000_000
    assert formats.read(run / "truth.json").n_edges == 7


def test_bootstrap_frequencies_cover_pairs_outside_the_graph(run: Path) -> None:
    files = read_folder(run)
    graph = formats.read(run / "graph.json")
    found = pairs_of(files, graph)
    assert found.kind == "frequency"
    assert {(p.a, p.b) for p in found.pairs if p.edge} == {
        (i, j) for i, j in np.argwhere(np.triu(graph.adjacency | graph.adjacency.T)).tolist()
    }
    rows = files.rows("pairs.csv")
    assert len(rows) > graph.n_edges
    for row in rows:
        i, j = graph.index(row["a"]), graph.index(row["b"])
        pair = next(p for p in found.pairs if (p.a, p.b) == (i, j))
        assert (pair.adjacent, pair.forward, pair.backward) == tuple(
            float(row[column]) for column in ("adjacent", "forward", "backward")
        )
    weighted = [p for p in found.pairs if p.weight is not None]
    assert weighted
    for pair in weighted:
        assert pair.weight_low < pair.weight < pair.weight_high  # type: ignore[operator]
        assert pair.standardised is not None


def test_a_table_of_pairs_prevails_over_everything_else() -> None:
    graph = Graph.from_edges(["x", "y", "z"], [("x", "y", 0.5)])
    table = (
        "a,b,adjacent,forward,backward,undirected,kind,low,high\n"
        "y,x,1.0,0.3,0.7,0,probability,,\n"
        "y,z,0.2,0.1,0.1,0,probability,,\n"
        "x,z,0.01,0.0,0.01,0,probability,,\n"
    )
    found = pairs_of(graph_files(graph, **{"pairs.csv": table, "posterior.csv": "source,target\n"}), graph)
    assert found.kind == "probability"
    assert [(p.a, p.b, p.edge, p.adjacent, p.forward, p.backward) for p in found.pairs] == [
        (0, 1, 1, 1.0, 0.7, 0.3),
        (1, 2, 0, 0.2, 0.1, 0.1),
    ]


def test_directions_of_a_posterior_add_up_to_the_connection() -> None:
    graph = Graph.from_edges(["raf", "mek"], [("raf", "mek", 0.5)])
    rows = "source,target,probability,r_hat\nraf,mek,0.504,1.2\nmek,raf,0.496,1.1\n"
    pair = pairs_of(graph_files(graph, **{"posterior.csv": rows}), graph).pairs[0]
    assert pair.adjacent == pytest.approx(1.0)
    assert (pair.forward, pair.backward, pair.r_hat) == (0.504, 0.496, 1.2)


@settings(max_examples=40, deadline=None)
@given(oracles.masks(max_nodes=7))
def test_every_graph_has_a_view_and_parts_do_not_overlap(A: np.ndarray) -> None:
    graph = Graph(A)
    view = view_of(graph_files(graph))
    assert len(view["graphs"][0]["pairs"]) == graph.n_edges
    assert sorted(view["graphs"][0]["order"]) == list(range(len(A)))
    json.dumps(view, allow_nan=False)
    boxes, curves = packed(Graph(np.triu(A | A.T)))
    assert {tuple(sorted(c[:2])) for c in curves} == {
        tuple(e) for e in np.argwhere(np.triu(A | A.T)).tolist()
    }
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            apart = abs(one.x - other.x) >= (one.width + other.width) / 2 - 1e-6 or abs(one.y - other.y) >= 30
            assert apart


@pytest.mark.parametrize("names", [[], ["alone"], NASTY], ids=["empty", "one node", "nasty names"])
def test_small_and_nasty_graphs(names: list[str]) -> None:
    edges = [(names[0], names[1])] if len(names) > 1 else []
    text = page([view_of(graph_files(Graph.from_edges(names, edges)))])
    data = embedded(text)
    assert data["runs"][0]["nodes"] == names  # type: ignore[index]
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "default-src &#x27;none&#x27;" in text
    assert "unsafe" not in text.partition("</head>")[0].partition("<style")[0]


def test_weights_that_are_not_numbers_are_left_out() -> None:
    text = '{"nodes": ["a", "b"], "edges": [{"source": "a", "target": "b", "weight": NaN}]}'
    rows = "source,target,weight,probability\na,b,nan,\n"
    view = view_of(RunFiles("run", {"graph.json": text, "edges.csv": rows}))
    assert view["graphs"][0]["pairs"] == [[0, 1, 1]]
    json.dumps(view, allow_nan=False)


def test_many_nodes_fall_back_to_matrix_and_table() -> None:
    n = 2000
    graph = Graph.from_edges([f"v{i}" for i in range(n)], [(f"v{i}", f"v{i + 1}") for i in range(n - 1)])
    view = view_of(graph_files(graph))
    assert view["graphs"][0]["layout"] is None
    assert len(page([view])) < 1_000_000


def test_large_graphs_begin_with_their_strongest_edges_in_a_small_file() -> None:
    truth = simulate.dag(150, n_edges=1500, random_state=1)
    view = view_of(graph_files(truth))
    first = view["graphs"][0]["layout"]["first"]
    assert 0 < len(first) <= 80
    assert len(page([view])) < 1_000_000


def test_interrupted_runs_show_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "run.partial").mkdir()
    (tmp_path / "run.partial" / "run.log").write_text("12:00 scores\n")
    for path in (tmp_path / "run", tmp_path / "run.partial"):
        view = view_of(read_folder(path))
        assert "interrupted" in view["partial"]
        assert view["log"] == ["12:00 scores"]


def test_what_is_not_a_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"not a run folder: there is no graph\.json"):
        read_folder(tmp_path)
    with pytest.raises(DataError, match="There is no run folder"):
        read_folder(tmp_path / "none")
    (tmp_path / "graph.json").write_text("[]")
    with pytest.raises(DataError, match="does not hold a graph"):
        view_of(read_folder(tmp_path))


def test_a_truth_with_other_variables_is_refused() -> None:
    with pytest.raises(DataError, match="other variables than the run: c"):
        view_of(graph_files(Graph.from_edges("ab")), Graph.from_edges("abc"))


def test_trust_names_what_is_known_against_a_run() -> None:
    result = {
        "n": 40,
        "converged": False,
        "measures": {"varsortability": 0.97, "decorrelated_n": 12.0},
        "notes": ["A note."],
    }
    files = graph_files(
        Graph.from_edges("abcd", ["ab"]),
        **{
            "result.json": json.dumps(result),
            "pruned.csv": "source,target,weight,reason\nb,a,0.2,cycle\n",
            "config.toml": '[study]\nmethod = "notears"\nmissing = "impute"\n',
            "posterior.csv": "source,target,probability,r_hat,ess\na,b,0.9,1.4,20\n",
        },
    )
    texts = [entry["text"] for entry in view_of(files)["trust"]]
    for part in ("did not converge", "12 independent ones", "R-hat 1.40", "varsortability 0.97", "b → a",
                 "imputed", "A note.", "no unmeasured variable"):  # fmt: skip
        assert any(part in text for text in texts), part
    levels = [entry["level"] for entry in view_of(files)["trust"]]
    assert levels == sorted(levels, key=lambda level: level != "warning")


def test_the_built_script_is_that_of_its_sources() -> None:
    """`make report-assets` was run after the last change; the styles are a copy."""
    root = Path(__file__).parents[1]
    frontend = root / "frontend"
    if not frontend.is_dir():
        pytest.skip("the front end's sources are not here")
    sources = [frontend / "package-lock.json", *sorted((frontend / "src").iterdir())]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()
    assets = root / "src" / "polydag" / "report" / "assets"
    script = (assets / "report.js").read_text(encoding="utf-8")
    assert script.startswith(f"/* built from frontend/, {digest} */")
    assert "The Cytoscape Consortium" in script[:2000]
    assert "Permission is hereby granted" in script[:2000]
    assert (assets / "report.css").read_bytes() == (frontend / "src" / "style.css").read_bytes()


def test_the_methods_say_what_they_assume() -> None:
    assert set(ASSUMPTIONS) <= set(METHODS)


def test_disclosure_in_words() -> None:
    entry = {"site": "north", "name": "sums", "shape": "3", "masked": False, "times": 2, "last_round": 2}
    document = {"privacy": "open", "bytes": 48, "summary": [{**entry, "bytes": 48}]}
    view = view_of(graph_files(Graph.from_edges("ab"), **{"disclosure.json": json.dumps(document)}))
    assert view["sites"]["parties"][0]["text"] == "sent 2 arrays in 2 rounds, 48 B; readable: sums"


def test_the_server_wants_its_token_and_answers_here_only() -> None:
    with serving(lambda: "the page") as server:
        assert server.url.startswith("http://127.0.0.1:")
        with urlopen(server.url, timeout=10) as answer:
            assert answer.read() == b"the page"
            assert answer.headers["Cache-Control"] == "no-store"
        base = f"http://127.0.0.1:{server.port}"
        for url, host in (
            (f"{base}/", None),
            (f"{base}/?token=wrong", None),
            (f"{base}/events", None),
            (server.url, "evil.example"),
        ):
            request = Request(url, headers={"Host": host} if host else {})
            with pytest.raises(HTTPError, match="403"):
                urlopen(request, timeout=10)
        server.send("step", {"task": "x", "done": 1}, keep="x")
        server.send("step", {"task": "x", "done": 2}, keep="x")
        with urlopen(f"{base}/events?token={server.token}", timeout=10) as events:
            assert events.readline() == b"event: step\n"
            assert json.loads(events.readline()[len(b"data: ") :])["done"] == 2


def test_linked_rows_have_a_naive_graph_and_clusters(tmp_path: Path) -> None:
    truth = simulate.dag(5, n_edges=5, random_state=1)
    schools = simulate.clusters("equi", 120, 10, base=0.7)
    table = simulate.linked(truth, row_covariance=schools, random_state=1)
    table["school"] = [f"school {row // 10}" for row in range(120)]
    table.to_csv(tmp_path / "data.csv", index=False)
    config = TableConfig(data=(str(tmp_path / "data.csv"),), method="boss", groups="school", seed=1)
    runs.perform(config, tmp_path / "run")
    plain = table.drop(columns="school")
    naive = formats.read(tmp_path / "run" / "naive.json")
    assert naive.edges() == BOSS().fit(plain).graph_.edges()
    files = read_folder(tmp_path / "run")
    clusters = view_of(files)["clusters"]
    assert {row["name"] for row in clusters} == {f"school {k}" for k in range(12)}
    assert sum(row["effective_n"] for row in clusters) == pytest.approx(
        (files.document("result.json") or {})["measures"]["effective_n"]
    )
    assert sum(row["decorrelated_n"] for row in clusters) == pytest.approx(119)
    before, after = (
        np.mean([row[name] for row in clusters]) for name in ("correlation", "correlation_after")
    )
    assert before > 0.4
    assert abs(after) < 0.1


def test_traces_are_those_of_the_least_certain_edges(tmp_path: Path) -> None:
    table = simulate.linear(simulate.dag(5, n_edges=6, random_state=0), n=60, random_state=1)
    table.to_csv(tmp_path / "data.csv", index=False)
    settings = {"method": "mcmc", "chains": {"n_chains": 2, "n_steps": 400, "bucket_size": 2}}
    config = TableConfig(data=(str(tmp_path / "data.csv"),), method="posterior", seed=1, settings=settings)
    runs.perform(config, tmp_path / "run")
    files = read_folder(tmp_path / "run")
    charts = view_of(files)["traces"]
    rows = files.rows("posterior.csv")
    worst = max((float(row["r_hat"]) for row in rows if row["r_hat"]), default=0.0)
    assert len(charts) > 1
    assert f"R-hat {worst:.2f}" in charts[1]["title"]
    assert [line["label"] for line in charts[0]["lines"]] == ["chain 1", "chain 2"]


def test_restarts_of_a_search_run_side_by_side() -> None:
    history = "start,sweep,moves,score\n1,1,9,-20\n1,2,3,-12\n2,1,8,-15\n2,2,4,-11\n"
    found = charts(graph_files(Graph.from_edges("ab", ["ab"]), **{"history.csv": history}))
    assert [(chart["title"], chart["x"]) for chart in found] == [("moves", "sweep"), ("score", "sweep")]
    assert [(line["label"], line["y"]) for line in found[1]["lines"]] == [
        ("start 1", [-20.0, -12.0]), ("start 2", [-15.0, -11.0])]  # fmt: skip
