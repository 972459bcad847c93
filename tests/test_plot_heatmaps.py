"""Heat maps: names are distinguishable, every cell has a tooltip, and titles fit."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
from numpy.typing import NDArray

from polydag.plot.heatmaps import Map, heat_maps
from polydag.plot.svg_style import text_width

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    """The visible text, without tooltips."""
    found = []
    for element in ElementTree.fromstring(picture).iter(f"{SVG}text"):
        title = element.find(f"{SVG}title")
        found.append((element.text if title is None else title.tail) or "")
    return found


def told(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter(f"{SVG}title")]


def random_map(d: int, seed: int = 0) -> NDArray[np.float64]:
    P = np.random.default_rng(seed).random((d, d))
    np.fill_diagonal(P, 0.0)
    return P


def test_long_names_keep_both_ends_and_are_told_in_full() -> None:
    names = [f"systolic_blood_pressure_{k}" for k in range(30)]
    picture = heat_maps(names, [Map("one", np.zeros((30, 30)))])
    labels = [text for text in texts(picture) if text.startswith("systolic")]
    assert len(labels) == 60
    assert len(set(labels)) == 30
    assert set(told(picture)) == set(names)


def test_every_drawn_cell_tells_its_variables_and_its_value() -> None:
    first, second = np.zeros((2, 50, 50))
    first[0, 1], second[0, 1], second[2, 0], second[3, 4] = 0.25, 0.93, 0.5, 0.001
    names = ["a&b", *(f"v{k}" for k in range(1, 50))]
    picture = heat_maps(names, [Map("one", first), Map("two", second)])
    assert "v1" not in texts(picture)  # too many to be written beside the maps
    difference = ["a&b → v1 −0.68", "v2 → a&b −0.50"]
    assert told(picture) == ["a&b → v1 0.25", "a&b → v1 0.93", "v2 → a&b 0.50", *difference]
    assert "a&b → v1 +0.68" in told(heat_maps(names, [Map("two", second), Map("one", first)]))


def test_titles_are_cut_to_their_room() -> None:
    long = ["patients of the university hospital, " * 3, "年" * 60]
    maps = [Map(title, random_map(3, k)) for k, title in enumerate(long)]
    picture = heat_maps("abc", maps)
    shown = [text for text in texts(picture) if "…" in text]
    assert len(shown) == 3
    assert all(text_width(text, 11) <= 314 for text in shown)
    assert " − " in shown[2]  # a difference shows both names
    assert {*long, " − ".join(long)} <= set(told(picture))


def test_symmetric_maps_are_about_connections() -> None:
    P = random_map(4) / 2
    assert "row – column" in heat_maps("abcd", [Map("one", P + P.T)] * 2)
    assert "a – b" in heat_maps("abcd", [Map("one", P + P.T)])
    assert "row → column" in heat_maps("abcd", [Map("one", P + P.T), Map("two", P)])
    assert "row → column" in heat_maps("abcd", [Map("one", 0 * P)])


def test_what_many_maps_differ_by_is_named() -> None:
    maps = [Map(f"t{k}", random_map(3, k)) for k in range(3)]
    assert "largest − smallest" in texts(heat_maps("abc", maps))


def test_a_dense_map_of_many_regions_stays_a_reasonable_file() -> None:
    names = [f"Temporal_Sup_{k}_L" for k in range(150)]
    assert len(heat_maps(names, [Map("one", random_map(150))]).encode()) < 4e6
