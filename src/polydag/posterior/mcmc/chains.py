"""Settings of Markov chains: how many, how long, and how large their buckets are."""

from __future__ import annotations

from dataclasses import dataclass

from polydag.errors import UsageError
from polydag.parameters import Settings, optional, setting, whole

THINNING = 10  # fewest steps between two recorded states
MAX_BUCKET = 16  # 2^16 subsets of a bucket: steps of chains with larger buckets take too long to be of use


@dataclass(frozen=True)
class Chains(Settings):
    """Markov chains that sample orders, or ordered partitions where the posterior is uniform over DAGs.

    Parameters
    ----------
    n_chains : int
        The number of independent chains; at least 2 are needed to compute R-hat between chains.
    n_steps : int, optional
        The length of each chain, burn-in included, from a random state. By default chains start from states
        of high weight, and their length is doubled until R-hat and ESS are good for every uncertain edge.
        A step draws the place of one variable in an order, or proposes the reversal of one edge in a
        partition.
    burn_in : int, optional
        Steps at the beginning of each chain that are discarded; half of all steps by default.
    bucket_size : int
        The number of neighbouring variables of an order in a bucket. The orders within buckets are summed
        over exactly: larger buckets take longer and mix better. Partitions have no buckets.

    Examples
    --------
    >>> Chains(n_chains=2, n_steps=2000)
    Chains(n_chains=2, n_steps=2000, burn_in=None, bucket_size=10)
    """

    n_chains: int = setting(4, whole(least=1), "independent Markov chains")
    n_steps: int | None = setting(
        None, optional(whole(least=2 * THINNING)), "length of each chain; chosen by R-hat and ESS by default"
    )
    burn_in: int | None = setting(
        None, optional(whole(least=0)), "steps of each chain that are discarded; half of them by default"
    )
    bucket_size: int = setting(
        10, whole(least=1, most=MAX_BUCKET), "neighbouring variables whose orders are summed over"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_steps is not None and self.burn_in is not None and self.burn_in > self.n_steps - THINNING:
            raise UsageError(
                f"burn_in must leave at least {THINNING} of n_steps = {self.n_steps}, which includes it; "
                f"got {self.burn_in}."
            )


DEFAULT_CHAINS = Chains()
