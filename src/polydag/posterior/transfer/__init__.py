"""Transfer between tasks: priors of pairs of parent sets, the family form and the form of Theorem 1."""

from polydag.posterior.transfer.family import COMBINATIONS, family_form, transfer_factors
from polydag.posterior.transfer.relatedness import Related, Relatedness
from polydag.posterior.transfer.theorem1 import Joint, theorem1
from polydag.posterior.transfer.weights import NORMALISERS, Averaged, ByDifference, Fixed, TransferPrior

__all__ = [
    "COMBINATIONS",
    "NORMALISERS",
    "Averaged",
    "ByDifference",
    "Fixed",
    "Joint",
    "Related",
    "Relatedness",
    "TransferPrior",
    "family_form",
    "theorem1",
    "transfer_factors",
]
