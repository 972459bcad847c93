"""Tables as spreadsheets export them: separators, decimal commas, units in cells, encodings, empty rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from polydag import BOSS, data
from polydag.cli.main import app
from polydag.data.written_numbers import UnreadableColumnError, written_numbers
from polydag.errors import DataError
from polydag.sources import InMemory

CLEAN = pd.DataFrame(
    {
        "age": [61.0, 48.0, 70.0, 55.0] * 6,
        "weight": [1001.8, 985.25, 12345.5, 2000.0, *np.arange(1100.25, 1120, 1)],
        "ef": np.arange(24) + 40.0,
        "sex": ["f", "m"] * 12,
    }
)


def german(value: float) -> str:
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def exported() -> pd.DataFrame:
    """The clean table with a unit, thousands separated, and decimal commas."""
    return CLEAN.assign(
        age=[f" {value:.0f} " for value in CLEAN["age"]],
        weight=CLEAN["weight"].map(german),
        ef=[f"{value:.0f} %" for value in CLEAN["ef"]],
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_an_export_is_read_as_the_clean_table(tmp_path: Path, encoding: str, separator: str) -> None:
    path = tmp_path / "export.csv"
    text = exported().rename(columns={"sex": " Größe "}).to_csv(sep=separator, index=False)
    below = f"{separator * 3}\r\n" * 2  # spreadsheets write empty rows below a table
    path.write_bytes((text.replace("\n", "\r\n") + below).encode(encoding))
    table = data.read(path)
    pd.testing.assert_frame_equal(
        table.frame, CLEAN.rename(columns={"sex": "Größe"}), check_dtype=False, check_categorical=False
    )
    notes = " ".join(table.notes)
    assert "without their unit '%': ef" in notes
    assert "with decimal commas: weight" in notes
    assert ("semicolons" if separator == ";" else "tabs") in notes
    assert ("Windows-1252" in notes) == (encoding == "cp1252")


def test_a_stream_reads_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    frame = CLEAN[["ef", "weight"]]
    frame.to_csv(path, sep=";", decimal=",", index=False)
    stats = data.gaussian_stats(path)
    np.testing.assert_allclose(stats.mean, frame.mean())
    assert stats.n == 24


def test_a_comma_in_a_header_does_not_hide_the_separator(tmp_path: Path) -> None:
    path = tmp_path / "header.csv"
    path.write_text("age, years;sex\n61;f\n48;m\n")
    assert data.read(path).names == ("age, years", "sex")


numbers = st.lists(
    st.floats(-1e6, 1e6).map(lambda value: round(value, 3)), min_size=12, max_size=30, unique=True
)
styles = st.sampled_from(["{:.3f} kg", "{:.3f}kg", "{:,.3f}", "{:,.3f} mL/min/1.73m2"])


@given(numbers, styles, st.booleans())
@settings(max_examples=60, deadline=None)
def test_numbers_are_read_as_they_were_written(values: list[float], style: str, comma: bool) -> None:
    swap = str.maketrans(",.", ".,") if comma and "1.73" not in style else str.maketrans("", "")
    cells = pd.Series([style.format(value).translate(swap) for value in values])
    written = written_numbers(cells, "t, column a")
    assert written is not None
    np.testing.assert_allclose(written.values, values)


def test_what_is_ambiguous_is_refused_and_what_is_text_stays_text() -> None:
    both = pd.Series([f"{k},{100 + k}" for k in range(1, 15)])
    with pytest.raises(UnreadableColumnError, match=r"'1,101' may be 1\.101 or 1101.*--kind a=discrete"):
        written_numbers(both, "t, column a")
    units = pd.Series([f"{k} mmHg" for k in range(100, 115)] + ["16 kPa"])
    with pytest.raises(UnreadableColumnError, match=r"different units.*'mmHg' in 15 cells, 'kPa' in 1"):
        written_numbers(units, "t, column a")
    for cells in (
        [f"{k}/{k // 2}" for k in range(100, 130)],
        [f"2021-01-{k:02d}" for k in range(1, 29)],
        [f"{k}-{k + 9}" for k in range(0, 120, 10)],
        [f"ward {k}" for k in range(20)],
        [f"{k} {name}" for k in range(5) for name in ("north", "south", "east", "west")],
    ):
        assert written_numbers(pd.Series(cells), "t, column a") is None
    few = pd.DataFrame({"dose": ["10 mg", "20 mg"] * 10})
    assert data.from_frame(few).kinds == {"dose": "discrete"}
    declared = data.from_frame(few, kinds={"dose": "continuous"})
    assert declared.frame["dose"].tolist() == [10.0, 20.0] * 10


def test_python_reads_a_frame_as_the_command_line_reads_the_file() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(100, 15, 200).round(2)
    y = (x + rng.normal(0, 5, 200)).round(2)
    plain = BOSS().fit(pd.DataFrame({"x": x, "y": y}))
    told = BOSS().fit(pd.DataFrame({"x": [f"{v} kg" for v in x], "y": [str(v).replace(".", ",") for v in y]}))
    assert told.graph_ == plain.graph_
    assert any("without their unit 'kg': x" in note for note in told.notes_)
    declared = InMemory(pd.DataFrame({"x": [f"{v} kg" for v in x]}), kinds={"x": "continuous"})
    assert declared.moments().mean == pytest.approx([x.mean()])


def test_labels_with_fewer_than_two_rows_each_are_refused() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"name": [f"person {k}" for k in range(60)], "a": rng.normal(size=60)})
    with pytest.raises(DataError, match=r"name has 60 different labels.*--exclude name"):
        BOSS().fit(X)


MESSY = """Patient ID;Age (years);Sex;CRP;BP;Visit;NYHA;Site
{rows}
"""


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    rows = []
    for k in range(120):
        crp = rng.gamma(2, 2)
        rows.append(
            ";".join(
                [
                    str(1000 + min(k, 110)),
                    str(rng.integers(30, 90)),
                    str(rng.choice(["F", "f ", "M", "m"])),
                    "<1,5" if crp < 1.5 else f"{crp:.2f}".replace(".", ","),
                    f"{rng.integers(100, 180)}/{rng.integers(60, 99)}",
                    f"{rng.integers(1, 28):02d}.{rng.integers(1, 12):02d}.2021",
                    str(rng.choice([1, 2, 3, 9])),
                    "Bern",
                ]
            )
        )
    path = tmp_path / "messy.csv"
    path.write_bytes(MESSY.format(rows="\n".join(rows)).encode("utf-8-sig"))
    return path


def test_check_finds_everything_at_once_and_its_options_mend_it(messy: Path, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["check", str(messy)])
    assert found.exit_code == 3
    said = " ".join(found.output.split())
    for words in (
        "'<1,5' is not a number",
        "identifier, and 9 rows",
        "--exclude Site",
        "holds dates",
        "two numbers in a cell",
        "--na NYHA=9",
        "one label written in several ways",
        '[["Age (years)", "Sex"]',
    ):
        assert words in said
    arguments = ["--exclude", "Patient ID,BP,Visit,Site", "--na", "NYHA=9", "--missing", "em"]
    arguments += ["--recode", "CRP:<1,5=0,75", "--recode", "Sex:f =F", "--recode", "Sex:m=M"]
    out = ["--out", str(tmp_path / "run"), "--quiet"]
    fitted = CliRunner().invoke(app, ["fit", str(messy), *arguments, *out])
    assert fitted.exit_code == 0, fitted.output
    assert "CRP" in fitted.output
    # What was taken for what it is not is told where nobody asked `check`.
    told = CliRunner().invoke(app, ["fit", str(messy), *arguments[:2], *arguments[6:], *out, "--force"])
    assert "9 may stand for a missing value" in " ".join(told.output.split())


def test_excluded_columns_must_exist_somewhere(messy: Path, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "run"), "--quiet"]
    wrong = CliRunner().invoke(app, ["fit", str(messy), "--exclude", "CRP,Nope", *out])
    assert wrong.exit_code == 2
    assert "no file has a column Nope" in str(wrong.exception) + wrong.output
    both = CliRunner().invoke(app, ["fit", str(messy), "--exclude", "BP", "--columns", "NYHA", *out])
    assert both.exit_code == 2
