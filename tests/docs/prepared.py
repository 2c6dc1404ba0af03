"""What the pages take for granted: variables that their Python uses, and files that their commands read."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import gln
from gln.graphs import GraphBatch


def variables(name: str) -> dict[str, Any]:
    """The names that the Python of a page finds defined."""
    return {"README": _readme, "evaluation": _evaluation, "formats": _formats}.get(name, dict)()


def files(folder: Path) -> None:
    """Small inputs under the names that the pages use."""
    rng = np.random.default_rng(0)
    np.savetxt(folder / "points.csv", rng.random((20, 2)), delimiter=",", header="x,y", comments="")
    (folder / "molecules").mkdir()
    (folder / "new").mkdir()
    for number in range(12):
        (folder / f"molecules/{number}.sdf").write_text(_chain(5 + number % 3))
    (folder / "new/water.xyz").write_text("3\nwater\nO 0 0 0.1\nH 0 0.8 -0.5\nH 0 -0.8 -0.5\n")
    (folder / "scan.ply").write_text(_scan())


def _chain(atoms: int) -> str:
    """Carbon atoms in a row as an SDF record."""
    rows = [f"{1.5 * atom:10.4f}{0.3 * (atom % 2):10.4f}{0:10.4f} C   0  0" for atom in range(atoms)]
    bonds = [f"{atom:3d}{atom + 1:3d}  1  0" for atom in range(1, atoms)]
    counts = f"{atoms:3d}{atoms - 1:3d}  0  0  0  0  0  0  0  0999 V2000"
    return "\n".join(["chain", "", "", counts, *rows, *bonds, "M  END", "$$$$", ""])


@cache  # every page gets it
def _scan() -> str:
    surface = gln.family("surfaces", points=400, kind="torus").sample(1)[0]
    return _ply(surface.pos.tolist(), surface.edge_index.T.tolist())


def _ply(points: list[list[float]], pairs: list[list[int]]) -> str:
    """Points and lines as a PLY file in text form."""
    vertex = [f"element vertex {len(points)}", *(f"property float {axis}" for axis in "xyz")]
    edge = [f"element edge {len(pairs)}", "property int vertex1", "property int vertex2"]
    rows = [" ".join(map(str, row)) for row in [*points, *pairs]]
    return "\n".join(["ply", "format ascii 1.0", *vertex, *edge, "end_header", *rows, ""])


def _readme() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    sets = [rng.random((8, 2)) for _ in range(12)]
    edges = [np.argwhere(np.triu(np.linalg.norm(s[:, None] - s, axis=-1) < 0.4, 1)) for s in sets]
    small = gln.family("community", size=5)
    return {
        "gln": gln,
        "np": np,
        "points": rng.random((20, 2)),
        "point_sets": sets,
        "edge_sets": edges,
        "new_sets": sets[:2],
        "networkx_graph": gln.to_networkx(small.sample(1)[0]),
        "reference": small.sample(6, seed=1),
        "generated": small.sample(6, seed=2),
        "training": small.sample(6, seed=3),
    }


def _evaluation() -> dict[str, Any]:
    truths = gln.family("figures", side=6).sample(6, seed=1)
    others = gln.family("figures", side=6, noise=0).sample(6, seed=1)
    batch = GraphBatch.from_graphs(truths)
    names = ("true_graphs", "reference", "graphs", "training")
    guesses = dict.fromkeys(("predicted_graphs", "predicted", "generated"), others)
    return {
        "gln": gln,
        **dict.fromkeys(names, truths),
        **guesses,
        "probabilities": batch.adj.double(),
        "adj": batch.adj,
        "mask": batch.mask,
    }


def _formats() -> dict[str, Any]:
    return {
        "np": np,
        "pos": np.eye(4, 2),
        "edges": np.array([[0, 1], [2, 3]]),
        "batch": np.array([0, 0, 1, 1]),
    }
