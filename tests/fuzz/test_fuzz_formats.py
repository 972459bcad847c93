"""Graph formats: damage is refused, and every graph reads back as written or is refused on writing."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from fuzzing import cases, mutated, survives

from polydag import Graph, data, formats
from polydag.discrete_network import DiscreteNetwork
from polydag.embedded import asia
from polydag.errors import DataError
from polydag.formats.parsing import text_files

GRAPHS = [ending for ending in formats.FORMATS if ending != ".bif"]
WITHOUT_WEIGHTS = (".pcalg.csv", ".causallearn.csv")
PIECES = [
    *("a", "b", "x", "ü", "漢", "\ud800", "\x00", "\x07", "\r", "\n", "\t", "\x0b", "\x1c", "\x85", "\u2028"),
    *("\ufeff", '"', "'", "\\", ",", ";", "|", "{", "}", "<", ">", "&", "]]>", "->", "--", "#", "//", "/*"),
    *(" ", "  ", "=", "9" * 400, "1e5", "nan", "-0", "node", "subgraph", "table", "y" * 140_000),
]


def random_name(rng: np.random.Generator) -> str:
    weights = np.ones(len(PIECES))
    weights[-1] = 0.05
    return "".join(rng.choice(PIECES, size=int(rng.integers(0, 5)), p=weights / weights.sum()))


def random_graph(rng: np.random.Generator) -> Graph:
    """Any names, any mixture of directed and undirected edges, weights of any size."""
    names = list(dict.fromkeys(random_name(rng) for _ in range(int(rng.integers(0, 7)))))
    directed, undirected = [], []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            weight = float(rng.choice([0.0, 1.0, -0.1, 5e-324, 1.7e308, rng.normal()]))
            match int(rng.integers(5)):
                case 0:
                    directed.append((a, b, weight))
                case 1:
                    directed.append((b, a, weight))
                case 2:
                    undirected.append((a, b, weight))
    return Graph.from_edges(names, directed, undirected)


@pytest.mark.parametrize("ending", GRAPHS)
def test_every_graph_reads_back_or_is_refused_on_writing(tmp_path: Path, ending: str) -> None:
    written = 0
    for seed, rng in cases(120):
        graph = random_graph(rng)
        path = tmp_path / f"graph{ending}"
        if survives(lambda graph=graph, path=path: formats.write(graph, path), seed):
            written += 1
            expected = Graph(graph.adjacency, graph.names) if ending in WITHOUT_WEIGHTS else graph
            assert formats.read(path) == expected, f"seed {seed}"
    assert written > 10


def test_every_network_reads_back_or_is_refused_on_writing(tmp_path: Path) -> None:
    written = 0
    for seed, rng in cases(120):
        names = list(dict.fromkeys(random_name(rng) for _ in range(int(rng.integers(1, 5)))))
        levels = {
            name: tuple(dict.fromkeys(random_name(rng) for _ in range(int(rng.integers(1, 4)))))
            for name in names
        }
        parents = {name: names[max(0, i - 2) : i] for i, name in enumerate(names)}
        tables = {
            name: rng.dirichlet(np.ones(len(levels[name])), size=[len(levels[p]) for p in parents[name]])
            for name in names
        }
        network = DiscreteNetwork(levels, parents, tables)
        path = tmp_path / "network.bif"
        if survives(lambda network=network, path=path: formats.write(network, path), seed):
            written += 1
            assert formats.read_network(path) == network, f"seed {seed}"
    assert written > 10


def example(rng: np.random.Generator, ending: str, folder: Path) -> bytes:
    names = ["rain", "sprinkler, lawn", 'wet "grass"', "slippery"]
    edges = [("rain", 'wet "grass"', 0.5), ("sprinkler, lawn", 'wet "grass"', -1e-3)]
    graph = Graph.from_edges(names, edges, [("rain", "slippery", 2.0)])
    formats.write(asia() if ending == ".bif" else graph, folder / f"whole{ending}")
    return (folder / f"whole{ending}").read_bytes()


@pytest.mark.parametrize("ending", list(formats.FORMATS))
def test_damaged_files_are_refused_or_read(tmp_path: Path, ending: str) -> None:
    whole = example(np.random.default_rng(0), ending, tmp_path)
    packed = tmp_path / f"damaged{ending}.gz"
    for seed, rng in cases(150):
        damaged = mutated(whole, rng)
        if seed % 5 == 0:
            packed.write_bytes(mutated(gzip.compress(whole), rng))
            survives(lambda: formats.read(packed), seed)
        path = tmp_path / f"damaged{ending}"
        path.write_bytes(damaged)
        survives(lambda path=path: formats.read(path), seed)


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (
            ".json",
            '{"nodes": ["a", "b"], "edges": [{"source": "a", "target": "b", "weight": %s}]}' % ("9" * 9999),
        ),
        (".json", "[" * 100_000),
        (".csv", f"source,target,weight\na,b,{'9' * 9999}\n"),
        (".pcalg.csv", f",a,b\na,0,{'9' * 9999}\nb,0,0\n"),
        (".causallearn.csv", ",a,b\na,0,99999999999999999999\nb,0,0\n"),
        (".dot", f"digraph {{ a -> b [effect={'9' * 200_000}x] }}"),
        (".dot", f"digraph {{ a -> b [effect={'9' * 200_000}] }}"),
        (".dot", "digraph " + "{" * 100_000),
        (".dagitty", f"dag {{ {'1' * 200_000}. - b }}"),
        (".dagitty", f"dag {{ a -> b [beta={'1' * 100_000}e{'1' * 100_000}_] }}"),
        (".graphml", '<?xml version="1.0" encoding="klingon"?><graphml></graphml>'),
        (".bif", "/* " * 100_000),
        (".bif", '"' + '\\"' * 100_000),
        (
            ".bif",
            "".join(f"variable v{i} {{ type discrete [2] {{ a, b }}; }}\n" for i in range(70))
            + f"probability ( {' '.join(f'v{i}' for i in range(70))} ) {{ default 0.5 0.5; }}",
        ),
    ],
)
def test_pathological_files_are_refused_at_once(tmp_path: Path, ending: str, text: str) -> None:
    path = tmp_path / f"graph{ending}"
    path.write_text(text)
    with pytest.raises(DataError, match=r"graph\."):
        formats.read(path)


def test_entities_are_refused_before_they_expand(tmp_path: Path) -> None:
    """A billion laughs in 1 kB, and an entity that is a file."""
    laughs = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10 if k else "ha"}">' for k in range(10))
    outside = f'<!ENTITY l9 SYSTEM "file://{tmp_path}/secret">'
    (tmp_path / "secret").write_text("secret")
    for declared in (laughs, outside):
        path = tmp_path / "graph.graphml"
        path.write_text(
            f'<?xml version="1.0"?>\n<!DOCTYPE graphml [{declared}]>\n'
            '<graphml><graph edgedefault="directed"><node id="&l9;"/></graph></graphml>'
        )
        with pytest.raises(DataError, match="line 2: the file declares a document type"):
            formats.read(path)


@pytest.mark.parametrize("ending", [*GRAPHS, ".bif"])
def test_a_small_file_that_expands_to_gigabytes_is_refused(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "LARGEST", 1 << 20)
    path = tmp_path / f"bomb{ending}.gz"
    path.write_bytes(gzip.compress(b" " * (1 << 22)))
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match="too much for a graph"):
        (formats.read_network if ending == ".bif" else formats.read)(path)


def test_a_small_table_that_expands_beyond_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sysconf", lambda name: 1 << 10)  # pages, and bytes of a page: 1 MB in all
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * (1 << 19)))
    with pytest.raises(DataError, match="expands to more than"):
        data.read(str(path))
