"""Samples of surfaces in small files, and side by side in one graph."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest
import torch

from gln.graphs.record import Graph
from recipes import shapes
from tests.decoding.test_faces import ball, edges_of


def sample(count: int, seed: int) -> Graph:
    points, triangles = ball(count, seed)
    ends = edges_of(triangles)
    both = torch.from_numpy(np.concatenate([ends, ends[:, ::-1]]).T.copy())
    return Graph(count, pos=torch.from_numpy(7 + 3 * points), edge_index=both, kind=torch.tensor(seed % 4))


def lengths(pos: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Those of all edges, in order: what neither turning nor renumbering changes; the median is 1."""
    long = np.sort(np.linalg.norm(pos[ends[0]] - pos[ends[1]], axis=1))
    return long / np.median(long)


def test_a_file_gives_back_the_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shapes.PARTS.mkdir(parents=True)
    graphs = [sample(count, seed) for seed, count in enumerate((40, 300, 70))]
    for number, some in enumerate((graphs[:2], graphs[2:])):
        arrays = [shapes.stored(graph) for graph in some]
        joined = {name: np.concatenate([one[name] for one in arrays]) for name in arrays[0]}
        np.savez(shapes.PARTS / f"5-{number:04}.npz", **joined)
    shapes.pack(argparse.Namespace(seed=5))
    found = shapes.read(Path(shapes.FILE.format(5)))
    assert [(len(one.pos), one.kind) for one in found] == [(40, 0), (300, 1), (70, 2)]
    for graph, one in zip(graphs, found, strict=True):
        expected = lengths(graph.pos.numpy(), graph.edges_once().T)
        assert np.allclose(lengths(one.pos, one.ends), expected, atol=2 / shapes.GRAIN)
    out = found[1].pos - found[1].pos.mean(0)
    out /= np.linalg.norm(out, axis=1)[:, None]
    assert np.abs((out * found[1].across).sum(1)).mean() > 0.9  # on a ball


def test_samples_stand_side_by_side_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "BOX", 120)
    samples = []
    for seed, count in enumerate((40, 100, 70, 30)):
        ends = edges_of(ball(count, seed)[1]).T
        pos = 20 * ball(count, seed)[0].astype(np.float32)
        samples.append(shapes.Sample(pos, ends, *shapes.rings(pos, ends), 0))
    boxes = shapes.boxes(samples, np.random.default_rng(0))
    assert all(box.num_nodes <= 120 for box in boxes)
    assert sum(box.num_nodes for box in boxes) == 240
    assert sum(box.num_edges for box in boxes) == 2 * sum(one.ends.shape[1] for one in samples)
    two = shapes.box(samples[:2], np.random.default_rng(1), noise=0.0)
    here, there = two.pos[:40, 0], two.pos[40:, 0]
    assert there.min() - here.max() == pytest.approx(2 * shapes.GAP, rel=1e-4)
    parts = [two.edge_index[:, (two.edge_index < 40).all(0) == first] for first in (True, False)]
    for one, part in zip(samples[:2], parts, strict=True):
        assert np.allclose(lengths(two.pos.numpy(), part.numpy())[::2], lengths(one.pos, one.ends), atol=1e-4)


def test_what_others_make_meanwhile_is_learned_and_what_is_held_out_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shapes.PARTS.mkdir(parents=True)

    def make(seed: int, part: int, count: int) -> None:
        np.savez(shapes.PARTS / f"{seed}-{part:04}.npz", **shapes.stored(sample(count, seed)))

    make(1, 0, 40)
    shapes.pack(argparse.Namespace(seed=1))
    make(shapes.HELD_OUT, 0, 50)
    make(shapes.TEST_SEED, 0, 60)
    learned = shapes.Learned()
    assert [len(one.pos) for one in learned.samples()] == [40]  # once, though its part is there too
    make(100, 0, 70)
    assert [len(one.pos) for one in learned.samples()] == [40, 70]
    assert [len(one.pos) for one in learned.samples()] == [40, 70]
