"""Groups of rows in a stream: the moments are those of linked rows in memory."""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydag import BOSS, PC, Bootstrap, LinkedRows, LinkedRowsDAG
from polydag.errors import DataError, UsageError
from polydag.rows.group_sums import GroupSums
from polydag.sources import LinkedStream, Stream


def pupils(
    seed: int, *, n: int = 400, groups: int = 60, alike: float = 0.5, far: float = 10.0
) -> pd.DataFrame:
    """a -> b -> c and d, a far from zero, in schools of different sizes whose rows are mixed up."""
    rng = np.random.default_rng(seed)
    school = rng.integers(0, groups, n)

    def error() -> np.ndarray:
        shared = rng.standard_normal(groups)[school]
        return np.asarray(np.sqrt(alike) * shared + np.sqrt(1 - alike) * rng.standard_normal(n))

    a = error()
    b = 0.8 * a + error()
    rows = pd.DataFrame({"a": far + a, "b": b, "c": 0.7 * b + error(), "d": 1e-3 * error()})
    return rows.assign(school=[f"s{k}" for k in school])


def close(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.allclose(one, other, rtol=1e-8, atol=1e-8 * np.abs(other).max()))


@given(st.integers(0, 10**6), st.floats(-0.02, 0.95), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_moments_are_those_in_memory_at_every_correlation(seed: int, r: float, parts: int) -> None:
    data = pupils(seed, n=90, groups=20, far=1e4)
    ends = np.linspace(0, len(data), parts + 1).astype(int)
    batches = [data.iloc[a:b] for a, b in pairwise(ends)]
    sums = GroupSums.from_batches(iter(batches), "school")
    r = max(r, sums.lowest)
    found, own = sums.moments(r), LinkedRows(data, groups="school", correlation=r).moments()
    assert (found.n, found.names) == (own.n, own.names)
    assert found.mass == pytest.approx(own.mass, rel=1e-8)
    np.testing.assert_allclose(found.mean, own.mean, rtol=1e-8, atol=1e-10)
    scale = np.sqrt(own.scatter.diagonal())
    np.testing.assert_allclose(found.scatter / np.outer(scale, scale), own.correlation, atol=1e-8)


def test_columns_that_follow_from_others_are_named_before_the_correlation_is_estimated(
    tmp_path: Path,
) -> None:
    data, path = pupils(1), tmp_path / "pupils.csv"
    for change, why in (({"d": data["b"]}, "same values: b = d"), ({"d": data["a"] - data["b"]}, "d = ")):
        data.assign(**change).to_csv(path, index=False)
        with pytest.raises(DataError, match=why):
            BOSS().fit(LinkedStream(Stream(str(path)), groups="school"))


def test_streams_without_columns_or_with_values_that_cannot_be_squared_are_refused(tmp_path: Path) -> None:
    data, path = pupils(1), tmp_path / "pupils.csv"
    for table, why in (
        (data[["school"]], "no column beside school"),
        (data.assign(b=1e200 * data["b"]), "column b are too large to be squared"),
    ):
        table.to_csv(path, index=False)
        with pytest.raises(DataError, match=why):
            BOSS().fit(LinkedStream(Stream(str(path)), groups="school"))


@pytest.mark.parametrize("form", ["csv", "parquet", "sql"])
def test_the_correlation_is_that_of_the_structure_common(form: str, tmp_path: Path) -> None:
    data, path = pupils(1), str(tmp_path / f"pupils.{form}")
    stream = Stream(path)
    if form == "csv":
        data.to_csv(path, index=False)
    elif form == "parquet":
        data.to_parquet(path, row_group_size=64)
    else:
        connection = sqlite3.connect(path)
        data.to_sql("pupils", connection, index=False)
        connection.close()
        stream = Stream(f"sqlite:///{path}", query="SELECT * FROM pupils")
    source = LinkedStream(stream, groups="school")
    rows = LinkedRows(data, groups="school", structure="common")
    assert source.correlation_ == pytest.approx(rows.decorrelation_.parameters["correlation"], abs=1e-8)
    assert close(source.moments().correlation, rows.moments().correlation)
    assert source.effective_n == pytest.approx(rows.effective_n, rel=1e-7)
    assert [str(edge) for edge in BOSS().fit(source).graph_.edges()] == ["a -- b", "b -- c"]
    assert [str(edge) for edge in PC().fit(source).graph_.edges()] == ["a -- b", "b -- c"]
    assert "Rows of one school have the correlation 0." in source.notes[0]


def test_some_columns_and_a_known_correlation(tmp_path: Path) -> None:
    data, path = pupils(2), tmp_path / "pupils.parquet"
    data.to_parquet(path)
    source = LinkedStream(Stream(path, columns=["a", "c"]), groups="school", correlation=0.3)
    own = LinkedRows(data[["a", "c", "school"]], groups="school", correlation=0.3)
    assert source.names == ("a", "c")
    assert close(source.moments().correlation, own.moments().correlation)


def test_what_needs_rows_says_so(tmp_path: Path) -> None:
    data, path = pupils(3), tmp_path / "pupils.parquet"
    data.assign(budget=data["school"].str[1:].astype(float)).to_parquet(path)
    with pytest.raises(UsageError, match="LinkedStream"):
        LinkedRows(Stream(path), groups="school", structure="common")
    with pytest.raises(UsageError, match="school holds labels"):
        LinkedStream(Stream(path, kinds={"school": "discrete"}), groups="school")
    with pytest.raises(DataError, match="budget is the same in all rows of each school"):
        LinkedStream(Stream(path), groups="school").moments()
    with pytest.raises(DataError, match="street"):
        LinkedStream(Stream(path), groups="street").moments()
    few = LinkedStream(Stream(path, columns=["a", "b"]), groups="school")
    with pytest.raises(UsageError, match="a stream of linked rows"):
        LinkedRowsDAG().fit(few)
    with pytest.raises(UsageError):
        Bootstrap(BOSS(), n_resamples=2).fit(few)
    data.loc[7, "school"] = None
    data.to_parquet(path)
    with pytest.raises(DataError, match="Row 8 has no value of school"):
        LinkedStream(Stream(path), groups="school").moments()
    data.assign(school="one").to_parquet(path)
    with pytest.raises(DataError, match="1 groups of at most 400 rows"):
        LinkedStream(Stream(path), groups="school").moments()
