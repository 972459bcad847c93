"""How far to trust a run, in plain sentences, from the files of its folder."""

from __future__ import annotations

from typing import Any

from polydag.graph import Graph
from polydag.report.pairs import Pairs
from polydag.report.run_files import RESULT, RunFiles, number

WARNING, REMARK = "warning", "remark"
_FEW_ROWS = 10.0  # rows per variable
_UNMIXED, _FEW_DRAWS = 1.05, 100.0
_SORTABLE = 0.9

_SUFFICIENCY = "It assumes that no unmeasured variable affects two of these, and that there are no cycles."
_LINEAR = "It assumes linear effects and independent errors."
_SQUARES = "It compares squared errors, so the units of the columns matter for directions."
_CLASSES = (
    "Independent errors of unknown size determine a class of graphs: the data cannot determine the "
    "direction of an undirected edge."
)
ASSUMPTIONS = {
    "notears": (_SUFFICIENCY, _LINEAR, _SQUARES),
    "notears-mlp": (_SUFFICIENCY, "It assumes errors that are added to a smooth function of the parents."),
    "notears-lagged": (_SUFFICIENCY, _LINEAR, "It assumes effects that do not change over time."),
    "equal-variance": (_SUFFICIENCY, _LINEAR, "It assumes errors of equal variance for all variables."),
    "ges": (_SUFFICIENCY, _CLASSES),
    "boss": (_SUFFICIENCY, _CLASSES),
    "pc": (_SUFFICIENCY, _CLASSES, "Its tests find no effects that cancel each other (faithfulness)."),
    "posterior": (_SUFFICIENCY, "Probabilities hold given its score and prior."),
    "bcd": (_SUFFICIENCY, _LINEAR, "It takes the order of the variables as known."),
    "admm": (_SUFFICIENCY, _LINEAR, _SQUARES, "It assumes that one graph holds for all parties."),
    "fedavg": (_SUFFICIENCY, _LINEAR, _SQUARES, "It assumes that one graph holds for all parties."),
    "varying": (_SUFFICIENCY, _LINEAR, "Parties share the graph; their coefficients differ."),
    "voting": (_SUFFICIENCY, "Each party needs enough rows of its own to learn a graph."),
}


def sentences(files: RunFiles, graph: Graph, found: Pairs) -> list[dict[str, str]]:
    """What a reader should know before believing the graph, the gravest first."""
    result = files.document(RESULT) or {}
    texts = [
        *_convergence(result),
        *_sample(result, graph),
        *_chains(found),
        *_units(result),
        *_pruned(files),
        *_missing(files.study),
    ]
    notes = [(REMARK, str(note)) for note in result.get("notes", [])]
    assumed = [(REMARK, text) for text in ASSUMPTIONS.get(str(files.study.get("method")), ())]
    texts += [*(note for note in notes if note[1] not in {text for _, text in texts}), *assumed]
    return [{"level": level, "text": text} for level, text in sorted(texts, key=lambda t: t[0] != WARNING)]


def _convergence(result: dict[str, Any]) -> list[tuple[str, str]]:
    if result.get("converged", True):
        return []
    return [(WARNING, "The method did not converge: do not rely on this graph.")]


def _sample(result: dict[str, Any], graph: Graph) -> list[tuple[str, str]]:
    n = number(result.get("n"))
    if n is None or not graph.n_nodes:
        return []
    worth = number(result.get("measures", {}).get("decorrelated_n")) or n
    text = f"{n:,.0f} rows for {graph.n_nodes} variables."
    if worth < n:
        text = f"{text[:-1]}; decorrelated, they are worth {worth:,.0f} independent ones."
    if worth / graph.n_nodes < _FEW_ROWS:
        return [(WARNING, f"{text} That is few: expect missing edges, and trust strong ones only.")]
    return [(REMARK, text)]


def _chains(found: Pairs) -> list[tuple[str, str]]:
    known = [pair for pair in found.pairs if pair.r_hat is not None]
    if not known:
        return []
    bad = [p for p in known if (p.r_hat or 0.0) > _UNMIXED or (p.ess is not None and p.ess < _FEW_DRAWS)]
    worst = max(pair.r_hat or 0.0 for pair in known)
    if bad:
        return [
            (
                WARNING,
                f"The Markov chains have not mixed for {len(bad)} of {len(known)} pairs (largest R-hat "
                f"{worst:.2f}): their probabilities are rough. Run longer.",
            )
        ]
    return [(REMARK, f"The Markov chains agree (largest R-hat {worst:.2f}).")]


def _units(result: dict[str, Any]) -> list[tuple[str, str]]:
    value = number(result.get("measures", {}).get("varsortability"))
    if value is None or value < _SORTABLE:
        return []
    marked = [str(note) for note in result.get("notes", []) if "varsortability" in str(note)]
    text = (
        f"Directions follow the order of the variances (varsortability {value:.2f}): they may reflect units."
    )
    return [(WARNING, marked[0] if marked else text)]


def _pruned(files: RunFiles) -> list[tuple[str, str]]:
    cycles = [row for row in files.rows("pruned.csv") if row.get("reason") == "cycle"]
    if not cycles:
        return []
    row = max(cycles, key=lambda row: abs(number(row.get("weight")) or 0.0))
    edges = "edge was" if len(cycles) == 1 else "edges were"
    return [
        (
            REMARK,
            f"{len(cycles)} {edges} removed to break cycles, the strongest of them {row['source']} → "
            f"{row['target']} ({number(row['weight']) or 0.0:.3g}).",
        )
    ]


def _missing(study: dict[str, Any]) -> list[tuple[str, str]]:
    done = {
        "drop": "Rows with missing values were left out: the remaining rows may not be representative.",
        "impute": "Missing values were imputed: intervals do not allow for that.",
    }
    text = done.get(str(study.get("missing")))
    return [(REMARK, text)] if text else []
