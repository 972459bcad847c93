"""Which sets of sites may be summed over: the rule against differencing.

Sums over two sets of sites that differ in one site reveal that site's contribution, and so may any
combination of several sums. The rule: divide the sites into classes, where two sites belong to one class if
they have been in exactly the same sums so far, in this study and in earlier ones. A set may be summed over
only if afterwards every class that has been in any sum has at least `min_sites` sites. Every combination of
sums is a combination of the sums over classes, so none ever reveals a sum over fewer sites, unless sites
collude.

The sites enforce this rule. For that they must know of every sum, and they do: either all sites take part
in it, or more than half of them must help to open it, so any two sums have a witness in common.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from polydag.privacy.masking.agreement import MIN_SITES

Sets = Sequence[Sequence[str]]


def objection(sets: Sets, new: Iterable[str], min_sites: int = MIN_SITES) -> str | None:
    """Why a set may not be summed over after `sets`; None where it may.

    Examples
    --------
    >>> objection([], ["a", "b", "c"])
    >>> objection([["a", "b", "c", "d"]], ["a", "b", "c"])
    'with earlier sums it would show the part of d alone; a difference must hold at least 3 sites'
    """
    new = tuple(new)
    if len(set(new)) < min_sites:
        return f"a sum must be over at least {min_sites} sites, and this one is over {len(set(new))}"
    for sites in _classes([*sets, new]):
        if len(sites) < min_sites:
            alone = " and ".join(sorted(sites))
            return (
                f"with earlier sums it would show the part of {alone} alone; a difference must hold at least "
                f"{min_sites} sites"
            )
    return None


def _classes(sets: Sets) -> list[set[str]]:
    """The sites that have been in any sum, divided by the sums that they were in."""
    seen: dict[str, list[int]] = {}
    for number, sites in enumerate(sets):
        for site in dict.fromkeys(sites):
            seen.setdefault(site, []).append(number)
    classes: dict[tuple[int, ...], set[str]] = {}
    for site, numbers in seen.items():
        classes.setdefault(tuple(numbers), set()).add(site)
    return list(classes.values())


def groups(all_sites: Sequence[str], min_sites: int = MIN_SITES) -> tuple[tuple[str, ...], ...]:
    """The sites in groups of `min_sites` or slightly more; sums over unions of groups obey the rule.

    Examples
    --------
    >>> groups(list("abcdefgh"))
    (('a', 'b', 'c', 'd'), ('e', 'f', 'g', 'h'))
    """
    count = max(len(all_sites) // min_sites, 1)
    size, rest = divmod(len(all_sites), count)
    starts = [k * size + min(k, rest) for k in range(count + 1)]
    return tuple(tuple(all_sites[a:b]) for a, b in itertools.pairwise(starts))


def complete_groups(sets: Sets, present: Sequence[str], divided: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The sites among those present that may be summed over: all of them, or the groups that are complete.

    A site that drops out takes its group with it, unless the rule allows the sum over all that are present.
    """
    if objection(sets, present) is None:
        return tuple(present)
    there = set(present)
    kept = {site for group in divided if there >= set(group) for site in group}
    return tuple(site for site in present if site in kept)
