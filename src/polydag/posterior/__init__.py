"""The posterior of network structures: family tables, priors, candidate parents, sums over orders.

table = with_prior(family_table(score, max_parents=3), "fair")
exact_posterior(table).edges
mcmc_posterior(table, random_state=0).edges
dag_posterior(table, random_state=0).edges
"""

from polydag.posterior.dags import DagSamples
from polydag.posterior.dags.weighted import dag_posterior
from polydag.posterior.exact.order_posterior import ExactPosterior, exact_posterior
from polydag.posterior.families.candidates import Candidates, choose_candidates
from polydag.posterior.families.priors import edge_probabilities, with_prior
from polydag.posterior.families.table import FamilyTable, family_table
from polydag.posterior.mcmc.order_posterior import McmcPosterior, mcmc_posterior

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
