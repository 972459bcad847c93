"""Read and write graphs: one module per format, chosen by the file's suffix.

A format is a module with `from_text(text) -> Graph` and `to_text(graph) -> str`, listed in `FORMATS`
(`polydag.formats.files`). Errors name the file and the line. A further suffix `.gz` means that the file is
decompressed on reading. Writing is atomic: the old file stays until the new one is complete.
`polydag.formats.nx` converts to and from networkx. `read_network` and `write` handle discrete networks with
their tables.

========================  ==============  ======================  =============  ==========
suffix                    format          undirected edges        weights        node order
========================  ==============  ======================  =============  ==========
`.json`                   JSON            yes                     exact          kept
`.csv`                    edge list       yes                     exact          kept
`.dot`, `.gv`             Graphviz        yes (`dir=none`)        exact          kept
`.graphml`                GraphML         yes                     exact          kept
`.dagitty`                DAGitty         yes (`pdag`)            exact (beta)   kept
`.bif`                    BIF             no (DAGs with tables)   no             kept
`.pcalg.csv`              pcalg matrix    yes                     no             kept
`.causallearn.csv`        causal-learn    yes                     no             kept
========================  ==============  ======================  =============  ==========
"""

from polydag.formats.files import FORMATS, read, read_network, write

__all__ = ["FORMATS", "read", "read_network", "write"]
