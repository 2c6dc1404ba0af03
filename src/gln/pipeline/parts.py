"""A prediction in parts: what each process has answered so far, on a disk that all of them share.

::

    OUT.parts/
      manifest                what is predicted with what; a run is resumed under the same only
      000003-000000.part      window 0 of block 3: its items, their edges, what was skipped
      000003-000001-last.part the last one of the block
      merging                 OUT is being put together, so that an OUT which is there is ours

A part is a checksum, a line of JSON, and tensors as safetensors; it appears in one step.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.files import write_atomically
from gln.io import Item, Skipped
from gln.pipeline.answering import Answered
from gln.pipeline.outcome import Outcome
from gln.pipeline.windows import Window
from gln.training.tensors import clear_disk_errors, read_json, write_json


class Damaged(GLNError):
    """A part is not what was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is damaged or gone.")
        self.path = path


@dataclass
class Part:
    """What a file holds: the answers of a window, what was said on the way, and whether known edges were used."""

    answered: Answered
    remarks: list[str] = field(default_factory=list)
    known_used: bool = False


def name_of(window: Window) -> str:
    return f"{window.block:06d}-{window.number:06d}{'-last' if window.last else ''}.part"


def in_order(names: set[str], blocks: int) -> tuple[list[str], list[str]]:
    """The parts among ``names`` in the order of the input, and the first one missing of every block."""
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


class Parts:
    """The folder of parts of ``output``."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = output.with_name(f"{output.name}.parts")
        self.manifest, self.merging = self.folder / "manifest", self.folder / "merging"

    def begin(self, facts: dict[str, Any], resume: bool, check: Callable[..., None]) -> None:
        """Make the folder; refuse to mix two predictions. ``check(force=…)`` refuses an output that cannot be."""
        facts = json.loads(json.dumps(facts))
        if self.manifest.exists():
            if not resume:
                raise GLNError(
                    f"{self.folder} holds an unfinished prediction; go on with --resume, or remove the folder."
                )
            before = read_json(self.manifest)
            changed = [name for name in facts if before.get(name) != facts[name]]
            if changed:
                raise GLNError(
                    f"{self.folder} was begun with other {' and '.join(changed)}; resume with the same, or remove it."
                )
        else:  # what is left of a removal that was cut short: it takes the manifest first
            for left in [*self.folder.glob("*.part"), *self.folder.glob("merging")]:
                left.unlink()
        with clear_disk_errors(self.folder):
            check(force=self.merging.exists())
            self.folder.mkdir(exist_ok=True)
        write_json(self.manifest, facts)

    def join(self, facts: dict[str, Any], seconds: float) -> bool:
        """Wait for the first process to begin; whether there is still something to do."""
        facts, end = json.loads(json.dumps(facts)), time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if read_json(self.manifest) == facts:
                    return True
            except GLNError:
                if self.output.exists() and not self.folder.exists():
                    return False  # the first process found everything done, or will say what is wrong
            time.sleep(0.1)
        raise GLNError(
            f"{self.folder} was not begun for this input in {seconds / 60:g} minutes; start all processes with one "
            "command, and let them share the folder."
        )

    def names(self) -> set[str]:
        return {path.name for path in self.folder.glob("[0-9]*.part")}

    def write(self, window: Window, part: Part) -> None:
        """Keep what was answered to ``window``."""
        done = part.answered.outcome
        facts = {
            "items": [
                {"name": item.name, "path": str(item.path), "ids": item.ids, "part": item.part}
                | {"nodes": item.graph.num_nodes}
                for item, _ in part.answered.pairs
            ],
            "edges": done.edges,
            "skipped": [[str(what.path), what.reason] for what in done.skipped],
            "labelled": done.labelled,
            "scores": done.scores,
            "remarks": part.remarks,
            "known_used": part.known_used,
        }
        tensors = {
            f"{number}.{name}": value[name].cpu().contiguous().clone()
            for number, (item, answer) in enumerate(part.answered.pairs)
            for value, names in ((item.graph, ("pos", "x")), (answer, ("edge_index", "edge_prob")))
            for name in names
            if value.get(name) is not None
        }
        body = json.dumps(facts).encode() + b"\n" + safetensors.torch.save(tensors)
        path = self.folder / name_of(window)
        with clear_disk_errors(path):
            write_atomically(path, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)

    def read(self, name: str) -> Part:
        """What :meth:`write` kept, if all of it is still there."""
        path = self.folder / name
        try:
            digest, _, body = path.read_bytes().partition(b"\n")
            if digest.decode() != hashlib.sha256(body).hexdigest():
                raise Damaged(path)
            line, _, data = body.partition(b"\n")
            facts, tensors = json.loads(line), safetensors.torch.load(data)
        except (OSError, UnicodeDecodeError, SafetensorError):
            raise Damaged(path) from None
        pairs = []
        for number, item in enumerate(facts["items"]):
            rows = {key: tensors[f"{number}.{key}"] for key in ("pos", "x") if f"{number}.{key}" in tensors}
            edges = {key: tensors[f"{number}.{key}"] for key in ("edge_index", "edge_prob")}
            nodes = item["nodes"]
            graph, answer = Data(**rows, num_nodes=nodes), Data(**rows, **edges, num_nodes=nodes)
            pairs.append(
                (Item(item["name"], Path(item["path"]), graph, False, item["ids"], item["part"]), answer)
            )
        skipped = [Skipped(Path(path), reason) for path, reason in facts["skipped"]]
        done = Outcome(len(pairs), facts["edges"], skipped, facts["labelled"], facts["scores"])
        return Part(Answered(pairs, done), facts["remarks"], facts["known_used"])

    def merge(self, write: Callable[..., Outcome]) -> Outcome:
        """Have ``write(force=…)`` put the output together, and remove the parts."""
        ours = self.merging.exists()
        try:
            with clear_disk_errors(self.output):
                self.merging.touch()
                outcome = write(force=ours)
        except BaseException:
            if not ours:
                self.merging.unlink(missing_ok=True)
            raise
        self.remove()
        return outcome

    def remove(self) -> None:
        self.manifest.unlink(
            missing_ok=True
        )  # first, so that what is left of a removal cut short is no prediction
        shutil.rmtree(self.folder, ignore_errors=True)
