"""GraphML: a directed graph, an undirected edge marked by GraphML's own `directed="false"`.

Names stand in the node data `name` (ids are `n0`, `n1`, …, as ids may not hold spaces); on reading, a node
without that data is named by its id. Keeps names, their order, weights to the last bit and undirected edges
(networkx reads the file where none are undirected: it has no mixed graphs). XML cannot hold control
characters: a name with one is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape

from polydag.errors import DataError
from polydag.formats._assemble import ParsedEdge, assemble, number, truth
from polydag.graph import Graph

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="name" for="node" attr.name="name" attr.type="string"/>
  <key id="weight" for="edge" attr.name="weight" attr.type="double"/>
  <graph edgedefault="directed">
"""


@dataclass
class _Element:
    """A node or an edge while it is read: its attributes, its data by the key's name, its line."""

    attributes: dict[str, str]
    line: int
    data: dict[str, str] = field(default_factory=dict)


class _Reader:
    """Collects nodes and edges; expat is used directly because it knows the line of every element."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.keys: dict[str, str] = {}
        self.default: str | None = None
        self.nodes: list[_Element] = []
        self.edges: list[_Element] = []
        self.current: _Element | None = None
        self.key: str | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag, line = tag.rpartition(" ")[2], self.parser.CurrentLineNumber
        if tag == "key":
            self.keys[attributes.get("id", "")] = attributes.get("attr.name", "")
        elif tag == "graph" and self.default is None:
            self.default = attributes.get("edgedefault", "directed")
        elif tag in ("node", "edge"):
            self.current = _Element(attributes, line)
            (self.nodes if tag == "node" else self.edges).append(self.current)
        elif tag == "data" and self.current is not None:
            self.key = self.keys.get(attributes.get("key", ""), "")
            self.current.data[self.key] = ""

    def characters(self, text: str) -> None:
        if self.current is not None and self.key is not None:
            self.current.data[self.key] += text

    def end(self, tag: str) -> None:
        tag = tag.rpartition(" ")[2]
        if tag == "data":
            self.key = None
        elif tag in ("node", "edge"):
            self.current = None


def from_text(text: str) -> Graph:
    """The graph in a GraphML text.

    Examples
    --------
    >>> from polydag import Graph
    >>> from_text(to_text(Graph.from_edges(["a b", "c"], [("a b", "c")]))).parents("c")
    ['a b']
    """
    reader = _Reader()
    try:
        reader.parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise DataError(f"line {error.lineno}: not XML ({expat.errors.messages[error.code]}).") from error
    if reader.default is None:
        raise DataError("line 1: there is no <graph> in this file.")
    names: dict[str, str] = {}
    for node in reader.nodes:
        own = _attribute(node, "id")
        if own in names:
            raise DataError(f"line {node.line}: the node id {own!r} is used twice.")
        names[own] = node.data.get("name", own)
        if len(set(names.values())) < len(names):
            raise DataError(f"line {node.line}: the name {names[own]!r} is used twice.")
    return assemble(names.values(), [_edge(edge, names, reader.default) for edge in reader.edges])


def _attribute(element: _Element, name: str) -> str:
    if name not in element.attributes:
        raise DataError(f"line {element.line}: the attribute {name} is missing.")
    return element.attributes[name]


def _edge(edge: _Element, names: dict[str, str], default: str) -> ParsedEdge:
    place = f"line {edge.line}"
    for end in (source := _attribute(edge, "source")), (target := _attribute(edge, "target")):
        if end not in names:
            raise DataError(f"{place}: there is no node with the id {end!r}.")
    directed = truth(edge.attributes.get("directed", str(default == "directed")), place)
    weight = number(edge.data.get("weight", "1"), place)
    return ParsedEdge(names[source], names[target], weight, directed, place)


def to_text(graph: Graph) -> str:
    """The graph in GraphML."""
    lines = []
    for i, name in enumerate(graph.names):
        if bad := _NOT_XML.search(name):
            raise DataError(f"The name {name!r} has the character {bad.group()!r}, which XML cannot hold.")
        # A carriage return would be read back as a newline.
        text = escape(name, {"\r": "&#13;"})
        lines.append(f'    <node id="n{i}"><data key="name">{text}</data></node>')
    for edge in graph.edges():
        source, target = graph.index(edge.source), graph.index(edge.target)
        way = "" if edge.directed else ' directed="false"'
        lines.append(
            f'    <edge source="n{source}" target="n{target}"{way}>'
            f'<data key="weight">{edge.weight!r}</data></edge>'
        )
    return _HEADER + "\n".join([*lines, "  </graph>", "</graphml>", ""])
