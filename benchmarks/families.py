"""Seconds to draw the paper's amounts of graphs, and the ratio to the time allowed.

Run: python benchmarks/families.py --output results/bench-families.json
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from gln.families import parse_family
from gln.storage.provenance import write_result

# family, graphs, seconds allowed on two cores
CASES = [
    ("figures", 3000, 10),
    ("surfaces:points=400", 1200, 10),
    ("delaunay", 50_000, 60),
    ("community", 300, None),
    ("community:communities=4", 500, None),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path)
    words = parser.parse_args()
    rows = []
    print(f"{'family':<26}{'graphs':>8}{'seconds':>9}{'allowed':>9}{'allowed/seconds':>17}")
    for spec, count, allowed in CASES:
        family = parse_family(spec)
        start = time.perf_counter()
        family.sample(count, seed=0, workers=words.workers)
        seconds = time.perf_counter() - start
        ratio = f"{allowed / seconds:.1f}×" if allowed else "–"
        print(f"{spec:<26}{count:>8}{seconds:>9.2f}{allowed or '–':>9}{ratio:>17}")
        rows.append({"family": spec, "graphs": count, "seconds": round(seconds, 2), "allowed": allowed})
    if words.output:
        write_result(
            words.output, "python benchmarks/families.py", 0, {"workers": words.workers, "rows": rows}
        )


if __name__ == "__main__":
    main()
