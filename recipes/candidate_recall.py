"""The ceiling of candidate models: what share of the true edges joins a node to one of its K nearest?

python recipes/candidate_recall.py --output results/candidate-recall.json
"""

from __future__ import annotations

from pathlib import Path

import torch

from gln.families import parse_family
from gln.graphs import GraphBatch
from gln.models.candidates import candidate_pairs, candidate_recall
from gln.storage.provenance import check_source, write_result
from shared import command, run_command

SEED = 99
COUNTS = {
    "delaunay:points=50": 300,
    "delaunay:points=80": 200,
    "delaunay:points=200": 60,
    "delaunay:points=1000": 10,
    "surfaces": 120,
    "surfaces:points=400": 60,
    "community": 60,
    "community:communities=4": 60,
    "figures": 30,
}
NEAREST = (8, 12, 16, 24, 32, 48, 64, 99)


def recall(spec: str, count: int, nearest: int) -> float:
    graphs = parse_family(spec).sample(count, SEED)
    batches = [GraphBatch.from_graphs(graphs[i : i + 10]) for i in range(0, count, 10)]
    found = [candidate_recall(candidate_pairs(b.pos, b.mask, nearest, listed=False), b.adj) for b in batches]
    return float(torch.cat(found).mean())


def candidate_recalls(output: Path) -> None:
    """Measure all families."""
    check_source(output)
    print(f"{'family':<26}" + "".join(f"{f'K={k}':>8}" for k in NEAREST))
    table = {}
    for spec, count in COUNTS.items():
        table[spec] = {str(k): round(recall(spec, count, k), 4) for k in NEAREST}
        print(f"{spec:<26}" + "".join(f"{value:>8.4f}" for value in table[spec].values()), flush=True)
    measured = {"what": "candidate recall, mean over graphs", "graphs": COUNTS, "recall": table}
    write_result(output, command(), SEED, measured)


if __name__ == "__main__":
    run_command(__doc__, candidate_recalls)
