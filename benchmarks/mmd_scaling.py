"""How the MMD's cost grows with the number of graphs: ours alone at 500 against 500, ours and the peer at fewer.

Run: python benchmarks/mmd_scaling.py --output results/bench-mmd-scaling.json
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import networkx as nx

import gln
from gln.bench.mmd import run
from gln.storage.provenance import write_result


def alone(graphs: int, nodes: int = 100) -> float:
    """Seconds for ``graphs`` against ``graphs`` networkx graphs, after a first call on few."""
    both = [[nx.gnp_random_graph(nodes, 0.08, seed=2 * i + j) for i in range(graphs)] for j in range(2)]
    gln.mmd(both[0][:5], both[1][:5])
    start = time.perf_counter()
    gln.mmd(*both)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    output = parser.parse_args().output
    rows = [run(graphs=graphs) for graphs in (20, 40, 80)]
    for row in rows:
        print(
            f"{row['settings']['graphs']:>4} against as many: {row['ratio']:.1f} times faster than the peer"
        )
    seconds = alone(500)
    print(f" 500 against as many: {seconds:.2f} s")
    if output:
        measured = {"rows": rows, "seconds_500_against_500": round(seconds, 2)}
        write_result(output, "python benchmarks/mmd_scaling.py", 0, measured)


if __name__ == "__main__":
    main()
