"""How well posteriors rank edges, over several tasks together, and the paired t-test between methods.

Standard: the area under the ROC curve and average precision, over all ordered pairs of variables of all
tasks. The tasks paper's own rates (section V-B) are called TP = |Ê ∩ E*| / |Ê|, which is precision, and FP =
|Ê \\ E*| / (|E| - |Ê|), which has no upper limit; their area is taken over FP up to 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_APART = 0.002  # points of a curve that are closer look the same


class Areas(NamedTuple):
    """Areas of one set of posteriors."""

    auc: float
    average_precision: float
    paper_auc: float


class Test(NamedTuple):
    """How much larger the first of two paired measures is, in per cent; p of the t-test; who wins at 5 %."""

    increase: float
    p: float
    winner: str


def off_diagonal(true: Mask, P: Array) -> tuple[Mask, Array]:
    """All ordered pairs of different variables, of all tasks, in one line."""
    off = np.broadcast_to(~np.eye(true.shape[-1], dtype=bool), true.shape)
    return true[off], P[off]


def areas(true: Mask, P: Array) -> Areas:
    """Areas over tasks `[task, i, j]`; NaN where there are no true edges."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    y, p = off_diagonal(true, P)
    if not y.any() or y.all():
        return Areas(math.nan, math.nan, math.nan)
    fpr, tpr = up_to_one(*roc_points(true, P, "paper"))
    under = float(np.trapezoid(tpr, fpr))
    return Areas(float(roc_auc_score(y, p)), float(average_precision_score(y, p)), under)


def roc_points(true: Mask, P: Array, form: str, *, corners: bool = False) -> tuple[Array, Array]:
    """The rates at every threshold, by rising false positive rate from 0.

    With `corners` only where a true edge comes in and just before: in between the standard curve is level.
    The paper's bends there: of it, points on the way are kept too, up to the first beyond 1.
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
        usable = chosen < len(y)  # with all pairs accepted the rate is infinite
        hits, chosen, kept = hits[usable], chosen[usable], kept[usable]
        fpr, tpr = (chosen - hits) / (len(y) - chosen), hits / chosen
        start = float(tpr[0]) if len(tpr) else 0.0
        kept = _shown(fpr, tpr, kept)
    if corners:
        fpr, tpr = fpr[kept], tpr[kept]
    return np.append(0.0, fpr), np.append(start, tpr)


def _shown(fpr: Array, tpr: Array, corners: Mask) -> Mask:
    """Points of the paper's curve up to 1: corners, those that are away from the one before, and its end."""
    places = np.floor(np.column_stack([fpr, tpr]) / _APART)
    shown: Mask = corners | (np.diff(places, axis=0, prepend=-1.0) != 0).any(axis=1)
    beyond = int(np.searchsorted(fpr, 1.0, side="right"))
    shown[max(beyond - 1, 0) : beyond + 1] = True
    shown[beyond + 1 :] = False
    return shown


def up_to_one(fpr: Array, tpr: Array) -> tuple[Array, Array]:
    """A curve up to a rate of 1; one that ends before, as all other pairs are tied, goes on level."""
    inside = fpr <= 1
    return np.append(fpr[inside], 1.0), np.append(tpr[inside], np.interp(1.0, fpr, tpr))


def paired(first: Array, second: Array, name: str, other: str) -> Test:
    """The paired t-test over trials, those without a measure left out."""
    from scipy.stats import ttest_rel

    good = np.isfinite(first) & np.isfinite(second)
    a, b = first[good], second[good]
    usable = b > 0
    increase = float(100 * np.mean(a[usable] / b[usable] - 1)) if usable.any() else math.nan
    if len(a) < 2 or np.allclose(a, b):
        return Test(increase, math.nan, "-")
    p = float(ttest_rel(a, b).pvalue)
    return Test(increase, p, "-" if p >= 0.05 else name if a.mean() > b.mean() else other)
