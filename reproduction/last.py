"""Trainings that are read at their last epoch: what they predict is kept, and cells are measured from it.

The predictions for the test graphs are in ``epoch-N.npz`` of the training's folder, all that is known about the
training in ``training.json``. So cells are measured in one way, wherever they were trained.
"""

from __future__ import annotations

import hashlib
import io
import json
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from gln.files import read_safetensors, write_atomically
from gln.graphs import GraphBatch, as_graphs
from gln.later import safetensors
from gln.models import PaperGLN, build_model
from gln.registry import parse_spec, write_spec
from gln.seeds import seeded
from gln.storage.provenance import environment
from gln.training.losses import Loss
from reproduction.data import SEED, Parts
from reproduction.specs import Settings
from reproduction.stack import Shelf, Stack

FIRST_WEIGHTS = ("init", "identity_m")  # settings of a model that change its first weights only
SOURCE = ("src/gln", "reproduction")
ROOT = Path(__file__).resolve().parents[1]
CHOSEN = 0  # stands for the epoch that was chosen on validation graphs
COMPILED = 12_000_000  # updates times nodes from which compiling a step pays on a GPU


@dataclass(frozen=True)
class Start:
    """Random initial structures: a ``share`` of all pairs for every graph, drawn from ``number`` and ``run``."""

    share: float
    number: int
    run: int

    def pairs(self, sizes: Iterable[int]) -> Iterator[np.ndarray]:
        """The joined pairs ``[m, 2]`` of a graph of each of these sizes."""
        rng = np.random.default_rng([SEED, self.number, self.run])
        for nodes in sizes:
            every = np.stack(np.triu_indices(nodes, 1), axis=1)
            yield every[rng.permutation(len(every))[: round(self.share * len(every))]]

    def draw(self, nodes: int, graphs: int) -> np.ndarray:
        """``A⁰`` of ``graphs`` graphs, bool ``[graphs, nodes, nodes]``; the diagonal is joined, as in the identity."""
        starts = np.tile(np.eye(nodes, dtype=bool), (graphs, 1, 1))
        for start, (i, j) in zip(starts, (pairs.T for pairs in self.pairs([nodes] * graphs)), strict=True):
            start[i, j] = start[j, i] = True
        return starts


def starts_of(options: dict[str, Any]) -> list[Start]:
    """The initial structures of a robustness cell: every share in every run."""
    return [
        Start(share, number, run)
        for number, share in enumerate(options["shares"])
        for run in range(options["runs"])
    ]


def started(folder: Path, start: Start) -> Path:
    """The folder of the training with these initial structures."""
    return folder.parent / f"{folder.name}-from-{start.share}" / f"run-{start.run}"


def kept(folder: Path, epoch: int) -> Path:
    """The file of the predictions after ``epoch`` epochs."""
    return folder / f"epoch-{epoch}.npz"


@dataclass(frozen=True)
class Training:
    """One training and the epochs at which its predictions are kept."""

    folder: Path
    settings: Settings
    parts: Parts
    seed: int
    stops: tuple[int, ...]
    start: Start | None = None
    name: str = ""
    rank: int = 0  # the lowest begin first

    @property
    def finished(self) -> bool:
        return all(kept(self.folder, stop).exists() for stop in self.stops)

    @property
    def updates(self) -> int:
        return len(self.parts.known) * self.stops[-1]

    @property
    def nodes(self) -> int:
        return int(self.parts.known[0].num_nodes)

    def alike(self) -> tuple[object, ...]:
        """Trainings with equal values can be stacked."""
        name, options = parse_spec(self.settings.network)
        shape = write_spec(name, {key: options[key] for key in options if key not in FIRST_WEIGHTS})
        first, loss = self.parts.known[0], json.dumps(self.settings.loss, sort_keys=True)
        widths = tuple(first[key].shape[1] for key in ("pos", "x") if first.get(key) is not None)
        sizes = len(self.parts.known), len(self.parts.test), self.nodes, widths
        return self.rank, shape, loss, self.settings.fit["lr"], sizes, self.stops, self.start is None


def in_stacks(trainings: Iterable[Training]) -> list[list[Training]]:
    """The trainings in lists that can be stacked: the lowest ranks first, and what takes long before the rest."""
    groups: dict[tuple[object, ...], list[Training]] = {}
    for training in trainings:
        groups.setdefault(training.alike(), []).append(training)
    return sorted(groups.values(), key=lambda group: (group[0].rank, -group[0].updates * group[0].nodes))


@dataclass
class Job:
    """A stack of trainings and where it writes."""

    group: list[Training]
    device: str
    facts: dict[str, Any]  # where the source comes from
    say: Callable[[str], None] = print
    late: Callable[[], bool] = lambda: False
    stack: Stack | None = None
    failed: str | None = None

    def prepare(self) -> None:
        """Build the stack, and put it where it was left."""
        with self._errors_kept():
            self.stack = self.make_stack()
            self.go_on(self.stack)
            self.stack.build()
            self.say(f"{len(self.group)} trainings ready to run")

    def run(self) -> None:
        """Train what was prepared."""
        if self.failed is not None or self.stack is None:
            return
        with self._errors_kept():
            try:
                done = self.stack.run(self.group[0].stops, self.keep_at(self.stack), self.late, self.say)
            finally:
                if self.stack.curve:
                    self.keep_facts(self.stack)
            if not done:
                self.keep_state(self.stack)
            self.stack = None  # its memory

    @contextmanager
    def _errors_kept(self) -> Iterator[None]:
        """An error does not stop other jobs."""
        try:
            yield
        except Exception:
            self.failed = traceback.format_exc()
            self.say(f"failed:\n{self.failed}")

    def make_stack(self) -> Stack:
        models, shelves = [], []
        known: dict[tuple[int, Start | None], Shelf] = {}
        for training in self.group:
            with seeded(training.seed):
                model = build_model(training.settings.network, training.parts.known)
            assert isinstance(model, PaperGLN)
            models.append(model)
            key = id(training.parts), training.start
            if key not in known:
                known[key] = shelf_of(training.parts, training.start)
            shelves.append(known[key])
        first, seeds = self.group[0], [training.seed for training in self.group]
        lr, loss = first.settings.fit["lr"], Loss(**first.settings.loss)
        work = first.updates * first.nodes
        compiled = work >= (COMPILED if self.device != "cpu" else COMPILED // 12)
        return Stack(models, shelves, seeds, loss, lr, self.device, compiled)

    @property
    def state(self) -> Path:
        """The file of an unfinished stack."""
        names = "\n".join(str(training.folder) for training in self.group)
        return self.group[0].folder / f"stack-{hashlib.sha256(names.encode()).hexdigest()[:12]}.safetensors"

    def go_on(self, stack: Stack) -> None:
        if self.state.exists():
            tensors, header = read_safetensors(self.state)
            stack.resume(tensors, **json.loads(header["progress"]))
            self.say(f"goes on after epoch {stack.epoch}")

    def keep_state(self, stack: Stack) -> None:
        progress = json.dumps({"epoch": stack.epoch, "seconds": stack.seconds, "curve": stack.curve})
        write_atomically(self.state, safetensors.save(stack.state(), {"progress": progress}))

    def keep_at(self, stack: Stack) -> Callable[[int, torch.Tensor], None]:
        def keep(epoch: int, predictions: torch.Tensor) -> None:
            for training, edges in zip(self.group, predictions.numpy(), strict=True):
                keep_edges(training.folder, epoch, edges)
            self.keep_facts(stack)

        return keep

    def keep_facts(self, stack: Stack) -> None:
        """``training.json`` of every training, so far."""
        for number, training in enumerate(self.group):
            settings = training.settings
            curve = [
                [at["epoch"], round(at["loss"][number], 6), round(at["iou"][number], 5)] for at in stack.curve
            ]
            facts = {
                "model": settings.network,
                "fit": {key: value for key, value in settings.fit.items() if key != "epochs"},
                "loss": settings.loss,
                "initial_structure": None if training.start is None else vars(training.start),
                "seed": training.seed,
                "training_graphs": stack.train,
                "epochs": stack.epoch,
                "updates": stack.epoch * stack.train,
                "weights": sum(weight[number].numel() for weight in stack.weights.values()),
                "trained_together": len(self.group),
                "training_seconds": round(stack.seconds, 1),
                "trained": self.facts,
                "singular_values_of": "epoch, the three largest of the scores of the first test graph",
                "singular_values": [
                    [at["epoch"], *at["singular"][number]] for at in stack.curve if "singular" in at
                ],
                "curve_of": "epoch, mean training loss, IoU on the first test graphs",
                "curve": curve,
            }
            training.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(training.folder / "training.json", json.dumps(facts).encode())


def shelf_of(parts: Parts, start: Start | None) -> Shelf:
    """The graphs of a training as tensors."""
    batch = GraphBatch.from_graphs(as_graphs([*parts.known, *parts.test], "graphs"))
    count, nodes = batch.mask.shape
    starts = None if start is None else torch.from_numpy(start.draw(nodes, count))
    return Shelf(batch.features, batch.adj, len(parts.known), starts)


def keep_edges(folder: Path, epoch: int, edges: np.ndarray) -> None:
    """Keep predicted edges ``[T, n(n−1)/2]``: bool, the pairs i < j row by row."""
    folder.mkdir(parents=True, exist_ok=True)
    file = io.BytesIO()
    np.savez_compressed(file, edges=np.packbits(edges, axis=1))
    write_atomically(kept(folder, epoch), file.getvalue())


def keep_graphs(folder: Path, made: list[Data], facts: dict[str, Any]) -> None:
    """Keep what a network predicts that was trained in the usual way, of which one epoch was chosen."""
    edges = []
    for graph in made:
        i, j = np.triu_indices(graph.num_nodes, 1)
        joined = np.zeros((graph.num_nodes, graph.num_nodes), dtype=bool)
        joined[tuple(graph.edge_index.numpy(force=True))] = True
        edges.append(joined[i, j])
    keep_edges(folder, CHOSEN, np.stack(edges))
    write_atomically(folder / "training.json", json.dumps(facts).encode())


def predictions_of(folder: Path, epoch: int, test: list[Data]) -> tuple[list[Data], dict[str, Any]]:
    """The kept predictions as graphs over the nodes of ``test``, and the facts of their training."""
    with np.load(kept(folder, epoch)) as file:
        packed = file["edges"]
    made = []
    for graph, bits in zip(test, packed, strict=True):
        i, j = np.triu_indices(graph.num_nodes, 1)
        chosen = np.unpackbits(bits, count=len(i)).astype(bool)
        pairs = np.stack([i[chosen], j[chosen]])
        both = np.concatenate([pairs, pairs[::-1]], axis=1)
        made.append(
            Data(num_nodes=graph.num_nodes, edge_index=torch.from_numpy(both[:, np.lexsort(both[::-1])]))
        )
    facts: dict[str, Any] = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    if epoch != CHOSEN:
        for name in ("curve", "singular_values"):
            facts[name] = [point for point in facts.get(name, []) if point[0] <= epoch]
        facts |= {"epochs": epoch, "updates": epoch * facts["training_graphs"]}
    return made, facts


def train(
    trainings: list[Training],
    device: str,
    given: str | None = None,
    minutes: float = 1e6,
    say: Callable[[str], None] = print,
    side_by_side: int = 8,
) -> list[Job]:
    """Train what is not finished, on a GPU some stacks side by side; stop after ``minutes``.

    ``given`` is the commit of the source, where there is no repository.
    """
    end = time.monotonic() + 60 * minutes
    missing = [training for training in trainings if not training.finished]
    facts = source_facts(given, device)
    jobs = []
    for group in in_stacks(missing):
        name = f"{group[0].name}{'' if len(group) == 1 else f' and {len(group) - 1} more'}"
        job = Job(group, device, facts, lambda text, name=name: say(f"{name}: {text}"))  # type: ignore[misc]
        job.late = lambda: time.monotonic() > end
        jobs.append(job)
    if device == "cpu":
        for job in jobs:
            job.prepare()
            job.run()
        return jobs
    for job in jobs:  # before any runs, which building would have to wait for
        job.prepare()
    room = threading.Semaphore(side_by_side)

    def run(job: Job) -> None:
        with room:
            if not job.late():
                job.run()

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return jobs


def usual_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def source_facts(given: str | None, device: str) -> dict[str, Any]:
    """Where the code comes from: the commit of a clean clone, or the one we are told, with a digest of what ran."""
    where = environment()
    gpu = where["gpu"] if device != "cpu" else None
    return {
        "commit": given or where["commit"],
        "source": digest_of_files((path, path.read_bytes()) for path in source_files()),
        "device": gpu or f"CPU, {where['threads']} threads",
        "time": where["time"],
        "versions": where["versions"],
    }


def source_files() -> list[Path]:
    """The files that decide what a training does."""
    found = (path for folder in SOURCE for path in (ROOT / folder).rglob("*"))
    return sorted(path for path in found if path.suffix in (".py", ".yaml"))


def digest_of_files(files: Iterable[tuple[Path, bytes]]) -> str:
    digest = hashlib.sha256()
    for path, content in files:
        name = path.relative_to(ROOT) if path.is_absolute() else path
        digest.update(f"{name.as_posix()} {hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()
