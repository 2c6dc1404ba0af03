"""Train and test the model that joins the points of a surface.

First some samples: seed 2, which is held out to validate, seed 1000003, to test, and one or more to begin with::

    python recipes/shapes.py make --seed 1 --minutes 50        # again to go on; data/shapes/1-*.npz
    python recipes/shapes.py pack --seed 1                     # data/shapes-1.npz.xz, a small file of them

Then, on a machine with a GPU and many cores, one call after another; all of them together take 24 minutes::

    python recipes/shapes.py train --run runs/shapes --minutes 8 --of 24 --makers 14 --seed 1
    python recipes/shapes.py train --run runs/shapes --minutes 8 --of 24 --makers 14 --seed 2
    python recipes/shapes.py train --run runs/shapes --minutes 8 --of 24 --makers 14 --seed 3
    python recipes/shapes.py test --run runs/shapes --output results/shapes.json

Makers draw further samples, which are learned from the next epoch on; another seed in every call gives others. A fresh
machine goes on where the packed files and the folder of the run are. A call that failed is given again.

Samples are those of the family ``shapes`` without noise, which training adds. ``make`` needs ``manifold3d``. All need
the root of the repository in ``PYTHONPATH``.
Several samples, turned and scaled at random, stand side by side in one graph, so that all graphs are about as large.
"""

from __future__ import annotations

import argparse
import io
import lzma
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor

import gln
from gln.errors import GLNError
from gln.families.shapes import KINDS, NOISE, Shapes
from gln.graphs import GraphBatch
from gln.graphs.record import Graph
from gln.inference.predict import Choice, predict_graphs
from gln.models.candidates import candidate_pairs
from gln.models.pairs import ListedPairs
from gln.seeds import TEST_SEED
from gln.storage.provenance import check_source, write_result
from gln.training.losses import Loss
from recipes.timed import add_training_flags, fit_for, settings_in

BLOCKS = 6  # of samples, in a part
SIZES = 200, 2000  # points of a sample
GRAIN = 256  # of the median edge, to which positions are rounded
PARTS = Path("data/shapes")
FILE = "data/shapes-{}.npz.xz"
HELD_OUT = 2  # a seed
BOX = 2048  # points of samples that stand side by side
GAP = 8.0  # between them, in median edges
NEAREST = (16, 24, 32)  # candidates in a step of training: few, so that few lengths of lists occur
MODEL: dict[str, Any] = {
    "pos_channels": 3,
    "width": 96,
    "pair_width": 64,
    "steps": 8,
    "candidates": 24,
    "sparse": True,
}
LOSS = Loss(edge="plain", psi1=0.5, every_step=True)


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
                np.savez(
                    file, **{name: np.concatenate([one[name] for one in samples]) for name in samples[0]}
                )
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
    """Join the parts of a seed."""
    parts = [dict(np.load(path)) for path in sorted(PARTS.glob(f"{given.seed}-*.npz"))]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    # Bytes of one meaning one after another, and differences instead of places, are what a packer likes.
    shift = np.diff(joined["pos"].astype(np.int32), axis=0, prepend=0).astype(np.int16).T
    joined["pos"] = np.stack([shift & 255, shift >> 8 & 255]).astype(np.uint8)
    joined["step"] = np.stack([joined["step"] & 255, joined["step"] >> 8]).astype(np.uint8)
    file, path = io.BytesIO(), Path(FILE.format(given.seed))
    np.savez(file, **joined)
    path.write_bytes(lzma.compress(file.getvalue(), preset=9))
    count, points = len(joined["points"]), joined["points"].sum(dtype=int)
    print(f"{count} samples, {points:,} points, {path.stat().st_size / 2**20:.1f} MiB", flush=True)


@dataclass(frozen=True)
class Sample:
    """Points ``[n, 3]``, their edges ``[2, m]``, what is across its neighbours, and how far."""

    pos: np.ndarray
    ends: np.ndarray
    across: np.ndarray
    spacing: np.ndarray
    kind: int


def read(path: Path) -> list[Sample]:
    """The samples of a part, or of a packed file."""
    packed = path.suffix == ".xz"
    data = dict(np.load(io.BytesIO(lzma.decompress(path.read_bytes())) if packed else path))
    where, step = data["pos"], data["step"].astype(np.uint16)
    if packed:
        shift = where[0].astype(np.uint16) | where[1].astype(np.uint16) << 8
        where = np.cumsum(shift.T, axis=0, dtype=np.uint16).view(np.int16)
        step = step[0] | step[1] << 8
    pos = where.astype(np.float32) / GRAIN
    low = np.repeat(np.arange(len(pos)), data["degree"])
    ends = np.stack([low, low + step])
    across, spacing = rings(pos, ends)
    last = np.cumsum(data["points"], dtype=np.int64)
    first = last - data["points"]
    bounds = np.searchsorted(low, [first, last]).T
    return [
        Sample(pos[a:b], ends[:, c:d] - a, across[a:b], spacing[a:b], int(kind))
        for a, b, (c, d), kind in zip(first, last, bounds, data["kind"], strict=True)
    ]


def rings(pos: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of every point the direction in which its neighbours differ least ``[n, 3]``, and how far they are ``[n]``."""
    count, shift = len(pos), pos[ends[1]] - pos[ends[0]]
    square = np.empty((count, 3, 3))
    for i in range(3):
        for j in range(3):
            value = shift[:, i] * shift[:, j]
            square[:, i, j] = np.bincount(ends[0], value, count) + np.bincount(ends[1], value, count)
    degree = np.bincount(ends.ravel(), minlength=count)
    spacing = np.sqrt(np.trace(square, axis1=1, axis2=2) / degree)
    return np.linalg.eigh(square)[1][:, :, 0].astype(np.float32), spacing.astype(np.float32)


def box(chosen: list[Sample], rng: np.random.Generator, noise: float | None = None) -> Graph:
    """Samples side by side, turned and scaled, with noise as in the family, or of the deviation given."""
    place, ends, reach, first = [], [], 0.0, 0
    for sample in chosen:
        which, share = rng.random(2)
        deviation = (0.0 if which < 0.5 else share * NOISE[int(which > 0.8)]) if noise is None else noise
        shift = deviation * rng.standard_normal(len(sample.pos)) * sample.spacing
        where = sample.pos + shift[:, None].astype(np.float32) * sample.across
        where = where @ np.linalg.qr(rng.standard_normal((3, 3)))[0].astype(np.float32)
        where *= np.float32(2 ** rng.uniform(-1, 1))
        where[:, 0] += reach - where[:, 0].min()
        reach = where[:, 0].max() + 2 * GAP
        place.append(where)
        ends += [sample.ends + first, sample.ends[::-1] + first]
        first += len(where)
    edges = torch.from_numpy(np.concatenate(ends, axis=1))
    return Graph(first, pos=torch.from_numpy(np.concatenate(place)), edge_index=edges)


def boxes(samples: Sequence[Sample], rng: np.random.Generator) -> list[Graph]:
    """All of some samples, in boxes of up to ``BOX`` points: each in the first that has room."""
    rooms: list[list[Sample]] = []
    left: list[int] = []
    for sample in samples:
        size = len(sample.pos)
        room = next((at for at, free in enumerate(left) if free >= size), None)
        if room is None:
            rooms.append([])
            left.append(BOX)
            room = len(rooms) - 1
        rooms[room].append(sample)
        left[room] -= size
    return [box(room, rng) for room in rooms]


def some_pairs(model: gln.GLN, batch: GraphBatch) -> dict[str, Tensor]:
    """What a step of training scores: every point with so many nearest."""
    assert batch.pos is not None
    nearest = NEAREST[int(torch.randint(len(NEAREST), ()))]
    pairs = candidate_pairs(batch.pos, batch.mask, nearest, listed=True)
    assert isinstance(pairs, ListedPairs)
    return pairs.padded().as_tensors()


class Learned:
    """The samples of packed files and of parts, except those that are held out; what is new is read when asked."""

    def __init__(self) -> None:
        self.files: set[Path] = set()
        self.found: list[Sample] = []

    def samples(self) -> list[Sample]:
        packed = {path.name.split("-")[1].split(".")[0]: path for path in Path().glob(FILE.format("*"))}
        files = list(packed.items())
        parts = [(path.name.split("-")[0], path) for path in PARTS.glob("*.npz")]
        files += [(seed, path) for seed, path in parts if seed not in packed]  # others are in a packed file
        for seed, path in sorted(files):
            if path not in self.files and int(seed) not in (HELD_OUT, TEST_SEED):
                self.files.add(path)
                self.found += read(path)
        return self.found


@contextmanager
def makers(given: argparse.Namespace) -> Iterator[None]:
    """Other processes draw samples meanwhile, each of a seed of its own."""
    seeds = range(100 * given.seed, 100 * given.seed + given.makers)
    if given.makers:
        import manifold3d  # noqa: F401, without which no maker makes anything
    command = [sys.executable, __file__, "make", "--minutes", str(given.minutes)]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen([*command, "--seed", str(seed)], env=one_thread) for seed in seeds]
    try:
        yield
    finally:
        for process in running:
            process.terminate()
            process.wait()


def train(given: argparse.Namespace) -> None:
    """Train for so many minutes; again to go on."""
    held = read(Path(FILE.format(HELD_OUT)))
    val = boxes(held[: given.val], np.random.default_rng(HELD_OUT))
    torch.manual_seed(0)
    model = gln.GLN(**MODEL | settings_in(given.set))
    model.draw = MethodType(some_pairs, model)  # type: ignore[method-assign]
    weights = sum(weight.numel() for weight in model.parameters())
    learned = Learned()
    if not learned.samples():
        raise GLNError(
            f"There are no samples to begin with: make and pack some, of another seed than {HELD_OUT}."
        )
    print(f"{len(held)} samples held out; {weights:,} weights", flush=True)

    def epoch(number: int) -> list[Graph]:
        samples, rng = learned.samples(), np.random.default_rng([31, number])
        count = min(given.epoch if number else given.val, len(samples))
        return boxes([samples[place] for place in rng.choice(len(samples), count, replace=False)], rng)

    with makers(given):
        fit_for(given, model, epoch, val, LOSS)
    if (given.run / "model.json").exists():
        best = gln.load(given.run)
        best.training_facts = {**(best.training_facts or {}), "surface": True}  # it may write meshes
        gln.save(best, given.run)


def test(given: argparse.Namespace) -> None:
    """How well edges and faces are found over samples that were not seen, by kind and noise."""
    check_source(given.output or Path(os.devnull))
    model = gln.load(given.run).to(given.device).eval()
    samples = read(Path(FILE.format(TEST_SEED)))
    rows = []
    for noise in (0.0, 0.01, 0.1):
        for number, kind in enumerate(KINDS):
            rng = np.random.default_rng(TEST_SEED)
            some = [sample for sample in samples if sample.kind == number][: given.val]
            found = [judged(model, box([sample], rng, noise), kind == "open") for sample in some]
            means = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
            rows.append({"kind": kind, "noise": noise, "samples": len(some), **means})
            print(
                ", ".join(
                    f"{name} {value:.4}" if isinstance(value, float) else f"{value}"
                    for name, value in rows[-1].items()
                ),
                flush=True,
            )
    if given.output is not None:
        facts = {"model": model.config, "training": model.training_facts, "rows": rows}
        write_result(given.output, shlex.join(["python", *sys.argv]), TEST_SEED, facts)


def judged(model: Any, graph: Graph, open: bool) -> dict[str, float]:
    """Of a sample without noise in its truth: edges, candidates, and what is made of them.

    ==============  ==========================================================================================
    ``f1``          of the edges, those that were no candidates included
    ``candidates``  the share of true edges that were scored
    ``closed``      whether the faces are watertight or, of an open surface, are not
    ``manifold``    the share of edges with one or two faces
    ==============  ==========================================================================================
    """
    from gln.decoding.faces import describe  # here, as it needs numba
    from gln.workflows.forms import LEAST, faces_of

    answer = predict_graphs(model, [graph], Choice(threshold=0.0))[0]
    pairs, chances = answer.scored_once()
    count = graph.num_nodes
    likely, true = pairs[chances >= model.threshold] @ [count, 1], graph.edges_once() @ [count, 1]
    right = np.isin(likely, true).sum()
    stays = answer.edge_prob >= LEAST
    answer.edge_index, answer["edge_prob"] = answer.edge_index[:, stays], answer.edge_prob[stays]
    facts = describe(count, faces_of(graph, answer, open))
    return {
        "f1": float(2 * right / (len(likely) + len(true))),
        "candidates": float(np.isin(true, pairs @ [count, 1]).mean()),
        "closed": float(facts.watertight != open),
        "manifold": facts.manifold,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["make", "pack", "train", "test"])
    parser.add_argument(
        "--seed", type=int, default=1, help="of samples; of a training, a hundredth of its makers'"
    )
    parser.add_argument("--makers", type=int, default=0, help="processes that draw samples while training")
    parser.add_argument("--epoch", type=int, default=2000, help="samples from one validation to the next")
    parser.add_argument("--val", type=int, default=120)
    parser.add_argument("--output", type=Path, help="of test, as JSON")
    add_training_flags(parser, lr=1.2e-3, batch_size=4)
    given = parser.parse_args()
    {"make": make, "pack": pack, "train": train, "test": test}[given.action](given)


if __name__ == "__main__":
    main()
