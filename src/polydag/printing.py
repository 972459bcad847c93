"""How results print: numbers rounded to what a person reads. Values and files keep every digit.

The last digits of a fitted number differ between processors; a printed result should not.
"""

from __future__ import annotations

from typing import Any

_DIGITS = 6  # significant, as pandas prints


def rounded_repr(result: Any) -> str:
    """The repr of a named tuple with its floats rounded to six significant digits."""
    fields = zip(result._fields, result, strict=True)
    return f"{type(result).__name__}({', '.join(f'{name}={_rounded(value)}' for name, value in fields)})"


def percent(share: float) -> str:
    """A share as a whole percentage, at the beginning of a sentence; a small one does not become 0%.

    Examples
    --------
    >>> percent(0.302), percent(0.001), percent(0.0)
    ('30%', 'Less than 1%', '0%')
    """
    return "Less than 1%" if 0 < share < 0.005 else f"{share:.0%}"


def _rounded(value: object) -> str:
    return repr(float(f"{value:.{_DIGITS}g}")) if isinstance(value, float) else repr(value)
