"""Settings of models that need more than a penalty: neural networks and time series."""

from __future__ import annotations

from dataclasses import dataclass

from polydag.losses.lagged import REALISATION, TIME
from polydag.parameters import Instance, Settings, number, setting, whole

LAMBDA2 = 0.003
_NAME = Instance(str, "the name of a column")


@dataclass(frozen=True)
class Network(Settings):
    """The neural networks of the models "mlp" and "masked".

    Parameters
    ----------
    hidden : int
        The number of hidden units of each variable's network.
    lambda2 : float
        The ℓ2 penalty on its weights.
    """

    hidden: int = setting(10, whole(least=1), "hidden units of each network")
    lambda2: float = setting(LAMBDA2, number(least=0), "l2 penalty on the weights")


@dataclass(frozen=True)
class Series(Settings):
    """The time series of the model "lagged".

    Parameters
    ----------
    lags : int
        The number of earlier time steps that may have an effect.
    time : str
        The column by which the rows of a series are ordered.
    realisation : str
        The column that identifies the series of each row.
    """

    lags: int = setting(1, whole(least=1), "earlier time steps that may have an effect")
    time: str = setting(TIME, _NAME, "column of the time steps")
    realisation: str = setting(REALISATION, _NAME, "column that identifies the series")
