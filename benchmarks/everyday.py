"""Tables as people have them, generated with known graphs: a census, cars, a clinic.

Numbers and labels, skewed and zero-inflated amounts, counts, ordered labels, curved relations, codes for
missing values (0, 9, `?`), and an identifier. BOSS with the defaults; `as it is` lets moments allow for empty
cells only, `check` does what `polydag check` advises for single columns (--na, --transform, --exclude,
--recode), and the others are what one would do without: rows with missing values dropped, labels as
indicator columns of their own, labels left out, or numbers cut into levels. Skeletons are compared; the
identifier belongs to no true edge. Seeds are from 100 on.

    python benchmarks/everyday.py [--seeds 5]
"""

from __future__ import annotations

import argparse
import re
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from keeping import keep, machine

from polydag import BOSS, GaussianStats, data
from polydag.data.discretize import discretize
from polydag.errors import DataError
from polydag.sources import InMemory
from polydag.stats.mixed import with_indicators

Rng = np.random.Generator
WAYS = ("as it is", "check", "complete rows", "dummies", "numbers only", "levels")


class Everyday(NamedTuple):
    """A table as it would be in a file, and its true connections."""

    frame: pd.DataFrame
    edges: tuple[tuple[str, str], ...]


def _choice(rng: Rng, signal: np.ndarray) -> np.ndarray:
    """A level for each row, by a multinomial logit."""
    return np.argmax(signal + rng.gumbel(size=signal.shape), axis=1)


def census(rng: Rng, n: int) -> Everyday:
    """Like the census table from which incomes are predicted."""
    age = (17 + rng.gamma(4, 6, n)).clip(17, 90).round()
    sex = rng.integers(0, 2, n)
    education = (
        (9 + 1.2 * rng.normal(size=n) - 0.04 * (age - 40) + 0.8 * rng.normal(size=n)).round().clip(1, 16)
    )
    marital = _choice(rng, np.outer((age - 35) / 8, [-1.0, 0.5, 0.6]))
    work = _choice(rng, np.outer(education - 9, [0.8, 0.0, -0.6, 0.3]) + np.outer(sex, [0.0, 1.2, -0.8, 0.4]))
    hours = (38 + 5 * sex + 7 * rng.standard_t(4, n)).clip(1, 99).round()
    gain = np.where(rng.random(n) < 0.15, np.exp(7 + 0.35 * (education - 9) + rng.normal(size=n)), 0).round()
    income = 0.05 * (age - 38) + 0.7 * (education - 9) + 0.06 * (hours - 40) + 1.2 * (marital == 1) - 1
    frame = pd.DataFrame(
        {
            "row_id": np.arange(n) + 10_000,
            "age": age,
            "sex": np.array(["F", "M"])[sex],
            "education": education,
            "marital": np.array(["single", "married", "widowed"])[marital],
            "occupation": np.array(["office", "craft", "service", "sales"])[work],
            "hours": hours,
            "capital_gain": gain,
            "income": np.where(income + rng.logistic(size=n) > 0, ">50K", "<=50K"),
        }
    )
    occupation = frame["occupation"].mask(rng.random(n) < 0.06, "?")
    edges = (("age", "education"), ("age", "marital"), ("education", "occupation"), ("sex", "occupation"),
             ("sex", "hours"), ("education", "capital_gain"), ("age", "income"), ("education", "income"),
             ("hours", "income"), ("marital", "income"))  # fmt: skip
    return Everyday(frame.assign(occupation=occupation), edges)


def cars(rng: Rng, n: int) -> Everyday:
    """Like the table of cars and their consumption; relations are products and ratios."""
    year, origin = rng.integers(70, 83, n), rng.integers(0, 3, n)
    cylinders = np.array([4, 6, 8])[_choice(rng, np.outer(origin == 0, [-1.0, 1.0, 1.5]))]
    displacement = 25 * cylinders**1.1 * np.exp(0.15 * rng.normal(size=n))
    power = 1.5 * displacement**0.8 * np.exp(0.15 * rng.normal(size=n) - 0.03 * (year - 76))
    weight = 250 * displacement**0.45 * np.exp(0.1 * rng.normal(size=n))
    seconds = 900 * (weight / 1000) ** 0.7 / power**0.9 * np.exp(0.08 * rng.normal(size=n))
    consumption = 60_000 / weight * np.exp(0.03 * (year - 76) + 0.1 * rng.normal(size=n))
    frame = pd.DataFrame(
        {
            "mpg": consumption.round(1),
            "cylinders": cylinders,
            "displacement": displacement.round(),
            "horsepower": pd.Series(power.round()).astype(object).mask(rng.random(n) < 0.04, "?"),
            "weight": weight.round(),
            "acceleration": seconds.round(1),
            "model_year": year,
            "origin": np.array(["USA", "Europe", "Japan"])[origin],
            "car_name": [f"car {k}" for k in range(n)],
        }
    )
    edges = (("origin", "cylinders"), ("cylinders", "displacement"), ("displacement", "horsepower"),
             ("model_year", "horsepower"), ("displacement", "weight"), ("weight", "acceleration"),
             ("horsepower", "acceleration"), ("weight", "mpg"), ("model_year", "mpg"))  # fmt: skip
    return Everyday(frame, edges)


def clinic(rng: Rng, n: int) -> Everyday:
    """A hospital's table: zeros and nines that mean "not measured", marked at random."""
    age, sex = (60 + 12 * rng.normal(size=n)).clip(20, 95), rng.integers(0, 2, n)
    smoker = _choice(rng, np.outer(sex, [-0.5, 0.3, 0.8]))
    bmi = 24 + 0.08 * (age - 60) + 3 * rng.normal(size=n)
    pressure = 128 + 0.6 * (age - 60) + 1.2 * (bmi - 24) + 10 * rng.normal(size=n)
    chol = 215 + 1.0 * (age - 60) + 30 * rng.normal(size=n)
    crp = np.exp(0.8 + 0.15 * (bmi - 24) + 0.5 * smoker + 0.7 * rng.normal(size=n))
    visits = rng.poisson(np.exp(0.3 + 0.35 * np.log(crp)))
    nyha = np.digitize(0.06 * (age - 60) + rng.logistic(size=n), [-1.0, 0.5, 2.0]) + 1
    died = 0.06 * (age - 60) + 0.9 * (nyha - 2) + rng.logistic(size=n) > 2
    frame = pd.DataFrame(
        {
            "patient_id": 1000 + rng.permutation(n),
            "age": age.round(),
            "sex": np.where(rng.random(n) < 0.1, np.array(["f", "m"])[sex], np.array(["F", "M"])[sex]),
            "smoker": np.array(["never", "ex", "current"])[smoker],
            "bmi": bmi.round(1),
            "pressure": pressure.round(),
            "chol": np.where(rng.random(n) < 0.12, 0, chol.round()),
            "crp": crp.round(2),
            "visits": visits,
            "nyha": np.where(rng.random(n) < 0.08, 9, nyha),
            "died": np.where(died, "yes", "no"),
        }
    )
    edges = (("sex", "smoker"), ("age", "bmi"), ("age", "pressure"), ("bmi", "pressure"), ("age", "chol"),
             ("bmi", "crp"), ("smoker", "crp"), ("crp", "visits"), ("age", "nyha"), ("age", "died"),
             ("nyha", "died"))  # fmt: skip
    return Everyday(frame, edges)


TABLES: dict[str, Callable[[Rng, int], Everyday]] = {"census": census, "cars": cars, "clinic": clinic}


def advised(path: Path, na: list[str]) -> dict[str, Any]:
    """The options that `check` names for single columns, as arguments of `data.read`."""
    found: dict[str, list[str]] = {"--na": list(na), "--transform": [], "--exclude": [], "--recode": []}
    for finding in data.check(data.read(path, missing="keep", na=na)).findings:
        for option, value in re.findall(
            r"(--na|--transform|--exclude|--recode) ('[^']*'|[^\s)]+)", finding.advice
        ):
            found[option] += [word.rstrip(",:;") for word in shlex.split(value)]
    transforms = dict(entry.rpartition("=")[::2] for entry in found["--transform"])
    coded = {entry.partition("=")[0] for entry in found["--na"]}
    return {
        "na": found["--na"],
        "exclude": found["--exclude"],
        "recode": found["--recode"],
        # A column that looked skewed by its codes is not transformed.
        "transforms": {k: v for k, v in transforms.items() if k not in {*coded, *found["--exclude"]}},
    }


def skeleton(graph: Any, owners: list[str]) -> set[frozenset[str]]:
    """The pairs that are connected, by the columns that they belong to."""
    A = graph.adjacency
    pairs = {frozenset((owners[i], owners[j])) for i, j in np.argwhere(A)}
    return {pair for pair in pairs if len(pair) == 2}


def found_by(way: str, path: Path, na: list[str], names: list[str]) -> set[frozenset[str]]:
    """The connections that one way finds."""
    if way == "check":
        model = BOSS().fit(InMemory(data.read(path, missing="keep", **advised(path, na)), missing="em"))
        return skeleton(model.graph_, list(model.graph_.names))
    text = names  # a name for each row belongs to no table that anybody would fit
    table = data.read(path, missing="keep", na=na, exclude=[own for own in text if own == "car_name"])
    if way in ("as it is", "complete rows"):
        how = "em" if way == "as it is" else "drop"
        model = BOSS().fit(InMemory(table, missing=how))
        return skeleton(model.graph_, list(model.graph_.names))
    if way == "numbers only":
        numbers = InMemory(table.frame[list(table.continuous)], missing="em")
        model = BOSS().fit(numbers)
        return skeleton(model.graph_, list(table.continuous))
    whole = data.read(path, missing="drop", na=na, exclude=[own for own in text if own == "car_name"])
    if way == "levels":
        cut = discretize(whole.frame, "quantile:4", list(whole.continuous)).astype(str)
        model = BOSS(criterion="bdeu").fit(cut)
        return skeleton(model.graph_, list(model.graph_.names))
    levels = {name: tuple(sorted(whole.frame[name].unique())) for name in whole.discrete}
    dummies = with_indicators(whole.frame, levels)
    dummies = dummies.loc[:, dummies.std() > 0]
    model = BOSS().fit(GaussianStats.from_data(dummies.astype(float)))
    return skeleton(model.graph_, [str(name).partition("=")[0] for name in dummies.columns])


def main() -> None:
    """Run all settings and keep their means."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=100)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        for name, make in TABLES.items():
            for n in (400, 2000):
                wrong: dict[str, list[tuple[int, float]]] = {}
                for seed in range(options.first, options.first + options.seeds):
                    table = make(np.random.default_rng(seed), n)
                    table.frame.to_csv(path, index=False)
                    na = ["?"] if (table.frame == "?").to_numpy().any() else []
                    true = {frozenset(edge) for edge in table.edges}
                    for way in WAYS:
                        try:
                            found = found_by(way, path, na, list(table.frame.columns))
                        except DataError as error:
                            print(name, n, way, error)
                            continue
                        f1 = 2 * len(true & found) / max(len(true) + len(found), 1)
                        wrong.setdefault(way, []).append((len(true ^ found), f1))
                for way in WAYS:
                    own = wrong.get(way, [])
                    errors, f1 = np.mean(own, axis=0).tolist() if own else (np.nan, np.nan)
                    rows.append({"table": name, "n": n, "way": way, "fits": len(own),
                                 "wrong_edges": round(errors, 1), "f1": round(f1, 2)})  # fmt: skip
                    print(rows[-1])
    keep("everyday", rows, machine())


if __name__ == "__main__":
    main()
