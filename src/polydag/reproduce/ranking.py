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
    fpr, tpr = roc_points(true, P, "paper")
    inside = np.concatenate([fpr[fpr <= 1], [1.0]])
    under = np.trapezoid(np.interp(inside, fpr, tpr), inside)
    return Areas(float(roc_auc_score(y, p)), float(average_precision_score(y, p)), float(under))


def roc_points(true: Mask, P: Array, form: str, *, corners: bool = False) -> tuple[Array, Array]:
    """The rates at every threshold, by rising false positive rate from 0.

    With `corners` only where a true edge comes in and just before: in between the standard curve is level.
    """
    y, p = off_diagonal(true, P)
    order = np.argsort(-p, kind="stable")
    last = np.append(np.diff(p[order]) != 0, True)  # ties are accepted together
    hits, chosen = np.cumsum(y[order])[last], np.flatnonzero(last) + 1
    if corners:
        rises = np.diff(hits, prepend=0) > 0
        kept = rises | np.append(rises[1:], True)
        hits, chosen = hits[kept], chosen[kept]
    if form == "standard":
        return np.append(0.0, (chosen - hits) / (~y).sum()), np.append(0.0, hits / max(y.sum(), 1))
    left = len(y) - chosen
    usable = left > 0
    fpr, tpr = (chosen - hits)[usable] / left[usable], (hits / chosen)[usable]
    return np.append(0.0, fpr), np.append(tpr[:1] if len(tpr) else 0.0, tpr)


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
