"""Reports in a real browser: headless Chromium opens the file, and people's actions are repeated."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import CHROMIUM, Browser, chromium
from polydag import simulate
from polydag.graph import Graph
from polydag.report import RunFiles, page, view_of
from test_report import NASTY, graph_files

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt install chromium)"),
    pytest.mark.xdist_group("browser"),
]

DRAWN = "Number(document.querySelector('#graph .count').textContent.match(/\\d+/)[0])"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def posterior() -> RunFiles:
    """Sure and unsure connections and directions: a – b connected for sure, without a direction."""
    graph = Graph.from_edges(["a", "b", "c", "d"], [("a", "b", 0.5), ("b", "c", 0.9)])
    rows = (
        "source,target,probability,r_hat,ess\na,b,0.5,1.0,900\nb,a,0.5,1.0,900\nb,c,0.9,1.0,900\n"
        "c,d,0.3,1.0,900\nd,c,0.1,1.0,900\na,d,0.08,1.0,900\n"
    )
    tasks = "first,second,in x,in y,shared,only in x,only in y,basis\na,b,0.9,0.9,0.8,0.1,0.1,joint\n"
    tasks += "b,c,0.9,0.1,0.1,0.8,0.0,joint\n"
    return graph_files(graph, **{"posterior.csv": rows, "connections.csv": tasks})


def opened(browser: Browser, folder: Path, *files: RunFiles, truth: Graph | None = None) -> None:
    path = folder / "report.html"
    path.write_text(page([view_of(own, truth) for own in files]), encoding="utf-8")
    browser.open(path.as_uri())


def set_value(browser: Browser, selector: str, value: str, event: str = "input") -> None:
    browser.run(
        f"{{ const field = document.querySelector({json.dumps(selector)}); field.value = {json.dumps(value)};"
        f" field.dispatchEvent(new Event({json.dumps(event)})); }}"
    )


def test_the_slider_adds_and_removes_edges_and_measures_them(browser: Browser, tmp_path: Path) -> None:
    truth = Graph.from_edges(["a", "b", "c", "d"], [("a", "b"), ("b", "c"), ("c", "d")])
    opened(browser, tmp_path, posterior(), truth=truth)
    assert browser.run(DRAWN) == 2
    assert "adjacency precision 1.00, recall 0.67" in browser.run(
        "document.querySelector('#graph').innerText"
    )
    set_value(browser, "#graph input[type=range]", "0.05")
    assert browser.run(DRAWN) == 4
    set_value(browser, "#graph input[type=range]", "0.35")
    assert browser.run(DRAWN) == 3
    set_value(browser, "#graph input[type=number]", "1")
    assert browser.run(DRAWN) == 1
    assert browser.problems == []


def test_a_sure_connection_without_a_sure_direction_has_no_arrowhead(
    browser: Browser, tmp_path: Path
) -> None:
    opened(browser, tmp_path, posterior())
    table = browser.run("document.querySelector('#pairs tbody').innerText")
    assert table.splitlines()[0].startswith("a — b\t1.00\t0.50\t0.50")
    assert "b → c" in table
    browser.run("document.querySelector('#pairs tbody tr').click()")
    panel = browser.run("document.querySelector('.panel').innerText")
    assert "Probability of a connection" in panel
    assert "direction is not determined" in panel
    assert browser.problems == []


def test_search_focuses_on_a_variable_and_escape_shows_all(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, posterior())
    set_value(browser, "#graph input[type=range]", "0.05")
    set_value(browser, "#graph input[type=search]", "d")
    assert browser.run(DRAWN) == 2
    set_value(browser, "#graph .row select", "parents", "change")
    assert browser.run(DRAWN) == 1
    browser.run("document.querySelector('.canvas').focus()")
    browser.press("Escape", 27)
    assert browser.run(DRAWN) == 4
    for key, code in (("+", 187), ("-", 189), ("ArrowLeft", 37), ("0", 48)):
        browser.press(key, code)
    assert browser.problems == []


def test_the_difference_view_filters_and_sorts(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, posterior())
    rows = "document.querySelectorAll('#difference tbody tr').length"
    assert browser.run(rows) == 2
    set_value(browser, "#difference select", "1", "change")
    assert browser.run("document.querySelector('#difference tbody').innerText").startswith("a — b")
    set_value(browser, "#difference select", "0", "change")
    set_value(browser, "#difference input[type=search]", "c")
    assert browser.run(rows) == 1
    assert browser.problems == []


def test_names_are_shown_and_not_run(browser: Browser, tmp_path: Path) -> None:
    graph = Graph.from_edges(NASTY, [(NASTY[0], NASTY[1], 0.4), (NASTY[1], NASTY[2], -0.2)])
    opened(browser, tmp_path, graph_files(graph))
    assert NASTY[0] in browser.run("document.querySelector('#pairs').innerText")
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.scripts.length") == 2
    assert browser.problems == []


def test_nothing_leaves_the_page(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, posterior())
    tried = browser.run("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')")
    assert tried == "refused"
    assert any("Content Security Policy" in text for text in browser.problems)


def test_pictures_can_be_saved(browser: Browser, tmp_path: Path) -> None:
    browser.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    opened(browser, tmp_path, posterior())
    for text, name in (("Save PNG", "graph.png"), ("Save SVG", "graph.svg")):
        browser.run(
            f"[...document.querySelectorAll('#graph button')].find((b) => b.textContent === '{text}').click()"
        )
        for _ in range(200):
            if (tmp_path / name).exists():
                break
            browser.run("new Promise((go) => setTimeout(go, 50))")
        assert (tmp_path / name).stat().st_size > 500
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8").count("<polygon") == 1
    browser.run("window.print = () => {}; [...document.querySelectorAll('#graph button')]"
                ".find((b) => b.textContent === 'Save PDF').click()")  # fmt: skip
    assert browser.run("document.querySelectorAll('.sheet svg').length") == 1
    assert len(browser.send("Page.printToPDF")["data"]) > 1000
    assert browser.run("document.querySelectorAll('.sheet').length") == 0  # it is gone after printing
    assert browser.problems == []


def least_contrast(browser: Browser) -> float:
    """The smallest contrast of text and its background (WCAG 2), over the colours of the theme."""

    def luminance(name: str) -> float:
        text = browser.run(f"getComputedStyle(document.body).getPropertyValue('--{name}').trim()")
        shares = [int(text[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in shares]
        return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    def ratio(text: str, paper: str) -> float:
        low, high = sorted((luminance(text), luminance(paper)))
        return (high + 0.05) / (low + 0.05)

    pairs = (("ink", "paper"), ("soft", "paper"), ("accent", "paper"), ("ink", "box"), ("warn", "warn-paper"))
    return min(ratio(*pair) for pair in pairs)


def test_everything_can_be_reached_and_named_without_a_mouse(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, posterior())
    unnamed = browser.run(
        "[...document.querySelectorAll('input, select, button, canvas, [role=img], .canvas, progress')]"
        ".filter((e) => !(e.ariaLabel || e.labels?.length || e.textContent.trim())"
        " && !e.closest('.__________cytoscape_container')).length"
    )
    assert unnamed == 0
    browser.run("document.querySelector('#matrix .map > canvas').focus()")
    for _ in range(2):
        browser.press("ArrowRight", 39)
    assert "→" in browser.run("document.querySelector('#matrix output').textContent")
    contrast = [least_contrast(browser)]
    browser.run("document.body.dataset.theme = 'dark'")
    contrast.append(least_contrast(browser))
    assert min(contrast) >= 4.5
    assert browser.problems == []


def test_several_runs_are_compared(browser: Browser, tmp_path: Path) -> None:
    other = graph_files(Graph.from_edges(["a", "b", "c", "d"], [("b", "a")], undirected=[("b", "c")]))
    opened(browser, tmp_path, posterior(), other)
    text = browser.run("document.querySelector('#compare table').innerText")
    assert text.splitlines()[-1].split("\t")[1:] == ["0", "0", "0", "1", "1"]
    set_value(browser, "header select", "1", "change")
    assert browser.run("document.querySelectorAll('#pairs tbody tr').length") == 2
    assert browser.problems == []


def test_a_page_follows_a_run_and_becomes_its_report(browser: Browser, tmp_path: Path) -> None:
    simulate.linear(simulate.dag(4, n_edges=3, random_state=1), n=60, random_state=1).to_csv(
        tmp_path / "data.csv", index=False
    )
    go = tmp_path / "go"
    slow = (
        "import sys, time, pathlib\nfrom polydag.computing import progress\n"
        "from polydag.learners import EqualVariance\n"
        "fit = EqualVariance._fit\n"
        "def waiting(self, source):\n"
        "    progress.report('waiting', 2, 5, 'for the test')\n"
        f"    while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)\n"
        "    fit(self, source)\n"
        "EqualVariance._fit = waiting\nfrom polydag.__main__ import main\nmain()\n"
    )
    run = ["fit", "data.csv", "--method", "equal-variance", "--seed", "1", "--out", "run", "--watch"]
    process = subprocess.Popen(
        [sys.executable, "-c", slow, *run],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        url = line.split()[-1]
        assert url.startswith("http://127.0.0.1:")
        assert len(url.partition("token=")[2]) >= 32
        browser.open(url)
        browser.wait("/2 of 5 for the test/.test(document.body.innerText)")
        assert "interrupted" in browser.run("document.body.innerText")
        go.touch()
        browser.wait("document.querySelectorAll('#pairs tbody tr').length > 0")
        assert browser.run("document.querySelectorAll('#partial').length") == 0
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130  # ended by Ctrl-C


@pytest.mark.parametrize("names", [[], ["alone"]], ids=["empty", "one node"])
def test_small_graphs(browser: Browser, tmp_path: Path, names: list[str]) -> None:
    opened(browser, tmp_path, graph_files(Graph.from_edges(names)))
    assert browser.run("document.querySelectorAll('h2').length") > 0
    assert browser.problems == []


def test_too_many_nodes_to_draw(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, graph_files(Graph.from_edges([f"v{i}" for i in range(1200)], [("v0", "v1")])))
    assert "too many to draw" in browser.run("document.querySelector('#graph').innerText")
    assert browser.run("document.querySelectorAll('#matrix canvas').length") == 1
    assert browser.problems == []


def test_a_phone_has_no_sideways_scrolling(browser: Browser, tmp_path: Path) -> None:
    graph = simulate.dag(40, n_edges=60, random_state=1)
    path = tmp_path / "report.html"
    path.write_text(page([view_of(graph_files(graph))]), encoding="utf-8")
    browser.open(path.as_uri(), width=390, height=844)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.problems == []


def linked_run() -> RunFiles:
    """A graph of linked rows beside the naive one, clusters, and traces of two chains."""
    from polydag.formats import graphjson

    naive = Graph.from_edges(["a", "b", "c"], [("b", "a"), ("a", "c"), ("b", "c")])
    clusters = (
        "cluster,rows,correlation,correlation_after,effective_n,decorrelated_n\n"
        "north,20,0.6,0.01,4.5,19.9\nsouth,5,0.55,0.02,3.1,4.9\n"
    )
    traces = "chain,draw,log_weight,a -> b\n" + "".join(
        f"{chain},{draw},{-100 - chain / draw},{0.5 + 0.01 * draw}\n"
        for chain in (1, 2)
        for draw in range(1, 9)
    )
    return graph_files(
        Graph.from_edges(["a", "b", "c"], [("a", "b"), ("b", "c")]),
        **{
            "naive.json": graphjson.to_text(naive),
            "row_clusters.csv": clusters,
            "traces.csv": traces,
            "posterior.csv": "source,target,probability,r_hat,ess\na,b,0.9,1.013,812\nb,c,0.8,1.2,90\n",
            "result.json": json.dumps({"n": 25, "measures": {"effective_n": 7.6, "decorrelated_n": 24}}),
        },
    )


def test_the_naive_graph_stands_beside_the_corrected_one(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, linked_run())
    text = browser.run("document.querySelector('#naive').innerText")
    assert "2 connections are in both graphs, 1 of them with other arrowheads" in text
    assert "1 are found only where rows are taken as independent" in text
    boxes = browser.run(
        "[...document.querySelectorAll('#naive .canvas')].map((c) => c.getBoundingClientRect().left)"
    )
    assert len(set(boxes)) == 2  # beside each other
    counts = browser.run("[...document.querySelectorAll('#naive .count')].map((c) => c.textContent)")
    assert counts == ["2 edges shown of 2", "3 edges shown of 3"]
    course = browser.run("document.querySelector('#course').innerText")
    assert "25 rows carry as much information about edges as 8" in course
    assert "as 24 once they are decorrelated" in course
    assert "north\t20\t0.60\t0.01\t4.5\t19.9" in course
    assert browser.problems == []


def test_chains_show_traces_and_diagnostics_of_each_pair(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, linked_run())
    charts = browser.run(
        "[...document.querySelectorAll('#course .chart figcaption')].map((c) => c.innerText)"
    )
    assert charts == ["log weight of the state", "P(a → b), R-hat 1.01, ESS 812"]
    lines = browser.run(
        "[...document.querySelectorAll('#course .chart')].map((c) => c.querySelectorAll('polyline').length)"
    )
    assert lines == [2, 2]
    head = browser.run("document.querySelector('#pairs thead').innerText")
    assert "R-hat" in head
    assert "ESS" in head
    assert browser.run("document.querySelector('#pairs tbody').innerText").splitlines()[0].split("\t")[
        -3:-1
    ] == [
        "1.01",
        "812",
    ]
    assert browser.problems == []


def test_at_200_percent_everything_is_readable(browser: Browser, tmp_path: Path) -> None:
    """Zoom halves the CSS pixels of the window: nothing scrolls sideways, and no text is cut."""
    path = tmp_path / "report.html"
    path.write_text(page([view_of(linked_run()), view_of(posterior())]), encoding="utf-8")
    browser.open(path.as_uri(), width=640, height=400)
    assert browser.run("document.documentElement.scrollWidth") <= 640
    cut = browser.run(
        "[...document.querySelectorAll('p, li, dt, dd, h1, h2, h3, label, button, figcaption, output')]"
        ".filter((e) => e.offsetParent && e.scrollWidth > e.clientWidth + 1 "
        " && getComputedStyle(e).display !== 'inline')"
        ".map((e) => e.outerHTML.slice(0, 80))"
    )
    assert cut == []
    assert browser.run("document.querySelector('#graph .canvas').clientHeight") >= 200
    assert browser.problems == []


def test_motion_is_left_out_where_people_ask_for_that(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, posterior())
    smooth = "getComputedStyle(document.documentElement).scrollBehavior"
    browser.send(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}]
    )
    assert browser.run(smooth) == "auto"
    browser.send("Emulation.setEmulatedMedia", features=[])
    assert browser.run(smooth) == "smooth"


def test_nodes_are_dragged_and_pinned(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, posterior())
    place = browser.run(
        "(() => { const box = document.querySelector('.canvas').getBoundingClientRect();"
        " const cy = document.querySelector('.canvas')._cyreg.cy, at = cy.nodes()[0].renderedPosition();"
        " return [box.left + at.x, box.top + at.y]; })()"
    )
    for kind, dx in (("mousePressed", 0), ("mouseMoved", 40), ("mouseMoved", 80), ("mouseReleased", 80)):
        browser.send("Input.dispatchMouseEvent", type=kind, x=place[0] + dx, y=place[1], button="left",
                     buttons=int(kind != "mouseReleased"), clickCount=1)  # fmt: skip
    pinned = "document.querySelector('.canvas')._cyreg.cy.nodes('.pinned').length"
    assert browser.run(pinned) == 1
    browser.run(
        "[...document.querySelectorAll('#graph button')].find((b) => b.textContent === 'Unpin all').click()"
    )
    assert browser.run(pinned) == 0
    assert browser.problems == []


def test_bad_runs_open(browser: Browser, tmp_path: Path) -> None:
    """Weights that are not numbers, 2,000 nodes, and a run that goes on."""
    weights = '{"nodes": ["a", "b"], "edges": [{"source": "a", "target": "b", "weight": NaN}]}'
    opened(
        browser,
        tmp_path,
        RunFiles("run", {"graph.json": weights, "edges.csv": "source,target,weight\na,b,nan\n"}),
    )
    assert browser.run(DRAWN) == 1
    assert browser.problems == []
    opened(browser, tmp_path, graph_files(Graph.from_edges([f"v{i}" for i in range(2000)], [("v0", "v1")])))
    assert "2000 variables are too many to draw" in browser.run("document.querySelector('#graph').innerText")
    assert browser.run("document.querySelectorAll('#matrix canvas, #pairs tbody tr').length") == 2
    assert browser.problems == []
    opened(browser, tmp_path, RunFiles("run", {"run.log": "12:00 scores\n"}, partial="It goes on."))
    assert "It goes on." in browser.run("document.querySelector('#partial').innerText")
    assert browser.problems == []


def test_names_can_be_read_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    """Of a graph that would be tiny, the first view shows a part; Fit shows all of it."""
    path = tmp_path / "report.html"
    path.write_text(
        page([view_of(graph_files(simulate.dag(300, n_edges=900, random_state=1)))]), encoding="utf-8"
    )
    browser.open(path.as_uri(), width=390, height=844)
    size = "13 * document.querySelector('.canvas')._cyreg.cy.zoom()"
    assert browser.run(size) > 7
    browser.run(
        "[...document.querySelectorAll('#graph button')].find((b) => b.textContent === 'Fit').click()"
    )
    assert browser.run(size) < 7
    assert browser.problems == []
