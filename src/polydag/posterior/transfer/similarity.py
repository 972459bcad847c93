"""How similar tasks are assumed to be, where that is not learned: settings of the paper's transfer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from polydag.parameters import Either, Instance, Settings, number, one_of, optional, setting
from polydag.posterior.transfer.family import COMBINATIONS
from polydag.posterior.transfer.weights import NORMALISERS, Averaged, Fixed, TransferPrior


@dataclass(frozen=True)
class Similarity(Settings):
    """How similar the parents of a variable are assumed to be in two tasks.

    Parameters
    ----------
    lambda_ : float or "average"
        From 0, where tasks are unrelated, to 1, where a parent must also be one in the other task. By default
        it is averaged over all values.
    normaliser : {"all", "truncated"}
        The pairs of parent sets over which the prior is normalised: all, as in the paper, or those with at
        most `max_parents` members.
    combination : {"star", "product"}
        With more than two tasks: a task's own prior counts once, or once for each pair with another task,
        which makes networks sparser the more tasks there are.
    prior : TransferPrior, optional
        A custom prior in place of `lambda_` and `normaliser`, such as `ByDifference`.

    Examples
    --------
    >>> Similarity(lambda_=0.9)
    Similarity(lambda_=0.9, normaliser='all', combination='star', prior=None)
    """

    lambda_: float | Literal["average"] = setting(
        "average",
        Either(number(least=0.0, most=1.0), one_of("average")),
        "how similar tasks are, from 0 to 1; all values are averaged over by default",
    )
    normaliser: Literal["all", "truncated"] = setting(
        "all", one_of(*NORMALISERS), "pairs of parent sets over which the prior is normalised"
    )
    combination: Literal["star", "product"] = setting(
        "star", one_of(*COMBINATIONS), "how often a task's own prior counts with more than two tasks"
    )
    prior: TransferPrior | None = setting(
        None,
        optional(Instance(TransferPrior, "a prior of pairs of parent sets, such as ByDifference(function)")),
    )

    @property
    def of_pairs(self) -> TransferPrior:
        """The prior of pairs of parent sets."""
        if self.prior is not None:
            return self.prior
        if isinstance(self.lambda_, str):
            return Averaged(self.normaliser)
        return Fixed(float(self.lambda_), self.normaliser)


DEFAULT_SIMILARITY = Similarity()
