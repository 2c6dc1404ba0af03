"""What all baselines share, settings, fitting, the registry and files; and the two simplest ones.

A baseline is a dataclass. Its fields are its settings, plain numbers and words; attributes that end in ``_`` hold what
it learned. To add one, register it as :class:`Copy` is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from gln.errors import GLNError
from gln.graphs import as_graphs, pack, unpack
from gln.graphs.check import as_record, check_choice, check_whole
from gln.graphs.record import KINDS, Graph
from gln.later import torch
from gln.registry import Registered, Registry, parse_spec
from gln.seeds import GENERATE, check_seed
from gln.storage.facts import accepted, clear_disk_errors, naming_misfits, write_json
from gln.storage.models import Saved, read_saved, write_saved
from gln.storage.runs import check_same, read_config

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data


class SavedBaseline(Saved):
    """What the model.json of a baseline holds."""

    baseline: str


@dataclass(kw_only=True)
class Baseline(Registered):
    """A method to compare with: ``fit(graphs)``, then ``predict(points)`` or ``sample(count, seed)``."""

    kind: ClassVar[Literal["predict", "sample"]]
    fitted: ClassVar[str]  # "pooled: …" or "per graph: …": how fit uses many graphs, in one sentence
    learned: ClassVar[tuple[str, ...]] = ()  # the tensors that it learns: initiator is kept in initiator_
    free: ClassVar[tuple[str, ...]] = ()  # settings that may change when a fit is resumed
    # Others are fitted to structure alone: no types and weights, no directions.
    sees_kinds: ClassVar[bool] = False
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # settings that are one of a few words
    counts: ClassVar[tuple[str, ...]] = ()  # settings that are whole numbers of at least 1

    def __post_init__(self) -> None:
        for name, known in self.choices.items():
            check_choice(self.name, name, getattr(self, name), known)
        for name in self.counts:
            setattr(self, name, check_whole(self.name, name, getattr(self, name), 1))

    def fit(
        self,
        graphs: Sequence[Graph],
        val: Sequence[Graph] = (),
        *,
        seed: int = 0,
        progress: bool = False,
        folder: Path | None = None,
    ) -> Self:
        """Learn from ``graphs``; a subclass defines this or :meth:`learn`.

        Args:
            graphs: the training graphs.
            val: graphs on which a setting is chosen, for baselines that choose one.
            seed: determines everything random.
            progress: show a progress bar on a terminal.
            folder: where a long fit keeps its state and resumes from; ``None`` keeps nothing.
        """
        checked = as_graphs(graphs, kinds=self.sees_kinds)
        if not self.sees_kinds:
            checked = [graph.undirected() for graph in checked]
        self.learn(checked, val, check_seed("fit", seed), progress, folder)
        return self

    def learn(
        self, graphs: list[Graph], val: Sequence[Graph], seed: int, progress: bool, folder: Path | None
    ) -> None:
        """:meth:`fit` for checked graphs and a checked seed."""
        raise NotImplementedError

    def state(self) -> dict[str, Tensor]:
        """What was learned: all that predicting or sampling needs."""
        self._need_fit()
        return {name: getattr(self, f"{name}_") for name in self.learned}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over the :meth:`state` of a baseline with the same settings."""
        for name in self.learned:
            setattr(self, f"{name}_", state[name])

    def _need_fit(self) -> None:
        """Refuse to answer before anything was learned."""
        if not all(hasattr(self, f"{name}_") for name in self.learned):
            raise GLNError(f"{self.name} is not fitted; call fit(graphs) first or load a fitted one.")


class Predictor(Baseline):
    """A baseline that predicts a graph from points, for :func:`gln.predict` and :func:`gln.evaluate`.

    One that sees kinds gives every edge and node the most usual ones of the training graphs, ``usual_``: the most
    frequent types and the median weight, −1 for what these have not; last, 1 if they are directed.
    """

    kind = "predict"
    usual_: Tensor | None = None  # [4] as in KINDS, then directed

    def state(self) -> dict[str, Tensor]:
        usual = {} if self.usual_ is None or (self.usual_ < 0).all() else {"usual": self.usual_}
        return super().state() | usual

    def restore(self, state: dict[str, Tensor]) -> None:
        super().restore(state)
        self.usual_ = state.get("usual")

    def _learn_kinds(self, graphs: Sequence[Graph]) -> None:
        usual = [-1.0, -1.0, -1.0, 1.0 if graphs[0].directed else -1.0]
        for place, name in enumerate(KINDS):
            values = torch.cat([graph[name] for graph in graphs if name in graph] or [torch.empty(0)])
            if len(values):
                usual[place] = float(values.median() if name == "edge_weight" else values.mode().values)
        self.usual_ = torch.tensor(usual, dtype=torch.float64)

    def _with_kinds(self, answer: Graph) -> Graph:
        """``answer`` with the usual kinds."""
        usual = [] if self.usual_ is None else self.usual_[:3].tolist()
        for name, value in zip(KINDS, usual, strict=False):
            count = answer.num_nodes if name == "node_type" else answer.num_edges
            if value >= 0:
                dtype = torch.float32 if name == "edge_weight" else torch.int64
                answer[name] = torch.full((count,), value, dtype=dtype)
        return answer

    def predict(self, points: Data) -> Data:
        """The graph over ``points``: ``edge_index`` and perhaps ``edge_prob``; the edges of ``points`` are not read.

        A subclass defines this or :meth:`answer`.
        """
        return self.answer(as_record(points)).to_data()

    def answer(self, points: Graph) -> Graph:
        """The same for our own record of a graph."""
        return as_record(self.predict(points.to_data()))


class Sampler(Baseline):
    """A baseline that generates graphs, for :func:`gln.generate`; it ignores kinds of edges."""

    kind = "sample"

    def sample(self, count: int, seed: int = 0) -> list[Data]:
        """``count`` graphs, determined by ``seed``; a subclass defines this or :meth:`draw`."""
        return [graph.to_data() for graph in self.draw(count, seed)]

    def draw(self, count: int, seed: int = 0) -> list[Graph]:
        """The same as our own record of a graph."""
        return as_graphs(self.sample(count, seed))

    def _checked(self, count: int, seed: int) -> tuple[int, int]:
        """What a user asked of a fitted sampler, checked."""
        self._need_fit()
        return check_whole("sample", "count", count, 1), check_seed("sample", seed)


#: What only the paper compares with.
MOVED = dict.fromkeys(
    ("graphrnn", "kronecker", "mmsb"),
    "moved out of the package; in a clone of the repository, run python -m reproduction.baselines instead of gln.",
)
#: Every registered baseline by name.
BASELINES: Registry[Baseline] = Registry("baseline", "setting", MOVED)
#: Class decorator: registers a baseline for :func:`baseline`, the command line and the common tests.
register = BASELINES.register


def baseline(spec: str) -> Baseline:
    """An unfitted baseline from its short form, as in ``neighbours:rule=gabriel``; its name ignores case."""
    name, settings = parse_spec(spec)
    return BASELINES.build(name.lower(), settings)


def structures(graphs: Sequence[Graph]) -> list[Graph]:
    """Checked graphs, reduced to ``edge_index`` and ``num_nodes``, on the CPU."""
    return [Graph(graph.num_nodes, edge_index=graph.edge_index.cpu()) for graph in graphs]


def save_baseline(baseline: Baseline, folder: Path | str) -> Path:
    """Write a fitted baseline into ``folder`` as ``model.safetensors`` and ``model.json``, like any model."""
    folder = Path(folder)
    write_saved(folder, baseline.state(), {"baseline": baseline.name, "config": baseline.settings()})
    return folder


def load_baseline(folder: Path | str) -> Baseline:
    """The baseline that :func:`save_baseline` wrote into ``folder``."""
    expected = "a baseline written by save_baseline or gln train"
    facts, state = read_saved(Path(folder), expected, SavedBaseline)
    name, settings = facts["baseline"], facts["config"]
    if name in BASELINES:
        with naming_misfits(Path(folder) / "model.json"):
            settings = accepted(BASELINES[name], settings)
    found = BASELINES.build(name, settings)
    try:
        found.restore(state)
    except GLNError:
        raise
    except Exception as error:  # tensors of any names, shapes and types
        raise GLNError(
            f"{folder} does not hold what {found.name} learns ({error}); use the folder it was saved in."
        ) from None
    return found


def run_facts(model: Baseline, graphs: Sequence[Graph], seed: int) -> dict[str, Any]:
    """Everything that determines what a fit learns, as plain data."""
    from gln.training.data import describe  # here, as it loads torch

    facts = {"baseline": model.name, **model.settings(), "seed": seed, "data": describe(as_graphs(graphs))}
    plain: dict[str, Any] = json.loads(json.dumps(facts))  # as it will be read back: tuples become lists
    return plain


def check_folder(folder: Path, facts: dict[str, Any], free: Sequence[str] = ()) -> None:
    """Refuse a folder that holds a run with other ``facts``; those in ``free`` may differ."""
    if (folder / "config.json").exists():
        check_same(read_config(folder / "config.json"), facts, free)


def mark_folder(folder: Path, facts: dict[str, Any]) -> None:
    """Create the folder and record which run it belongs to."""
    with clear_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", facts)


@register("constant")
@dataclass(kw_only=True)
class Constant(Predictor):
    """The same edges for all points: those that at least half of the training graphs have.

    They are what ordered nodes give away without a look at their features. It makes sense only where all graphs have
    the same size and list their nodes in the same order. ``edge_prob`` is the share of training graphs that have the
    edge. Types are the most frequent ones, weights the median.
    """

    sees_kinds = True
    fitted = "pooled: the mean adjacency of all graphs, which must have the same size."
    learned = ("mean",)

    def learn(
        self, graphs: list[Graph], val: Sequence[Graph], seed: int, progress: bool, folder: Path | None
    ) -> None:
        """Average the adjacency matrices; nothing else is used."""
        sizes = {graph.num_nodes for graph in graphs}
        if len(sizes) > 1:
            raise GLNError(
                f"constant needs graphs of the same size, but these have {min(sizes)} to {max(sizes)} nodes; "
                "choose another baseline."
            )
        size = sizes.pop()
        counts = torch.zeros(size * size, dtype=torch.float64)
        for graph in graphs:
            source, target = graph.edge_index.cpu()
            counts[source * size + target] += 1
        self.mean_ = (counts / len(graphs)).view(size, size)
        self._learn_kinds(graphs)

    def answer(self, points: Graph) -> Graph:
        self._need_fit()
        if points.num_nodes != len(self.mean_):
            raise GLNError(
                f"Got {points.num_nodes} nodes; this constant was fitted to graphs of {len(self.mean_)}."
            )
        edges = (self.mean_ >= 0.5).nonzero().T.contiguous()
        directed = self.usual_ is not None and bool(self.usual_[3] == 1)
        chances = self.mean_[edges[0], edges[1]].float()
        return self._with_kinds(points.with_edges(edges, edge_prob=chances, directed=directed))


@register("copy")
@dataclass(kw_only=True)
class Copy(Sampler):
    """A random training graph, unchanged: close to the floor of every MMD, and nothing new."""

    fitted = "pooled: all graphs are stored."
    learned = ("graphs",)

    def learn(
        self, graphs: list[Graph], val: Sequence[Graph], seed: int, progress: bool, folder: Path | None
    ) -> None:
        """Store the structure of ``graphs``; nothing else is used."""
        self.graphs_ = structures(graphs)

    def draw(self, count: int, seed: int = 0) -> list[Graph]:
        count, seed = self._checked(count, seed)
        chosen = np.random.default_rng([GENERATE, seed]).integers(len(self.graphs_), size=count)
        return [self.graphs_[number].clone() for number in chosen]

    def state(self) -> dict[str, Tensor]:
        self._need_fit()
        return pack(self.graphs_)

    def restore(self, state: dict[str, Tensor]) -> None:
        self.graphs_ = unpack(state)
