"""networkx: a `DiGraph` whose edges carry `weight` and `directed`.

networkx has no mixed graphs: an undirected edge becomes two opposite arcs, both with `directed=False`. Nodes
are the names, in order. Weights are preserved exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polydag.graph import Graph


def to_networkx(graph: Graph) -> Any:
    """Convert a graph to a `networkx.DiGraph`.

    Examples
    --------
    >>> from polydag import Graph
    >>> to_networkx(Graph.from_edges(["a", "b"], undirected=[("a", "b")])).edges["b", "a"]["directed"]
    False
    """
    import networkx as nx

    result = nx.DiGraph()
    result.add_nodes_from(graph.names)
    for i, j in np.argwhere(graph.adjacency):
        result.add_edge(
            graph.names[i],
            graph.names[j],
            weight=float(graph.weights[i, j]),
            directed=not bool(graph.adjacency[j, i]),
        )
    return result


def from_networkx(graph: Any) -> Graph:
    """Convert a networkx graph to a `Graph`.

    An edge is undirected if the networkx graph is undirected, if the edge has `directed=False`, or if both
    arcs are present. Node labels become strings. Missing weights are 1.

    Examples
    --------
    >>> import networkx as nx
    >>> from_networkx(nx.DiGraph([("rain", "wet")])).edges()
    [Edge(source='rain', target='wet', weight=1.0, directed=True)]
    """
    nodes = list(graph.nodes)
    index = {node: i for i, node in enumerate(nodes)}
    adjacency = np.zeros((len(nodes), len(nodes)), dtype=bool)
    weights = np.zeros(adjacency.shape)
    for source, target, content in graph.edges(data=True):
        i, j = index[source], index[target]
        adjacency[i, j], weights[i, j] = True, content.get("weight", 1.0)
        if not graph.is_directed() or not content.get("directed", True):
            adjacency[j, i], weights[j, i] = True, weights[i, j]
    return Graph(adjacency, nodes, weights)
