"""The commands of the guides on this machine as it is, and while a process spins on every core."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.cold import measured

SEED = 0
ALLOWED_CPU, ALLOWED_WALL = 1.2, 3.0
# As in the guides, with less data and fewer epochs; the first pass, in which numba compiles, is not counted.
DATA = (
    "write --count 60 molecules data/molecules",
    "write --count 300 meshes data/meshes",
    "write photos data/photos",
    "write --count 60 digits data/digits",
)
LEARNER = """
import numpy as np, gln
rng = np.random.default_rng(0)
sets = [rng.normal(size=(12, 2)) for _ in range(40)]
edges = [np.argwhere(np.triu(np.linalg.norm(s[:, None] - s, axis=-1) < 1, 1)) for s in sets]
gln.GraphLearner(epochs=5, random_state=0).fit(sets, edges).predict(sets)
"""
COMMANDS = (
    "train data/molecules/train -o runs/molecules --epochs 3",
    "predict runs/molecules data/molecules/new.xyz -o bonds.csv",
    "predict runs/molecules data/molecules/test -o test.csv",
    "train data/meshes/train -o runs/meshes --patches 40 --model GLN:candidates=16 --epochs 1 --lr 2e-3 "
    "--edge-loss plain",
    "predict runs/meshes data/meshes/test -o edges.ply",
    "predict figures data/photos/flower.png -o flower.npz --image-size 32 --threshold 0.99",
    "train data/digits/train -o runs/digits --epochs 5 --edge-loss plain",
    "predict runs/digits data/digits/test/nodes.csv -o same-digit.csv",
    "evaluate delaunay --on delaunay:points=30 --count 40",
)


def run(repeats: int = 3) -> dict[str, Any]:
    """Run all commands in turns on the machine as it is and loaded, each in a process of its own.

    Args:
        repeats: how many times; the medians count.
    """
    calls = {f"gln {words}": ["-m", "gln", *words.split()] for words in COMMANDS}
    calls["GraphLearner().fit(…).predict(…)"] = ["-c", LEARNER]
    with TemporaryDirectory(prefix="gln-") as place:
        for words in DATA:
            program = Path(__file__).parents[1] / "recipes/real_data.py"
            subprocess.run([sys.executable, program, *words.split()], cwd=place, check=True)
        one_pass(calls, place)
        passes = []
        for _ in range(repeats):
            quiet = one_pass(calls, place)
            with spinners():
                passes.append((quiet, one_pass(calls, place)))
    rows = [compare(words, [(quiet[words], loaded[words]) for quiet, loaded in passes]) for words in calls]
    return {"name": "loaded", "rows": rows, "settings": {"repeats": repeats, "cores": cores(), "seed": SEED}}


def one_pass(calls: dict[str, list[str]], data: str) -> dict[str, dict[str, float]]:
    """Every command once, in a new folder: seconds by the clock and by the CPU, cores that others kept busy."""
    found = {}
    with TemporaryDirectory(prefix="gln-") as place:
        Path(place, "data").symlink_to(Path(data, "data"))
        for words, call in calls.items():
            before = busy()
            seconds, cpu = measured(call, place, check=True)
            found[words] = {"seconds": seconds, "cpu": cpu, "others": (busy() - before - cpu) / seconds}
    return found


def compare(words: str, pairs: list[tuple[dict[str, float], dict[str, float]]]) -> dict[str, Any]:
    """One row: medians of both, and the medians of their ratios."""
    facts: dict[str, Any] = {"command": words}
    for name, both in zip(("as_is", "loaded"), zip(*pairs, strict=True), strict=True):
        for key in ("seconds", "cpu", "others"):
            facts[f"{name}_{key}"] = median(one[key] for one in both)
    cpu, wall = (median(two[key] / one[key] for one, two in pairs) for key in ("cpu", "seconds"))
    return facts | {"cpu_ratio": cpu, "wall_ratio": wall, "kept": cpu <= ALLOWED_CPU and wall <= ALLOWED_WALL}


@contextmanager
def spinners() -> Iterator[None]:
    """Meanwhile a process spins on every core."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores())]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def cores() -> int:
    return len(os.sched_getaffinity(0))


def busy() -> float:
    """The seconds that all cores together have computed since the machine started."""
    user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")
