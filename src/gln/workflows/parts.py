"""A prediction in parts: what each process has predicted so far, on a disk that all of them share.

::

    OUT.parts/
      manifest                  model, options and input; a run is resumed only with the same ones
      5f0c93d1a7b2e864/         named after the manifest: a late process of another prediction writes elsewhere
        000003-000000.part      window 0 of block 3: its items, their edges, what was skipped
        000003-000001-last.part the last window of the block
        alive-2                 touched by process 2 while it runs
        merging                 OUT is being assembled, so an OUT that exists is ours

A part holds tensors, facts about them, and a checksum of both; it is written atomically.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gln.errors import GLNError
from gln.graphs.record import NAMES, ROWS, Graph, is_per_edge
from gln.io import Item, Skipped
from gln.storage.facts import read_facts
from gln.storage.tensors import clear_disk_errors, read_tensors, write_json, write_tensors
from gln.workflows.predict_files import Outcome, Window

BEAT = 10.0  # seconds between signs of life
FOUND = ("edge_index", "node_type", "node_type_prob")  # of a prediction, besides what it says of its edges


class Damaged(GLNError):
    """A part is not what was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is damaged or gone.")
        self.path = path


class Removed(GLNError):
    """The folder is gone: the output was assembled by another process, or there will be none."""


@dataclass
class Part:
    """What a part holds: the outcome of a window, remarks made on the way, and whether known edges were used."""

    done: Outcome
    remarks: list[str] = field(default_factory=list)
    known_used: bool = False


def name_of(window: Window) -> str:
    return f"{window.block:06d}-{window.number:06d}{'-last' if window.last else ''}.part"


def in_order(names: set[str], blocks: int) -> tuple[list[str], list[str]]:
    """The parts among ``names`` in the order of the input, and the first missing part of each incomplete block."""
    found: list[str] = []
    missing: list[str] = []
    for block in range(blocks):
        number = 0
        while (name := name_of(Window(block, number))) in names:
            found.append(name)
            number += 1
        last = name_of(Window(block, number, last=True))
        (found if last in names else missing).append(last if last in names else name)
    return found, missing


def _found(answer: Graph) -> dict[str, Any]:
    """The tensors of a prediction that are not those of its nodes in the file."""
    return {name: answer[name] for name in answer.keys() if is_per_edge(name) or name in FOUND}  # noqa: SIM118


class PartsFolder:
    """The folder of parts of ``output``, for the prediction with the manifest ``facts``."""

    def __init__(self, output: Path, facts: dict[str, Any]) -> None:
        self.output = output
        text = json.dumps(facts)
        self.facts = json.loads(text)  # as it will be read back
        self.folder = output.with_name(f"{output.name}.parts")
        self.manifest = self.folder / "manifest"
        self.ours = self.folder / hashlib.sha256(text.encode()).hexdigest()[:16]
        self.merging = self.ours / "merging"
        self.before = self._outputs()

    def begin(self, resume: bool, check: Callable[..., None]) -> None:
        """Create the folder; refuse to mix predictions. ``check(force=…)`` refuses an output that cannot be written."""
        if self.manifest.exists():
            if not resume:
                raise GLNError(
                    f"{self.folder} holds a prediction that is running or was cut short; use --resume, or remove it."
                )
            before = read_facts(self.manifest)
            changed = [name for name in self.facts if before.get(name) != self.facts[name]]
            if changed:
                raise GLNError(
                    f"{self.folder} was begun with other {' and '.join(changed)}; resume with the same, or remove it."
                )
        else:  # left by a removal that was cut short, which starts with the manifest
            self.merging.unlink(missing_ok=True)
        with clear_disk_errors(self.folder):
            check(force=self.merging.exists())
            self.ours.mkdir(parents=True, exist_ok=True)
        write_json(self.manifest, self.facts)

    def join(self, seconds: float, force: bool) -> bool:
        """Wait for the first process to begin; returns whether there is still something to do."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if read_facts(self.manifest) == self.facts:
                    return True
            except GLNError:
                if self.is_finished(force):
                    return False
            time.sleep(0.1)
        raise GLNError(
            f"{self.folder} was not begun for this input within {seconds / 60:g} minutes; start all processes with "
            "the same command and let them share the folder."
        )

    def is_finished(self, force: bool) -> bool:
        """Whether the first process is done, or has refused to begin because the output existed before."""
        if self.folder.exists():
            return False
        return self._outputs() != self.before or (self.output.exists() and not force)

    def _outputs(self) -> dict[str, tuple[int, int]]:
        """What distinguishes the output files that exist now from files that replace them."""
        stem, suffix = self.output.stem, self.output.suffix
        found = {}
        with suppress(OSError):
            for path in self.output.parent.iterdir():
                if path == self.output or (path.name.startswith(f"{stem}-") and path.suffix == suffix):
                    found[path.name] = (path.stat().st_ino, path.stat().st_mtime_ns)
        return found

    def names(self) -> set[str]:
        """The names of the parts that exist."""
        with self._there():
            return {name for name in os.listdir(self.ours) if name[0].isdigit()}

    @contextmanager
    def living(self, rank: int) -> Iterator[None]:
        """Leave a sign of life of process ``rank`` at regular intervals."""
        over, sign = threading.Event(), self.ours / f"alive-{rank}"

        def beat() -> None:
            with suppress(OSError):  # a full disk, or the folder is gone
                sign.touch()
                while not over.wait(BEAT):
                    os.utime(sign)  # never creates it again in a folder that is being removed

        threading.Thread(target=beat, daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def signs(self) -> dict[str, int]:
        """When each process last gave a sign of life, by the clock of the disk."""
        found = {}
        for path in self.ours.glob("alive-*"):
            with suppress(OSError):
                found[path.name] = path.stat().st_mtime_ns
        return found

    @contextmanager
    def _there(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise Removed(f"{self.folder} was removed while the prediction ran; start it again.") from None

    def write(self, window: Window, part: Part) -> None:
        """Write the answers for ``window``."""
        done = part.done
        facts = {
            "items": [
                {"name": item.label, "path": str(item.path), "ids": item.ids, "part": item.part}
                | {"nodes": item.graph.num_nodes, "origin": item.origin}
                | {name: answer[name] for name in (*NAMES, "directed") if name in answer}
                for item, answer in done.answers
            ],
            "edges": done.edges,
            "skipped": [[str(what.path), what.reason] for what in done.skipped],
            "labelled": done.labelled,
            "scores": done.scores,
            "remarks": part.remarks,
            "known_used": part.known_used,
        }
        tensors = {
            f"{number}.{name}": value
            for number, (item, answer) in enumerate(done.answers)
            for name, value in (item.graph.rows() | _found(answer)).items()
        }
        with self._there():
            write_tensors(self.ours / name_of(window), tensors, facts)

    def read(self, name: str) -> Part:
        """Read what :meth:`write` wrote; raise :class:`Damaged` if it is not intact."""
        path = self.ours / name
        try:
            tensors, facts = read_tensors(path)
        except GLNError:
            raise Damaged(path) from None
        answers, keys = [], defaultdict[int, list[str]](list)
        for key in tensors:
            place, _, name = key.partition(".")
            keys[int(place)].append(name)
        for number, item in enumerate(facts["items"]):
            rows = {key: tensors[f"{number}.{key}"] for key in ROWS if f"{number}.{key}" in tensors}
            graph = Graph(item["nodes"], **rows)
            named = item["name"], Path(item["path"]), graph, False, item["ids"], item["part"]
            found = Item(*named, origin=item["origin"])
            own = {key: tensors[f"{number}.{key}"] for key in keys[number] if key not in ROWS}
            own |= {name: item[name] for name in (*NAMES, "directed") if name in item}
            answers.append((found, graph.with_edges(**own)))
        skipped = [Skipped(Path(path), reason) for path, reason in facts["skipped"]]
        done = Outcome(len(answers), facts["edges"], skipped, facts["labelled"], facts["scores"], answers)
        return Part(done, facts["remarks"], facts["known_used"])

    def merge(self, write: Callable[..., Outcome]) -> Outcome:
        """Have ``write(force=…)`` assemble the output, then remove the parts."""
        again = self.merging.exists()
        with clear_disk_errors(self.output):
            with self._there():
                self.merging.touch()
            try:
                outcome = write(force=again)
            except GLNError:  # refused before anything was written
                if not again:
                    self.merging.unlink(missing_ok=True)
                raise
        self.remove()
        return outcome

    def remove(self) -> None:
        """Remove the folder, the manifest first, so that a removal cut short leaves no prediction to resume."""
        self.manifest.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
