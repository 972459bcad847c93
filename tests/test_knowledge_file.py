"""Background knowledge from files: TOML and CSV are equivalent, and errors name the line."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polydag.data import read_knowledge
from polydag.errors import DataError
from polydag.knowledge import Knowledge

NAMES = ["age", "smo king", 'q"uote', "c,omma", "ü", "x5"]


@st.composite
def knowledges(draw: st.DrawFn) -> Knowledge:
    """Knowledge without contradictions: tiers and required edges follow one order."""
    order = draw(st.permutations(NAMES))
    pairs = [(a, b) for i, a in enumerate(order) for b in order[i + 1 :]]
    required = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=4))
    rest = [pair for pair in pairs if pair not in required]
    forbidden = draw(st.lists(st.sampled_from(rest), unique=True, max_size=4)) if rest else []
    cut = draw(st.integers(1, len(order) - 1))
    tiers = draw(st.sampled_from([[], [order[:cut], order[cut:]]]))
    return Knowledge(required=required, forbidden=forbidden, tiers=tiers)


def as_toml(knowledge: Knowledge) -> str:
    content = {
        "required": [list(edge) for edge in sorted(knowledge.required)],
        "forbidden": [list(edge) for edge in sorted(knowledge.forbidden)],
        "tiers": [list(tier) for tier in knowledge.tiers],
    }
    return tomli_w.dumps(content)


def as_csv(knowledge: Knowledge) -> str:
    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    lines = ["source,target,kind"]
    lines += [f"{cell(a)},{cell(b)},required" for a, b in sorted(knowledge.required)]
    lines += [f"{cell(a)},{cell(b)},forbidden" for a, b in sorted(knowledge.forbidden)]
    lines += [f"{cell(name)},,tier {i}" for i, tier in enumerate(knowledge.tiers, start=1) for name in tier]
    return "\n".join(lines) + "\n"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(knowledge=knowledges())
def test_both_forms_give_back_what_was_written(tmp_path: Path, knowledge: Knowledge) -> None:
    toml, csv = tmp_path / "k.toml", tmp_path / "k.csv"
    toml.write_text(as_toml(knowledge), encoding="utf-8")
    csv.write_text(as_csv(knowledge), encoding="utf-8")
    assert read_knowledge(toml) == knowledge
    assert read_knowledge(csv) == knowledge


def test_tiers_are_ordered_by_number_not_by_line(tmp_path: Path) -> None:
    path = tmp_path / "k.csv"
    path.write_text("Source, Target, Kind\nc,,tier 10\na,,tier 2\n\nb,,Tier 2\n")
    assert read_knowledge(path).tiers == (("a", "b"), ("c",))


BAD: list[tuple[str, str, str]] = [
    ("k.csv", "a,b,c\n", r"k\.csv, line 1: the header must be source,target,kind"),
    ("k.csv", "source,target,kind\na,b\n", r"k\.csv, line 2: got 2 cells"),
    ("k.csv", "source,target,kind\n\na,b,maybe\n", r"k\.csv, line 3: a,b,maybe is neither"),
    ("k.csv", "source,target,kind\na,b,tier 1\n", r"k\.csv, line 2: .*is neither"),
    ("k.csv", "source,target,kind\na,,required\n", r"k\.csv, line 2: .*is neither"),
    ("k.csv", "source,target,kind\na,b,required\nb,a,required\n", r"k\.csv, line 3: .*cycle: a -> b -> a"),
    (
        "k.csv",
        "source,target,kind\na,b,required\na,b,forbidden\n",
        r"line 3: Both required and forbidden: a -> b",
    ),
    ("k.csv", "source,target,kind\na,,tier 1\nb,,tier 1\na,,tier 2\n", r"k\.csv, line 4: a is in two tiers"),
    ("k.csv", "source,target,kind\na,a,required\n", r"k\.csv, line 2: .*self-loop"),
    ("k.toml", "tiers = []\nrequired = ]\n", r"k\.toml is not valid TOML: .*line 2"),
    ("k.toml", "\nneeded = [['a', 'b']]\n", r"k\.toml, line 2, needed: unknown key"),
    ("k.toml", "tiers = []\nrequired = [['a', 'b', 'c']]\n", r"k\.toml, line 2, required, entry 1: .*pairs"),
    ("k.toml", "required = 'a'\n", r"k\.toml, line 1, required: .*pairs"),
    ("k.toml", "required = ['ab']\n", r"k\.toml, line 1, required, entry 1: .*pairs.*'ab'"),
    ("k.toml", "required = [['a', 1]]\n", r"k\.toml, line 1, required, entry 1: .*pairs"),
    ("k.toml", "tiers = ['a', 'b']\n", r"k\.toml, line 1, tiers, entry 1: .*lists of names"),
    ("k.toml", "required = [['a', 'b'],\n['b', 'a']]\n", r"k\.toml, line 1, required, entry 2: .*cycle"),
    (
        "k.toml",
        "tiers = [['b'], ['a']]\nrequired = [['a', 'b']]\n",
        r"line 2, required, entry 1: .*back in time",
    ),
    ("k.txt", "a", r"k\.txt: background knowledge must be in a"),
    ("k.toml", "", r"k\.toml is empty"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD)
def test_errors_name_file_and_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_knowledge(tmp_path / name)


def test_a_missing_file_or_another_encoding(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.toml: no such file"):
        read_knowledge(tmp_path / "none.toml")
    (tmp_path / "k.csv").write_bytes(b"source,target,kind\n\xe9,b,required\n")
    with pytest.raises(DataError, match=r"k\.csv is not UTF-8"):
        read_knowledge(tmp_path / "k.csv")
