"""The equation map lists every numbered item of the three papers, and every name in it exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "explanations" / "equation-map.md"
NAME = re.compile(r"`(polydag(?:\.\w+)+)`")


def numbered(kind: str, last: int) -> list[str]:
    pattern = f"{kind} ({{}})" if kind == "Equation" else f"{kind} {{}}"
    return [pattern.format(number) for number in range(1, last + 1)]


# What the papers number; proofs and definitions are listed, too.
ITEMS = {
    "Parties": [*numbered("Equation", 8), "Algorithm 1", "Remark 1", *numbered("Figure", 5)],
    "Tasks": [
        *numbered("Equation", 10),
        *numbered("Assumption", 4),
        "Theorem 1",
        "Table I",
        "Table II",
        *numbered("Figure", 7),
    ],
    "Linked rows": [
        *numbered("Equation", 13),
        *("Remark 1", "Lemma 1", "Theorem 2", "Proposition 3", "Algorithm 1"),
        *numbered("Table", 4),
        *numbered("Figure", 5),
    ],
}


def entries(paper: str) -> dict[str, str]:
    """Where each item of a paper's table is said to be."""
    text = PAGE.read_text(encoding="utf-8")
    section = re.search(rf"^## {paper}\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
    assert section is not None, paper
    rows = re.findall(r"^\| ([A-Z][^|]*?) \| [^|]+ \| ([^|]+) \|$", section[1], flags=re.M)
    assert len(rows) == len(dict(rows)), "an item is listed twice"
    return dict(rows)


def resolve(name: str) -> object:
    """The module, class, function or constant of that name."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("paper", ITEMS)
def test_every_numbered_item_of_the_paper_is_listed(paper: str) -> None:
    assert list(entries(paper)) == ITEMS[paper]


@pytest.mark.parametrize("paper", ITEMS)
def test_every_entry_names_code_or_says_why_not(paper: str) -> None:
    for item, where in entries(paper).items():
        assert NAME.search(where) or re.match(r"(definition|proof)\b", where), item


@pytest.mark.parametrize("name", sorted(set(NAME.findall(PAGE.read_text(encoding="utf-8")))))
def test_the_name_exists(name: str) -> None:
    resolve(name)


def test_a_wrong_name_is_noticed() -> None:
    with pytest.raises(AttributeError, match="nowhere"):
        resolve("polydag.rows.descent.block_descent.nowhere")
    with pytest.raises(AttributeError, match="nothing"):
        resolve("polydag.rows.nothing.at_all")


@pytest.mark.parametrize(
    "page",
    [page for page in sorted(DOCS.rglob("*.md")) if page.name != "changes-0.2.md"],
    ids=lambda page: str(page.relative_to(DOCS)),
)
def test_names_on_every_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    generated = re.findall(r"^::: (\S+)$", text, flags=re.M)  # described from docstrings
    for name in [*NAME.findall(text), *generated]:
        resolve(name)


def test_new_names_of_modules_exist() -> None:
    text = (DOCS / "changes-0.2.md").read_text(encoding="utf-8")
    moved = re.findall(r"^\| `(polydag\.[\w.]+)` \| `(polydag\.[\w.]+)` \|$", text, flags=re.M)
    assert moved
    for _, new in moved:
        resolve(new)
