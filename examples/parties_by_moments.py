"""Five hospitals, one graph: each sums up its own rows, and the sums are added.

Nothing is hidden here: whoever adds up sees each hospital's mean and covariance (but no rows). The result is
that of pooling all rows in one place.
"""

import numpy as np

from polydag import GaussianStats, Notears, metrics, simulate

truth = simulate.dag(15, n_edges=22, random_state=0)
hospitals = [simulate.linear(truth, n=40, random_state=seed) for seed in range(5)]

# In each hospital: 40 rows become one count, 15 means and a 15 by 15 matrix.
sums = [GaussianStats.from_data(rows) for rows in hospitals]

# Where they are added.
total = sum(sums[1:], start=sums[0])
together = Notears().fit(total)

pooled = GaussianStats.from_data(np.concatenate(hospitals), names=truth.names)
print("rows:", int(total.n))
print("largest difference from the pooled covariance:", np.abs(total.covariance - pooled.covariance).max())
same = (Notears().fit(pooled).graph_.adjacency == together.graph_.adjacency).all()
print("the same edges as from pooled rows:", same)

alone = [metrics.shd(true=truth, estimate=Notears().fit(rows).graph_) for rows in hospitals]
print("errors (SHD) of each hospital alone:", alone)
print("errors (SHD) together:", metrics.shd(true=truth, estimate=together.graph_))
