"""Are probabilities true as often as they say? Networks drawn from the stated prior and from others.

    python benchmarks/calibration.py [--networks 40] [--part single tasks differences chains bootstrap]

- single: edges of one table, by score and by how the parameters were drawn (results/calibration_single.csv);
- tasks: edges of K tasks, learned beside alone and pooled (results/calibration_tasks.csv);
- differences: connections said to be in one group only, and, by "learned", to be in all groups among the same
  parents with other strengths (results/calibration_differences.csv);
- chains: edges of two tasks, and connections said to be in one only, by joint Markov chains beside exact sums
  (results/calibration_chains.csv);
- bootstrap: frequencies over resamples, which are no probabilities, and maps from them to probabilities
  (results/calibration_bootstrap.csv).

Six variables (`bootstrap` has its own settings), at most three parents, orders uniform and parent sets by the
"fair" prior. The expected calibration error (ECE) is over ten bins; log loss in nats for each ordered pair
(for connections, each unordered one). A reliability table is kept with it: in each bin, what was said and
what was true.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import math
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from keeping import keep, machine
from numpy.typing import NDArray

from polydag import BOSS, GES, BayesianDiscovery, Bootstrap, Chains, MultitaskDiscovery
from polydag.errors import ConvergenceWarning
from polydag.posterior.probabilities import either_way
from polydag.stats import DiscreteCounts, GaussianStats

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST = 3  # parents
DEVIATION = 0.2  # share of edges in which related networks differ
HOW = ("identical", "same", "related, shared", "related", "unrelated")
SIZES = ((1000, 60), (300, 300), (2000, 100))


def network(n: int, rng: np.random.Generator) -> tuple[Mask, Array]:
    """A network of the stated prior, and its order."""
    order = rng.permutation(n)
    A = np.zeros((n, n), dtype=bool)
    for u, i in enumerate(order):
        weight = np.array([math.comb(u, k) / math.comb(n - 1, k) for k in range(min(MOST, u) + 1)])
        size = rng.choice(len(weight), p=weight / weight.sum())
        A[rng.choice(order[:u], size, replace=False), i] = True
    return A, order


def deviating(A: Mask, order: Array, rng: np.random.Generator) -> Mask:
    """A network that lacks a share of the edges and has as many others."""
    n, edges = len(A), A.sum()
    B = A.copy()
    for u, i in enumerate(order):
        for v in order[:u]:
            p = 1 - DEVIATION if A[v, i] else DEVIATION * edges / max(1, n * (n - 1) / 2 - edges)
            B[v, i] = rng.random() < p
        while B[:, i].sum() > MOST:
            B[rng.choice(np.flatnonzero(B[:, i])), i] = False
    return B


def parameters(A: Mask, kind: str, arities: Array, rng: np.random.Generator) -> list[Any]:
    """Of every variable: weights and noise ("weak", "strong"), or probabilities ("dirichlet 0.7", …)."""
    found: list[Any] = []
    for i in range(len(A)):
        parents = np.flatnonzero(A[:, i])
        if kind in ("weak", "strong"):
            low, high = (0.25, 1.0) if kind == "weak" else (0.5, 2.0)
            signs = rng.choice([-1, 1], len(parents))
            found.append((signs * rng.uniform(low, high, len(parents)), rng.uniform(0.5, 1.5)))
        else:
            cells = int(np.prod(arities[parents]))
            strength = float(kind.split()[1])
            own = strength / (cells * arities[i]) if kind.startswith("bdeu") else strength
            found.append(rng.dirichlet(np.full(arities[i], max(own, 0.02)), cells))
    return found


class Drawn(NamedTuple):
    """One task: its network, the parameters of its variables, and its rows."""

    network: Mask
    parameters: list[Any]
    rows: NDArray[Any]
    arities: Array


def rows_of(
    A: Mask, order: Array, own: list[Any], m: int, arities: Array, kind: str, rng: np.random.Generator
) -> NDArray[Any]:
    """So many rows."""
    n, numbers = len(A), kind in ("weak", "strong")
    X = np.zeros((m, n), dtype=float if numbers else int)
    for i in order:
        parents = np.flatnonzero(A[:, i])
        if numbers:
            X[:, i] = X[:, parents] @ own[i][0] + own[i][1] * rng.standard_normal(m)
            continue
        where = np.zeros(m, dtype=int)
        for v in parents:
            where = where * arities[v] + X[:, v]
        above = rng.random(m)[:, None] > np.cumsum(own[i], axis=1)[where]
        X[:, i] = np.minimum(above.sum(axis=1), arities[i] - 1)
    return X


def statistics(task: Drawn, kind: str) -> Any:
    if kind in ("weak", "strong"):
        return GaussianStats.from_data(task.rows)
    return DiscreteCounts.from_data(task.rows, levels={f"x{i}": range(a) for i, a in enumerate(task.arities)})


def tasks(
    how: str, sizes: tuple[int, ...], kind: str, rng: np.random.Generator, n: int = 6
) -> tuple[list[Mask], list[Any]]:
    """Networks and statistics of tasks that are related in some way."""
    drawn = drawn_tasks(how, sizes, kind, rng, n)
    return [task.network for task in drawn], [statistics(task, kind) for task in drawn]


def drawn_tasks(
    how: str, sizes: tuple[int, ...], kind: str, rng: np.random.Generator, n: int = 6
) -> list[Drawn]:
    """Tasks that are related in some way."""
    arities = rng.integers(2, 4, n)
    A, order = network(n, rng)
    common = parameters(A, kind, arities, rng)
    drawn = []
    for k, m in enumerate(sizes):
        B, place, own = A, order, common
        if how == "unrelated":
            B, place = network(n, rng)
        elif how.startswith("related") and (k or how == "related"):
            B = deviating(A, order, rng)
        if how in ("same", "related", "unrelated"):
            own = parameters(B, kind, arities, rng)
        elif how == "related, shared":
            fresh = parameters(B, kind, arities, rng)
            own = [common[i] if (A[:, i] == B[:, i]).all() else fresh[i] for i in range(n)]
        drawn.append(Drawn(B, own, rows_of(B, place, own, m, arities, kind, rng), arities))
    return drawn


def measured(said: list[Array], true: list[Mask]) -> dict[str, Any]:
    """ECE, log loss, what claims above 0.9 came to, and the reliability table."""
    p = np.concatenate([own.ravel() for own in said])
    y = np.concatenate([own.ravel() for own in true]).astype(float)
    cut = np.clip(p, 1e-6, 1 - 1e-6)
    bins = np.minimum((10 * p).astype(int), 9)
    counts = np.bincount(bins, minlength=10)
    means = np.bincount(bins, p, 10) / np.maximum(counts, 1)
    rates = np.bincount(bins, y, 10) / np.maximum(counts, 1)
    sure = p > 0.9
    return {
        "pairs": len(p),
        "ece": round(float(np.abs(means - rates) @ counts / len(p)), 4),
        "log_loss": round(float(-np.mean(y * np.log(cut) + (1 - y) * np.log1p(-cut))), 4),
        "above_0.9": int(sure.sum()),
        "said": round(float(p[sure].mean()), 3) if sure.any() else "",
        "true": round(float(y[sure].mean()), 3) if sure.any() else "",
        "reliability": " ".join(
            f"{m:.2f}:{r:.2f}({c})" for m, r, c in zip(means, rates, counts, strict=True)
        ),
    }


def of_edges(n: int) -> Mask:
    return ~np.eye(n, dtype=bool)


def single(networks: int) -> Iterator[dict[str, Any]]:
    """Edges of one table."""
    labels: dict[str, dict[str, Any]] = {
        "bdeu 4 (default)": {},
        "bdeu 1": {"equivalent_sample_size": 1.0},
        "k2": {"criterion": "k2"},
    }
    scales = {"bge 1 (default)": 1.0, "bge 0.5": 0.5}
    numbers = {
        name: {"criterion": "bge", "criterion_options": {"prior_matrix": t}} for name, t in scales.items()
    }
    for kind in ("dirichlet 1", "dirichlet 0.5", "bdeu 10", "bdeu 1", "weak", "strong"):
        learners = numbers if kind in ("weak", "strong") else labels
        said: dict[str, list[Array]] = {name: [] for name in learners}
        true = []
        for number in range(networks):
            rng = np.random.default_rng([number, 1])
            (A,), (stats,) = tasks("identical", (int(rng.choice([30, 100, 300, 1000])),), kind, rng)
            true.append(A[of_edges(len(A))])
            for name, settings in learners.items():
                found = BayesianDiscovery(**settings, max_parents=MOST).fit(stats)
                said[name].append(found.posterior_.probabilities[of_edges(len(A))])
        for name, own in said.items():
            yield {"parameters": kind, "score": name, "networks": networks, **measured(own, true)}


def learned(stats: list[Any], transfer: str, kind: str) -> MultitaskDiscovery:
    score = "bge" if kind in ("weak", "strong") else "bdeu"
    return MultitaskDiscovery(transfer=transfer, criterion=score, max_parents=MOST).fit(stats)


def several(networks: int) -> Iterator[dict[str, Any]]:
    """Edges of K tasks of 40 rows."""
    for K in (2, 5, 20, 50):
        for kind in ("dirichlet 0.7", "weak"):
            for how in HOW:
                forms = ("learned", "none", "pool", "family")
                said: dict[str, list[Array]] = {name: [] for name in forms}
                true = []
                for number in range(max(2, networks * 2 // K)):
                    rng = np.random.default_rng([number, 2, K])
                    nets, stats = tasks(how, (40,) * K, kind, rng)
                    inside = of_edges(len(nets[0]))
                    true.append(np.array([A[inside] for A in nets]))
                    for name in forms:
                        found = learned(stats, name, kind)
                        said[name].append(np.array([p.probabilities[inside] for p in found.posteriors_]))
                losses = {name: measured(own, true) for name, own in said.items()}
                better = min(losses["none"]["log_loss"], losses["pool"]["log_loss"])
                for name, found_ in losses.items():
                    ratio = round(found_["log_loss"] / max(better, 1e-9), 3)
                    yield {"K": K, "parameters": kind, "tasks": how, "transfer": name, "sets": len(true),
                           "ratio_to_better": ratio, "target": 1.05, **found_}  # fmt: skip


def same_mechanism(drawn: list[Drawn], i: int) -> bool:
    """Whether a variable has the same parents and strengths in all tasks.

    Numbers are standardised, so that a variable without parents is the same whatever its variance.
    """
    first = drawn[0]
    if any((task.network[:, i] != first.network[:, i]).any() for task in drawn):
        return False
    if isinstance(first.parameters[i], tuple) and not first.network[:, i].any():
        return True
    return all(
        np.array_equal(a, b)
        for task in drawn
        for a, b in zip(task.parameters[i], first.parameters[i], strict=True)
    )


def altered(drawn: list[Drawn]) -> Mask:
    """Edges of all tasks among the same parents, whose strengths are not the same in all of them."""
    nets = np.array([task.network for task in drawn])
    equal = (nets == nets[:1]).all(axis=(0, 1))
    other = np.array([equal[i] and not same_mechanism(drawn, i) for i in range(len(equal))])
    return np.asarray(nets.all(axis=0) & other)


def differences(networks: int) -> Iterator[dict[str, Any]]:
    """Connections said to be in one group and in no other, and those of all groups with other strengths."""
    for sizes in (*SIZES, (1000, 60, 60, 60, 60)):
        for kind in ("dirichlet 0.7", "weak"):
            for how in HOW:
                said: dict[str, list[Array]] = {name: [] for name in ("learned", "none")}
                true, strengths, really = [], [], []
                for number in range(networks):
                    drawn = drawn_tasks(how, sizes, kind, np.random.default_rng([number, 3]))
                    nets, stats = [t.network for t in drawn], [statistics(t, kind) for t in drawn]
                    up = np.triu_indices(len(nets[0]), 1)
                    A = altered(drawn)
                    really.append((A | A.T)[up])
                    joined = np.array([(A | A.T)[up] for A in nets])
                    true.append(joined & (joined.sum(axis=0) == 1))
                    for name in said:
                        table = learned(stats, name, kind)._differences.connections()
                        said[name].append(table.unique[:, up[0], up[1]])
                        if table.altered is not None:
                            strengths.append(table.altered[up])
                where = {"sizes": "/".join(map(str, sizes)), "parameters": kind, "tasks": how}
                for name, own in said.items():
                    yield {"what": "only in one", **where, "transfer": name, "fits": len(true),
                           **measured(own, true)}  # fmt: skip
                yield {"what": "other strengths", **where, "transfer": "learned", "fits": len(true),
                       **measured(strengths, really)}  # fmt: skip


def by_chains(networks: int) -> Iterator[dict[str, Any]]:
    """Two tasks by joint chains of a given length, which may not have mixed, and exactly."""
    chains = Chains(n_chains=4, n_steps=1000)
    for sizes in ((300, 300), (1000, 60)):
        for kind in ("dirichlet 0.7", "weak"):
            score = "bge" if kind == "weak" else "bdeu"
            for how in HOW:
                said: dict[tuple[str, str], list[Array]] = {}
                true: dict[str, list[Mask]] = {"edges": [], "only in one": []}
                for number in range(networks):
                    nets, stats = tasks(how, sizes, kind, np.random.default_rng([number, 5]))
                    inside, up = of_edges(len(nets[0])), np.triu_indices(len(nets[0]), 1)
                    joined = np.array([(A | A.T)[up] for A in nets])
                    true["edges"].append(np.array([A[inside] for A in nets]))
                    true["only in one"].append(joined & (joined.sum(axis=0) == 1))
                    for method in ("exact", "mcmc"):
                        model = MultitaskDiscovery(
                            criterion=score, max_parents=MOST, method=method, chains=chains, random_state=0
                        )
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore", ConvergenceWarning)
                            model.fit(stats)
                        own = np.array([p.probabilities[inside] for p in model.posteriors_])
                        only = model._differences.connections().unique[:, up[0], up[1]]
                        for what, values in (("edges", own), ("only in one", only)):
                            said.setdefault((what, method), []).append(values)
                for (what, method), values in said.items():
                    yield {"what": what, "sizes": "/".join(map(str, sizes)), "parameters": kind, "tasks": how,
                           "method": method, "sets": networks, **measured(values, true[what])}  # fmt: skip


class Setting(NamedTuple):
    """Networks of `bootstrap`: by the fair prior, or with a given number of edges; and how many rows."""

    variables: int
    edges: int | None
    rows: int

    @property
    def described(self) -> str:
        prior = "fair prior" if self.edges is None else f"{self.edges} edges"
        return f"{self.variables} variables, {prior}, {self.rows} rows"


SETTINGS = (
    Setting(5, None, 50),
    Setting(5, None, 500),
    Setting(8, 8, 50),
    Setting(8, 8, 500),
    Setting(8, 3, 50),
    Setting(8, 3, 500),
)


def mapped(said: list[Array], true: list[Mask], asked: Array) -> Array:
    """Frequencies as shares of true connections among such frequencies (isotonic regression)."""
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    fitted.fit(np.concatenate(said), np.concatenate(true).astype(float))
    return np.asarray(fitted.predict(asked), dtype=float)


def bootstrap(networks: int) -> Iterator[dict[str, Any]]:
    """Frequencies of connections over resamples of a search, mapped to probabilities, beside posteriors.

    A map is learned from all other settings, as somebody would have to who does not know the truth; and, as
    the best that a map can do, from the other half of the networks of the same setting.
    """
    learners = {"BOSS": BOSS(), "GES": GES()}
    true: dict[Setting, list[Mask]] = {}
    frequency: dict[tuple[str, Setting], list[Array]] = {}
    posterior: dict[Setting, list[Array]] = {}
    for setting in SETTINGS:
        n = setting.variables
        up = np.triu_indices(n, 1)
        for number in range(networks):
            rng = np.random.default_rng([number, 4, *(edge or 0 for edge in setting)])
            A, order = network(n, rng)
            if setting.edges is not None:
                A = np.zeros((n, n), dtype=bool)
                places = np.argwhere(np.triu(np.ones((n, n)), 1))
                for u, v in places[rng.choice(len(places), setting.edges, replace=False)]:
                    A[order[u], order[v]] = True
            X = rows_of(
                A, order, parameters(A, "weak", np.zeros(n), rng), setting.rows, np.zeros(n), "weak", rng
            )
            true.setdefault(setting, []).append((A | A.T)[up])
            for name, learner in learners.items():
                again = Bootstrap(learner, n_resamples=50, random_state=0).fit(X)
                frequency.setdefault((name, setting), []).append(again.confidence_.adjacent[up])
            P = BayesianDiscovery(criterion="bge", max_parents=MOST).fit(X).posterior_.probabilities
            posterior.setdefault(setting, []).append(either_way(P)[up])
    for setting in SETTINGS:
        truth, half = true[setting], networks // 2
        where = {"setting": setting.described, "networks": networks}
        for name in learners:
            own = frequency[name, setting]
            others = [other for other in SETTINGS if other != setting]
            said = [part for other in others for part in frequency[name, other]]
            told = [part for other in others for part in true[other]]
            elsewhere = [mapped(said, told, part) for part in own]
            here = [mapped(own[half:], truth[half:], part) for part in own[:half]]
            here += [mapped(own[:half], truth[:half], part) for part in own[half:]]
            for what, values in (("frequency", own), ("mapped by other settings", elsewhere),
                                 ("mapped by the same setting", here)):  # fmt: skip
                yield {**where, "learner": name, "what": what, **measured(values, truth)}
        yield {**where, "learner": "", "what": "posterior", **measured(posterior[setting], truth)}


PARTS = {
    "single": single,
    "tasks": several,
    "differences": differences,
    "chains": by_chains,
    "bootstrap": bootstrap,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--networks", type=int, default=40, help="drawn for each setting")
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    chosen = parser.parse_args()
    for part in chosen.part:
        rows = []
        for row in PARTS[part](chosen.networks):
            rows.append(row)
            print(
                ", ".join(f"{key} {value}" for key, value in row.items() if key != "reliability"), flush=True
            )
        keep(f"calibration_{part}", rows, machine("polydag"))


if __name__ == "__main__":
    main()
