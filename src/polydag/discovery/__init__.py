"""The posterior of network structures: family tables, priors, candidate parents, sums over orders.

table = with_prior(family_table(score, max_parents=3), "fair")
exact_posterior(table).edges
mcmc_posterior(table, random_state=0).edges
dag_posterior(table, random_state=0).edges
"""

from polydag.discovery.candidates import Candidates, choose_candidates
from polydag.discovery.dags import DagSamples
from polydag.discovery.dags.weighted import dag_posterior
from polydag.discovery.exact import ExactPosterior, exact_posterior
from polydag.discovery.families import FamilyTable, family_table
from polydag.discovery.mcmc import McmcPosterior, mcmc_posterior
from polydag.discovery.priors import edge_probabilities, with_prior

__all__ = [
    "Candidates",
    "DagSamples",
    "ExactPosterior",
    "FamilyTable",
    "McmcPosterior",
    "choose_candidates",
    "dag_posterior",
    "edge_probabilities",
    "exact_posterior",
    "family_table",
    "mcmc_posterior",
    "with_prior",
]
