"""Every example in the README, the documentation and the folder of examples runs, with the output it shows.

A page is one story: its blocks run in order, in one namespace and one empty folder. `python` blocks are
executed, doctest sessions in them are checked; in `console` blocks the commands below are run and what they
print is compared; a block with a file's name as its title is that file, and one titled `examples/x.py prints`
is what that example prints. Numbers are compared up to rounding (see `printed`). A page that reads reference
data is skipped where there is none.
"""

from __future__ import annotations

import doctest
import re
import runpy
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from polydag.cli.main import app
from polydag.federated.methods.registry import METHODS
from polydag.learners import LEARNERS, ROW_LEARNERS
from polydag.scores import SCORES
from printed import run_doctest, same_output, without_compilation

pytestmark = pytest.mark.portable

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
SHELL = ("cat", "head", "ls")  # with polydag itself, what a console block may run; the rest is only shown
PRINTS = " prints"
DATA = "POLYDAG_DATA"
REGISTRIES: tuple[dict[str, Any], ...] = (LEARNERS, ROW_LEARNERS, SCORES, METHODS)
LONG = re.compile(r"\d\.\d{7,}")  # a number that is not rounded for a person
FENCE = re.compile(r"^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$", re.M | re.S)


class Block(NamedTuple):
    """A fenced block of a page."""

    kind: str
    title: str | None
    text: str
    line: int


class Command(NamedTuple):
    """A line after a prompt, and what it is said to print."""

    words: list[str]
    output: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["kind"], found["title"], found["text"], text[: found.start()].count("\n") + 2)
        for found in FENCE.finditer(text)
    ]


def commands(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.M)[1:]:
        line, _, output = part.partition("\n")
        yield Command(shlex.split(line, comments=True), output)


def run_command(words: list[str]) -> tuple[int, str]:
    """The exit code and all that is printed."""
    if words[0] != "polydag":
        done = subprocess.run(words, capture_output=True, text=True, check=False, env={"LC_ALL": "C.UTF-8"})
        return done.returncode, done.stdout + done.stderr
    result = CliRunner().invoke(app, words[1:], catch_exceptions=False)
    return result.exit_code, without_compilation(result.output)


class Story:
    """A page as it runs: what it has defined so far, and the exit code of its last command."""

    def __init__(self, page: Path) -> None:
        self.page = page
        self.names: dict[str, Any] = {"__name__": "__page__"}
        self.code = 0

    def tell(self, block: Block) -> None:
        if block.title is not None and block.title.endswith(PRINTS):
            return  # compared where the example runs
        if block.title is not None and block.title.startswith("examples/"):
            assert block.text == (ROOT / block.title).read_text(encoding="utf-8")
        elif block.title is not None:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.kind == "python":
            self.python(block)
        elif block.kind == "console":
            self.console(block)

    def python(self, block: Block) -> None:
        if ">>> " not in block.text:
            shifted = "\n" * (block.line - 1) + block.text
            exec(compile(shifted, str(self.page), "exec"), self.names)
            return
        parser = doctest.DocTestParser()
        session = parser.get_doctest(block.text, self.names, self.page.name, str(self.page), block.line - 1)
        results, report = run_doctest(session)
        assert not results.failed, report
        self.names.update(session.globs)

    def console(self, block: Block) -> None:
        for command in commands(block.text):
            if command.words == ["echo", "$?"]:
                assert command.output.split() == [str(self.code)]
                self.code = 0
                continue
            if command.words[0] not in ("polydag", *SHELL):
                continue
            assert self.code == 0, "a command failed and the page does not say so (echo $?)"
            self.code, printed = run_command(command.words)
            assert self.code == 0 or "$ echo $?" in block.text, printed
            if command.words[0] == "polydag" and "--json" not in command.words:
                assert not LONG.search(printed), f"{shlex.join(command.words)} prints all digits:\n{printed}"
            if command.output.strip():
                same = same_output(command.output, printed)
                assert same, f"{shlex.join(command.words)} prints\n{printed}\ninstead of\n{command.output}"
        assert self.code == 0


def name_of(path: Path) -> str:
    return str(path.relative_to(DOCS if path.is_relative_to(DOCS) else path.parent))


def test_numbers_may_differ_in_the_last_digit_and_nothing_else_may() -> None:
    assert same_output("p = 0.25, n = 3", "p = 0.26, n = 3")
    assert same_output("1.1303072372266458,\n...\nend", "1.1303072372266501,\nmore 2.5\nend")
    assert same_output("p  <  1e-16", "p < 2e-16")
    assert not same_output("p = 0.25, n = 3", "p = 0.27, n = 3")
    assert not same_output("p = 0.25, n = 3", "p = 0.25, n = 4")
    assert not same_output("p = 0.25", "q = 0.25")


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))


@pytest.fixture(autouse=True)
def _registries_stay_as_they_are() -> Iterator[None]:
    """What a page or an example registers is gone after it."""
    kept = [(registry, dict(registry)) for registry in REGISTRIES]
    yield
    for registry, content in kept:
        registry.clear()
        registry.update(content)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_page(page: Path, request: pytest.FixtureRequest) -> None:
    if any(DATA in block.text for block in blocks(page) if block.kind == "python" and block.title is None):
        request.getfixturevalue("reference_data")
    story = Story(page)
    for block in blocks(page):
        story.tell(block)


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=name_of)
def test_example(script: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    if DATA in script.read_text(encoding="utf-8"):
        request.getfixturevalue("reference_data")
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.strip()
    title = f"examples/{script.name}{PRINTS}"
    for block in (block for page in PAGES for block in blocks(page) if block.title == title):
        assert same_output(block.text, printed), printed


def test_what_examples_print_is_compared() -> None:
    """A page that says "It prints" has the name of the example over the output."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"^It prints\n+```text$", text, flags=re.M), page.name


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/.-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed == {name_of(page) for page in PAGES if page.is_relative_to(DOCS)}


def test_the_architecture_page_names_every_package() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    packages = {
        path.stem
        for path in (ROOT / "src" / "polydag").iterdir()
        if not path.name.startswith("_") and (path.suffix == ".py" or (path / "__init__.py").is_file())
    }
    missing = {name for name in packages if f"`{name}`" not in text}
    assert not missing, f"docs/architecture.md does not name {', '.join(sorted(missing))}"


def test_the_architecture_page_shows_the_order_that_is_checked() -> None:
    """Line by line, the layers of the page are those of the import linter."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract, *_ = settings["tool"]["importlinter"]["contracts"]
    checked = [re.findall(r"polydag\.(\w+)", layer) for layer in contract["layers"]]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", page, flags=re.M)
    assert [re.findall(r"\w+", row) for row in rows] == checked
