"""A prediction shared by several processes, on one machine or many.

The windows of the input are dealt out by rank. A process writes each window it has predicted as a part; when all parts
exist, the first process assembles the output. The processes never communicate, so none waits for one that is lost, and
a part that exists is never computed again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from gln.baselines import Baseline
from gln.errors import GLNError
from gln.files import digest_of
from gln.io.images import labels_of
from gln.io.tables import edges_of
from gln.storage.provenance import versions
from gln.training import Interrupted
from gln.training.processes import OtherProcesses, Place, give_way, is_orphan
from gln.workflows import Say, predict_files, silent
from gln.workflows.parts import Damaged, Part, PartsFolder, Removed, in_order, name_of
from gln.workflows.predict_files import Job, Outcome, Unfit, Window, count_blocks

PATIENCE = 600.0  # seconds without a sign of life after which other processes are given up


class Unfinished(GLNError):
    """Another process is lost; the parts so far are kept."""


class Explained(Unfinished):
    """The same, but that process has reported why."""


class Shared:
    """The work of the process at ``place`` on a job; each machine has ``devices`` processes."""

    def __init__(
        self,
        job: Job,
        place: Place,
        devices: int = 1,
        say: Say = silent,
        complain: Say = silent,
    ) -> None:
        self.job, self.place, self.devices, self.say, self.complain = job, place, devices, say, complain
        self.manifest, self.known = manifest(job), job.known_edges()
        self.parts = PartsFolder(job.output, self.manifest)
        self.blocks = count_blocks(job.paths)
        # Whole blocks, so that no other process reads their files; but few blocks would leave processes without
        # work, and how a table of edges for several files is read depends on the files before.
        self.by_block = self.blocks >= 4 * place.world and not edge_tables(job)
        self.said: set[str] = set()
        self.remarks: list[str] = []  # for the next part
        self.others: OtherProcesses | None = None

    def begin(self, resume: bool) -> None:
        """Create the folder of parts, or continue in the existing one."""
        self.parts.begin(resume, self.job.check_output)

    def lead(self, resume: bool) -> Outcome:
        """The work of the first process: begin, do its share, merge."""
        self.begin(resume)
        try:
            with self._company():
                self.work()
                return self._merge()
        except Unfit:  # with this input there is nothing to resume
            self.parts.remove()
            raise
        except KeyboardInterrupt:
            raise Interrupted(self._unfinished("interrupted")) from None
        except SystemExit:  # SIGTERM
            self.say(self._unfinished("interrupted"))
            raise

    def follow(self) -> None:
        """The work of every other process: do its share."""
        if not self.parts.join(PATIENCE, self.job.force):
            return
        try:
            with self._company(), self.parts.living(self.place.rank):
                self.work()
                while self.others is not None and self.others.running():
                    self._check_others()
                    time.sleep(0.1)
                self._check_others()
        except Removed:
            if not self.parts.is_finished(self.job.force):
                raise
        except Exception:
            give_way()
            raise

    @contextmanager
    def _company(self) -> Iterator[None]:
        """Start the other processes on this machine, unless something else does; none of them outlives the first."""
        if not self.place.started and self.devices > 1:
            self.others = OtherProcesses(self.devices)
        try:
            yield
        finally:
            if self.others is not None:
                self.others.kill()

    def work(self) -> None:
        """Predict the windows of this process that have no part yet."""
        there = self.parts.names()
        done = {int(name[:6]) for name in in_order(there, self.blocks)[0] if name.endswith("-last.part")}
        blocks = (lambda block: self._turn(block) and block not in done) if self.by_block else None

        def wanted(window: Window) -> bool:
            mine = self._turn(window.block if self.by_block else window.block + window.number)
            return mine and name_of(window) not in there

        self._answer(blocks, wanted)

    def _turn(self, number: int) -> bool:
        return number % self.place.world == self.place.rank

    def _answer(self, blocks: Callable[[int], bool] | None, wanted: Callable[[Window], bool]) -> None:
        bar = self.place.rank == 0  # one bar for all: they share a terminal
        for window, done in self.job.answers(self.known, self._remark, blocks, wanted, bar):
            used = self.known is not None and self.known.used
            self.parts.write(window, Part(done, self.remarks, used))
            self.remarks = []
            self._check_others()

    def _remark(self, text: str) -> None:
        """Store a remark with the next part; the same remark about several files is made once."""
        what = text.partition(": ")[2] or text
        if what not in self.said:
            self.said.add(what)
            self.remarks.append(text)
            self.say(text)

    def _check_others(self) -> None:
        status = self.others.lost() if self.others is not None else None
        if is_orphan() or status is not None:
            # A process of ours that fails says why and exits with 1 or 2; otherwise it was killed.
            kind = Explained if status in (1, 2) else Unfinished
            raise kind(self._unfinished("another process of this prediction was lost"))

    def _unfinished(self, why: str) -> str:
        return f"{why}; {self.parts.folder} holds what is done: repeat the command with --resume."

    def _merge(self) -> Outcome:
        """Assemble the output once all parts exist; damaged parts are computed again."""
        while True:
            done = self._read(self._wait())
            if manifest(self.job) != self.manifest:  # two processes may then have seen different windows
                raise GLNError(
                    f"Input files changed during the prediction; remove {self.parts.folder} and start again."
                )
            try:
                return self.parts.merge(partial(self.job.write, done, self.known))
            except Damaged as error:
                self._repair(error)

    def _wait(self) -> list[str]:
        """Wait until all parts exist; their names, in order."""
        seen: Any = None
        since = time.monotonic()
        while True:
            over = self._is_over()  # before looking at what exists
            there = self.parts.names()
            found, missing = in_order(there, self.blocks)
            if not missing:
                return found
            self._check_others()
            if (now := (there, self.parts.signs())) != seen:
                seen, since = now, time.monotonic()
            waited = time.monotonic() - since
            if over or waited > PATIENCE:
                silence = "" if over else f", without a sign of life for {waited / 60:.0f} minutes"
                raise Unfinished(self._unfinished(f"{missing[0]} is missing{silence}"))
            time.sleep(0.1)

    def _is_over(self) -> bool:
        """Whether no process can deliver any more parts."""
        if self.others is None:
            return self.place.world == 1
        return self.place.world == self.devices and not self.others.running()

    def _read(self, names: list[str]) -> Iterator[Outcome]:
        for name in names:
            part = self.parts.read(name)
            for text in part.remarks:
                self._remark(text)
            for what in map(str, part.done.skipped):
                if what not in self.said:
                    self.said.add(what)
                    self.complain(what)
            if self.known is not None:
                self.known.used |= part.known_used
            yield part.done

    def _repair(self, error: Damaged) -> None:
        self.say(f"{error} It is computed again.")
        error.path.unlink(missing_ok=True)
        broken = int(error.path.name[:6])
        blocks = (lambda block: block == broken) if self.by_block else None
        there = self.parts.names()
        self._answer(blocks, lambda window: window.block == broken and name_of(window) not in there)


def predict_shared(
    job: Job, place: Place, devices: int, resume: bool, say: Say, complain: Say
) -> Outcome | None:
    """This process's share of a prediction; the first process returns the outcome and speaks for all."""
    if place.rank:
        Shared(job, place, devices).follow()
        return None
    return Shared(job, place, devices, say, complain).lead(resume)


FORMAT = "gln parts 1"


def edge_tables(job: Job) -> list[Path]:
    """The tables of true edges that are read with the files of ``job``."""
    return list(dict.fromkeys(found for path in job.paths if (found := edges_of(path, job.options))))


def manifest(job: Job) -> dict[str, Any]:
    """Model, options and input of ``job``."""
    options = {name: str(value) for name, value in asdict(job.options).items()}
    labels = [found for path in job.paths if (found := labels_of(path, job.options))]
    beside = [*edge_tables(job), *labels, *([] if job.known is None else [job.known])]
    return {
        "format": FORMAT,
        "model": _fingerprint(job.model),
        "options": options | asdict(job.choice),
        "files": len(job.paths),
        "sizes, times or names of files": _digest([_stamp(path) for path in job.paths]),
        "tables of edges or labels": _digest([_stamp(path) for path in beside]),
        "device": _device(job.model),
        "windows": [predict_files.BLOCK, predict_files.WINDOW, predict_files.WINDOW_NODES],
        "versions": {name: versions().get(name) for name in ("gln", "torch")},
    }


def _stamp(path: Path) -> list[Any]:
    try:
        found = path.stat()
    except OSError:
        return [str(path)]
    return [str(path), found.st_size, found.st_mtime_ns]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _fingerprint(model: Any) -> str:
    """The fingerprint of all weights and settings of a model or baseline."""
    module = isinstance(model, nn.Module)
    if not module and not isinstance(model, Baseline):
        raise TypeError(
            f"{type(model).__name__} is neither a model nor a baseline that can be compared with another."
        )
    facts = [type(model).__name__, repr(model.config if module else model.settings())]
    state = digest_of(model.state_dict() if module else model.state())
    return _digest([*facts, repr(getattr(model, "threshold", None)), state])


def _device(model: Any) -> str:
    weight = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return "cpu" if weight is None else weight.device.type
