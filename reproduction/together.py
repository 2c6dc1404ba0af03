"""Train all cells that are read at their last epoch, many at once.

    python -m reproduction.together                          # what there is to train
    python -m reproduction.together train --only community-2/equations-1
    python -m reproduction.together keep --only …/released --out FOLDER   # ordinary trainings, to be measured elsewhere
    python -m reproduction.together fold FOLDER/*.zip        # what was trained elsewhere

``python -m reproduction`` then measures the cells. A machine without the repository is told its commit: what it trained
is accepted only if its source was that commit's.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterable
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from gln.errors import GLNError
from gln.files import write_atomically
from gln.storage.provenance import commit, write_result
from reproduction.cells import Cell, Places, choose
from reproduction.data import SEED, Parts, parts_of
from reproduction.last import (
    CHOSEN,
    ROOT,
    SOURCE,
    Start,
    Training,
    digest_of_files,
    in_stacks,
    keep_graphs,
    kept,
    predictions_of,
    source_facts,
    started,
    starts_of,
    train,
    usual_device,
)
from reproduction.specs import BATCH

MAIN, READINGS, STARTS, REST = range(4)  # what is trained first


def trainings_of(cells: Iterable[Cell], places: Places) -> list[Training]:
    """What has to be trained for ``cells``: each training once, to the most epochs that a cell asks for."""
    known = cache(lambda scale, protocol, column: parts_of(scale, protocol, column))  # which forgets
    found: dict[Path, Training] = {}
    for cell in (cell for cell in cells if cell.settings.last):
        folder, stop = cell.run_folder(places), cell.settings.fit["epochs"]
        wanted: list[tuple[Path, int, Start | None]] = [(folder, cell.seed, None)]
        if cell.experiment.measure == "robustness_trained":
            starts = starts_of(cell.experiment.options[cell.scale])
            wanted = [(started(folder, start), start.run, start) for start in starts]
        parts: Parts = known(cell.scale, cell.protocol, cell.column)
        for path, seed, start in wanted:
            before = found.get(path)
            stops = tuple(sorted({stop, *(before.stops if before else ())}))
            rank = min(_rank(cell), before.rank if before else REST)
            found[path] = Training(path, cell.settings, parts, seed, stops, start, cell.key, rank)
    return list(found.values())


def _rank(cell: Cell) -> int:
    if cell.experiment.measure == "robustness_trained":
        return STARTS
    if cell.experiment.cells in ("depth", "ablation"):
        return REST
    return MAIN if cell.row in ("equations-1", "equations-longer") else READINGS


def digest_of_commit(name: str) -> str:
    """The same of a commit of this repository."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", name, *SOURCE], capture_output=True, check=False
    )
    if done.returncode:
        raise GLNError(f"There is no commit {name} here; fetch it first.")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        members = [member for member in archive if Path(member.name).suffix in (".py", ".yaml")]
        files = [(Path(member.name), archive.extractfile(member).read()) for member in members]  # type: ignore[union-attr]
    return digest_of_files(sorted(files))


def keep_chosen(cell: Cell, places: Places, facts: dict[str, Any]) -> None:
    """Train the network of an ordinary cell and keep what it predicts."""
    from gln import predict  # here, as a machine that only trains the equations may not have all of this
    from reproduction.making import make_system

    settings, folder = cell.settings, cell.run_folder(places)
    parts = parts_of(cell.scale, cell.protocol, cell.column)
    model, shown, about = make_system(settings, parts, folder, cell.seed)
    made = predict(model, shown.test, batch_size=BATCH)
    keep_graphs(folder, made, about | {"trained": facts})


def keep_all(cells: list[Cell], places: Places, given: str | None, minutes: float, jobs: int) -> None:
    """:func:`keep_chosen` of those that are not kept, in processes side by side, which end after ``minutes``."""
    end, facts = time.monotonic() + 60 * minutes, source_facts(given, usual_device())
    waiting = [cell for cell in cells if not kept(cell.run_folder(places), CHOSEN).exists()]
    running: list[Any] = []
    while (waiting or running) and time.monotonic() < end:
        running = [process for process in running if process.is_alive()]
        while waiting and len(running) < jobs:
            process = get_context("spawn").Process(target=keep_chosen, args=(waiting.pop(0), places, facts))
            process.start()
            running.append(process)
        time.sleep(1)
    for process in running:
        process.terminate()


def report(trainings: Iterable[Training], path: Path) -> int:
    """Write how far the unfinished trainings came: epochs, IoU on all test graphs, and the curve; returns how many.

    What was written of a training that is not here stays, until it is finished.
    """
    from reproduction.measures import bootstrap, edge_rows  # as in keep_chosen

    trainings = list(trainings)
    here = {training.name for training in trainings if list(training.folder.glob("epoch-*.npz"))}
    before = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    rows = [row for row in before if row["training"] not in here]
    for training in trainings:
        epochs = [int(one.stem.removeprefix("epoch-")) for one in training.folder.glob("epoch-*.npz")]
        if training.finished or not epochs:
            continue
        made, facts = predictions_of(training.folder, max(epochs), training.parts.test)
        iou = edge_rows(training.parts.test, made, False)["iou"]
        row = {"training": training.name, "of_epochs": training.stops[-1], "iou": float(iou.mean())}
        rows.append(row | {"interval": bootstrap(iou), "system": facts})
    write_result(path, "python -m reproduction.together report", SEED, {"rows": rows})
    return len(rows)


def pack(folders: Iterable[Path], places: Places, out: Path) -> int:
    """Write what was trained into files of about 12 MB below ``out``; returns how many trainings."""
    out.mkdir(parents=True, exist_ok=True)
    done = [folder for folder in folders if (folder / "training.json").exists()]
    number, size = 0, 0
    for folder in done:
        files = sorted([*folder.glob("epoch-*.npz"), folder / "training.json"])
        with zipfile.ZipFile(out / f"trained-{number}.zip", "a", zipfile.ZIP_DEFLATED) as packed:
            for one in files:
                packed.write(one, one.relative_to(places.root))
        size += sum(one.stat().st_size for one in files)
        if size > 12_000_000:
            number, size = number + 1, 0
    return len(done)


def fold(path: Path, places: Places) -> int:
    """Put packed trainings where the cells find them, if their source is that of their commit; returns how many.

    One that went on for longer here stays.
    """
    digests: dict[str, str] = {}
    count = 0
    with zipfile.ZipFile(path) as file:
        for name in (name for name in file.namelist() if name.endswith("training.json")):
            folder = Path(name).parent
            if folder.is_absolute() or ".." in folder.parts or folder.parts[0] != "runs":
                raise GLNError(f"{path} holds {name}; expected files below runs/ only.")
            facts = json.loads(file.read(name))
            source = facts["trained"]["commit"]
            digests.setdefault(source, digest_of_commit(source))
            if digests[source] != facts["trained"]["source"]:
                raise GLNError(f"{name} was not trained with the source of commit {source}; train it again.")
            here = places.root / name
            if here.exists() and json.loads(here.read_text(encoding="utf-8"))["epochs"] >= facts["epochs"]:
                continue
            here.parent.mkdir(parents=True, exist_ok=True)
            for one in (one for one in file.namelist() if Path(one).parent == folder):
                write_atomically(places.root / one, file.read(one))
            count += 1
    return count


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m reproduction.together", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "task", nargs="?", default="list", choices=["list", "train", "keep", "fold", "report"]
    )
    parser.add_argument("files", nargs="*", type=Path, help="for fold: the packed trainings")
    parser.add_argument("--scale", default="full", choices=["full", "smoke"])
    parser.add_argument("--experiments", nargs="*", default=[], help="only these; default: all")
    parser.add_argument("--only", nargs="*", default=[], help="only cells whose name contains one of these")
    parser.add_argument(
        "--without", nargs="*", default=[], help="not the cells whose name contains one of these"
    )
    parser.add_argument("--skip", nargs="*", default=[], help="not the cells of these experiments")
    parser.add_argument("--device", default=usual_device())
    parser.add_argument("--minutes", type=float, default=1e6, help="stop and keep the state after so many")
    parser.add_argument("--jobs", type=int, default=8, help="stacks side by side on a GPU")
    parser.add_argument("--commit", help="of this source, where there is no repository")
    parser.add_argument("--out", type=Path, help="write what was trained into this folder, too")
    parser.add_argument("--root", type=Path, default=Path())
    asked = parser.parse_args()
    places = Places(asked.root)
    if asked.task == "fold":
        count = sum(fold(path, places) for path in asked.files)
        print(f"{count} trainings put below {places.runs(asked.scale)}.")
        return
    cells = [
        cell
        for cell in choose(asked.experiments, asked.scale)
        if (not asked.only or any(part in cell.key for part in asked.only))
        and not any(part in cell.key for part in asked.without)
        and cell.experiment.name not in asked.skip
    ]
    trainings = [] if asked.task == "keep" else trainings_of(cells, places)
    if asked.task == "list":
        for group in in_stacks(trainings):
            done = sum(training.finished for training in group)
            print(f"{done:>3} of {len(group):>3}  {group[0].updates:>7} updates  {group[0].name}")
        return
    if asked.task == "report":
        path = asked.root / "results" / "equations-unfinished.json"
        print(f"{report(trainings, path)} unfinished trainings in {path}.")
        return
    if asked.scale == "full" and not asked.commit and "-dirty" in (commit() or "-dirty"):
        raise GLNError("A result is measured with committed code only; commit the changes first.")
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - begun:5.0f} s] {text}", flush=True)

    if asked.task == "keep":
        usual = [cell for cell in cells if cell.settings.model and not cell.settings.last]
        keep_all(usual, places, asked.commit, asked.minutes, asked.jobs)
        say(f"{pack([cell.run_folder(places) for cell in usual], places, asked.out)} trainings packed")
        return
    jobs = train(trainings, asked.device, asked.commit, asked.minutes, say, asked.jobs)
    if asked.out:
        folders = [training.folder for training in trainings]
        say(f"{pack(folders, places, asked.out)} trainings packed in {asked.out}")
    if failed := [job for job in jobs if job.failed]:
        sys.exit(f"{len(failed)} of {len(jobs)} stacks failed; the messages above say why.")


if __name__ == "__main__":
    try:
        main()
    except GLNError as error:
        sys.exit(str(error))
