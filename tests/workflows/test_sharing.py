"""However a prediction is shared, killed and resumed, the output has the bytes that one process writes."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gln.errors import GLNError
from gln.files import Staged, write_atomically
from gln.io import ReadOptions
from gln.models import GLN
from gln.training.processes import Place
from gln.workflows import parts as parts_module
from gln.workflows import predict_files as predicting
from gln.workflows import sharing
from gln.workflows.parts import PartsFolder
from gln.workflows.predict_files import Choice, Job, predict_files
from gln.workflows.sharing import Shared, Unfinished

torch.manual_seed(0)
MODEL = GLN(0, 2, width=8, pair_width=8, steps=2).eval()
CHOICE = Choice(threshold=0.4)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "BLOCK", 3)
    monkeypatch.setattr(predicting, "WINDOW", 2)


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
            ids = [f"g{row % 3},n{row}" for row in sorted(range(len(rows)), key=lambda row: row % 3)]
            lines = ["graph,id,x,y", *(f"{a},{b}" for a, b in zip(ids, lines[1:], strict=True))]
        path.write_text("\n".join(lines) + "\n" if number != 9 else "")
        made.append(path)
    return sorted(made)


def rank(number: int, world: int) -> Place:
    return Place(number, world, number, started=True)


def whole(paths: list[Path], output: Path, **more: Any) -> tuple[dict[str, bytes], Any]:
    """What one process writes, and its outcome."""
    outcome = predict_files(Job(MODEL, paths, output, choice=CHOICE, **more))
    return take(output), outcome


def take(output: Path) -> dict[str, bytes]:
    found = sorted(output.parent.glob(f"{output.stem}*{output.suffix}"))
    content = {path.name: path.read_bytes() for path in found}
    for path in found:
        path.unlink()
    return content


@pytest.mark.parametrize("name", ["out.csv", "out.npz", "out.graphml"])
@pytest.mark.parametrize(
    "world", [1, 2, 4]
)  # of 2 each reads its own blocks; of 4 each reads all, to be busy
def test_shared_is_byte_for_byte_unshared(tmp_path: Path, paths: list[Path], name: str, world: int) -> None:
    output = tmp_path / name
    expected, alone = whole(paths, output)
    job = Job(MODEL, paths, output, choice=CHOICE)
    first = Shared(job, rank(0, world))
    assert first.by_block == (world < 4)
    first.begin(resume=False)
    shares = []
    for number in range(1, world):
        before = first.parts.names()
        Shared(job, rank(number, world)).follow()
        shares.append(first.parts.names() - before)
    assert all(shares)
    outcome = first.lead(resume=True)
    assert outcome == alone
    assert not first.parts.folder.exists()
    assert (outcome.graphs, len(outcome.skipped)) == (25, 2)
    assert take(output) == expected


def test_scores_known_edges_and_remarks_are_merged(tmp_path: Path, paths: list[Path]) -> None:
    table, known = tmp_path / "edges.txt.csv", tmp_path / "known.csv"
    names = [f"{path.parent.name}/{path.name}" for path in paths]
    table.write_text("graph,source,target\n" + "".join(f"{name},0,{1 + len(name) % 2}\n" for name in names))
    known.write_text(f"graph,source,target\n{names[-1]},0,2\n")
    more: dict[str, Any] = {"options": ReadOptions(edges=table), "known": known}
    said: list[list[str]] = [[], []]
    job = Job(MODEL, paths, tmp_path / "out.csv", choice=CHOICE, **more)
    alone = predict_files(job, say=said[0].append)
    expected = take(job.output)
    first = Shared(job, rank(0, 2), say=said[1].append)
    assert not first.by_block  # the table is read in the light of all files
    first.begin(resume=False)
    Shared(job, rank(1, 2)).follow()
    assert first.lead(resume=True) == alone
    assert alone.labelled > 10
    assert said[0] == said[1]
    assert take(job.output) == expected


@pytest.mark.parametrize("changed", [[1], [0, 1, 2, 5, 9]])
def test_nodes_that_coincide_are_remarked_on_once_by_all_processes_together(
    tmp_path: Path, paths: list[Path], changed: list[int]
) -> None:
    for number in changed:
        with paths[number].open("a") as file:
            file.write("7,7\n" * (number + 2))
    job = Job(MODEL, paths, tmp_path / "out.csv", choice=CHOICE)
    said: list[str] = []
    first = Shared(job, rank(0, 4), say=said.append)
    first.begin(resume=False)
    for number in (1, 2, 3):
        Shared(job, rank(number, 4)).follow()
    first.lead(resume=True)
    assert sum("exactly" in text for text in said) == 1


def test_killed_at_any_moment_and_resumed_every_window_is_answered_once(
    tmp_path: Path, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out.csv"
    expected, alone = whole(paths, output)
    job = Job(MODEL, paths, output, choice=CHOICE)
    answer, write = predicting.answer_window, PartsFolder.write
    done: Counter[tuple[int, int]] = Counter()

    def count(model: Any, window: Any, *rest: Any) -> Any:
        done[window.block, window.number] += 1
        return answer(model, window, *rest)

    def die(self: PartsFolder, *args: Any) -> None:
        write(self, *args)
        if sum(done.values()) % 5 == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(predicting, "answer_window", count)
    monkeypatch.setattr(PartsFolder, "write", die)
    kills, said = 0, []
    for world in (2, 1, 4, 3, 1, 1, 1, 1, 1):  # the number of processes may change
        try:
            outcome = Shared(job, rank(0, world)).lead(resume=kills > 0) if world == 1 else None
            if world > 1:
                first = Shared(job, rank(0, world))
                first.begin(kills > 0)
                for number in range(world):
                    Shared(job, rank(number, world)).work()
            if outcome is not None:
                break
        except KeyboardInterrupt as stop:
            said.append((world, str(stop)))
            kills += 1
            assert not output.exists()
    assert kills > 2
    assert all("with --resume" in text for world, text in said if world == 1)
    assert set(done.values()) == {1}
    assert outcome == alone
    assert take(output) == expected


@pytest.fixture
def begun(tmp_path: Path, paths: list[Path]) -> tuple[Job, dict[str, bytes], list[Path]]:
    """A prediction with all parts there but no output, what that should be, and the parts."""
    job = Job(MODEL, paths, tmp_path / "out.csv", choice=CHOICE)
    expected, _ = whole(paths, job.output)
    first = Shared(job, rank(0, 1))
    first.begin(resume=False)
    first.work()
    return job, expected, sorted(first.parts.ours.glob("*.part"))


def test_parts_that_are_gone_or_damaged_are_named_and_answered_again(begun: Any) -> None:
    job, expected, parts = begun
    parts[0].unlink()
    for part, spoil in ((parts[3], slice(0, -1)), (parts[-1], slice(0, 0)), (parts[4], slice(3, None))):
        part.write_bytes(part.read_bytes()[spoil])
    content = bytearray(parts[6].read_bytes())
    content[len(content) // 2] ^= 1  # a single bit
    parts[6].write_bytes(content)
    said: list[str] = []
    Shared(job, rank(0, 1), say=said.append).lead(resume=True)
    for part in (parts[3], parts[4], parts[6], parts[-1]):
        assert f"{part} is damaged or gone. It is computed again." in said
    assert take(job.output) == expected
    assert not parts[0].parent.parent.exists()


@pytest.mark.parametrize("when", ["part", "header", "rows"])
def test_a_full_disk_is_one_sentence_and_loses_nothing(
    begun: Any, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    job, expected, parts = begun
    if when == "part":
        parts[5].unlink()
    write = Staged.write

    def full(self: Staged, data: bytes) -> None:
        kind = {".part": "part", ".csv": "rows"}.get(self.path.suffix)
        if when == ("header" if data.startswith(b"graph,source") else kind):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        write(self, data)

    with monkeypatch.context() as patch:
        patch.setattr(Staged, "write", full)
        with pytest.raises(GLNError, match=r"^The disk is full: .* free some space and resume\.$"):
            Shared(job, rank(0, 1)).lead(resume=True)
    assert not job.output.exists()
    assert not list(job.output.parent.glob(".out*"))
    Shared(job, rank(0, 1)).lead(resume=True)
    assert take(job.output) == expected


def test_two_predictions_are_not_mixed(begun: Any, tmp_path: Path) -> None:
    job, _, parts = begun
    with pytest.raises(GLNError, match=r"out\.csv\.parts holds a prediction that is running or"):
        Shared(job, rank(0, 1)).lead(resume=False)
    other = GLN(0, 2, width=8, pair_width=8, steps=2).eval()
    more: dict[str, Any] = {"options": ReadOptions(pos=("y", "x"))}
    for changed, what in (
        (Job(other, job.paths, job.output, choice=CHOICE), "model"),
        (Job(MODEL, job.paths, job.output, choice=Choice(threshold=0.3)), "options"),
        (Job(MODEL, job.paths, job.output, choice=CHOICE, **more), "options"),
        (Job(MODEL, job.paths[1:], job.output, choice=CHOICE), "files"),
    ):
        with pytest.raises(GLNError, match=f"begun with other {what}"):
            Shared(changed, rank(0, 1)).lead(resume=True)
    os.utime(job.paths[3], ns=(1, 1))
    with pytest.raises(GLNError, match="sizes, times or names of files"):
        Shared(job, rank(0, 1)).lead(resume=True)
    assert all(part.exists() for part in parts)


def test_killed_while_merging_it_is_merged_again_but_a_file_of_others_stays(begun: Any) -> None:
    job, expected, _ = begun
    job.output.write_text("someone else's")
    with pytest.raises(GLNError, match="exists"):
        Shared(job, rank(0, 1)).lead(resume=True)
    job.output.write_text("ours, from a merge after which the parts were not yet removed")
    first = Shared(job, rank(0, 1))
    first.parts.merging.touch()
    first.lead(resume=True)
    assert take(job.output) == expected
    # A removal that was cut short leaves no manifest: an output that is there now is not ours.
    first.parts.ours.mkdir(parents=True)
    first.parts.merging.touch()
    (first.parts.ours / "000000-000000-last.part").write_text("old")
    job.output.write_text("someone else's")
    with pytest.raises(GLNError, match="exists"):
        Shared(job, rank(0, 1)).lead(resume=True)
    job.output.unlink()
    Shared(job, rank(0, 1)).lead(resume=True)
    assert take(job.output) == expected


def test_interrupted_among_several_outputs_all_of_them_are_written_when_resumed(
    tmp_path: Path, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(MODEL, paths, tmp_path / "out.graphml", choice=CHOICE)
    expected, _ = whole(paths, job.output)
    keep, kept = Staged.keep, []

    def interrupt(self: Staged, target: Path) -> None:
        keep(self, target)
        kept.extend([target] if target.suffix == ".graphml" else [])
        if len(kept) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Staged, "keep", interrupt)
        with pytest.raises(KeyboardInterrupt, match="--resume"):
            Shared(job, rank(0, 1)).lead(resume=False)
    Shared(job, rank(0, 1)).lead(resume=True)
    assert take(job.output) == expected


def test_a_late_process_of_another_prediction_spoils_nothing(tmp_path: Path, paths: list[Path]) -> None:
    job = Job(MODEL, paths, tmp_path / "out.csv", choice=CHOICE)
    expected, _ = whole(paths, job.output)
    other = Job(MODEL, paths, job.output, choice=Choice(threshold=0.9))
    before, late = (Shared(other, rank(number, 2)) for number in (0, 1))
    before.begin(resume=False)
    late.work()
    with pytest.raises(GLNError, match="is running or was cut short"):
        Shared(job, rank(0, 1)).begin(resume=False)
    shutil.rmtree(before.parts.folder)  # as the page says, to begin anew
    first = Shared(job, rank(0, 1))
    first.begin(resume=False)
    with pytest.raises(GLNError, match="was removed while the prediction ran"):
        late.work()
    before.parts.ours.mkdir()  # as if both had begun in one moment
    before.work()
    late.work()
    first.lead(resume=True)
    assert take(job.output) == expected
    with pytest.raises(GLNError, match="was removed"):
        before._merge()
    assert not job.output.exists()


def test_files_that_change_while_they_are_read_are_found_out(tmp_path: Path, paths: list[Path]) -> None:
    job = Job(MODEL, paths, tmp_path / "out.csv", choice=CHOICE)
    first, second = (Shared(job, rank(number, 4)) for number in (0, 1))
    first.begin(resume=False)
    first.work()
    rows = "".join(f"{graph},{x},{y}\n" for graph in "abc" for x, y in ((0, 0), (1, 0), (0, 1)))
    paths[0].write_text(f"graph,x,y\n{rows}")  # from here on windows are cut elsewhere
    second.work()
    first.place = rank(0, 1)  # so that it does the rest
    with pytest.raises(GLNError, match="changed during the prediction"):
        first.lead(resume=True)
    assert not job.output.exists()


def test_labels_and_tables_beside_the_files_belong_to_the_prediction(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("x,y\n1,2\n")
    job = Job(MODEL, [tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "out.csv")
    Shared(job, rank(0, 1)).begin(resume=False)
    for name in ("a.labels.png", "b.edges.csv"):
        (tmp_path / name).write_text("")
        with pytest.raises(GLNError, match="other tables of edges or labels"):
            Shared(job, rank(0, 1)).begin(resume=True)
        (tmp_path / name).unlink()
    Shared(job, rank(0, 1)).begin(resume=True)


class Company:
    """Other processes of this machine, which have done their share."""

    def running(self) -> bool:
        return False

    def lost(self) -> None:
        return None

    def kill(self) -> None:
        pass


@pytest.mark.parametrize("who", ["another machine", "slow"])
def test_who_still_works_is_waited_for(begun: Any, monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    job, expected, parts = begun
    content = parts[-1].read_bytes()
    parts[-1].unlink()
    monkeypatch.setattr(Shared, "work", lambda self: None)
    monkeypatch.setattr(sharing, "OtherProcesses", lambda devices: Company())
    first = Shared(job, Place(0, 4 if who == "another machine" else 2, 0, started=who == "slow"), devices=2)
    if who == "slow":  # its signs of life come more often than patience ends
        monkeypatch.setattr(sharing, "PATIENCE", 0.8)
        monkeypatch.setattr(parts_module, "BEAT", 0.05)
    with first.parts.living(1) if who == "slow" else nullcontext():
        threading.Timer(1.2, parts[-1].write_bytes, [content]).start()
        first.lead(resume=True)
    assert take(job.output) == expected


def test_a_process_that_never_delivers_is_given_up_in_words(
    begun: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, _, parts = begun
    monkeypatch.setattr(sharing, "PATIENCE", 0.2)
    theirs = next(part for part in parts if part.name.startswith("000001"))
    theirs.unlink()
    with pytest.raises(Unfinished, match=f"{theirs.name[:13]}.* is missing, without a sign of .*--resume"):
        Shared(job, rank(0, 2)).lead(resume=True)
    assert not job.output.exists()


def test_an_input_that_fits_nowhere_leaves_nothing(tmp_path: Path) -> None:
    wide = tmp_path / "wide.csv"
    wide.write_text("x,y,z\n1,2,3\n")
    job = Job(MODEL, [wide], tmp_path / "out.csv")
    with pytest.raises(GLNError, match="3 positions"):
        Shared(job, rank(0, 1)).lead(resume=False)
    assert list(tmp_path.iterdir()) == [wide]
    wide.write_text("")
    said: list[str] = []
    with pytest.raises(GLNError, match="all of the input was skipped"):
        Shared(job, rank(0, 1), complain=said.append).lead(resume=False)
    assert len(said) == 1
    assert said[0].startswith(f"{wide}: ")
    assert list(tmp_path.iterdir()) == [wide]


def test_another_process_waits_for_the_first_and_not_for_ever(
    tmp_path: Path, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "PATIENCE", 0.3)
    job = Job(MODEL, paths, tmp_path / "out.csv")
    with pytest.raises(GLNError, match="start all processes with the same command"):
        Shared(job, rank(1, 2)).follow()
    job.output.write_text("done before this process came")
    Shared(job, rank(1, 2)).follow()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.csv"]
    # With --force an output that was there before says nothing; a new one does, and so do several.
    forced = Job(MODEL, paths, job.output, force=True)
    with pytest.raises(GLNError, match="was not begun"):
        Shared(forced, rank(1, 2)).follow()
    for name in ("out.csv", "out-a.csv"):
        late = Shared(forced, rank(1, 2))
        write_atomically(tmp_path / name, b"written since")
        late.follow()


def test_a_process_that_finds_everything_done_ends_in_peace(begun: Any) -> None:
    job, expected, _ = begun
    late = Shared(job, rank(1, 2))
    assert late.parts.join(1, force=False)
    Shared(job, rank(0, 2)).lead(resume=True)
    late.parts.join = lambda *_: True  # type: ignore[method-assign]  # it had joined just before
    late.follow()
    assert take(job.output) == expected
