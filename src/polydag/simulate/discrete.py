"""Simulate rows from a discrete network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polydag.discrete_network import DiscreteNetwork, RandomState

if TYPE_CHECKING:
    import pandas as pd


def discrete(network: DiscreteNetwork, *, n: int, random_state: RandomState = None) -> pd.DataFrame:
    """Draw rows from a discrete network, such as one read by `polydag.formats.read_network`.

    Parameters
    ----------
    network : DiscreteNetwork
        The network and its tables.
    n : int
        The number of rows.
    random_state : int or numpy.random.Generator, optional
        The seed.

    Returns
    -------
    DataFrame
        One categorical column per variable, with categories in the order of the network's labels.

    Examples
    --------
    >>> from polydag.embedded import asia
    >>> discrete(asia(), n=100, random_state=0).shape
    (100, 8)
    """
    return network.sample(n, random_state)
