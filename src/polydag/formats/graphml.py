"""GraphML: a directed graph in which undirected edges have `directed="false"`.

Names are stored in the node data `name`, because ids (`n0`, `n1`, …) may not contain spaces. On reading, a
node without this data takes its id as its name. The format preserves names, their order, exact weights and
undirected edges. networkx has no mixed graphs, so it reads only files without undirected edges. XML cannot
represent control characters: names that contain one raise `DataError`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape

from polydag.errors import DataError
from polydag.formats.parsing.graph_from_edges import ParsedEdge, assemble, number, truth
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
    """A node or edge being read: its attributes, its line, and its data by key name."""

    attributes: dict[str, str]
    line: int
    data: dict[str, str] = field(default_factory=dict)


class _Reader:
    """Collects nodes and edges; uses expat directly because it reports the line of each element."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate("utf-8", namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.StartDoctypeDeclHandler = self.doctype
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.keys: dict[str, str] = {}
        self.default: str | None = None
        self.nodes: list[_Element] = []
        self.edges: list[_Element] = []
        self.current: _Element | None = None
        self.key: str | None = None

    def doctype(self, *_: object) -> None:
        line = self.parser.CurrentLineNumber
        raise DataError(
            f"line {line}: the file declares a document type, whose entities could expand without limit or "
            "read other files. Remove the line that begins with <!DOCTYPE."
        )

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag, line = tag.rpartition(" ")[2], self.parser.CurrentLineNumber
        if tag == "key":
            self.keys[attributes.get("id", "")] = attributes.get("attr.name", "")
        elif tag == "graph" and self.default is None:
            self.default = attributes.get("edgedefault", "directed")
        elif tag in ("node", "edge"):
            self.current, self.key = _Element(attributes, line), None
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
    """Parse the graph in a GraphML text.

    Examples
    --------
    >>> from polydag import Graph
    >>> from_text(to_text(Graph.from_edges(["a b", "c"], [("a b", "c")]))).parents("c")
    ['a b']
    """
    reader = _Reader()
    try:
        reader.parser.Parse(text.encode(errors="surrogatepass"), True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise DataError(f"line {error.lineno}: not valid XML ({reason}).") from error
    if reader.default is None:
        raise DataError("line 1: the file has no <graph> element.")
    names: dict[str, str] = {}
    taken: set[str] = set()
    for node in reader.nodes:
        node_id = _attribute(node, "id")
        if node_id in names:
            raise DataError(f"line {node.line}: the node id {node_id!r} is used twice.")
        names[node_id] = node.data.get("name", node_id)
        if names[node_id] in taken:
            raise DataError(f"line {node.line}: the name {names[node_id]!r} is used twice.")
        taken.add(names[node_id])
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
            raise DataError(f"The name {name!r} contains {bad.group()!r}, which XML cannot represent.")
        # A carriage return would be read back as a newline.
        text = escape(name, {"\r": "&#13;"})
        lines.append(f'    <node id="n{i}"><data key="name">{text}</data></node>')
    for edge in graph.edges():
        source, target = graph.index(edge.source), graph.index(edge.target)
        direction = "" if edge.directed else ' directed="false"'
        lines.append(
            f'    <edge source="n{source}" target="n{target}"{direction}>'
            f'<data key="weight">{edge.weight!r}</data></edge>'
        )
    return _HEADER + "\n".join([*lines, "  </graph>", "</graphml>", ""])
