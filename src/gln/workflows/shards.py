"""A prediction into a folder: shards are computed each on its own and written atomically, so that what is done stays.

::

    OUT/
      _gln.json          model, options and input: only the same prediction is continued
      000003.parquet     the edges of window 3, and what is to be said of it
      _rejects.csv       the sets that could not be predicted, and why

The process that was started reads the windows, hands those without a shard to an engine, and writes what comes back:
workers need no disk in common, and one that is killed costs the window it had.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from gln.errors import GLNError
from gln.files import digest_of, hold, write_atomically
from gln.io.images import labels_of
from gln.io.table_writers import facts_in, labelled_edges, pack_edges
from gln.io.tables import edges_of
from gln.storage.facts import read_facts
from gln.storage.provenance import versions
from gln.storage.tensors import clear_disk_errors, write_json
from gln.workflows import Say, Skip, silent
from gln.workflows.answers import Outcome
from gln.workflows.engines import Engine, in_this_process
from gln.workflows.predict_files import Job, once


class Folder:
    """A folder of shards of the prediction that ``facts`` describe."""

    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        self.path, self.manifest = path, path / "_gln.json"
        self.facts = json.loads(json.dumps(facts))  # as they will be read back

    @contextmanager
    def begun(self, force: bool = False) -> Iterator[None]:
        """Create the folder or continue in it; refuse to mix predictions, unless ``force`` removes the other one."""
        if not self.path.parent.is_dir():
            raise GLNError(f"The folder {self.path.parent} does not exist; create it first.")
        with clear_disk_errors(self.path):
            self.path.mkdir(exist_ok=True)
        with hold(self.path / "_lock", f"{self.path} is being written by another process; wait for it."):
            before = read_facts(self.manifest) if self.manifest.exists() else {}
            changed = [name for name in self.facts if before.get(name) != self.facts[name]]
            others = [path for path in self.path.iterdir() if path.name != "_lock"]
            if others and changed and not (force and before):
                what = f"was begun with other {' and '.join(changed)}" if before else "holds something else"
                raise GLNError(
                    f"{self.path} {what}; name another folder, or replace what gln wrote with --force (force=True)."
                )
            for path in others if changed else []:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            write_json(self.manifest, self.facts)
            try:
                with clear_disk_errors(self.path):
                    yield
            except KeyboardInterrupt:
                from gln.training import Interrupted  # here and below, as a prediction needs no training

                raise Interrupted(
                    f"interrupted; {self.path} holds what is done: repeat the command to continue."
                ) from None

    def file(self, number: int) -> Path:
        return self.path / f"{number:06d}.parquet"

    def finish(self, count: int, skip: Skip) -> Outcome:
        """The outcome of all shards; what was skipped is reported and listed in a table."""
        outcome = Outcome()
        for number in range(count):
            path = self.file(number)
            try:
                outcome.add(Outcome.from_facts(facts_in(path)))
            except GLNError:
                path.unlink(missing_ok=True)
                raise GLNError(f"{path} is damaged and was removed; repeat the command.") from None
        for what in outcome.skipped:
            skip(what)
        text = io.StringIO(newline="")
        rows = [("file", "reason"), *((str(what.path), what.reason) for what in outcome.skipped)]
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_atomically(self.path / "_rejects.csv", text.getvalue().encode("utf-8", "backslashreplace"))
        return outcome


def predict_in_folder(
    job: Job, engine: Engine = in_this_process, say: Say = silent, skip: Skip = silent
) -> Outcome:
    """Predict the windows of ``job`` that have no shard yet; a set that cannot be predicted stops no other."""
    known, say = job.known_edges(), once(say)
    folder, count = Folder(job.output, manifest(job)), 0

    def missing(number: int) -> bool:
        nonlocal count
        count = number + 1
        return not folder.file(number).exists()

    with folder.begun(job.force):
        for number, done in job.answers(engine, say, missing):
            edges = [labelled_edges(item, answer) for item, answer in done.answers]
            write_atomically(folder.file(number), pack_edges(edges, done.facts()))
        outcome = folder.finish(count, skip)
    if known is not None:
        known.check_used(outcome.used)
    return outcome


def manifest(job: Job) -> dict[str, Any]:
    """Model, options and input of ``job``."""
    beside = [found for path in job.paths for of in (edges_of, labels_of) if (found := of(path, job.options))]
    return {
        "model": fingerprint(job.model),
        "options": {name: str(value) for name, value in (asdict(job.options) | asdict(job.choice)).items()},
        "files": stamps(job.paths),
        "tables of edges or labels": stamps(beside + ([] if job.known is None else [job.known])),
        "versions": {name: versions().get(name) for name in ("gln", "torch")},
    }


def stamps(paths: Sequence[Path]) -> str:
    """A hash of what changes when files do."""
    found = [(path, path.stat()) for path in paths if path.exists()]
    return _digest([len(paths), [(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in found]])


def fingerprint(model: Any) -> str:
    """A hash of all weights and settings of a model or baseline."""
    network = isinstance(model, nn.Module)
    settings = model.config if network else model.settings()
    state = digest_of(model.state_dict() if network else model.state())
    return _digest([type(model).__name__, repr(settings), repr(getattr(model, "threshold", 0)), state])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
