"""The posterior of network structures: family tables, priors, candidate parents, exact sums over orders.

table = with_prior(family_table(score, max_parents=3), "fair")
exact_posterior(table).edges
"""

from polydag.discovery.candidates import Candidates, choose_candidates
from polydag.discovery.exact import ExactPosterior, exact_posterior
from polydag.discovery.families import FamilyTable, family_table
from polydag.discovery.priors import edge_probabilities, with_prior

__all__ = [
    "Candidates",
    "ExactPosterior",
    "FamilyTable",
    "choose_candidates",
    "edge_probabilities",
    "exact_posterior",
    "family_table",
    "with_prior",
]
