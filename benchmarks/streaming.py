"""Statistics of a Parquet file larger than memory, against a plain chunked `X.T @ X`.

    python benchmarks/streaming.py --rows 10000000 --columns 50

Each contender runs in a fresh process over the same file and batches, with one BLAS thread and with as many
as there are cores, in turn: wall time, CPU time, peak resident memory. Every repeat is kept, with the load of
the machine before it; the ratio printed is that of the medians. Targets: less than 1 GB, at least half the
speed of the plain product. (Not called statistics.py:
a script of that name would hide the standard library's module from every other script in this folder.)
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from keeping import keep, machine

GROUP_ROWS = 250_000
BATCH_ROWS = 65_536
FIGURES = ("wall_s", "cpu_s", "peak_rss_mb", "load")


def write_table(path: Path, rows: int, columns: int) -> None:
    """Random normal columns with means away from zero, one row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    mix = np.eye(columns) + 0.1 * rng.standard_normal((columns, columns))
    names = [f"x{j}" for j in range(columns)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema, compression="NONE", use_dictionary=False) as writer:
        for start in range(0, rows, GROUP_ROWS):
            block = rng.standard_normal((min(GROUP_ROWS, rows - start), columns)) @ mix + 10.0
            writer.write_table(pa.table(list(np.ascontiguousarray(block.T)), schema=schema))


def batches(path: Path) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        yield from file.iter_batches(batch_size=BATCH_ROWS)


def plain(path: Path) -> np.ndarray[Any, Any]:
    """The yardstick: uncentred second moments, one product a batch."""
    total: Any = 0.0
    for batch in batches(path):
        X = np.column_stack([column.to_numpy() for column in batch.columns])
        total = total + X.T @ X
    return np.asarray(total)


def streamed(path: Path) -> np.ndarray[Any, Any]:
    """polydag: centred moments, checked for missing values; shown as uncentred for the comparison."""
    from polydag import data

    stats = data.gaussian_stats(path)
    return np.asarray(stats.scatter + stats.n * np.outer(stats.mean, stats.mean))


CONTENDERS: dict[str, Callable[[Path], np.ndarray[Any, Any]]] = {"plain": plain, "polydag": streamed}


def measure(contender: str, path: Path) -> dict[str, Any]:
    """Run one contender here; imports are done before the clock starts."""
    import pyarrow.parquet  # noqa: F401

    import polydag.data  # noqa: F401

    wall, cpu = time.perf_counter(), time.process_time()
    moments = CONTENDERS[contender](path)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall_s": wall, "cpu_s": cpu, "peak_rss_mb": peak_memory() / 1e6, "moments": moments.tolist()}


def peak_memory() -> float:
    """Bytes. Linux counts the parent's memory into getrusage of a child, so its own status file is read."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return float(line.split()[1]) * 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def in_fresh_process(contender: str, path: Path, threads: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", contender, "--file", str(path)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    load = os.getloadavg()[0]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return {"contender": contender, "blas_threads": threads, "load": load, **json.loads(done.stdout)}


def run(rows: int, columns: int, repeats: int, saved: bool) -> None:
    """Make the file, measure every contender in turn, print and keep the figures."""
    need = rows * columns * 8
    folder = Path(tempfile.mkdtemp(prefix="polydag-streaming-"))
    try:
        free = shutil.disk_usage(folder).free
        if free < 1.2 * need:
            raise SystemExit(f"{need / 1e9:.1f} GB are needed in {folder}, {free / 1e9:.1f} GB are free.")
        path = folder / "table.parquet"
        print(f"writing {rows:,} rows × {columns} columns ({need / 1e9:.1f} GB)", flush=True)
        write_table(path, rows, columns)
        settings = [(threads, name) for threads in sorted({1, os.cpu_count() or 1}) for name in CONTENDERS]
        found = [in_fresh_process(name, path, threads) for _ in range(repeats) for threads, name in settings]
    finally:
        shutil.rmtree(folder)
    for threads in sorted({result["blas_threads"] for result in found}):
        compare([result for result in found if result["blas_threads"] == threads], threads)
    if saved:
        save(rows, columns, found)


def compare(found: list[dict[str, Any]], threads: int) -> None:
    """Print the medians of both contenders, and their ratio."""
    middle: dict[str, dict[str, float]] = {}
    for name in CONTENDERS:
        own = [result for result in found if result["contender"] == name]
        middle[name] = {key: float(np.median([result[key] for result in own])) for key in FIGURES}
        wall, cpu, peak, load = middle[name].values()
        print(
            f"{threads} BLAS threads, {name:8s} wall {wall:6.2f} s  cpu {cpu:6.2f} s  peak {peak:4.0f} MB  "
            f"(load {load:.1f})"
        )
    wall, cpu = (middle["plain"][key] / middle["polydag"][key] for key in ("wall_s", "cpu_s"))
    moments = [np.array(result["moments"]) for result in found]
    apart = max(float(np.abs(other - moments[0]).max()) for other in moments) / np.abs(moments[0]).max()
    print(f"  speed to plain: {wall:.2f} (wall), {cpu:.2f} (cpu) (target 0.5); moments differ by {apart:.0e}")


def save(rows: int, columns: int, found: list[dict[str, Any]]) -> None:
    """One line a run."""
    lines = (
        {
            "rows": rows,
            "columns": columns,
            "contender": result["contender"],
            "blas_threads": result["blas_threads"],
            **{key: f"{result[key]:.2f}" for key in FIGURES},
        }
        for result in found
    )
    keep("streaming", lines, machine("pyarrow"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    parser.add_argument("--measure", choices=sorted(CONTENDERS), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.file)))
    else:
        run(given.rows, given.columns, given.repeats, saved=not given.no_save)


if __name__ == "__main__":
    main()
