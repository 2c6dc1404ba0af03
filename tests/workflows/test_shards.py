"""However a prediction is shared, killed and repeated, the output is that of one process, undisturbed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gln.errors import GLNError
from gln.io import ReadOptions
from gln.models import GLN
from gln.workflows import predict_files as predicting
from gln.workflows.engines import Task, Work, in_processes, in_this_process
from gln.workflows.predict_files import Choice, Job, predict_files, predict_in_folder

pq = pytest.importorskip("pyarrow.parquet")

torch.manual_seed(0)
MODEL = GLN(0, 2, width=8, pair_width=8, steps=2).eval()
CHOICE = Choice(threshold=0.4)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "WINDOW", 4)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """25 files in two folders: one is empty, one of another width, one holds three graphs with ids."""
    rng, made = np.random.default_rng(0), []
    for number in range(25):
        path = tmp_path / "in" / f"{number % 2}" / f"{number:02d}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = "x,y,z" if number == 4 else "x,y"
        rows = rng.random((int(rng.integers(3, 9)), len(columns.split(","))))
        lines = [columns, *(",".join(f"{value:.4f}" for value in row) for row in rows)]
        if number == 7:
            ids = [f"g{row % 3},{row}" for row in sorted(range(len(rows)), key=lambda row: row % 3)]
            lines = ["graph,id,x,y", *(f"{a},{b}" for a, b in zip(ids, lines[1:], strict=True))]
        path.write_text("\n".join(lines) + "\n" if number != 9 else "")
        made.append(path)
    return sorted(made)


def rows_of(folder: Path) -> list[tuple[Any, ...]]:
    table = pq.read_table(folder)
    return [tuple(row.values()) for row in table.to_pylist()]


def test_a_pool_writes_the_bytes_of_one_process(tmp_path: Path, paths: list[Path]) -> None:
    one, two = (Job(MODEL, paths, tmp_path / name, choice=CHOICE) for name in ("one.csv", "two.csv"))
    complaints: list[list] = [[], []]
    alone = predict_files(one, skip=complaints[0].append)
    shared = predict_files(two, engine=in_processes(2), skip=complaints[1].append)
    assert alone == shared
    assert (shared.graphs, len(shared.skipped)) == (25, 2)
    assert complaints[0] == complaints[1]
    assert one.output.read_bytes() == two.output.read_bytes()


def test_a_folder_holds_the_edges_of_the_file_and_a_table_of_rejects(
    tmp_path: Path, paths: list[Path]
) -> None:
    alone = predict_files(Job(MODEL, paths, tmp_path / "out.parquet", choice=CHOICE))
    outcome = predict_in_folder(Job(MODEL, paths, tmp_path / "out", choice=CHOICE))
    assert outcome == alone
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "out.parquet")
    rejects = (tmp_path / "out" / "_rejects.csv").read_text().splitlines()
    assert rejects[0] == "file,reason"
    assert [Path(row.split(",")[0]).name for row in rejects[1:]] == ["04.csv", "09.csv"]


def test_repeated_only_what_is_missing_is_computed(tmp_path: Path, paths: list[Path]) -> None:
    job = Job(MODEL, paths, tmp_path / "out", choice=CHOICE)
    done: list[int] = []

    def stops(work: Work, tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
        for number, result in in_this_process(work, tasks):
            if len(done) % 3 == 2:
                done.append(-1)
                raise KeyboardInterrupt
            done.append(number)
            yield number, result

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt, match="repeat the command"):
            predict_in_folder(job, stops)
    outcome = predict_in_folder(job, stops)
    assert done == [0, 1, -1, 2, 3, -1, 4, 5, -1, 6]
    expected = predict_in_folder(Job(MODEL, paths, tmp_path / "undisturbed", choice=CHOICE))
    assert outcome == expected
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "undisturbed")
    (tmp_path / "out" / "000001.parquet").write_bytes(b"PAR1")
    with pytest.raises(GLNError, match=r"000001\.parquet is damaged and was removed; repeat"):
        predict_in_folder(job)
    assert predict_in_folder(job) == expected


class Deadly:
    """Its worker is killed by the task 1 the first time, by the task 3 always, and by no other."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def begin(self, local: int | None) -> None:
        pass

    def __call__(self, task: int) -> int:
        if task == 3 or (task == 1 and not self.mark.exists()):
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if task == 5:
            raise GLNError("five.")
        return 10 * task


def test_a_killed_worker_costs_only_its_task(tmp_path: Path) -> None:
    work = Deadly(tmp_path / "mark")
    found = dict(in_processes(2)(work, ((number, number) for number in range(5))))
    assert found == {0: 0, 1: 10, 2: 20, 3: None, 4: 40}
    with pytest.raises(GLNError, match="five"):
        list(in_processes(1)(work, [(5, 5)]))


def test_sets_whose_workers_are_killed_are_rejected_by_name(tmp_path: Path, paths: list[Path]) -> None:
    def loses(work: Work, tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
        for number, result in in_this_process(work, tasks):
            yield number, None if number == 1 else result

    outcome = predict_in_folder(Job(MODEL, paths, tmp_path / "out", choice=CHOICE), loses)
    assert (outcome.graphs, len(outcome.skipped)) == (21, 6)
    assert "were killed" in (tmp_path / "out" / "_rejects.csv").read_text()


def test_two_predictions_are_not_mixed(tmp_path: Path, paths: list[Path]) -> None:
    output = tmp_path / "out"
    predict_in_folder(Job(MODEL, paths, output, choice=CHOICE))
    other = GLN(0, 2, width=8, pair_width=8, steps=2).eval()
    options = ReadOptions(pos=("y", "x"))
    for changed, what in (
        (Job(other, paths, output, choice=CHOICE), "model"),
        (Job(MODEL, paths, output, choice=Choice(threshold=0.3)), "options"),
        (Job(MODEL, paths, output, options, CHOICE), "options"),
        (Job(MODEL, paths[1:], output, choice=CHOICE), "files"),
    ):
        with pytest.raises(GLNError, match=f"begun with other {what}"):
            predict_in_folder(changed)
    before = rows_of(output)
    predict_in_folder(Job(MODEL, paths, output, choice=Choice(threshold=0.6), force=True))
    assert len(rows_of(output)) < len(before)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    for force in (False, True):
        with pytest.raises(GLNError, match="holds something else"):
            predict_in_folder(Job(MODEL, paths, tmp_path / "mine", force=force))
    assert (tmp_path / "mine" / "thesis.tex").exists()
