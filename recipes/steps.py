"""How good the structure is after every step: the shipped models, stopped early.

python recipes/steps.py --output results/steps.json
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gln
from gln.families import parse_family
from gln.storage.provenance import write_result

SEED = 1_000_003  # not used for training or tuning
TESTS = [
    ("delaunay", "delaunay:points=50", 100),
    ("delaunay", "delaunay:points=120", 20),
    ("surfaces", "surfaces", 36),
    ("community", "community:communities=4", 20),
    ("figures", "figures", 20),
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    start, rows = time.perf_counter(), []
    for name, spec, count in TESTS:
        model, truths = gln.load(name), parse_family(spec).sample(count, SEED)
        steps = range(1, model.steps + 1)
        found = [gln.edge_scores(truths, gln.predict(model, truths, steps=step))["dice"] for step in steps]
        rows.append({"model": name, "family": spec, "graphs": count, "dice": [round(f, 4) for f in found]})
        print(rows[-1], flush=True)
    measured = {
        "what": "F1 after step 1, 2, …, mean over graphs, each at the threshold stored with the model",
        "seconds": round(time.perf_counter() - start, 1),
        "rows": rows,
    }
    write_result(output, "python recipes/steps.py --output results/steps.json", SEED, measured)


if __name__ == "__main__":
    main()
