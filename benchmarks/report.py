"""How large reports are, how fast they open and how fast the slider is, in headless Chromium.

    python benchmarks/report.py

`open_ms` is the load event of the page, `all_ms` the time until all edges are painted, once they are asked
for, `slider_ms` the slowest of seven moves of the threshold over all edges, and `frame_ms` the same until the
frame is painted, which is two frames (33 ms) at least; each is the median of five loads, in wall time.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from keeping import keep, machine

from browser import Browser, chromium
from polydag import simulate
from polydag.formats import graphjson
from polydag.report import RunFiles, page, view_of

SIZES = ((8, 12), (37, 46), (116, 1500), (150, 300), (500, 2000))
LOADS = 5
MOVE = """(async () => {
  const top = document.querySelector('#graph input[type=number]');
  const slider = document.querySelector('#graph input[type=range]');
  const frame = () => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));
  const begin = performance.now();
  top.value = top.max; top.dispatchEvent(new Event('input'));
  await frame();
  const all = performance.now() - begin;
  const handled = [], painted = [];
  for (const share of [0.1, 0.2, 0.3, 0.15, 0.05, 0, 0.4]) {
    slider.value = share * slider.max;
    const start = performance.now();
    slider.dispatchEvent(new Event('input'));
    handled.push(performance.now() - start);
    await frame();
    painted.push(performance.now() - start);
  }
  return [all, Math.max(...handled), Math.max(...painted)];
})()"""


def measured(browser: Browser, nodes: int, edges: int, folder: Path) -> dict[str, Any]:
    graph = simulate.dag(nodes, n_edges=edges, random_state=nodes)
    rows = "".join(f"{e.source},{e.target},{e.weight},\n" for e in graph.edges())
    texts = {"graph.json": graphjson.to_text(graph), "edges.csv": f"source,target,weight,probability\n{rows}"}
    file = folder / f"{nodes}.html"
    file.write_text(page([view_of(RunFiles("simulated", texts))]), encoding="utf-8")
    found = []
    for _ in range(LOADS):
        browser.open(file.as_uri())
        load = browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
        found.append((load, *browser.run(MOVE)))
    assert browser.problems == []
    names = ("open_ms", "all_ms", "slider_ms", "frame_ms")
    medians = (round(statistics.median(values), 1) for values in zip(*found, strict=True))
    return {
        "nodes": nodes,
        "edges": graph.n_edges,
        "kB": round(file.stat().st_size / 1000),
        **dict(zip(names, medians, strict=True)),
    }


def main() -> None:
    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        rows = [measured(browser, *size, Path(folder)) for size in SIZES]
    for row in rows:
        print(", ".join(f"{name} {value}" for name, value in row.items()))
    keep("report", rows, machine())


if __name__ == "__main__":
    main()
