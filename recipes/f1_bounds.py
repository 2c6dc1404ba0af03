"""Which F1 a published accuracy allows on the Delaunay benchmark: python recipes/f1_bounds.py

With ``E`` true entries of n² and some wrong ones, F1 is lowest if these are all missing edges and highest if all are
extra. That needs the accuracy of every set; published is the mean, rounded to three digits. So the bounds are strict
(but for the rounding, which they include) for sets of one size, whose E hardly varies, and hold for 20 to 80 points if
every set has the same accuracy.
"""

from __future__ import annotations

from statistics import mean

import gln
from gln.seeds import TEST_SEED
from gln.storage.provenance import write_result
from shared import RESULTS

PUBLISHED = {
    50: {"Set2Graph 2020": 0.984, "HOT 2021": 0.994},
    (20, 80): {"Set2Graph 2020": 0.947, "HOT 2021": 0.993},
}
ROUNDED = 0.0005
SETS = 5000


def f1(found: float, wrong: float) -> float:
    return 2 * found / (2 * found + wrong)


def bounds(graphs: list, accuracy: float) -> list[float]:
    """The lowest and the highest mean F1."""
    low, high = [], []
    for graph in graphs:
        entries, true = graph.num_nodes**2, graph.num_edges
        most, least = ((1 - accuracy + shift) * entries for shift in (ROUNDED, -ROUNDED))
        low.append(f1(max(true - most, 0), most))
        high.append(f1(true, least))
    return [round(mean(low), 4), round(mean(high), 4)]


def main() -> None:
    found = []
    for points, systems in PUBLISHED.items():
        graphs = gln.family("delaunay", points=points).graphs(SETS, TEST_SEED)
        for system, accuracy in systems.items():
            low, high = bounds(graphs, accuracy)
            found.append({"system": system, "points": points, "accuracy": accuracy, "f1": [low, high]})
            print(f"{system:<16}{points!s:<10}accuracy {accuracy}  F1 {low} to {high}")
    write_result(
        RESULTS / "delaunay-f1-bounds.json", "python recipes/f1_bounds.py", TEST_SEED, {"rows": found}
    )


if __name__ == "__main__":
    main()
