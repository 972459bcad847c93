"""BIF, the Bayesian interchange format: discrete networks with their tables.

`network_from_text` and `network_to_text` carry everything (labels, parents, probabilities to the last bit);
`from_text` gives the graph alone, with weights of 1. Entries are one row per configuration of the parents,
`default` for the rows that are not listed, or `table` with all numbers: the variable itself changes slowest
there and the last parent fastest, as in JavaBayes. Properties are skipped. On writing, names and labels that
are not one word are quoted, with quotes and backslashes escaped.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
from numpy.typing import NDArray

from polydag.discrete_network import DiscreteNetwork
from polydag.errors import DataError
from polydag.formats._dotlike import quote
from polydag.graph import Graph

# Commas and bars only separate, as in the format's own grammar.
_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|[{}()\[\];"]|[^\s{}()\[\];,|"]+', re.DOTALL)
_PLAIN = re.compile(r'(?!//|/\*)[^\s{}()\[\];,|"\\]+')
_SIGNS = frozenset('{}()[];"')  # a quote alone was never closed


class _Parser:
    """Recursive descent over a flat list of tokens; a line number is worked out only for an error."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [token for token in _TOKEN.findall(text) if not token.startswith(("//", "/*"))]
        self.at = 0
        self.levels: dict[str, tuple[str, ...]] = {}
        self.parents: dict[str, tuple[str, ...]] = {}
        self.tables: dict[str, NDArray[np.float64]] = {}

    def error(self, message: str) -> DataError:
        starts = (m for m in _TOKEN.finditer(self.text) if not m.group().startswith(("//", "/*")))
        last = max(0, min(self.at, len(self.tokens)) - 1)
        here = next(itertools.islice(starts, last, None), None)
        line = self.text.count("\n", 0, here.start() if here else 0) + 1
        return DataError(f"line {line}: {message}")

    def take(self) -> str:
        if self.at == len(self.tokens):
            raise self.error("the file ends in the middle of a block.")
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
        """The words up to a sign, which is taken too."""
        try:
            end = self.tokens.index(sign, self.at)
        except ValueError:
            raise self.error(f"there is no {sign!r} after this.") from None
        words = self.tokens[self.at : end]
        self.at = end + 1
        if not _SIGNS.isdisjoint(words):
            raise self.error(f"there is something between {words[0]!r} and {sign!r} that is not a word.")
        return [_unquoted(word) for word in words]

    def network(self) -> DiscreteNetwork:
        blocks = {"network": self.header, "variable": self.variable, "probability": self.probability}
        while self.at < len(self.tokens):
            kind = self.word()
            if kind not in blocks:
                raise self.error(f"expected network, variable or probability, found {kind!r}.")
            blocks[kind]()
        if not self.levels:
            raise self.error("there is no variable in this file.")
        return DiscreteNetwork(self.levels, self.parents, self.tables)

    def property_skipped(self) -> bool:
        """Skip `property … ;` if one comes next."""
        if self.at == len(self.tokens) or self.tokens[self.at] != "property":
            return False
        while self.take() != ";":
            pass
        return True

    def header(self) -> None:
        while self.take() != "{":
            pass
        while self.property_skipped():
            pass
        self.expect("}")

    def variable(self) -> None:
        name = self.word()
        if name in self.levels:
            raise self.error(f"the variable {name} is declared twice.")
        self.expect("{")
        while (token := self.take()) != "}":
            self.at -= 1
            if self.property_skipped():
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
                raise self.error(f"{name} announces {' '.join(count)} labels and lists {len(labels)}.")
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
            raise self.error("a probability needs a variable.")
        name, *parents = family
        if name in self.tables:
            raise self.error(f"{name} has two probability blocks.")
        self.parents[name] = tuple(parents)
        self.expect("{")
        self.tables[name] = self.entries(name, parents)

    def entries(self, name: str, parents: list[str]) -> NDArray[np.float64]:
        own = len(self.levels[name])
        codes = [{label: i for i, label in enumerate(self.levels[parent])} for parent in parents]
        table = np.full([*(len(code) for code in codes), own], np.nan)
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
                self.property_skipped()
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
            raise self.error(f"{len(words)} probabilities for {name} where {count} are needed.")
        try:
            values = [float(word) for word in words]
        except ValueError:
            raise self.error(f"not all probabilities of {name} are numbers: {' '.join(words)[:80]}") from None
        if not all(value >= 0 for value in values):
            raise self.error(f"a probability of {name} is not a number of at least 0.")
        return values


def _unquoted(token: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", token[1:-1]) if token.startswith('"') else token


def network_from_text(text: str) -> DiscreteNetwork:
    """The discrete network in a BIF text.

    Examples
    --------
    >>> from polydag.embedded import asia
    >>> network_from_text(network_to_text(asia())) == asia()
    True
    """
    return _Parser(text).network()


def network_to_text(network: DiscreteNetwork) -> str:
    """The discrete network in BIF, probabilities written so that they are read back exactly."""
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
        places = itertools.product(*([_word(label) for label in network.levels[p]] for p in parents))
        for place, row in zip(places, rows, strict=True):
            start = f"({', '.join(place)})" if parents else "table"
            lines.append(f"  {start} {', '.join(map(repr, row))};")
        lines.append("}")
    return "\n".join([*lines, ""])


def _word(name: str) -> str:
    if "\n" in name:
        raise DataError(f"{name!r} has a line break, which names in a BIF file cannot have.")
    return name if _PLAIN.fullmatch(name) else quote(name)


def from_text(text: str) -> Graph:
    """The graph of the network in a BIF text."""
    return network_from_text(text).graph


def to_text(network: object) -> str:
    """The network in BIF; a graph alone has no tables and cannot be written."""
    if not isinstance(network, DiscreteNetwork):
        raise DataError(
            "A BIF file holds probability tables, which a graph does not have; use another format."
        )
    return network_to_text(network)
