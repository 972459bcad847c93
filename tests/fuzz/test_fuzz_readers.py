"""Readers: damaged tables are refused with the name of the file, or read; nothing else happens."""

from __future__ import annotations

import datetime
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from fuzzing import cases, mutated, survives

from polydag import data


def example() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 60
    return pd.DataFrame(
        {
            "age": rng.normal(50, 10, n).round(2),
            "ward": rng.choice(["north", "süd", 'a "b"'], n),
            "count": rng.integers(0, 4, n),
            "smokes": rng.random(n) < 0.5,
            "day": [datetime.datetime(2024, 1, 1) + datetime.timedelta(days=int(i)) for i in range(n)],
            "group": pd.Categorical(rng.choice(["a", "b"], n)),
            "gap": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
        }
    )


def write(path: Path) -> None:
    frame = example()
    table = pa.Table.from_pandas(frame)
    match path.suffix:
        case ".parquet":
            frame.to_parquet(path)
        case ".feather":
            pyarrow.feather.write_feather(frame, str(path), compression="lz4")
        case ".ipc":
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table, max_chunksize=20)
        case ".arrow":
            with pa.ipc.new_stream(path, table.schema) as stream:
                stream.write_table(table, max_chunksize=20)
        case ".db":
            with sqlite3.connect(path) as database:
                frame.astype({"day": str, "group": str}).to_sql("people", database, index=False)
            database.close()
        case _:
            frame.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")


def read(path: Path, rng: np.random.Generator) -> None:
    source, query = str(path), None
    if path.suffix == ".db":
        source, query = f"sqlite:///{path}", "SELECT * FROM people"
    if rng.random() < 0.7:
        data.read(source, missing=str(rng.choice(["error", "drop", "impute", "keep"])), query=query)
    else:
        data.gaussian_stats(source, [["age"], ["count", "age"], None][int(rng.integers(3))], query=query)


@pytest.mark.parametrize(
    ("suffix", "count"),
    [
        (".csv", 60),
        (".csv.gz", 80),
        (".tsv.gz", 20),
        (".parquet", 60),
        (".feather", 8),
        (".ipc", 8),
        (".arrow", 8),
        (".db", 60),
    ],
)
@pytest.mark.filterwarnings("ignore:Unclosed|unclosed")
def test_damaged_tables_are_refused_or_read(tmp_path: Path, suffix: str, count: int) -> None:
    whole = tmp_path / f"whole{suffix}"
    write(whole)
    raw = whole.read_bytes()
    damaged = tmp_path / f"damaged{suffix}"
    for seed, rng in cases(count):
        damaged.write_bytes(mutated(raw, rng))
        survives(lambda rng=rng: read(damaged, rng), seed)
