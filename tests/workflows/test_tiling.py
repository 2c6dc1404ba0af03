"""The edges from tiles are those of the whole set, whatever the points and the tiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.inference.choice import Choice
from gln.inference.predict import _large_edges
from gln.io import ReadOptions
from gln.io.file_edges import edge_columns
from gln.io.streams import open_stream
from gln.models import GLN
from gln.models.pairs import BLOCK
from gln.models.region import depths, hops
from gln.workflows import bins as bins_module
from gln.workflows.engines import in_processes
from gln.workflows.predict_files import Job
from gln.workflows.tiling import predict_tiles, too_large

pq = pytest.importorskip("pyarrow.parquet")

CHOICE = Choice(threshold=0.0)


def model(axes: int = 2, **settings: Any) -> GLN:
    torch.manual_seed(1)
    given = {"width": 8, "pair_width": 8, "kernels": 2, "steps": 2, "candidates": 4} | settings
    return GLN(0, axes, **given).eval()  # type: ignore[arg-type]


def by_tiles(
    one: GLN, points: np.ndarray, folder: Path, size: int, **more: Any
) -> dict[tuple[int, int], float]:
    path = folder / "points.npy"
    np.save(path, points)
    stream = open_stream(path, ReadOptions(), lambda text: None)
    assert stream is not None
    job = Job(one, [path], folder / "edges", choice=CHOICE, force=True)
    predict_tiles(job, stream, size=size, **more)
    assert not (folder / "edges" / "_work").exists()
    table = pq.read_table(folder / "edges").to_pydict()
    found = list(zip(table["source"], table["target"], strict=True))
    assert len(set(found)) == len(found)  # each by one tile
    return dict(zip(found, table["probability"], strict=True))


def at_once(one: GLN, points: np.ndarray) -> dict[tuple[int, int], float]:
    graph = Graph(pos=torch.from_numpy(points.astype(np.float32)))
    found = _large_edges(one, graph, CHOICE, False)
    edges, prob = found["edge_index"], found["edge_prob"]
    pairs = zip(edges.T.tolist(), prob.tolist(), strict=True)
    return {(a, b): chance for (a, b), chance in pairs if a < b}


def assert_same(one: GLN, points: np.ndarray, folder: Path, size: int, **more: Any) -> None:
    found, expected = by_tiles(one, points, folder, size, **more), at_once(one, points)
    assert found.keys() == expected.keys()
    worst = max((abs(found[pair] - expected[pair]) for pair in found), default=0)
    assert worst < 1e-6


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**16),
    count=st.integers(1, 120),
    size=st.integers(1, 60),
    axes=st.integers(1, 3),
    kind=st.sampled_from(["uniform", "clustered", "grid", "line"]),
    steps=st.integers(1, 3),
)
def test_edges_from_tiles_are_those_of_the_whole(
    tmp_path: Path, seed: int, count: int, size: int, axes: int, kind: str, steps: int
) -> None:
    rng = np.random.default_rng(seed)
    points = rng.random((count, axes))
    if kind == "clustered":  # most in one spot, some alone far away
        points = np.where(rng.random((count, 1)) < 0.9, points / 1000 + 0.3, points)
    elif kind == "grid":  # many coincide, and all distances are equal to others
        points = np.floor(points * 6)
    elif kind == "line":
        points[:, 1:] = 0
    one = model(axes, steps=steps, candidates=1 + seed % 6)
    assert_same(one, points.astype(np.float32), tmp_path, size)


@pytest.mark.parametrize(
    ("off", "far"), [({}, 9), ({"mixing": False}, 6), ({"feedback": False}, 10), ({"shared": True}, 9)]
)
def test_the_halo_follows_from_the_model(tmp_path: Path, off: dict[str, bool], far: int) -> None:
    points = np.random.default_rng(0).random((250, 2))
    one = model(steps=3, **off)
    assert hops(one, 3) == far
    assert_same(one, points.astype(np.float32), tmp_path, 20)


def test_a_smaller_halo_would_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.linspace(0, 1, 200, dtype=np.float32)[:, None] ** 1.5
    one = model(1, steps=2, candidates=2)
    assert_same(one, points, tmp_path, 20)
    less = [depth - 1 for depth in depths(one, 2)]
    monkeypatch.setattr("gln.models.region.depths", lambda *_: less)
    found, expected = by_tiles(one, points, tmp_path, 21), at_once(one, points)
    assert found.keys() == expected.keys()
    assert max(abs(found[pair] - expected[pair]) for pair in found) > 0


@pytest.mark.parametrize(
    "alike", [150, 1200]
)  # with 1200, two places have too many pairs of copies to be edges
def test_crowded_places(tmp_path: Path, alike: int) -> None:
    rng = np.random.default_rng(0)
    spots = np.repeat([[0.2, 0.2], [0.21, 0.2]], alike, axis=0)
    points = np.concatenate([rng.random((150, 2)), spots]).astype(np.float32)
    assert_same(model(candidates=3), rng.permutation(points), tmp_path, 60)


def test_an_empty_tile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class OneMore(bins_module.Splits):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.leaves += 1

    monkeypatch.setattr(bins_module, "Splits", OneMore)
    assert_same(model(), np.random.default_rng(0).random((300, 2)).astype(np.float32), tmp_path, 60)
    assert any(pq.read_table(path).num_rows == 0 for path in (tmp_path / "edges").glob("*.parquet"))


def test_features_and_far_positions(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    x, y, heat = rng.random((3, 300))
    pq.write_table(pa.table({"x": x + 5e6, "y": y, "heat": heat}), tmp_path / "p.parquet")
    torch.manual_seed(0)
    one = GLN(1, 2, width=8, pair_width=8, kernels=2, steps=2, candidates=4, x_mean=[0.5], x_std=[0.3]).eval()
    stream = open_stream(tmp_path / "p.parquet", ReadOptions(), lambda text: None)
    job = Job(one, [tmp_path / "p.parquet"], tmp_path / "edges", choice=CHOICE)
    assert stream is not None
    predict_tiles(job, stream, size=50)
    table = pq.read_table(tmp_path / "edges").to_pydict()
    middle = [(x.min() + x.max()) / 2, (y.min() + y.max()) / 2]
    pos = torch.tensor(np.stack([x, y], axis=1) - middle).float()
    found = _large_edges(one, Graph(pos=pos, x=torch.tensor(heat[:, None]).float()), CHOICE, False)
    edges, prob = found["edge_index"], found["edge_prob"]
    expected = {tuple(pair): chance for pair, chance in zip(edges.T.tolist(), prob.tolist(), strict=True)}
    found = list(zip(table["source"], table["target"], table["probability"], strict=True))
    assert 2 * len(found) == len(expected)
    assert all(abs(expected[a, b] - chance) < 2e-3 for a, b, chance in found)  # 5e6 has few digits left for x


@pytest.mark.parametrize("kind", ["uniform", "clustered"])
def test_all_digits_are_those_of_the_whole(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every sum has the same numbers in the same order wherever tiles end; vector units may treat last rows apart."""
    monkeypatch.setitem(BLOCK, "cpu", 2000)
    monkeypatch.setattr("gln.ops.mix.WORTH", 0)
    points = np.random.default_rng(0).random((600, 2), dtype=np.float32)
    points[:300] = points[:300] / 30 + 0.4 if kind == "clustered" else points[:300]
    one = model(steps=3, width=32, pair_width=16, candidates=8)
    found, expected = by_tiles(one, points, tmp_path, 90), at_once(one, points)
    assert sum(found[pair] == expected[pair] for pair in expected) > 0.95 * len(expected)


def test_processes_and_repetition_change_nothing(tmp_path: Path) -> None:
    points = np.random.default_rng(0).random((300, 2)).astype(np.float32)
    assert_same(model(), points, tmp_path, 50, engine=in_processes(2))
    folder, said = tmp_path / "edges", []
    before = {path.name: path.read_bytes() for path in folder.glob("*.parquet")}
    assert len(before) > 4
    for path in sorted(folder.glob("*.parquet"))[1:3]:
        path.unlink()
    job = Job(model(), [tmp_path / "points.npy"], folder, choice=CHOICE)
    stream = open_stream(job.paths[0], job.options, said.append)
    assert stream is not None
    predict_tiles(job, stream, size=50, say=said.append)
    assert {path.name: path.read_bytes() for path in folder.glob("*.parquet")} == before
    assert "300 nodes are predicted in 6 tiles of about 50" in said[0]


def test_what_depends_on_the_whole_set_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.random.default_rng(0).random((5000, 2)))
    for settings_, word in (({"proposals": 2}, "proposals"), ({"index_channels": 2}, "index_channels")):
        job = Job(model(**settings_), [tmp_path / "p.npy"], tmp_path / "edges")
        stream = too_large(job, 100, lambda text: None)
        assert stream is not None
        with pytest.raises(GLNError, match=f"a model with {word} cannot be predicted in tiles"):
            predict_tiles(job, stream, size=100)
    job = Job(model(), [tmp_path / "p.npy"], tmp_path / "edges", choice=Choice(top_k=2))
    assert too_large(job, None, lambda text: None) is None
    with pytest.raises(GLNError, match="--top-k"):
        predict_tiles(job, stream, size=100)


def test_leaves_hold_no_more_than_was_asked_for() -> None:
    rng = np.random.default_rng(0)
    sample = np.concatenate([rng.random((500, 2)), rng.random((500, 2)) / 1000, np.full((50, 2), 0.5)])
    cut = bins_module.Splits(sample, 2, 40)
    counts = np.bincount(cut.leaf(sample.astype(np.float32)), minlength=cut.leaves)
    assert counts.min() > 0
    assert np.sort(counts)[-2] <= 41
    assert counts.max() == 50  # they coincide


@pytest.mark.parametrize("leaves", [7, 40])
def test_a_sample_is_shared_out_evenly(leaves: int) -> None:
    sample = np.random.default_rng(0).random((leaves * 300, 2))
    cut = bins_module.Splits(sample, 2, 300 - 1e-6)
    assert cut.leaves == leaves
    assert np.bincount(cut.leaf(sample.astype(np.float32))).max() <= 306


@pytest.mark.parametrize("directed", [False, True])
def test_kinds_of_edges_are_those_of_the_whole(tmp_path: Path, directed: bool) -> None:
    points = np.random.default_rng(0).random((250, 2)).astype(np.float32)
    one = model(edge_types=3, edge_weights=True, directed=directed, node_types=2)
    by_tiles(one, points, tmp_path, 60)
    found = pq.read_table(tmp_path / "edges").to_pylist()
    graph = Graph(pos=torch.from_numpy(points))
    whole = Graph(250, **_large_edges(one, graph, CHOICE, False))
    expected = edge_columns(whole, np.arange(250))
    assert len(found) == len(expected["source"])
    for row, (ends, kind, weight) in zip(
        sorted(found, key=lambda row: (row["source"], row["target"])),
        zip(
            zip(expected["source"], expected["target"], strict=True),
            expected["type"],
            expected["weight"],
            strict=True,
        ),
        strict=True,
    ):
        assert (row["source"], row["target"], row["type"]) == (*ends, kind)
        assert row["weight"] == pytest.approx(weight, abs=1e-5)
        assert row.get("direction") == ("forward" if directed else None)
