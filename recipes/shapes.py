"""Train and test the model that joins the points of a surface.

    python recipes/shapes.py make --seed 1 --minutes 50        # again to go on; data/shapes/*.npz
    python recipes/shapes.py make --seed 2 --minutes 3         # samples that are held out
    python recipes/shapes.py pack --out data/shapes.npz.xz     # one small file of all of them

Samples are those of the family ``shapes`` without noise, which training adds. Only ``make`` needs ``manifold3d``.
"""

from __future__ import annotations

import argparse
import io
import lzma
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from gln.families.shapes import Shapes

BLOCKS = 6  # of samples, in a part
SIZES = 200, 2000  # points of a sample
GRAIN = 256  # of the median edge, to which positions are rounded
PARTS = Path("data/shapes")


def make(given: argparse.Namespace) -> None:
    """Draw samples for so many minutes; a part that is there already is not drawn again."""
    until = time.monotonic() + 60 * given.minutes
    family = Shapes(points=SIZES, noise=False)
    PARTS.mkdir(parents=True, exist_ok=True)
    part = 0
    while time.monotonic() < until:
        path = PARTS / f"{given.seed}-{part:04}.npz"
        if not path.exists():
            blocks = range(part * BLOCKS, (part + 1) * BLOCKS)
            graphs = [
                graph
                for block in blocks
                for graph in family.draw(np.random.default_rng([given.seed, block]), family.block)
            ]
            samples = [stored(graph) for graph in graphs]
            with path.with_suffix(".tmp").open("wb") as file:
                np.savez(file, **{name: np.concatenate([one[name] for one in samples]) for name in samples[0]})
            os.replace(path.with_suffix(".tmp"), path)
        part += 1
    print(f"{part} parts of {BLOCKS * family.block} samples", flush=True)


def stored(graph: Any) -> dict[str, np.ndarray]:
    """A sample in few bits: rounded, and its points so ordered that neighbours follow one another."""
    where, ends = graph.pos.double().numpy(), graph.edge_index.numpy()
    where = where - (where.min(0) + where.max(0)) / 2
    edge = np.median(np.linalg.norm(where[ends[0]] - where[ends[1]], axis=1))
    where = np.round(where / max(edge / GRAIN, np.abs(where).max() / 32_000)).astype(np.int64)
    order = np.argsort(interleaved(where + 2**15))
    node = np.argsort(order)
    low, high = np.sort(node[ends[:, ends[0] < ends[1]]], axis=0)
    sorted_ends = np.lexsort((high, low))
    return {
        "points": np.array([len(where)], np.uint16),
        "pos": where[order].astype(np.int16),
        "degree": np.bincount(low, minlength=len(where)).astype(np.uint8),  # edges to points that come later
        "step": (high - low)[sorted_ends].astype(np.uint16),  # and how much later each of these comes
        "kind": np.array([int(graph.kind)], np.uint8),
    }


def interleaved(where: np.ndarray) -> np.ndarray:
    """The bits of the coordinates ``[n, 3]`` in turn: a curve that keeps neighbours together."""
    key = np.zeros(len(where), np.int64)
    for bit in range(15, -1, -1):
        for axis in where.T:
            key = 2 * key + (axis >> bit & 1)
    return key


def pack(given: argparse.Namespace) -> None:
    """Join all parts: what is drawn with seed 2 is held out."""
    paths = sorted(PARTS.glob("*.npz"))
    parts = [dict(np.load(path)) for path in paths]
    held = [np.full(len(part["points"]), path.name.startswith("2-")) for path, part in zip(paths, parts, strict=True)]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    joined["held_out"] = np.concatenate(held)
    # Bytes of one meaning one after another, and differences instead of places, are what a packer likes.
    shift = np.diff(joined["pos"].astype(np.int32), axis=0, prepend=0).astype(np.int16).T
    joined["pos"] = np.stack([shift & 255, shift >> 8 & 255]).astype(np.uint8)
    joined["step"] = np.stack([joined["step"] & 255, joined["step"] >> 8]).astype(np.uint8)
    file = io.BytesIO()
    np.savez(file, **joined)
    given.out.write_bytes(lzma.compress(file.getvalue(), preset=9))
    print(
        f"{len(joined['points'])} samples, {joined['points'].sum(dtype=int):,} points, "
        f"{given.out.stat().st_size / 2**20:.1f} MiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["make", "pack"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--out", type=Path, default=Path("data/shapes.npz.xz"))
    given = parser.parse_args()
    {"make": make, "pack": pack}[given.action](given)


if __name__ == "__main__":
    main()
