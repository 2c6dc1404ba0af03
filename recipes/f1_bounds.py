"""Which F1 a published accuracy allows on the Delaunay benchmark: python recipes/f1_bounds.py

With ``E`` true entries of n² and some wrong ones, F1 is lowest if these are all missing edges and highest if all are
extra. Published is the mean accuracy over sets, rounded to three digits. If every set has that accuracy, this bounds
the mean F1 (``f1``). If nothing is known about single sets, the bounds are wider (``strict``): F1 falls slowest per
wrong entry where a set is given every edge there could be, and fastest where it is given none.
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


def bounds(graphs: list, accuracy: float) -> dict[str, list[float]]:
    """The lowest and the highest mean F1."""
    low, high = [], []
    shares = [graph.num_edges / graph.num_nodes**2 for graph in graphs]
    most, least = 1 - accuracy + ROUNDED, 1 - accuracy - ROUNDED  # shares of wrong entries
    for share in shares:
        low.append(f1(max(share - most, 0), most))
        high.append(f1(share, least))
    strict = [1 - most / min(shares), 1 - least / (1 + max(shares))]
    found = {"f1": [mean(low), mean(high)], "strict": strict}
    return {name: [round(bound, 4) for bound in values] for name, values in found.items()}


def main() -> None:
    found = []
    for points, systems in PUBLISHED.items():
        graphs = gln.family("delaunay", points=points).graphs(SETS, TEST_SEED)
        for system, accuracy in systems.items():
            found.append(
                {"system": system, "points": points, "accuracy": accuracy} | bounds(graphs, accuracy)
            )
            print(found[-1])
    write_result(
        RESULTS / "delaunay-f1-bounds.json", "python recipes/f1_bounds.py", TEST_SEED, {"rows": found}
    )


if __name__ == "__main__":
    main()
