"""Heart disease at four hospitals: what they share and what they do not (data in POLYDAG_DATA)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from polydag import Knowledge, MultitaskDiscovery
from polydag.plot.heatmaps import Map, heat_maps

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
# Age and sex come first; symptoms and findings of the exercise test do not cause the disease.
ORDER = [["age", "sex"], ["disease"], ["pain", "ecg", "rate", "angina", "st"]]


def levels(table: pd.DataFrame) -> pd.DataFrame:
    """The columns that every hospital has, in clinical levels; rows with missing values are left out."""
    t = table[["age", "sex", "cp", "restecg", "thalach", "exang", "oldpeak", "num"]].dropna()
    return pd.DataFrame(
        {
            "age": pd.cut(t["age"], [0, 50, 60, 120], labels=["to 50", "to 60", "older"]),
            "sex": t["sex"].map({0: "female", 1: "male"}),
            "pain": t["cp"].map({1: "typical", 2: "atypical", 3: "other", 4: "none"}),
            "ecg": t["restecg"].map({0: "normal", 1: "ST-T", 2: "hypertrophy"}),
            "rate": pd.cut(t["thalach"], [0, 130, 150, 250], labels=["to 130", "to 150", "higher"]),
            "angina": t["exang"].map({0: "no", 1: "yes"}),
            "st": pd.cut(t["oldpeak"], [-10, 0, 1, 10], labels=["none", "to 1", "more"]),
            "disease": np.where(t["num"] > 0, "yes", "no"),
        }
    )


def main() -> None:
    """Alone, and with the joint posterior of Theorem 1."""
    folder = Path(os.environ["POLYDAG_DATA"]) / "heart"
    tables = {name: levels(pd.read_csv(folder / f"heart_{name}.csv")) for name in HOSPITALS}
    for name, table in tables.items():
        print(f"{name}: {len(table)} patients, {(table['disease'] == 'yes').mean():.0%} with the disease")
    inside = [f"in {name}" for name in HOSPITALS]
    known = Knowledge(tiers=ORDER)
    for transfer in ("none", "theorem1"):
        model = MultitaskDiscovery(transfer=transfer, criterion="bdeu", knowledge=known).fit(tables)
        table = model.differences_
        likely = table[table[inside].max(axis=1) > 0.5].sort_values(inside, ascending=False)
        print(f"\ntransfer = {transfer}: edges more probable than 0.5 somewhere ({likely['basis'].iloc[0]})")
        print(likely[["source", "target", *inside, "shared"]].round(2).to_string(index=False))
    pair = model.difference("cleveland", "hungarian").head(3)
    print("\nMost probably in one of the two large hospitals and not in the other:")
    print(pair.drop(columns=["shared", "basis"]).round(2).to_string(index=False))
    maps = [Map(name, p.probabilities) for name, p in zip(HOSPITALS, model.posteriors_, strict=True)]
    Path("hospitals.svg").write_text(heat_maps(model.posteriors_[0].names, maps), encoding="utf-8")


if __name__ == "__main__":
    main()
