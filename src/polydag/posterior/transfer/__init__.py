"""Transfer between tasks: priors of pairs of parent sets, the family form and the form of Theorem 1."""

from polydag.posterior.transfer.family import family_form, transfer_factors
from polydag.posterior.transfer.relatedness import Related, Relatedness
from polydag.posterior.transfer.similarity import DEFAULT_SIMILARITY, Similarity
from polydag.posterior.transfer.theorem1 import Joint, theorem1
from polydag.posterior.transfer.weights import Averaged, ByDifference, Fixed, TransferPrior

__all__ = [
    "DEFAULT_SIMILARITY",
    "Averaged",
    "ByDifference",
    "Fixed",
    "Joint",
    "Related",
    "Relatedness",
    "Similarity",
    "TransferPrior",
    "family_form",
    "theorem1",
    "transfer_factors",
]
