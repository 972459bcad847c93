"""How well posteriors rank edges over several tasks, and paired t-tests between methods.

The standard measures are the area under the ROC curve and average precision, over all ordered pairs of
variables in all tasks. The rates of the tasks paper (section V-B) are TP = |Ê ∩ E*| / |Ê|, which is
precision, and FP = |Ê \\ E*| / (|E| - |Ê|), which is unbounded; their area is computed for FP up to 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from polydag.arrays import Array, Mask

_RESOLUTION = 0.002  # points of a curve that are closer than this look the same


class Areas(NamedTuple):
    """The areas under the curves of one set of posteriors."""

    auc: float
    average_precision: float
    paper_auc: float


class Test(NamedTuple):
    """The mean increase of the first measure over the second in per cent, the p-value, the winner at 5 %."""

    increase: float
    p: float
    winner: str


def off_diagonal(true: Mask, P: Array) -> tuple[Mask, Array]:
    """All ordered pairs of distinct variables in all tasks, flattened."""
    off = np.broadcast_to(~np.eye(true.shape[-1], dtype=bool), true.shape)
    return true[off], P[off]


def areas(true: Mask, P: Array) -> Areas:
    """The areas over all tasks (`[task, i, j]`); NaN if there are no true edges, or only true edges."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    y, p = off_diagonal(true, P)
    if not y.any() or y.all():
        return Areas(math.nan, math.nan, math.nan)
    fpr, tpr = up_to_one(*roc_points(true, P, "paper"))
    paper_auc = float(np.trapezoid(tpr, fpr))
    return Areas(float(roc_auc_score(y, p)), float(average_precision_score(y, p)), paper_auc)


def roc_points(true: Mask, P: Array, form: str, *, corners: bool = False) -> tuple[Array, Array]:
    """The rates at every threshold, by increasing false positive rate from 0.

    With `corners`, only the points at and just before each true edge are returned; the standard curve is
    horizontal in between. The paper's curve is not, so some intermediate points are kept, up to the first one
    beyond a rate of 1.
    """
    y, p = off_diagonal(true, P)
    order = np.argsort(-p, kind="stable")
    last = np.append(np.diff(p[order]) != 0, True)  # ties are accepted together
    hits, chosen = np.cumsum(y[order])[last], np.flatnonzero(last) + 1
    rises = np.diff(hits, prepend=0) > 0
    kept = rises | np.append(rises[1:], True)
    if form == "standard":
        fpr, tpr = (chosen - hits) / (~y).sum(), hits / max(y.sum(), 1)
        start = 0.0
    else:
        usable = chosen < len(y)  # if all pairs are accepted, the rate is infinite
        hits, chosen, kept = hits[usable], chosen[usable], kept[usable]
        fpr, tpr = (chosen - hits) / (len(y) - chosen), hits / chosen
        start = float(tpr[0]) if len(tpr) else 0.0
        kept = _shown(fpr, tpr, kept)
    if corners:
        fpr, tpr = fpr[kept], tpr[kept]
    return np.append(0.0, fpr), np.append(start, tpr)


def _shown(fpr: Array, tpr: Array, corners: Mask) -> Mask:
    """Points of the paper's curve up to 1: corners, points visibly apart from the last, and its end."""
    cells = np.floor(np.column_stack([fpr, tpr]) / _RESOLUTION)
    shown: Mask = corners | (np.diff(cells, axis=0, prepend=-1.0) != 0).any(axis=1)
    beyond = int(np.searchsorted(fpr, 1.0, side="right"))
    shown[max(beyond - 1, 0) : beyond + 1] = True
    shown[beyond + 1 :] = False
    return shown


def up_to_one(fpr: Array, tpr: Array) -> tuple[Array, Array]:
    """The curve up to a rate of 1; one that ends earlier, because of ties, continues horizontally."""
    inside = fpr <= 1
    return np.append(fpr[inside], 1.0), np.append(tpr[inside], np.interp(1.0, fpr, tpr))


def paired(first: Array, second: Array, name: str, other: str) -> Test:
    """The paired t-test over trials; trials with missing measures are excluded."""
    from scipy.stats import ttest_rel

    good = np.isfinite(first) & np.isfinite(second)
    a, b = first[good], second[good]
    usable = b > 0
    increase = float(100 * np.mean(a[usable] / b[usable] - 1)) if usable.any() else math.nan
    if len(a) < 2 or np.allclose(a, b):
        return Test(increase, math.nan, "-")
    p = float(ttest_rel(a, b).pvalue)
    return Test(increase, p, "-" if p >= 0.05 else name if a.mean() > b.mean() else other)
