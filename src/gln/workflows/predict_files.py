"""Predict the edges of every set of nodes in files, into a file or into a folder.

The files are read as windows: sets of nodes that are predicted together. Windows depend on the files alone, so the
answers are the same in any process and in any run. In a folder, shards are computed each on its own and written
atomically, so that what is done stays::

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.baselines.neighbours import FROM_TRAINING, Rules, rules_of_scored
from gln.errors import GLNError
from gln.files import apart_from, digest_of, hold, write_atomically
from gln.inference.predict import Choice, Method, Tick
from gln.io import Item, ReadOptions, Skipped, open_writer
from gln.io.images import labels_of
from gln.io.reading import node_files, once, read_all
from gln.io.tables import edges_of
from gln.io.writing import facts_in, labelled_edges, pack_edges
from gln.storage.facts import clear_disk_errors, read_facts, write_json
from gln.storage.provenance import versions
from gln.workflows import Say, Skip, silent
from gln.workflows.answers import KnownEdges, Outcome, Window, answer_window
from gln.workflows.engines import Engine, in_this_process
from gln.workflows.forms import Chemistry, Form
from gln.workflows.methods import as_molecules, coinciding, put_on

if TYPE_CHECKING:
    from gln.decoding.clusters import Grouping

WINDOW = 256  # items considered together, so that those of similar size share a batch
WINDOW_NODES = 2**17  # fewer items where they are large
LOST = "the processes that were to predict it were killed, perhaps for want of memory."


def cut_windows(events: Iterable[Item | Skipped]) -> Iterator[Window]:
    """Cut items and unreadable files into windows small enough for memory."""
    window, nodes = Window(0), 0
    for event in events:
        if isinstance(event, Skipped):
            window.bad.append(event)
            continue
        if window.items and (len(window.items) == WINDOW or nodes + event.graph.num_nodes > WINDOW_NODES):
            yield window
            window, nodes = Window(window.number + 1), 0
        window.items.append(event)
        nodes += event.graph.num_nodes
    yield window


@dataclass
class Job:
    """A prediction to make: ``paths`` are files of nodes, ``known`` is a table of known edges.

    ``output`` and ``known`` may lie in a folder of input; they are dropped from ``paths``. Called with a window, it
    answers it; each of several processes has a copy.
    """

    model: Method
    paths: Sequence[Path]
    output: Path
    options: ReadOptions = field(default_factory=ReadOptions)
    choice: Choice = field(default_factory=Choice)
    known: Path | None = None
    force: bool = False  # replace ``output`` if it exists
    clusters: Grouping | None = None  # write these instead of edges
    rules: Rules | None = None  # to be scored beside the model; None: those that suit the first window best
    device: str = "cpu"
    form: Form | None = None  # write meshes in place of edges; molecules follow from the name of the output
    tick: Tick = silent  # receives the number of graphs of every batch that is done

    def __post_init__(self) -> None:
        paths = apart_from(self.paths, (self.output, self.known))
        if not paths:
            others = " and ".join(str(other) for other in (self.output, self.known) if other is not None)
            raise GLNError(f"There is nothing to read besides {others}; give files of nodes.")
        self.paths = node_files(paths, self.options)
        if as_molecules(self.output):
            self.form = Chemistry.of(self.model)
        if self.form is not None:
            self.choice = replace(self.choice, threshold=self.form.least)
        # The edges stored with the nodes may be the known ones, which must not be scored.
        self.scored = self.known is None or self.options.edges is not None
        self.known_table: KnownEdges | None = None
        self.about_rules = FROM_TRAINING if self.rules else ""  # where they come from
        self.remarked = False

    def known_edges(self) -> KnownEdges | None:
        if self.known is None:
            return None
        return KnownEdges(self.known, self.options, len(self.paths), self.model)

    def begin(self, local: int | None) -> None:
        self.model, self.known_table = put_on(self.model, self.device, local), self.known_edges()

    def answer(self, window: Window) -> Outcome:
        """What is predicted for the items of ``window``: graphs, molecules or meshes."""
        return answer_window(self.model, window, self.choice, self.known_table, self.tick, self.form)

    def __call__(self, window: Window) -> Outcome:
        done = self.answer(window)
        if self.scored:
            done.score(self.rules or {}, self.model)
        done.used = self.known_table is not None and self.known_table.used
        for item, _ in [] if self.remarked else done.answers:
            if count := coinciding(self.model, item.graph):
                # Of several processes only one says what follows the colon.
                done.remarks.append(
                    f"{count:,} of {item.graph.num_nodes:,} nodes of {item.name} lie exactly on another node: "
                    "such nodes cannot be told apart by their positions."
                )
                self.remarked = True
                break
        return done

    def answers(
        self, engine: Engine, say: Say, wanted: Callable[[int], bool] = lambda number: True
    ) -> Iterator[tuple[int, Outcome]]:
        """The numbers of the windows that are ``wanted``, and their outcomes, as they come from ``engine``."""
        place = {path: number for number, path in enumerate(self.paths)}
        handed: dict[int, Window] = {}
        graphs = 0
        with tqdm(total=len(self.paths), unit="file", disable=None, leave=False) as progress:

            def tick(count: int) -> None:  # a window may take minutes
                nonlocal graphs
                graphs += count
                progress.set_postfix_str(f"{graphs:,} graphs")

            def tasks() -> Iterator[tuple[int, Window]]:
                for window in cut_windows(read_all(self.paths, self.options, say)):
                    if self.rules is None and self.scored:
                        true = [item.graph for item in window.items if item.labelled]
                        self.rules, self.about_rules = rules_of_scored(true) if true else ({}, "")
                    if wanted(window.number):
                        handed[window.number] = window
                        yield window.number, window

            # A closure cannot be handed to another process, and each reads the table of known edges itself.
            self.tick, self.known_table = tick if engine is in_this_process else silent, None
            for number, done in engine(self, tasks()):
                window = handed.pop(number)
                if done is None:
                    lost = [Skipped(item.path, f"{item.name}: {LOST}") for item in window.items]
                    done = Outcome(skipped=[*window.bad, *lost])
                for text in done.remarks:
                    say(text)
                if window.items:
                    progress.update(max(place[window.items[-1].path] + 1 - progress.n, 0))
                yield number, done


def predict_files(
    job: Job, engine: Engine = in_this_process, say: Say = silent, skip: Skip = silent
) -> Outcome:
    """Predict the edges of every set of nodes in the files and write them to the output, in the order of the input.

    What cannot be read or does not fit the model is skipped; if nothing at all fits, nothing is written. The output is
    written atomically. ``engine`` computes the windows, here or elsewhere; ``say`` receives guesses and remarks in
    words, ``skip`` each skipped file when it is encountered.
    """
    known, outcome = job.known_edges(), Outcome()
    with open_writer(job.output, force=job.force, clustered=job.clusters is not None) as writer:
        for done in _in_order(job.answers(engine, once(say))):
            for what in done.skipped:
                skip(what)
            for item, answer in done.answers:
                if job.clusters is not None:
                    from gln.decoding.clusters import clusters  # here, as it loads scipy

                    nodes = item.graph.with_edges(answer.edge_index, edge_prob=answer.edge_prob)
                    answer["cluster"] = clusters(nodes, job.clusters)
                    outcome.clusters += int(answer["cluster"].max()) + 1
                writer.add(item, answer)
            outcome.add(done)
        if known is not None:
            known.check_used(outcome.used)
        if not outcome.graphs:
            raise GLNError(
                f"Nothing could be predicted: all of the input was skipped, and {job.output} is not written."
            )
    return outcome


def _in_order(answers: Iterable[tuple[int, Outcome]]) -> Iterator[Outcome]:
    waiting: dict[int, Outcome] = {}
    turn = 0
    for number, done in answers:
        waiting[number] = done
        while turn in waiting:
            yield waiting.pop(turn)
            turn += 1


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
