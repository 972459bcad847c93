"""Random tables, sources of them, and learners: every combination may be refused, none may break.

All draw from one generator, so that a seed repeats a case.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from polydag import (
    BOSS,
    GES,
    PC,
    AutoDAG,
    BayesianDiscovery,
    Bootstrap,
    Chains,
    EqualVariance,
    FederatedNotears,
    FreeStructure,
    GaussianStats,
    Knowledge,
    LinkedRows,
    LinkedRowsDAG,
    MultitaskDiscovery,
    Network,
    Notears,
    NotearsLagged,
    NotearsMLP,
    Parties,
    Privacy,
    RowDecorrelator,
    Similarity,
    Tasks,
    data,
)
from polydag.sources import Given, InMemory, LinkedStream, Source, Stream
from polydag.stats import DiscreteCounts, Regimes

Rng = np.random.Generator
ODD = ("scaled", "constant", "copy", "whole", "gaps", "infinite", "day", "truth", "empty")
NAMES = ("a", "b", "c d", "ü", 'q"', "e=f")
MISSING = ("error", "drop", "impute", "testwise", "em", "multiple")


def one(rng: Rng, *choices: Any) -> Any:
    """One of the choices, all equally likely."""
    return choices[int(rng.integers(len(choices)))]


def likely(rng: Rng, usual: Any, *others: Any, share: float = 0.7) -> Any:
    """The usual choice with some probability, otherwise one of the others."""
    return usual if rng.random() < share else one(rng, *others)


def a_table(rng: Rng, n: int | None = None, kind: str | None = None) -> pd.DataFrame:
    """Columns that depend on those before them: numbers of any size, labels, constants, copies, gaps."""
    n = int(likely(rng, 40, *range(8), 12, 90, share=0.6)) if n is None else n
    d = int(rng.integers(1, 6))
    kind = one(rng, "numbers", "numbers", "labels", "mixed", "mixed", "odd") if kind is None else kind
    hidden = rng.normal(size=(n, d))
    for j in range(1, d):
        hidden[:, j] += hidden[:, int(rng.integers(j))] * float(one(rng, 0.0, 0.8, -2.0))
    frame = pd.DataFrame(index=pd.RangeIndex(n))
    for j, name in enumerate(NAMES[:d]):
        sort = {"numbers": "number", "labels": "label"}.get(kind, one(rng, "number", "label"))
        if kind == "odd" and rng.random() < 0.5:
            sort = one(rng, *ODD)
        frame[name] = a_column(sort, hidden[:, j], frame, rng)
    return frame


def a_column(sort: str, x: np.ndarray, before: pd.DataFrame, rng: Rng) -> Any:
    """One column, of a latent number for each row."""
    labels = np.array(["no", "yes", "maybe", "ü"])
    match sort:
        case "label":
            return labels[np.clip(np.floor(x + 1), 0, int(rng.integers(1, 4))).astype(int)]
        case "scaled":
            scale = 10.0 ** float(rng.integers(-200, 200))
            return x * scale + float(one(rng, 0.0, 1e3, 1e12)) * scale
        case "constant":
            return np.full(len(x), one(rng, 0.0, -3.5, 1e200))
        case "copy" if len(before.columns) and before.iloc[:, -1].dtype.kind == "f":
            return before.iloc[:, -1].to_numpy() * -3 + x * float(one(rng, 0.0, 1e-14, 1e-7))
        case "whole":
            return np.round(x * float(one(rng, 1, 1, 1e6)))
        case "gaps":
            share = float(one(rng, 0.1, 0.5, 1.0))
            holes = rng.random(len(x)) < share
            words = pd.Series(labels[(x > 0).astype(int)], dtype=object)
            return np.where(holes, np.nan, x) if rng.random() < 0.6 else words.mask(holes)
        case "infinite":
            return np.where(x > 1, one(rng, np.inf, -np.inf), x)
        case "day":
            days = [datetime.datetime(2024, 1, 1) + datetime.timedelta(days=k) for k in range(len(x))]
            return pd.Series(days, dtype="datetime64[ns]")
        case "truth":
            return x > 0
        case "empty":
            return pd.Series([one(rng, None, np.nan)] * len(x), dtype=object)
    return x


def with_gaps(frame: pd.DataFrame, rng: Rng) -> pd.DataFrame:
    """The table with some of its cells missing."""
    return frame.mask(rng.random(frame.shape) < float(one(rng, 0.03, 0.1, 0.4)))


def contained(frame: pd.DataFrame, rng: Rng) -> Any:
    """The table in one of many containers."""
    match likely(rng, "frame", "array", "list", "arrow", "batch", "polars", "Table", "nullable", "object",
                 "category", "decimal", "float32", "index", share=0.4):  # fmt: skip
        case "array":
            return frame.to_numpy()
        case "list":
            return frame.to_numpy().tolist()
        case "arrow":
            return pa.Table.from_pandas(frame, preserve_index=False)
        case "batch":
            return pa.RecordBatch.from_pandas(frame, preserve_index=False)
        case "polars":
            import polars

            return polars.from_arrow(pa.Table.from_pandas(frame, preserve_index=False))
        case "Table":
            return data.from_frame(frame, missing=one(rng, "error", "drop", "impute", "keep"))
        case "nullable":
            return frame.convert_dtypes()
        case "object":
            return frame.astype(object)
        case "category":
            return frame.astype("category")
        case "decimal":
            return frame.map(lambda x: decimal.Decimal(f"{x:.3f}") if isinstance(x, float) and x == x else x)
        case "float32":
            with np.errstate(over="ignore"):  # 1e200 becomes infinite
                return frame.astype({name: "float32" for name in frame if frame[name].dtype.kind == "f"})
        case "index":
            return frame.set_index(pd.Index(rng.permutation(len(frame)) % 7))
    return frame


def some_kinds(frame: pd.DataFrame, rng: Rng) -> dict[str, Any] | None:
    """Declared kinds of some columns, or none."""
    if rng.random() < 0.8:
        return None
    return {str(name): one(rng, "continuous", "discrete") for name in frame if rng.random() < 0.5}


def in_memory(frame: pd.DataFrame, rng: Rng) -> Any:
    """A table in memory, by itself or with settings."""
    if rng.random() < 0.3:
        return contained(frame, rng)
    settings: dict[str, Any] = {"kinds": some_kinds(frame, rng), "random_state": int(rng.integers(3))}
    settings["missing"] = likely(rng, "error", *MISSING, share=0.4)
    settings["n_imputations"] = 2
    if settings["missing"] != "error" and rng.random() < 0.7:
        frame = with_gaps(frame, rng)
    if rng.random() < 0.25:
        settings["interventions"] = some_interventions(frame, rng)
    if rng.random() < 0.1:
        settings["blocks"] = (np.arange(len(frame)) // 3).tolist()
    return InMemory(contained(frame, rng), **settings)


def some_interventions(frame: pd.DataFrame, rng: Rng) -> list[Any]:
    """What was set in each row."""
    names = [str(name) for name in frame.columns]
    words: list[Any] = [[], names[:1], names[-1:], names[:2], names]
    words += likely(rng, [[]], ["none"], ["+".join(names)], [["nowhere"]], share=0.8)
    return [one(rng, *words) for _ in range(len(frame))]


def stored(frame: pd.DataFrame, folder: Path, rng: Rng) -> Path:
    """The table as a file."""
    number = sum(1 for _ in folder.iterdir())
    path = folder / f"{number}{one(rng, '.csv', '.parquet', '.feather', '.tsv')}"
    match path.suffix:
        case ".parquet":
            frame.to_parquet(path, row_group_size=one(rng, 7, 1000))
        case ".feather":
            frame.to_feather(path)
        case _:
            frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


def a_stream(frame: pd.DataFrame, folder: Path, rng: Rng) -> Stream:
    """The table as a stream; its labels are declared as such, most of the time."""
    labels = {str(name): "discrete" for name in frame if frame[name].dtype.kind not in "iufb"}
    kinds: Any = labels if rng.random() < 0.8 else some_kinds(frame, rng)
    columns = None if rng.random() < 0.8 else [str(name) for name in frame.columns[1:]]
    return Stream(stored(frame, folder, rng), columns=columns, kinds=kinds)


def linked(frame: pd.DataFrame, rng: Rng) -> LinkedRows:
    """Linked rows: groups, pairs of rows, places or a covariance, with any structure."""
    n = len(frame)
    how: dict[str, Any] = {}
    labels = [f"g{k // int(one(rng, 1, 2, 4, 9, 100))}" for k in range(n)]
    match int(rng.integers(6)):
        case 0 | 1:
            how["groups"] = labels
            if rng.random() < 0.3:
                how["time"] = one(rng, list(range(n)), [0] * n, rng.normal(size=n).tolist())
        case 2:
            frame = frame.assign(school=labels)
            how["groups"] = "school"
        case 3:
            pairs = rng.integers(0, max(n, 1), (int(one(rng, 0, 5, n)), 2)).tolist()
            how["links"] = one(rng, pairs, [pair for pair in pairs if pair[0] != pair[1]])
        case 4:
            how["coordinates"] = rng.normal(size=(n, 2)) * float(one(rng, 0, 1, 1e9))
            how["neighbours"] = int(likely(rng, 3, 1, 50, share=0.8))
        case 5:
            loadings = rng.normal(size=(n, 3))
            how["covariance"] = loadings @ loadings.T + np.eye(n) * float(one(rng, 0, 0.1, 1))
            how["share"] = one(rng, None, None, 0.0, 0.5, 1.0)
    if "covariance" not in how:
        structures = ("common", "decay", "matern", "smooth", "block", "kinds", "free", "independent")
        how["structure"] = likely(rng, "auto", *structures, share=0.4)
        how["correlation"] = likely(rng, None, 0.0, 0.4, -0.2, 0.999, share=0.8)
        how["free"] = FreeStructure(lambda2=one(rng, 0.01, 0.0, 10.0), n_orders=1)
    how["labels"] = likely(rng, "indicators", "latent")
    how["kinds"] = some_kinds(frame, rng)
    how["covariates"] = likely(
        rng, None, list(map(str, frame.columns[:1])), rng.normal(size=(n, 1)), share=0.8
    )
    rows = in_memory(frame, rng) if rng.random() < 0.3 else contained(frame, rng)
    return LinkedRows(rows, random_state=0, **how)


def linked_stream(frame: pd.DataFrame, folder: Path, rng: Rng) -> LinkedStream:
    """Groups of rows in a file; of numbers, most of the time."""
    numbers = frame.select_dtypes("number")
    frame = numbers if len(numbers.columns) and rng.random() < 0.9 else frame
    groups = np.arange(len(frame)) // int(one(rng, 1, 2, 4, 100))
    words: Any = one(rng, groups, [f"g{k}" for k in groups], rng.permutation(groups), groups * 0.5)
    frame = frame.assign(school=words)
    if len(frame) and rng.random() < 0.1:
        frame.loc[frame.index[:1], "school"] = None
    correlation = likely(rng, None, 0.0, 0.5, -0.4, 0.99, share=0.7)
    address = stored(frame, folder, rng) if rng.random() < 0.9 else None
    stream = a_stream(frame, folder, rng) if address is None else Stream(address)
    return LinkedStream(stream, groups="school", correlation=correlation)


def statistics(frame: pd.DataFrame, rng: Rng) -> Any:
    """Statistics as given: of the table, or of no table at all."""
    d = int(rng.integers(1, 5))
    half = rng.normal(size=(d, d)) * 10.0 ** float(likely(rng, 0, -150, 150))
    scatter = one(rng, half @ half.T, half + half.T, np.zeros((d, d)), half, np.full((d, d), np.nan))
    match int(rng.integers(5)):
        case 0:
            return GaussianStats.from_data(frame)
        case 1:
            return DiscreteCounts.from_data(frame)
        case 2:
            return Regimes.from_data(
                frame, some_interventions(frame, rng), one(rng, GaussianStats, DiscreteCounts).from_data
            )
        case 3:
            n = float(one(rng, 50, 2, 1, 0, -3, np.nan, np.inf, 1e18))
            return GaussianStats(n, rng.normal(size=d), scatter, NAMES[:d], mass=n)
    return Given(GaussianStats.from_data(frame))


def a_source(folder: Path, rng: Rng, frame: pd.DataFrame | None = None) -> Any:
    """A source of one table."""
    frame = a_table(rng) if frame is None else frame
    match int(rng.integers(9)):
        case 0:
            return linked(frame, rng)
        case 1:
            return linked_stream(frame, folder, rng)
        case 2:
            return a_stream(frame, folder, rng)
        case 3:
            return statistics(frame, rng)
        case 4 | 5:
            return parties(folder, rng)
    return in_memory(frame, rng)


def similar_tables(rng: Rng, count: int) -> list[pd.DataFrame]:
    """Tables with the same columns; sometimes in another order, or with one more or less."""
    whole = a_table(rng, n=int(one(rng, 6, 40, 120)))
    cuts = np.sort(rng.integers(0, len(whole) + 1, count - 1))
    rows = np.arange(len(whole))
    places = np.split(rows, cuts) if rng.random() < 0.3 else [rows[k::count] for k in range(count)]
    parts = [whole.iloc[own].reset_index(drop=True) for own in places]
    if rng.random() < 0.2:
        parts[0] = parts[0][parts[0].columns[::-1]]
    if rng.random() < 0.1:
        parts[-1] = parts[-1].drop(columns=parts[-1].columns[0])
    return parts


def parties(folder: Path, rng: Rng) -> Parties:
    """Parties whose rows are in memory, linked, or streams, under all settings."""
    tables = similar_tables(rng, int(likely(rng, 3, 1, 2, 4)))
    each = one(rng, "memory", "memory", "memory", "linked", "linked stream", "stream", "statistics", "any")
    missing = likely(rng, "error", *MISSING, share=0.4)
    holes = missing != "error" and rng.random() < 0.8
    interventions = rng.random() < 0.3

    def own(frame: pd.DataFrame) -> Any:
        match each:
            case "linked":
                return linked(frame, rng)
            case "linked stream":
                return linked_stream(frame, folder, rng)
            case "stream":
                return a_stream(frame, folder, rng)
            case "statistics":
                return statistics(frame, rng)
            case "any":
                return a_source(folder, rng, frame)
        told = some_interventions(frame, rng) if interventions else None
        frame = with_gaps(frame, rng) if holes else frame
        return InMemory(frame, missing=missing, n_imputations=2, random_state=0, interventions=told)

    epsilon = likely(rng, None, 0.1, 5.0, share=0.9)
    privacy = Privacy(
        mode=likely(rng, "masked", "none"),
        epsilon=epsilon,
        bounds=None if epsilon is None else one(rng, None, (-5, 5), (0, 0.1)),
    )
    found = Parties(
        [own(frame) for frame in tables],
        privacy=privacy,
        site_effects=one(rng, "means", "none", "means and scales", "random"),
        min_rows=int(likely(rng, 1, 0, 20)),
    )
    match int(rng.integers(8)):
        case 0:
            return found.discretized(one(rng, "quantile:3", "interval:2"))
        case 1:
            return found.with_normal_scores(list(found.names[:2]))
        case 2:
            return found.resampled(rng)
    return found


def tasks(folder: Path, rng: Rng) -> Any:
    """Tasks of any sources."""
    if rng.random() < 0.1:
        return parties(folder, rng).as_tasks()
    tables = similar_tables(rng, int(likely(rng, 2, 1, 3)))
    each = one(rng, "memory", "memory", "any", "linked", "stream")

    def own(frame: pd.DataFrame) -> Any:
        match each:
            case "any":
                return a_source(folder, rng, frame)
            case "linked":
                return linked(frame, rng)
            case "stream":
                return a_stream(frame, folder, rng)
        return in_memory(frame, rng)

    return Tasks([own(frame) for frame in tables])


def knowledge(names: tuple[str, ...], rng: Rng) -> Knowledge | None:
    """Required and forbidden edges and tiers, sometimes of variables that do not exist."""
    if rng.random() < 0.7:
        return None
    names = (*names, "nowhere") if rng.random() < 0.1 else names
    pairs = [(one(rng, *names), one(rng, *names)) for _ in range(3)]
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    cut = int(rng.integers(len(names) + 1))
    return one(
        rng,
        Knowledge(forbidden=pairs),
        Knowledge(required=pairs[:1]),
        Knowledge(tiers=[names[:cut], names[cut:]]),
        Knowledge(forbidden=[(a, b) for a in names for b in names if a != b]),
    )


def a_search(rng: Rng, known: Knowledge | None) -> Any:
    """GES or BOSS with any criterion."""
    criterion = likely(rng, "auto", "bic", "bge", "bdeu", "bds", "k2", "dg", "cg", share=0.5)
    options = {
        "bge": [None, {"alpha_mu": 0.1}, {"alpha_w": 1e6}],
        "bdeu": [None, {"equivalent_sample_size": 1e-3}, {"equivalent_sample_size": 1e9}],
    }
    return one(rng, BOSS, GES)(
        criterion=criterion,
        criterion_options=one(rng, *options.get(criterion, [None])),
        penalty=likely(rng, "auto", 0.0, 1, 1e6),
        max_parents=one(rng, None, 0, 1, 5),
        knowledge=known,
    )


def a_posterior(rng: Rng, known: Knowledge | None) -> Any:
    """The posterior, exact or by short chains."""
    method = one(rng, "auto", "exact", "mcmc")
    return BayesianDiscovery(
        criterion=one(rng, "bge", "bdeu", "bic", "dg", "k2", "bds"),
        method=method,
        over=likely(rng, "orders", "dags"),
        max_parents=int(one(rng, 0, 1, 3, 9)),
        chains=Chains(n_chains=2, n_steps=int(one(rng, 20, 200)), bucket_size=int(one(rng, 1, 2, 10))),
        structure_prior=one(rng, "fair", "uniform"),
        discretize=likely(rng, None, "quantile:3", "interval:2"),
        max_candidates=one(rng, "auto", None, 1),
        threshold=float(one(rng, 0.5, 0.0, 1.0)),
        random_state=0,
        knowledge=known,
    )


def many_tasks(rng: Rng, known: Knowledge | None) -> MultitaskDiscovery:
    """The posterior over tasks, with every transfer."""
    transfer = one(rng, "learned", "family", "theorem1", "none", "pool")
    similarity = Similarity()
    if rng.random() < (0.5 if transfer in ("family", "theorem1") else 0.05):
        similarity = Similarity(
            lambda_=one(rng, "average", 0.0, 0.3, 1.0),
            normaliser=one(rng, "all", "truncated"),
            combination=one(rng, "star", "product"),
        )
    return MultitaskDiscovery(
        transfer=transfer,
        similarity=similarity,
        criterion=one(rng, "bge", "bdeu", "dg", "bic", "k2"),
        method=likely(rng, "auto", "mcmc", "exact"),
        chains=Chains(n_chains=2, n_steps=100, bucket_size=2),
        max_parents=int(one(rng, 0, 1, 3)),
        discretize=likely(rng, None, "quantile:3", share=0.9),
        random_state=0,
        knowledge=known,
    )


def over_parties(rng: Rng, known: Knowledge | None) -> FederatedNotears:
    """What exchanges parameters, with little to do."""
    model = likely(rng, "linear", "mlp", "lagged", "masked", share=0.8)
    return FederatedNotears(
        method=one(rng, "admm", "fedavg", "varying", "voting"),
        model=model,
        network=Network(hidden=1),
        lambda_=likely(rng, 0.1, "bic", 0.0, 1e6),
        participation=likely(rng, 1.0, 0.5, share=0.9),
        random_state=0,
        knowledge=known,
    )


LEARNERS: dict[str, Callable[[Rng, Knowledge | None], Any]] = {
    "search": a_search,
    "pc": lambda rng, known: PC(
        alpha=likely(rng, 0.01, "auto", 0.5, 1e-12),
        test=likely(rng, "auto", "fisher-z", "g2", "dg", "cg"),
        colliders=one(rng, "majority", "conservative"),
        max_conditioning=one(rng, None, 0, 1),
        knowledge=known,
    ),
    "notears": lambda rng, known: Notears(lambda_=likely(rng, "bic", 0.0, 0.1, 1e6), knowledge=known),
    "equal variance": lambda rng, known: EqualVariance(gamma=one(rng, 0.0, 1.0), knowledge=known),
    "auto": lambda rng, known: AutoDAG(knowledge=known),
    "posterior": a_posterior,
    "linked": lambda rng, known: LinkedRowsDAG(
        lambda_=likely(rng, "bic", 0.0, 0.1, 1e6), extended=bool(rng.random() < 0.5), max_rounds=2,
        learner=likely(rng, None, BOSS(), EqualVariance()), random_state=0,
    ),
    "lagged": lambda rng, known: NotearsLagged(int(one(rng, 1, 2)), lambda_=0.1, knowledge=known),
    "mlp": lambda rng, known: NotearsMLP(hidden=1, lambda_=0.5, random_state=0, knowledge=known),
    "decorrelator": lambda rng, known: RowDecorrelator(structure=one(rng, "common", "auto", "free")),
    "bootstrap": lambda rng, known: Bootstrap(
        LEARNERS[one(rng, "search", "pc", "equal variance", "posterior")](rng, known),
        n_resamples=2, random_state=0,
    ),
    "tasks": many_tasks,
    "parties": over_parties,
}  # fmt: skip
WEIGHTS = {"search": 6, "pc": 3, "posterior": 3, "tasks": 4, "parties": 2, "mlp": 0.3}


def a_learner(rng: Rng) -> tuple[str, Any]:
    """A learner with settings at random."""
    weights = np.array([WEIGHTS.get(name, 1.0) for name in LEARNERS])
    name = str(rng.choice(list(LEARNERS), p=weights / weights.sum()))
    return name, LEARNERS[name](rng, knowledge(NAMES[: int(rng.integers(1, 4))], rng))


def data_for(learner: str, folder: Path, rng: Rng) -> Any:
    """Data in a shape that the learner takes, most of the time."""
    wanted = {"tasks": tasks, "parties": parties, "decorrelator": a_frame, "linked": a_linked}
    if learner in wanted and rng.random() < 0.95:
        return wanted[learner](folder, rng)
    if learner == "bootstrap" and rng.random() < 0.2:
        return tasks(folder, rng)
    return a_source(folder, rng)


def a_frame(folder: Path, rng: Rng) -> Any:
    return contained(a_table(rng), rng)


def a_linked(folder: Path, rng: Rng) -> Source:
    return linked(a_table(rng), rng)
