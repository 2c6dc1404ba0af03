"""A prediction shared by several processes, on one machine or many.

The windows of the input are dealt out by rank. Whoever has answered one keeps it as a part; when all parts are there,
the first process puts the output together. The processes never talk to each other, so that none waits for one that is
lost, and a part that is there is never computed again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from gln.errors import GLNError
from gln.io.tables import edges_of
from gln.pipeline.answering import Answered, Unfit
from gln.pipeline.manifest import manifest
from gln.pipeline.outcome import Outcome
from gln.pipeline.parts import Damaged, Part, Parts, in_order, name_of
from gln.pipeline.predicting import Job
from gln.pipeline.windows import Say, Window, count_blocks
from gln.training import Interrupted
from gln.training.processes import Others, Place, is_orphan

PATIENCE = (
    600.0  # seconds without a new part after which other processes are given up; 10 parts' worth if longer
)


class Unfinished(GLNError):
    """Another process is lost; what was answered so far is kept."""


class Shared:
    """The work on a job of the process at ``place``, where each machine has ``devices`` processes."""

    def __init__(self, job: Job, place: Place, devices: int = 1, say: Say | None = None) -> None:
        self.job, self.place, self.devices, self.say = job, place, devices, say
        self.parts, self.known = Parts(job.output), job.known_edges()
        self.blocks = count_blocks(job.paths)
        companions = [found for path in job.paths if (found := edges_of(path, job.options)) is not None]
        self.manifest = manifest(job, companions)
        # Whole blocks, so that nobody else reads their files; but few of them would leave processes without work, and
        # a table of edges for several files is read in the light of the files before.
        self.by_block = self.blocks >= 4 * place.world and not companions
        self.said: set[str] = set()
        self.remarks: list[str] = []  # for the next part
        self.slowest = 0.0
        self.others: Others | None = None

    def begin(self, resume: bool) -> None:
        """Make the folder of parts, or go on in the one that is there."""
        self.parts.begin(self.manifest, resume, self.job.check_output)

    def lead(self, resume: bool, complain: Say | None = None) -> Outcome:
        """The work of the first process: begin, take part, merge."""
        self.begin(resume)
        try:
            with self._company():
                self.work()
                outcome = self._merge()
        except Unfit:  # with this input there is nothing to go on with
            self.parts.remove()
            raise
        except KeyboardInterrupt:
            raise Interrupted(self._unfinished("interrupted")) from None
        for what in outcome.skipped if complain is not None else ():
            complain(str(what))  # type: ignore[misc]
        return outcome

    def follow(self) -> None:
        """The work of every other process: its share."""
        if not self.parts.join(self.manifest, PATIENCE):
            return
        with self._company():
            self.work()
            while self.others is not None and self.others.running():
                self._check_others()
                time.sleep(0.1)
            self._check_others()

    @contextmanager
    def _company(self) -> Iterator[None]:
        """The other processes of this machine, unless someone else starts them; none of them outlives the first."""
        if not self.place.started and self.devices > 1:
            self.others = Others(self.devices)
        try:
            yield
        finally:
            if self.others is not None:
                self.others.kill()

    def work(self) -> None:
        """Answer the windows of this process that nobody has answered yet."""
        there = self.parts.names()
        done = {int(name[:6]) for name in in_order(there, self.blocks)[0] if name.endswith("-last.part")}
        blocks = (lambda block: self._turn(block) and block not in done) if self.by_block else None
        self._answer(blocks, lambda window: name_of(window) not in there and self._is_mine(window))

    def _is_mine(self, window: Window) -> bool:
        return self._turn(window.block if self.by_block else window.block + window.number)

    def _turn(self, number: int) -> bool:
        return number % self.place.world == self.place.rank

    def _answer(self, blocks: Callable[[int], bool] | None, wanted: Callable[[Window], bool]) -> None:
        since = time.monotonic()
        for window, answered in self.job.answers(self.known, self._remark, blocks, wanted):
            used = self.known is not None and self.known.used
            self.parts.write(window, Part(answered, self.remarks, used))
            self.remarks = []
            self.slowest, since = max(self.slowest, time.monotonic() - since), time.monotonic()
            self._check_others()

    def _remark(self, text: str) -> None:
        """Keep what is said with the next part; what is said of several files is said once."""
        what = text.partition(": ")[2] or text
        if what not in self.said:
            self.said.add(what)
            self.remarks.append(text)
            if self.say is not None:
                self.say(text)

    def _check_others(self) -> None:
        if is_orphan() or (self.others is not None and self.others.lost()):
            raise Unfinished(self._unfinished("another process of this prediction was lost"))

    def _unfinished(self, why: str) -> str:
        return f"{why}; {self.parts.folder} holds what is done: repeat the command with --resume."

    def _merge(self) -> Outcome:
        """Put the output together once all parts are there, and those that are damaged are answered anew."""
        while True:
            answered = self._read(self._wait())
            try:
                return self.parts.merge(partial(self.job.write, answered, self.known))
            except Damaged as error:
                self._repair(error)

    def _wait(self) -> list[str]:
        """The names of all parts, in order, when they are there."""
        count, since = -1, time.monotonic()
        while True:
            over = self.others is not None and not self.others.running()  # before the look at what is there
            there = self.parts.names()
            found, missing = in_order(there, self.blocks)
            if not missing:
                return found
            self._check_others()
            if len(there) != count:
                count, since = len(there), time.monotonic()
            waited = time.monotonic() - since
            alone = self.place.world == 1 or over
            if alone or waited > max(PATIENCE, 10 * self.slowest):
                waiting = "" if alone else f" after {waited / 60:.0f} minutes"
                raise Unfinished(self._unfinished(f"{missing[0]} is missing{waiting}"))
            time.sleep(0.1)

    def _read(self, names: list[str]) -> Iterator[Answered]:
        for name in names:
            part = self.parts.read(name)
            for text in part.remarks:
                self._remark(text)
            if self.known is not None:
                self.known.used |= part.known_used
            yield part.answered

    def _repair(self, error: Damaged) -> None:
        if self.say is not None:
            self.say(f"{error} It is computed again.")
        error.path.unlink(missing_ok=True)
        broken = int(error.path.name[:6])
        blocks = (lambda block: block == broken) if self.by_block else None
        there = self.parts.names()
        self._answer(blocks, lambda window: window.block == broken and name_of(window) not in there)
