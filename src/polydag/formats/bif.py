"""BIF, the Bayesian interchange format: discrete networks with their tables.

`network_from_text` and `network_to_text` preserve labels, parents and exact probabilities. `from_text`
returns only the graph, with unit weights. Entries are one row per parent configuration, `default` for
rows that are not listed, or `table` with all numbers. In a `table`, the variable itself varies slowest and
the last parent fastest, as in JavaBayes. Properties are skipped. On writing, names and labels of more than
one word are quoted, with quotes and backslashes escaped.
"""

from __future__ import annotations

import itertools
import math
import re

import numpy as np

from polydag.arrays import Array
from polydag.discrete_network import DiscreteNetwork
from polydag.errors import DataError
from polydag.formats.parsing.dot_syntax import quote
from polydag.graph import Graph

# Commas and bars are separators only, as in the grammar of the format.
_TOKEN = re.compile(
    r'//[^\n]*|/\*(?:.*?\*/|.*)|"(?:[^"\\\n]|\\.)*+"?|[{}()\[\];]|[^\s{}()\[\];,|"]+', re.DOTALL
)
_OPEN = re.compile(r'"(?:[^"\\\n]|\\.)*+|/\*(?!.*\*/).*', re.DOTALL)  # a quote or comment that never ends
_PLAIN = re.compile(r'(?!//|/\*)[^\s{}()\[\];,|"\\]+')
_SIGNS = frozenset("{}()[];")
_LARGEST, _MOST_AXES = 1 << 26, 32  # entries and axes of one table


class _Parser:
    """Recursive descent over a flat list of tokens; line numbers are computed only for errors."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = _TOKEN.findall(text)
        self.tokens = [token for token in found if not token.startswith(("//", "/*"))]
        self.at = 0
        for where, token in enumerate(self.tokens):
            if token.startswith('"') and _OPEN.fullmatch(token):
                self.at = where + 1
                raise self.error(f"the quote in {token[:30]!r} is not closed.")
        if found and found[-1].startswith("/*") and _OPEN.fullmatch(found[-1]):
            self.at = len(self.tokens)
            raise self.error("the comment after this is not closed.")
        self.levels: dict[str, tuple[str, ...]] = {}
        self.parents: dict[str, tuple[str, ...]] = {}
        self.tables: dict[str, Array] = {}

    def error(self, message: str) -> DataError:
        starts = (m for m in _TOKEN.finditer(self.text) if not m.group().startswith(("//", "/*")))
        last = max(0, min(self.at, len(self.tokens)) - 1)
        here = next(itertools.islice(starts, last, None), None)
        line = self.text.count("\n", 0, here.start() if here else 0) + 1
        return DataError(f"line {line}: {message}")

    def take(self) -> str:
        if self.at == len(self.tokens):
            raise self.error("the file ends inside a block.")
        self.at += 1
        token: str = self.tokens[self.at - 1]
        return token

    def expect(self, *signs: str) -> None:
        for sign in signs:
            if (token := self.take()) != sign:
                raise self.error(f"expected {sign!r}, found {token!r}.")

    def word(self) -> str:
        token = self.take()
        if token in _SIGNS:
            raise self.error(f"expected a word, found {token!r}.")
        return _unquoted(token)

    def words_until(self, sign: str) -> list[str]:
        """The words before a sign; the sign is consumed."""
        try:
            end = self.tokens.index(sign, self.at)
        except ValueError:
            raise self.error(f"there is no {sign!r} after this.") from None
        words = self.tokens[self.at : end]
        self.at = end + 1
        if not _SIGNS.isdisjoint(words):
            raise self.error(f"expected only words between {words[0]!r} and {sign!r}.")
        return [_unquoted(word) for word in words]

    def network(self) -> DiscreteNetwork:
        blocks = {"network": self.header, "variable": self.variable, "probability": self.probability}
        while self.at < len(self.tokens):
            kind = self.word()
            if kind not in blocks:
                raise self.error(f"expected network, variable or probability, found {kind!r}.")
            blocks[kind]()
        if not self.levels:
            raise self.error("the file declares no variables.")
        return DiscreteNetwork(self.levels, self.parents, self.tables)

    def skip_property(self) -> bool:
        """Skip `property … ;` if it comes next; return whether it did."""
        if self.at == len(self.tokens) or self.tokens[self.at] != "property":
            return False
        while self.take() != ";":
            pass
        return True

    def header(self) -> None:
        while self.take() != "{":
            pass
        while self.skip_property():
            pass
        self.expect("}")

    def variable(self) -> None:
        name = self.word()
        if name in self.levels:
            raise self.error(f"the variable {name} is declared twice.")
        self.expect("{")
        while (token := self.take()) != "}":
            self.at -= 1
            if self.skip_property():
                continue
            if token != "type":
                raise self.error(f"expected type or property, found {token!r}.")
            self.at += 1
            if (kind := self.word()) != "discrete":
                raise self.error(f"{name} is {kind}; only discrete variables can be read.")
            self.expect("[")
            count = self.words_until("]")
            self.expect("{")
            labels = self.words_until("}")
            if count != [str(len(labels))]:
                raise self.error(f"{name} declares {' '.join(count)} labels but lists {len(labels)}.")
            self.levels[name] = tuple(labels)
            self.expect(";")
        if name not in self.levels:
            raise self.error(f"{name} has no type.")

    def probability(self) -> None:
        self.expect("(")
        family = self.words_until(")")
        for name in family:
            if name not in self.levels:
                raise self.error(f"{name!r} is not a variable declared above.")
        if not family:
            raise self.error("a probability block must name a variable.")
        name, *parents = family
        if name in self.tables:
            raise self.error(f"{name} has two probability blocks.")
        self.parents[name] = tuple(parents)
        self.expect("{")
        self.tables[name] = self.entries(name, parents)

    def entries(self, name: str, parents: list[str]) -> Array:
        own = len(self.levels[name])
        codes = [{label: i for i, label in enumerate(self.levels[parent])} for parent in parents]
        shape = [*(len(code) for code in codes), own]
        if math.prod(shape) > _LARGEST or len(shape) > _MOST_AXES:
            raise self.error(
                f"{name} has {len(parents)} parents; its table of {math.prod(shape)} is too large."
            )
        table = np.full(shape, np.nan)
        rest: list[float] | None = None
        while (token := self.take()) != "}":
            if token == "(":
                labels = self.words_until(")")
                try:
                    where = tuple(code[label] for code, label in zip(codes, labels, strict=True))
                except (KeyError, ValueError):
                    raise self.error(
                        f"({', '.join(labels)}) is not a configuration of the parents of {name} "
                        f"({', '.join(parents) or 'none'})."
                    ) from None
                if not np.isnan(table[where][0]):
                    raise self.error(f"({', '.join(labels)}) is given twice for {name}.")
                table[where] = self.numbers(own, name)
            elif token == "default":
                rest = self.numbers(own, name)
            elif token == "table":
                flat = np.array(self.numbers(table.size, name))
                table[...] = np.moveaxis(flat.reshape(own, *table.shape[:-1]), 0, -1)
            elif token == "property":
                self.at -= 1
                self.skip_property()
            else:
                raise self.error(f"expected a row, table, default or property, found {token!r}.")
        missing = np.isnan(table[..., 0])
        if missing.any() and rest is None:
            labels = [self.levels[p][i] for p, i in zip(parents, np.argwhere(missing)[0], strict=True)]
            raise self.error(f"the table of {name} has no row for ({', '.join(labels)}) and no default.")
        if rest is not None:
            table[missing] = rest
        return table

    def numbers(self, count: int, name: str) -> list[float]:
        words = self.words_until(";")
        if len(words) != count:
            raise self.error(f"{name} has {len(words)} probabilities here but needs {count}.")
        try:
            values = [float(word) for word in words]
        except ValueError:
            raise self.error(f"not all probabilities of {name} are numbers: {' '.join(words)[:80]}") from None
        if not all(value >= 0 for value in values):
            raise self.error(f"a probability of {name} is negative or not a number.")
        return values


def _unquoted(token: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", token[1:-1]) if token.startswith('"') else token


def network_from_text(text: str) -> DiscreteNetwork:
    """Parse the discrete network in a BIF text.

    Examples
    --------
    >>> from polydag.embedded import asia
    >>> network_from_text(network_to_text(asia())) == asia()
    True
    """
    return _Parser(text).network()


def network_to_text(network: DiscreteNetwork) -> str:
    """The discrete network in BIF; probabilities are written so that they can be read back exactly."""
    lines = ["network unknown {", "}"]
    for name in network.names:
        labels = [_word(label) for label in network.levels[name]]
        lines += [
            f"variable {_word(name)} {{",
            f"  type discrete [ {len(labels)} ] {{ {', '.join(labels)} }};",
            "}",
        ]
    for name in network.names:
        parents = network.parents[name]
        given = f" | {', '.join(_word(parent) for parent in parents)}" if parents else ""
        lines.append(f"probability ( {_word(name)}{given} ) {{")
        rows = network.tables[name].reshape(-1, len(network.levels[name])).tolist()
        configurations = itertools.product(*([_word(label) for label in network.levels[p]] for p in parents))
        for configuration, row in zip(configurations, rows, strict=True):
            start = f"({', '.join(configuration)})" if parents else "table"
            lines.append(f"  {start} {', '.join(map(repr, row))};")
        lines.append("}")
    return "\n".join([*lines, ""])


def _word(name: str) -> str:
    if "\n" in name:
        raise DataError(f"{name!r} contains a line break, which BIF does not allow in names.")
    return name if _PLAIN.fullmatch(name) else quote(name)


def from_text(text: str) -> Graph:
    """The graph of the network in a BIF text."""
    return network_from_text(text).graph


def to_text(network: object) -> str:
    """The network in BIF; a graph without tables raises `DataError`."""
    if not isinstance(network, DiscreteNetwork):
        raise DataError(
            "A BIF file needs probability tables, which a graph does not have. Use another format, such "
            "as .dagitty or .csv."
        )
    return network_to_text(network)
