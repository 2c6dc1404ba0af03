"""From the start of a process to its end: ``gln`` against the imports that nobody can avoid."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import gln

SEED = 0
# By peer: how many times as long our commands may take.
ALLOWED = {"import torch": 1.5, "import numpy, tyro": 3.0}
PREDICT = "predict delaunay ten.csv -o edges.csv --force"
# A mistake of every kind: in the command, a flag, a value, and the names of files, models, families and settings.
QUICK = (
    "list",
    "blah",
    "predict delaunay ten.csv -o edges.csv --blah",
    "predict delaunay ten.csv -o edges.csv --top-k 0",
    "predict delaunay ten.csv -o edges.xyz",
    "predict delaunay missing.csv -o edges.csv",
    "predict blah ten.csv -o edges.csv",
    "predict delaunay ten.csv -o edges.csv --device blah",
    "predict delaunay ten.csv -o edges.csv --pos a,b",
    "predict surfaces ten.csv -o edges.csv",
    "show blah",
    "show delaunay:points=1",
    "train missing.csv -o run",
    "train delaunay -o run --model blah",
    "train delaunay -o run --model GLN:blah=1",
    "train delaunay -o run --model GLN:width=blah",
    "train delaunay -o run --epochs 0",
    "train delaunay -o run --accelerator blah",
    "train ten.csv -o run",
    "evaluate blah --on delaunay",
    "evaluate delaunay --on ten.csv",
    "generate delaunay -o graphs.blah",
    "view missing.csv",
    "report missing",
)


def run(repeats: int = 5) -> dict[str, Any]:
    """Time every command and its peer in turns, each in a process of its own.

    Args:
        repeats: how many times; the medians count.
    """
    commands = {PREDICT: "import torch"} | dict.fromkeys(QUICK, "import numpy, tyro")
    with TemporaryDirectory(prefix="gln-") as place:
        points = np.random.default_rng(SEED).random((10, 2))
        np.savetxt(Path(place) / "ten.csv", points, delimiter=",", header="x,y", comments="")
        rows = [compare(words, peer, place, repeats) for words, peer in commands.items()]
    return {"name": "cold", "rows": rows, "settings": {"repeats": repeats, "seed": SEED}}


def compare(words: str, peer: str, place: str, repeats: int) -> dict[str, Any]:
    """One row: medians of both, and the ratios of ours to the peer's by the clock and by the CPU."""
    calls = (["-m", "gln", *words.split()], ["-c", peer])
    for call in calls:  # files in memory, bytecode written
        measured(call, place)
    times = [[measured(call, place) for call in calls] for _ in range(repeats)]
    (ours, ours_cpu), (theirs, theirs_cpu) = np.median(times, axis=0).tolist()
    ratio = median(mine[0] / other[0] for mine, other in times)
    found = {"gln": words, "against": peer, "seconds": ours, "its_seconds": theirs, "times_as_long": ratio}
    found |= {"cpu_seconds": ours_cpu, "its_cpu_seconds": theirs_cpu, "cpu_ratio": ours_cpu / theirs_cpu}
    return found | {"allowed_ratio": ALLOWED[peer], "kept": ratio <= ALLOWED[peer]}


def measured(words: list[str], place: str, check: bool = False) -> tuple[float, float]:
    """The seconds of a process by the clock and by the CPU; other processes disturb the second one less.

    With ``check``, a process that fails is an error.
    """
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = os.environ | {"PYTHONPATH": str(Path(gln.__file__).parents[1])}  # the code that runs here
    subprocess.run([sys.executable, "-P", *words], cwd=place, env=env, capture_output=True, check=check)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
