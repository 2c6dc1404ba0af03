"""Prediction on a local Ray gives what one process gives, also when workers are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import gln
from gln.adapters.ray import on_ray, predict_dataset
from gln.errors import GLNError
from gln.inference.choice import Choice
from gln.models import GLN
from gln.workflows import predict_files as predicting
from gln.workflows.predict_files import Job, predict_files, predict_in_folder
from tests.docs.pages import blocks
from tests.workflows.test_shards import Deadly

ray = pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

torch.manual_seed(0)
MODEL = GLN(0, 2, width=8, pair_width=8, steps=2).eval()
RNG = np.random.default_rng(0)
SETS = [RNG.random((size, 2)) for size in (3, 9, 30, 1, 12, 7)]


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=10**8)
    yield
    ray.shutdown()


def test_the_output_is_that_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "WINDOW", 2)
    columns = {"set": np.repeat(np.arange(6), [len(rows) for rows in SETS])}
    columns |= dict(zip("xy", np.concatenate(SETS).T, strict=True))
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    job = Job(MODEL, [tmp_path / "p.parquet"], tmp_path / "one.csv")
    alone = predict_files(job)
    assert predict_files(Job(MODEL, job.paths, tmp_path / "two.csv"), engine=on_ray(2)) == alone
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    assert predict_in_folder(Job(MODEL, job.paths, tmp_path / "edges"), on_ray(1)) == alone
    assert ray.is_initialized()  # who started it stops it


def test_a_killed_worker_costs_only_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gln.adapters.ray.TRIES", 2)  # workers take long to start
    found = dict(on_ray(2)(Deadly(tmp_path / "mark"), ((number, number) for number in range(5))))
    assert found == {0: 0, 1: 10, 2: 20, 3: None, 4: 40}
    with pytest.raises(GLNError, match="five"):
        list(on_ray(1)(Deadly(tmp_path / "mark"), [(5, 5)]))


def test_the_program_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lists = {name: [rows[:, axis].tolist() for rows in SETS] for axis, name in enumerate("xy")}
    pq.write_table(pa.table({"set": [f"s{n}" for n in range(6)], **lists}), "sets.parquet")
    (program,) = (block.text for block in blocks("several-machines") if block.language == "python")
    here = {
        ", concurrency=4, num_gpus=0.5": "",
        '"delaunay"': '"delaunay-small"',
        'parquet("': f'parquet("{tmp_path}/',
    }
    for written, small in here.items():
        program = program.replace(written, small)
    exec(program, {})
    table = pq.read_table("edges").sort_by("set").to_pylist()
    found = gln.predict("delaunay-small", SETS[4])
    assert len(table[4]["source"]) == found.num_edges // 2


def test_a_dataset_of_sets_gives_a_dataset_of_edges() -> None:
    bad = [np.zeros((0, 2)), np.array([[0.5, np.nan]])]
    lists = [rows.tolist() for rows in (*SETS, *bad)]
    sets = ray.data.from_arrow(pa.table({"name": [f"s{n}" for n in range(8)], "pos": lists}))
    edges = predict_dataset(MODEL, sets, batch_size=3, choice=Choice(threshold=0.4), concurrency=2)
    rows = sorted(edges.take_all(), key=lambda row: row["name"])
    assert [bool(row["error"]) for row in rows] == [False] * 6 + [True] * 2
    for row, points in zip(rows, SETS, strict=False):
        answer = gln.predict(MODEL, points, threshold=0.4)
        once = answer.edge_index[:, answer.edge_index[0] < answer.edge_index[1]]
        assert np.array_equal([row["source"], row["target"]], once.numpy())
