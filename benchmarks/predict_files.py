"""One ``gln predict`` over many small files, against one ``gln predict`` for each of them."""

from __future__ import annotations

import csv
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.common import seconds_of, side_by_side
from gln.errors import GLNError


def run(files: int = 1000, calls: int = 10, nodes: int = 20, seed: int = 0) -> dict[str, Any]:
    """Seconds for the edges of all files, with one call of the command and with a call per file.

    Both are timed as a user waits for them, from the start of a process to its end. Separate calls are made for the
    first ``calls`` files only and extrapolated to all files. Both must find the same edges.

    Args:
        files: number of files, each a table of random points.
        calls: number of separate calls.
        nodes: points per file.
        seed: of the points.
    """
    if not 1 <= calls <= files or nodes < 2:
        raise GLNError(
            f"Got files={files}, calls={calls}, nodes={nodes}; expected 1 ≤ calls ≤ files, nodes ≥ 2."
        )
    with TemporaryDirectory(prefix="gln-") as place:
        folder = Path(place)
        paths = write_points(folder / "points", files, nodes, seed)
        ours_seconds = seconds_of(lambda: _predict(folder / "points", folder / "all.csv"))
        pairs = [(path, folder / path.name) for path in paths[:calls]]
        each = sum(seconds_of(partial(_predict, *pair)) for pair in pairs) / calls
        together = _edges(folder / "all.csv")
        for path, alone in pairs:
            if _edges(alone) != {path.name: together[path.name]}:
                raise AssertionError(f"{path.name} has different edges alone than among {files} files.")
    settings = {
        "files": files,
        "nodes": nodes,
        "seed": seed,
        "model": "delaunay, as shipped",
        "peer": f"a call of gln predict per file; extrapolated from {calls} calls of {each:.2f} s",
        "ours": "one call of gln predict for all files",
        "threads": torch.get_num_threads(),
    }
    return side_by_side("predict-files", ours_seconds, files * each, settings)


def write_points(folder: Path, files: int, nodes: int, seed: int) -> list[Path]:
    """Tables of random points in the plane."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    paths = [folder / f"{number:05}.csv" for number in range(files)]
    for path in paths:
        rows = "\n".join(f"{x:.6f},{y:.6f}" for x, y in rng.random((nodes, 2)))
        path.write_text(f"x,y\n{rows}\n")
    return paths


def _predict(source: Path, output: Path) -> None:
    command = [sys.executable, "-m", "gln", "predict", "delaunay", str(source), "-o", str(output)]
    subprocess.run([*command, "--device", "cpu"], check=True, capture_output=True)


def _edges(path: Path) -> dict[str, set[tuple[str, str]]]:
    """The edges of every graph in a file written by ``gln predict``."""
    found: dict[str, set[tuple[str, str]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["graph"], set()).add((row["source"], row["target"]))
    return found
