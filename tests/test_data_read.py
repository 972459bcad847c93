"""Reading tables from files: round trips, and errors that name the fault."""

from __future__ import annotations

import datetime
import decimal
import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import polydag.data.readers.csv
from polydag import data
from polydag.errors import DataError, UsageError
from polydag.stats import GaussianStats

finite = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False)
word = st.text("abcdefghijklmnopqrstuvwxyz,\"' ü", min_size=1, max_size=6).map(lambda text: "w" + text)


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    """Frames with unambiguous kinds: fractions, labels, booleans, and a few repeated whole numbers."""
    n = draw(st.integers(4, 30))
    columns: dict[str, object] = {
        "value": [x + 0.5 if x % 1 == 0 else x for x in draw(st.lists(finite, min_size=n, max_size=n))],
        "label": draw(st.lists(word, min_size=n, max_size=n)),
        "flag": draw(st.lists(st.booleans(), min_size=n, max_size=n)),
        "level": draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)),
    }
    return pd.DataFrame({name: columns[name] for name in draw(st.permutations(list(columns)))})


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(frame, str(path))
    elif path.suffix == ".arrow":
        table = pa.Table.from_pandas(frame)
        with pa.ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table, max_chunksize=7)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    return path


SUFFIXES = [".csv", ".csv.gz", ".tsv", ".parquet", ".feather", ".arrow"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=frames())
def test_what_pandas_writes_is_read_back(tmp_path: Path, suffix: str, frame: pd.DataFrame) -> None:
    path = write(frame, tmp_path / f"table{suffix}")
    table = data.read(path)
    kinds = {"value": "continuous", "label": "discrete", "flag": "discrete", "level": "discrete"}
    assert table.kinds == {name: kinds[name] for name in frame.columns}
    assert table.names == tuple(frame.columns)
    assert table.notes == ()
    assert table.source == str(path)
    for name in frame.columns:
        assert table.frame[name].tolist() == frame[name].tolist()
    assert list(table.frame["label"].cat.categories) == sorted(set(frame["label"]))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_streamed_statistics_equal_those_in_memory(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(1e3, [1.0, 1e-3, 50.0], (20_000, 3)), columns=["a", "b", "c"])
    path = write(frame, tmp_path / f"t{suffix}")
    stats = data.gaussian_stats(path, columns=["c", "a"])
    whole = GaussianStats.from_data(frame[["c", "a"]])
    assert stats.names == ("c", "a")
    assert stats.n == 20_000
    np.testing.assert_allclose(stats.mean, whole.mean, rtol=1e-13)
    np.testing.assert_allclose(stats.scatter, whole.scatter, rtol=1e-9)
    np.testing.assert_allclose(data.gaussian_stats(path).covariance, np.cov(frame.T, bias=True), rtol=1e-6)


def test_a_csv_of_many_blocks_changes_its_mind_about_a_column(tmp_path: Path) -> None:
    """Megabytes of whole numbers, then a fraction: neither way of reading may fail."""
    path = tmp_path / "t.csv"
    path.write_text("a\n" + "1\n" * 900_000 + "0.5\n")
    assert data.read(path).kinds == {"a": "continuous"}
    assert data.gaussian_stats(path).mean[0] == pytest.approx((900_000 + 0.5) / 900_001)


def test_columns_are_chosen_and_ordered(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        path = write(pd.DataFrame({"a": [1.5, 2], "b": [3.5, 4], "c": ["x", "y"]}), tmp_path / f"t{suffix}")
        assert data.read(path, columns=["c", "a"]).names == ("c", "a")
        with pytest.raises(DataError, match=r"no column z\. Its columns are a, b, c"):
            data.read(path, columns=["a", "z"])
        with pytest.raises(DataError, match="no column z"):
            data.gaussian_stats(path, ["z"])
        with pytest.raises(DataError, match="a was requested more than once"):
            data.read(path, columns=["a", "a"])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.5, 1, 2, 3] * 5, "continuous"),
        ([0, 1, 2, 3] * 5, "discrete"),
        ([0.0, 1.0, 2.0, np.nan] * 5, "discrete"),
        (list(range(10)) * 2, "discrete"),
        (list(range(11)) * 2, "continuous"),
        ([1, 2, 3, 4, 5], "continuous"),
        ([decimal.Decimal("1.25"), decimal.Decimal("2")], "continuous"),
        ([True, False, None, True], "discrete"),
        (["1", "2", "3"], "discrete"),
        ([datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)], "discrete"),
        (pd.Categorical([3, 1, 3]), "discrete"),
        (pd.array([1, 2, None, 2, 1], dtype="Int64"), "discrete"),
        ([None, None, None], "continuous"),
    ],
)
def test_kinds(values: object, kind: str) -> None:
    frame = pd.DataFrame({"a": values})
    assert data.from_frame(frame, missing="keep").kinds == {"a": kind}


def test_the_caller_decides_on_kinds() -> None:
    frame = pd.DataFrame(
        {"a": [0, 1, 0, 1], "b": ["1", "2", "1", "2"], "c": [0.5, 1, 1, 0.5], "d": [True] * 4}
    )
    frame["d"] = frame["d"] & (frame["a"] > 0)
    table = data.from_frame(
        frame, kinds={"a": "continuous", "b": "continuous", "c": "discrete", "d": "continuous"}
    )
    assert table.continuous == ("a", "b", "d")
    assert table.discrete == ("c",)
    assert all(table.frame[name].dtype == float for name in ("a", "b", "d"))
    assert table.frame["b"].tolist() == [1, 2, 1, 2]
    with pytest.raises(DataError, match="no column z"):
        data.from_frame(frame, kinds={"z": "discrete"})
    with pytest.raises(UsageError, match="continuous or discrete"):
        data.from_frame(frame, kinds={"a": "number"})  # type: ignore[dict-item]


def test_reading_changes_nothing_of_the_callers_frame() -> None:
    frame = pd.DataFrame({"a": [1.5, np.nan, 2.5], "b": ["x", "y", "x"]}, index=[5, 6, 7])
    before = frame.copy(deep=True)
    data.from_frame(frame, missing="impute")
    pd.testing.assert_frame_equal(frame, before)


def test_text_in_a_numeric_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ages.csv"
    path.write_text('name,age\n"Ann\nLee",30\n\nBob,31\nCai,thirty\nDee,33\n')
    with pytest.raises(DataError, match=r"ages\.csv, column age, line 6: 'thirty' is not a number"):
        data.read(path)
    with pytest.raises(DataError, match=r"ages\.csv, column age, line 6: 'thirty' is not a number"):
        data.gaussian_stats(path, ["age"])
    table = data.read(path, kinds={"age": "discrete"})
    assert table.frame["age"].tolist() == ["30", "31", "thirty", "33"]
    with pytest.raises(DataError, match=r"column name, line 3: 'Ann\\nLee' is not a number"):
        data.read(path, kinds={"name": "continuous", "age": "discrete"})


def test_text_in_an_object_column_is_named() -> None:
    frame = pd.DataFrame({"a": [1, 2, "x", 4, "y"]}, dtype=object)
    with pytest.raises(DataError, match=r"Mine, column a, row 3: 'x' is not a number.*1 more"):
        data.from_frame(frame, source="Mine")


BAD_FILES: list[tuple[str, bytes | None, str]] = [
    ("none.csv", None, r"none\.csv: no such file"),
    ("none.parquet", None, r"none\.parquet: no such file"),
    ("none.arrow", None, r"none\.arrow: no such file"),
    ("empty.csv", b"", r"empty\.csv is empty"),
    ("empty.parquet", b"", r"empty\.parquet is empty"),
    ("blank.csv", b"\n\n", r"blank\.csv is empty"),
    ("header.csv", b"a,b\n", r"header\.csv has column names but no rows"),
    ("one.csv", b"a,b\n1,2\n", r"one\.csv has only one row"),
    ("short.csv", b"a,b\n1,2\n3\n4,5\n", r"short\.csv, line 3 has 1 cells but the header has 2"),
    ("long.csv", b"a,b\n1,2\n\n3,4,5\n", r"long\.csv, line 4 has 3 cells but the header has 2"),
    ("twice.csv", b"a,b,a\n1,2,3\n4,5,6\n", r"twice\.csv: several columns have the name a"),
    ("index.csv", b",a\n0,2\n1,6\n", r"index\.csv: column 1 has no name.*index=False"),
    ("semi.csv", b"a;b\n1;2\n3;4;5\n", r"semi\.csv, line 3 has 3 cells but the header has 2"),
    ("sep.csv", b"sep=;\na;b\n1;2\n3;4\n", r"sep\.csv, line 1 says how cells are separated"),
    ("bare.csv", b"1.5,2\n3,4\n5,6\n", r"bare\.csv, line 1 holds numbers"),
    ("odd.csv", b"a,b\n1,caf\xe9\n2,th\x81\n", r"odd\.csv cannot be read as CSV"),
    ("broken.csv.gz", b"not gzip at all", r"broken\.csv\.gz cannot be decompressed"),
    ("broken.parquet", b"PAR1 rubbish", r"broken\.parquet is damaged or cannot be read"),
    ("broken.arrow", b"ARROW1 rubbish", r"broken\.arrow is damaged, or not an Arrow file"),
    ("table.xlsx", b"PK", r"table\.xlsx: unknown file format.*\.csv.*\.parquet.*sqlite"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES, ids=[name for name, _, _ in BAD_FILES])
def test_bad_files_are_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        data.read(path)


@pytest.mark.parametrize("reader", [data.read, data.gaussian_stats])
def test_damaged_files_are_named(tmp_path: Path, reader: Callable[[Path], object]) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3000, 2)), columns=["a", "b"])
    whole = write(frame, tmp_path / "t.csv.gz").read_bytes()
    (tmp_path / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut\.csv\.gz"):
        reader(tmp_path / "cut.csv.gz")
    (tmp_path / "ragged.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n3\n"))
    with pytest.raises(DataError, match=r"ragged\.csv\.gz, line 3 has 1 cells"):
        reader(tmp_path / "ragged.csv.gz")
    whole = write(frame, tmp_path / "t.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut\.parquet"):
        reader(tmp_path / "cut.parquet")
    whole = write(frame, tmp_path / "t.arrow").read_bytes()
    (tmp_path / "cut.arrow").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut\.arrow"):
        reader(tmp_path / "cut.arrow")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        reader(tmp_path / "folder.csv")


def test_cells_that_are_neither_numbers_nor_labels(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"a": [[1], [2, 3]]}), tmp_path / "nested.parquet")
    with pytest.raises(DataError, match="column a holds list"):
        data.read(tmp_path / "nested.parquet")
    with pytest.raises(DataError, match="complex"):
        data.from_frame(pd.DataFrame({"a": [1j, 2]}))
    with pytest.raises(DataError, match="several columns have the name a"):
        data.from_frame(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]))
    with pytest.raises(DataError, match="has no columns"):
        data.from_frame(pd.DataFrame(index=[0, 1]))


@pytest.fixture
def holes(tmp_path: Path) -> Path:
    path = tmp_path / "holes.csv"
    path.write_text("x,y,g\n1.5,2.5,a\n,4.5,b\n3.5,,b\n4.5,5.5,\n5.5,NA,b\n")
    return path


def test_missing_values_are_refused_by_default(holes: Path) -> None:
    with pytest.raises(DataError) as caught:
        data.read(holes)
    said = str(caught.value)
    assert "in 4 of 5 rows: y 2, x 1, g 1" in said
    assert "column x, line 3 (missing)" in said
    assert "--missing drop|impute" in said
    with pytest.raises(DataError, match=r"holes\.csv.*row 2: the value is missing"):
        data.gaussian_stats(holes, ["x"])
    with pytest.raises(UsageError, match="error, drop, impute, keep"):
        data.read(holes, missing="ignore")  # type: ignore[arg-type]


def test_missing_values_are_imputed_on_request(holes: Path) -> None:
    table = data.read(holes, missing="impute")
    assert table.frame["x"].tolist() == [1.5, 3.75, 3.5, 4.5, 5.5]
    assert table.frame["y"].tolist() == pytest.approx([2.5, 4.5, 12.5 / 3, 5.5, 12.5 / 3])
    assert table.frame["g"].tolist() == ["a", "b", "b", "b", "b"]
    assert table.notes[0].startswith("4 missing values imputed")
    assert "y 2, x 1, g 1" in table.notes[0]


def test_rows_are_dropped_on_request(holes: Path) -> None:
    with pytest.raises(DataError, match="only 1 of 5 rows are complete"):
        data.read(holes, missing="drop")
    table = data.read(holes, columns=["x", "g"], missing="drop")
    assert table.frame["x"].tolist() == [1.5, 3.5, 5.5]
    assert table.frame.index.tolist() == [0, 1, 2]
    assert table.notes == ("2 of 5 rows dropped because of missing values (x 1, g 1).",)
    assert list(table.frame["g"].cat.categories) == ["a", "b"]


def test_infinite_values_are_never_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "inf.csv"
    path.write_text("x,y\n1.5,2\ninf,3\n2.5,\n3.5,4\n")
    with pytest.raises(
        DataError, match=r"missing and infinite values in 2 of 4.*infinite values are not imputed"
    ):
        data.read(path)
    with pytest.raises(DataError, match="column x, line 3: the value is infinite"):
        data.read(path, missing="impute")
    assert data.read(path, missing="drop").frame["x"].tolist() == [1.5, 3.5]
    assert np.isinf(data.read(path, missing="keep").frame["x"]).sum() == 1
    with pytest.raises(DataError, match="row 2: the value is inf"):
        data.gaussian_stats(path, ["x"])


def test_a_column_without_any_value_cannot_be_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,\n2,\n3,\n")
    with pytest.raises(DataError, match="column y has no values"):
        data.read(path, missing="impute")


def test_the_row_of_a_bad_value_is_counted_through_the_stream(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(200_000.0), "b": 1.0})
    frame.loc[150_000, "b"] = np.nan
    path = write(frame, tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet: Column b, row 150001: the value is missing"):
        data.gaussian_stats(path)
    with pytest.raises(DataError, match=r"Column g is .*string, not numeric"):
        data.gaussian_stats(write(pd.DataFrame({"g": ["1", "2"]}), tmp_path / "s.parquet"))


def test_reference_tables_have_the_kinds_one_would_give_them(reference_data: Path) -> None:
    table = data.read(reference_data / "heart" / "heart_cleveland.csv", missing="drop")
    assert table.continuous == ("age", "trestbps", "chol", "thalach", "oldpeak")
    assert table.n == 297
    sachs = data.read(reference_data / "sachs" / "sachs_interventional_7466.csv.gz", missing="keep")
    assert sachs.n == 7466
    assert "condition" in sachs.discrete
    assert len(sachs.continuous) == 11


def test_a_query_needs_a_database(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="A query needs a database address"):
        data.read(tmp_path / "t.csv", query="select 1")


def test_importing_the_package_stays_light() -> None:
    heavy = {"pandas", "pyarrow", "sqlalchemy", "scipy.stats", "sklearn"}
    code = f"import sys, polydag.data; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_a_compressed_file_that_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "rows.csv.gz"
    rows.write_bytes(gzip.compress(b"a,b\n" + b"0.5,1.5\n" * 1_000_000))
    assert rows.stat().st_size < 40_000
    monkeypatch.setattr(os, "sysconf", lambda name: 1024)
    with pytest.raises(DataError, match=r"rows\.csv\.gz expands to more than .* memory"):
        data.read(rows)
    assert data.gaussian_stats(rows).n == 1_000_000  # a stream needs no memory for the rows
    monkeypatch.setattr(polydag.data.readers.csv, "_LONGEST_LINE", 1000)
    line = tmp_path / "line.csv.gz"
    line.write_bytes(gzip.compress(bytes(100_000)))
    with pytest.raises(DataError, match=r"line\.csv\.gz has a line of more than 1000"):
        data.gaussian_stats(line)


def test_a_wrong_checksum_of_a_compressed_file_is_noticed(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"a,b\n" + b"0.5,1.5\n0.7,2.5\n" * 100))
    packed[-6] ^= 1
    (tmp_path / "x.csv.gz").write_bytes(packed)
    with pytest.raises(DataError, match=r"x\.csv\.gz cannot be decompressed: CRC"):
        data.read(tmp_path / "x.csv.gz")


@pytest.mark.parametrize("suffix", [".arrow", ".feather"])
def test_an_arrow_file_that_ends_its_reader_does_not_end_us(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(pd.DataFrame({"a": [0.5, 1.5], "b": ["x", "y"]}), tmp_path / f"x{suffix}")
    suicidal = tmp_path / "program.py"
    suicidal.write_text("import os\nos.abort()\n")
    monkeypatch.setattr(Path, "with_name", lambda self, name: suicidal)
    for read in (data.read, data.gaussian_stats):
        with pytest.raises(DataError, match=rf"x\{suffix} is damaged.*end the program"):
            read(path)


def test_arrow_values_are_validated(tmp_path: Path) -> None:
    offsets = pa.py_buffer(np.array([0, 2, 1, 2], dtype=np.int32))
    text = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"xy"))
    batch = pa.RecordBatch.from_arrays([text], names=["a"])
    with pa.ipc.new_stream(tmp_path / "x.arrow", batch.schema) as stream:
        stream.write_batch(batch)
    with pytest.raises(DataError, match=r"x\.arrow is damaged"):
        data.read(tmp_path / "x.arrow")
