"""DAG samples: drawn from orders or partitions, for features that are not modular.

samples = dags_by_orders(table, 1000, random_state=0)
samples.ancestors, samples.classes(5), samples.over_dags().effective_size
"""

from polydag.posterior.dags.drawing import dags_by_buckets, dags_by_orders
from polydag.posterior.dags.samples import DagSamples, EquivalenceClass

__all__ = ["DagSamples", "EquivalenceClass", "dags_by_buckets", "dags_by_orders"]
