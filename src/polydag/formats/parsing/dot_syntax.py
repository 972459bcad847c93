"""The syntax shared by Graphviz DOT and DAGitty: tokens, statements and quoting.

A file is `[strict] kind [name] { statements }`. The parser handles chains (`a -> b -> c`), groups
(`{a b} -> c`), subgraphs, attributes and comments. It skips node and edge defaults, and ports.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from polydag.errors import DataError

_TOKEN = re.compile(
    r"""
      (?P<skip>\s++|//[^\n]*|/\*.*?\*/|\#[^\n]*)
    | (?P<quoted>"(?:[^"\\]|\\.)*")
    | (?P<mark><->|<-@|@->|@-@|@--|--@|->|<-|--)
    | (?P<html><[^<>]*(?:<[^<>]*>[^<>]*)*>)
    | (?P<word>-?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?(?![\w.])|[\w.]++)
    | (?P<sign>[{}\[\]=;,:])
    """,
    re.VERBOSE | re.DOTALL,
)

_DEEPEST = 100  # braces within braces


class Token(NamedTuple):
    """A token: its kind (a group name of the pattern), its value without quotes, and its line."""

    kind: str
    value: str
    line: int


class Link(NamedTuple):
    """An edge between two nodes; `mark` is the operator as written."""

    source: str
    mark: str
    target: str
    attributes: dict[str, str]
    place: str


class Parsed(NamedTuple):
    """The contents of a file: its kind in lower case (`digraph`, `dag`, …), nodes in order, and edges."""

    kind: str
    nodes: list[str]
    links: list[Link]


def quote(name: str) -> str:
    """A name in double quotes, with quotes and backslashes escaped."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _tokens(text: str) -> list[Token]:
    found, at, line = [], 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise DataError(f"line {line}: {text[at : at + 20].splitlines()[0]!r} cannot be parsed here.")
        kind, value = str(match.lastgroup), match.group()
        if kind == "quoted":
            value = re.sub(r'\\(["\\])', r"\1", value[1:-1])
        if kind != "skip":
            found.append(Token(kind, value, line))
        line += match.group().count("\n")
        at = match.end()
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = 0
        self.last_line = text.count("\n") + 1
        self.nodes: dict[str, None] = {}
        self.links: list[Link] = []

    def peek(self, ahead: int = 0) -> Token:
        if self.at + ahead < len(self.tokens):
            return self.tokens[self.at + ahead]
        return Token("end", "the end of the file", self.last_line)

    def take(self, sign: str | None = None) -> Token:
        token = self.peek()
        if sign is not None and not self.sees(sign):
            raise DataError(f"line {token.line}: expected {sign!r}, found {token.value!r}.")
        self.at += 1
        return token

    def sees(self, sign: str, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        return token.kind in ("sign", "mark") and token.value == sign

    def identifier(self) -> str:
        token = self.take()
        if token.kind not in ("word", "quoted"):
            raise DataError(f"line {token.line}: expected a name, found {token.value!r}.")
        return token.value

    def keyword(self, *words: str) -> bool:
        token = self.peek()
        return token.kind == "word" and token.value.lower() in words

    def graph(self) -> Parsed:
        if self.keyword("strict"):
            self.take()
        kind = self.identifier().lower()
        if not self.sees("{"):
            self.identifier()
        self.block()
        if self.peek().kind != "end":
            raise DataError(f"line {self.peek().line}: unexpected {self.peek().value!r} after the graph.")
        return Parsed(kind, list(self.nodes), self.links)

    def block(self) -> list[str]:
        """Parse the statements between two braces; return the nodes that they name."""
        start = self.take("{")
        self.depth += 1
        if self.depth > _DEEPEST:
            raise DataError(f"line {start.line}: more than {_DEEPEST} braces are open here.")
        nodes: dict[str, None] = {}
        while not self.sees("}"):
            nodes.update(dict.fromkeys(self.statement()))
        self.take("}")
        self.depth -= 1
        return list(nodes)

    def statement(self) -> list[str]:
        if self.sees(";") or self.sees(","):
            self.take()
            return []
        if self.peek().kind in ("word", "quoted") and self.sees("=", 1):  # a graph attribute
            self.at += 2
            self.take()
            return []
        if self.keyword("node", "edge", "graph") and self.sees("[", 1):
            self.take()
            self.attributes()
            return []
        chain = [self.operand()]
        marks: list[Token] = []
        while self.peek().kind == "mark":
            marks.append(self.take())
            chain.append(self.operand())
        attributes = self.attributes()
        for left, mark, right in zip(chain, marks, chain[1:], strict=False):
            place = f"line {mark.line}"
            self.links += [Link(a, mark.value, b, attributes, place) for a in left for b in right]
        return [name for group in chain for name in group]

    def operand(self) -> list[str]:
        if self.keyword("subgraph"):
            self.take()
            if not self.sees("{"):
                self.identifier()
        if self.sees("{"):
            return self.block()
        name = self.identifier()
        while self.sees(":"):
            self.take()
            self.identifier()
        self.nodes.setdefault(name)
        return [name]

    def attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self.sees("["):
            self.take()
            while not self.sees("]"):
                if self.sees(",") or self.sees(";"):
                    self.take()
                    continue
                key = self.identifier()
                found[key] = ""
                if self.sees("="):
                    self.take()
                    found[key] = self.take().value
            self.take("]")
        return found


def parse(text: str) -> Parsed:
    """Parse the nodes and edges of a DOT or DAGitty text."""
    return _Parser(text).graph()
