"""How good the structure is after every step: the shipped models, stopped early.

python recipes/steps.py --output results/steps.json
"""

from __future__ import annotations

import time
from pathlib import Path

import gln
from gln.families import parse_family
from gln.storage.provenance import check_source, write_result
from shared import TEST_SEED, command, run_command

TESTS = [
    ("delaunay", "delaunay:points=50", 100),
    ("delaunay", "delaunay:points=120", 20),
    ("surfaces", "surfaces", 36),
    ("community", "community:communities=4", 20),
    ("figures", "figures", 20),
]


def steps_of_models(output: Path) -> None:
    """Measure all models."""
    check_source(output)
    start, rows = time.perf_counter(), []
    for name, spec, count in TESTS:
        model, truths = gln.load(name), parse_family(spec).sample(count, TEST_SEED)
        steps = range(1, model.steps + 1)
        found = [gln.edge_scores(truths, gln.predict(model, truths, steps=step))["dice"] for step in steps]
        rows.append({"model": name, "family": spec, "graphs": count, "dice": [round(f, 4) for f in found]})
        print(rows[-1], flush=True)
    measured = {
        "what": "F1 after step 1, 2, …, mean over graphs, each at the threshold stored with the model",
        "seconds": round(time.perf_counter() - start, 1),
        "rows": rows,
    }
    write_result(output, command(), TEST_SEED, measured)


if __name__ == "__main__":
    run_command(__doc__, steps_of_models)
