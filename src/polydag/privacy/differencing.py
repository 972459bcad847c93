"""Which sets of sites may be summed over: the rule against differencing.

Sums over two sets of sites that differ in one site reveal that site's contribution, and so may any
combination of several sums. The rule: the sites are divided into groups of at least `min_sites`, a site stays
in its group for good, and every sum is over whole groups. Then every combination of sums is a combination of
the sums over groups, and none ever reveals a sum over fewer sites, unless sites collude.

The sites enforce this rule, and no site needs to know which sums were formed elsewhere. A site remembers its
own group in its ledger and refuses any other. Every member does the same, so a group is in a sum as a whole
or not at all, in this study and in all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

MIN_SITES = 3  # in a sum over two sites, each could compute the other's contribution
Groups = Sequence[Sequence[str]]


def group_problem(all_sites: Sequence[str], groups: Groups, min_sites: int = MIN_SITES) -> str | None:
    """Why groups do not divide the sites as they should; None where they do."""
    if sorted(site for group in groups for site in group) != sorted(all_sites):
        return "Every site of the study must be in exactly one group."
    for group in groups:
        if len(group) < min_sites:
            return (
                f"The group of {' and '.join(group)} has {len(group)} sites, and a group must have at least "
                f"{min_sites}: sums with and without it would show what these sites add."
            )
    return None


def sum_problem(sites: Iterable[str], groups: Groups, min_sites: int = MIN_SITES) -> str | None:
    """Why a set of sites may not be summed over; None where it is a union of groups.

    Examples
    --------
    >>> sum_problem("abc", ["abc", "def"])
    >>> sum_problem("abcd", ["abc", "def"])
    'd is in the sum without its group d, e, f: sums with and without it would show single sites'
    """
    chosen = list(sites)
    if len(set(chosen)) < max(min_sites, len(chosen)):
        return f"a sum must be over at least {min_sites} different sites, and this one is over {chosen}"
    if strangers := set(chosen) - {site for group in groups for site in group}:
        return f"{min(strangers)} is in none of the groups"
    for group in groups:
        inside = set(group) & set(chosen)
        if inside and len(inside) < len(group):
            return (
                f"{', '.join(sorted(inside))} is in the sum without its group {', '.join(group)}: sums with "
                "and without it would show single sites"
            )
    return None


def regroup_problem(site: str, before: Iterable[Sequence[str]], groups: Groups) -> str | None:
    """Why a site may not take part with these groups, after those that its ledger remembers."""
    now = set(group_of(site, groups))
    for group in before:
        if set(group) != now:
            return (
                f"{site} was summed in a group with {', '.join(group)}, and now it would be with "
                f"{', '.join(sorted(now))}: together, these sums would show the sites in which the two "
                "differ. Keep the groups of earlier studies, and form further groups of sites that are new"
            )
    return None


def group_of(site: str, groups: Groups) -> tuple[str, ...]:
    """The group of a site; empty where it has none."""
    return next((tuple(group) for group in groups if site in group), ())


def groups(
    all_sites: Sequence[str], known: Groups = (), min_sites: int = MIN_SITES
) -> tuple[tuple[str, ...], ...]:
    """The sites in groups of `min_sites` or slightly more; groups that are `known` stay as they are.

    Examples
    --------
    >>> groups(list("abcdefgh"))
    (('a', 'b', 'c', 'd'), ('e', 'f', 'g', 'h'))
    >>> groups(list("abcdefgh"), known=["abcde"])
    (('a', 'b', 'c', 'd', 'e'), ('f', 'g', 'h'))
    """
    present = set(all_sites)
    kept = tuple(dict.fromkeys(tuple(group) for group in known if present >= set(group)))
    settled = {site for group in kept for site in group}
    free = [site for site in all_sites if site not in settled]
    if not free:
        return kept
    count = max(len(free) // min_sites, 1)
    size, rest = divmod(len(free), count)
    starts = [k * size + min(k, rest) for k in range(count + 1)]
    return (*kept, *(tuple(free[a:b]) for a, b in itertools.pairwise(starts)))


def complete(present: Sequence[str], groups: Groups) -> tuple[str, ...]:
    """The sites among those present whose groups are complete: one that drops out takes its group along."""
    there = set(present)
    kept = {site for group in groups if there >= set(group) for site in group}
    return tuple(site for site in present if site in kept)
