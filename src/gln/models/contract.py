"""What training, inference and saving rely on: what a model is, what it returns, and what only some models can do.

Any ``nn.Module`` that is a :class:`Model` can be trained, saved and asked. Abilities beyond that are protocols of their
own, checked with ``isinstance``; functions here answer for models that have nothing to say.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from gln.errors import GLNError
from gln.graphs.batch import GraphBatch
from gln.graphs.record import KINDS, Graph

if TYPE_CHECKING:
    from torch_geometric.data import Data


class Model(Protocol):
    """A model; all but ``config``, ``threshold`` and ``forward`` may be absent.

    ======================  ===================================================================================
    ``config``              plain JSON values; ``type(model)(**config)`` rebuilds the model
    ``threshold``           the probability at or above which a pair is an edge; 0.5 until training chooses it
    ``every_step``          whether its usual loss is on every step's structure
    ``trains_in_bfloat16``  whether a GPU trains it and predicts with products in bfloat16 unless asked otherwise
    ``loss_settings``       further settings of its usual loss
    ``averages``            the share of their average that its averaged weights keep in a step of training
    ``keeps_last``          it is left at its last epoch of training, not at that of the best validation score
    ``training_facts``      how it was trained, stored with it
    ======================  ===================================================================================
    """

    config: dict[str, Any]
    threshold: float
    every_step: bool
    trains_in_bfloat16: bool
    loss_settings: dict[str, Any]
    averages: float
    keeps_last: bool
    training_facts: dict[str, Any] | None

    def forward(self, batch: GraphBatch, initial: Tensor | None, steps: int | None) -> StructureOutput:
        """Start from the structure ``initial``; ``batch.adj`` is never read."""


@dataclass(frozen=True)
class Kinds:
    """What a model says of a graph beyond which pairs are edges; the plain case says nothing more.

    ================  ==========================================================================
    ``edge_types``    T: an edge is of one of so many types
    ``directed``      ``i → j`` and ``j → i`` are two edges
    ``edge_weights``  an edge has a weight, a positive number
    ``node_types``    C: a node is of one of so many types; 0: nodes have none
    ================  ==========================================================================
    """

    edge_types: int = 1
    directed: bool = False
    edge_weights: bool = False
    node_types: int = 0

    @property
    def learned(self) -> tuple[str, ...]:
        """What a training graph must say, by the names of its attributes."""
        asked = self.edge_types > 1, self.edge_weights, self.node_types
        return tuple(name for name, wanted in zip(KINDS, asked, strict=True) if wanted)


def kinds_of(model: Any) -> Kinds:
    """What ``model`` predicts, by its ``config``, which says nothing of it in most models."""
    config = getattr(model, "config", {})
    return Kinds(**{field.name: config[field.name] for field in fields(Kinds) if field.name in config})


def kind_names(model: Any) -> dict[str, Any]:
    """The words for the types that ``model`` predicts, if its training graphs had any, as attributes of a graph."""
    words, kinds = (getattr(model, "training_facts", None) or {}).get("names") or {}, kinds_of(model)
    counts = {"edge_type_names": kinds.edge_types, "node_type_names": kinds.node_types}
    known = [name for name, count in counts.items() if count > 1 and len(words.get(name, ())) == count]
    return {name: tuple(words[name]) for name in known}


def kinds_in(graphs: Sequence[Graph | Data]) -> Kinds:
    """What ``graphs`` say: how many types there are, whether edges have weights, and whether any is directed."""

    def types(name: str) -> int:
        some = [graph for graph in graphs if graph.get(name) is not None and len(graph[name])]
        words = [len(graph.get(f"{name}_names") or ()) for graph in some]
        return max([*words, *(int(graph[name].max()) + 1 for graph in some)], default=0)

    directed = any(graph.get("directed") for graph in graphs)
    weights = any(graph.get("edge_weight") is not None for graph in graphs)
    return Kinds(max(types("edge_type"), 1), directed, weights, types("node_type"))


def check_kinds(model: Any, graphs: Sequence[Graph], what: str, learned: bool = True) -> None:
    """Refuse graphs, called ``what``, that have what ``model`` cannot say or, if ``learned``, lack what it predicts."""
    kinds = kinds_of(model)
    for number, graph in enumerate(graphs):
        if graph.directed and not kinds.directed:
            raise GLNError(
                f"{what}[{number}] is directed, but the model is not; build it with directed=True, or give both "
                "directions of every edge."
            )
        for name in kinds.learned:
            values, owner = graph.get(name), name.removesuffix("_type").removesuffix("_weight")
            if learned and values is None and (owner == "node" or graph.num_edges):
                raise GLNError(
                    f"{what}[{number}] has no {name}, which the model predicts; give one to every {owner}."
                )
            if name.endswith("type") and values is not None and len(values):
                known, most = getattr(kinds, f"{name}s"), int(values.max())
                if most >= known:
                    raise GLNError(
                        f"{what}[{number}] has {owner}s of type {most}, but the model knows {known} types, from 0; "
                        f"build it with {name}s={most + 1}."
                    )


@dataclass(frozen=True)
class StructureOutput:
    """The structure after every step, scored over all pairs or over ``K`` candidate pairs per node.

    ==============  ==============================  =====================================================
    ``logits``      steps × ``[B, N, N | K]``       ``sigmoid`` of it is the step's soft adjacency ``A``
    ``states``      steps × ``[B, N, d]``           the step's node states ``H``
    ``mask``        ``[B, N, N | K]``               bool: True on the pairs that were scored
    ``candidates``  ``[B, N, K]`` or ``None``       the node of each candidate; ``None``: all pairs
    ``proposal``    ``[B, N, N]`` or ``None``       scores by which further candidates were proposed
    ``types``       steps × ``[B, N, N | K, T]``    ``softmax`` of it are the chances of each type of edge
    ``weights``     steps × ``[B, N, N | K]``       the logarithm of the weight, if it is an edge
    ``nodes``       steps × ``[B, N, C]``           ``softmax`` of it are the chances of each type of node
    ``directed``    bool                            whether both directions of a pair are two edges
    ==============  ==============================  =====================================================

    What a model does not predict is ``None``; :class:`Kinds` says what it does.
    """

    logits: tuple[Tensor, ...]
    states: tuple[Tensor, ...]
    mask: Tensor
    candidates: Tensor | None = None
    proposal: Tensor | None = None
    types: tuple[Tensor, ...] | None = None
    weights: tuple[Tensor, ...] | None = None
    nodes: tuple[Tensor, ...] | None = None
    directed: bool = False

    def target(self, adj: Tensor) -> Tensor:
        """The true adjacency ``[B, N, N]`` at the scored entries, shaped like one step's logits."""
        return adj if self.candidates is None else self.entries(adj) & self.mask

    def entries(self, values: Tensor) -> Tensor:
        """``values [B, N, N]`` at the scored entries; anything where no pair was scored."""
        return values if self.candidates is None else values.gather(2, self.candidates)

    def recall(self, adj: Tensor) -> Tensor:
        """Share of the true edges ``adj`` ``[B, N, N]`` that were scored at all, per graph ``[B]``; 1 without edges."""
        edges = adj.flatten(1).sum(1)
        found = (self.target(adj) & self.mask).flatten(1).sum(1)
        return torch.where(edges > 0, found / edges.clamp(min=1), 1.0)

    def probabilities(self, step: int = -1) -> Tensor:
        """The soft adjacency ``[B, N, N]`` after ``step``, zero where no pair was scored."""
        scored = self.logits[step].sigmoid().masked_fill(~self.mask, 0)
        if self.candidates is None:
            return scored
        count, nodes, _ = scored.shape
        dense = torch.zeros(count, nodes, nodes, dtype=scored.dtype, device=scored.device)
        # Masked slots add nothing, whichever node they hold.
        return dense.scatter_add(2, self.candidates, scored)

    def adjacency(self, step: int = -1, threshold: float = 0.5, hard: bool = False) -> Tensor:
        """The adjacency ``[B, N, N]`` for use in a larger network: soft, or 0 and 1 with the soft one's gradient."""
        soft = self.probabilities(step)
        if not hard:
            return soft
        edges = (soft >= threshold) & (soft > 0)  # at a threshold of 0, too, only scored pairs are edges
        return edges.to(soft.dtype) + (soft - soft.detach())

    def full_precision(self) -> StructureOutput:
        """The output with scores in at least float32, whatever precision the model computed in."""
        full = torch.promote_types(self.logits[-1].dtype, torch.float32)
        scores = {name: getattr(self, name) for name in ("logits", "types", "weights", "nodes")}
        exact: dict[str, Any] = {
            name: steps and tuple(step.to(full) for step in steps) for name, steps in scores.items()
        }
        return replace(self, **exact)

    def clone(self) -> StructureOutput:
        """A copy with memory of its own."""
        return copy.deepcopy(self)

    def soft_adjacency(self) -> Tensor:
        """The last step's soft adjacency ``[B, N, N]`` in full precision, the mean of both directions if undirected."""
        soft = self.full_precision().probabilities()
        return soft if self.directed else (soft + soft.transpose(1, 2)) / 2


class ScoredPairs(NamedTuple):
    """Directed pairs in no particular order: their two ends and their scores, all ``[m]``.

    Where the model predicts them, also ``types [m, T]``, ``weights [m]`` and, of nodes, ``nodes [n, C]``, as in
    :class:`StructureOutput`.
    """

    source: Tensor
    target: Tensor
    score: Tensor
    types: Tensor | None = None
    weights: Tensor | None = None
    nodes: Tensor | None = None


@runtime_checkable
class ScoresCandidates(Protocol):
    """Scores candidate pairs: its ``forward`` takes ``candidates=``, and one set may be larger than any matrix."""

    candidates: int

    def checked_steps(self, steps: int | None) -> int:
        """The number of steps to run; refuse one that the weights do not allow."""

    def score_set(
        self,
        batch: GraphBatch,
        known: Tensor | None = None,
        steps: int | None = None,
        candidates: int | None = None,
        block: int | None = None,
        tick: Callable[[int], object] | None = None,
        known_types: Tensor | None = None,
    ) -> ScoredPairs:
        """The last step's score of every candidate pair of one set, however large."""


@runtime_checkable
class ScalesFeatures(Protocol):
    """Reads ``(x − x_mean) / x_std`` in place of ``x``."""

    def scale_features(self, x_mean: Sequence[float] | None, x_std: Sequence[float] | None) -> None: ...


@runtime_checkable
class Prepares(Protocol):
    """Looks at its training graphs before it is trained, and keeps in its ``config`` what it finds."""

    def prepare(self, graphs: Sequence[Graph]) -> None: ...


@runtime_checkable
class Generates(Protocol):
    """Draws graphs; ``kind`` is ``"sample"`` where it needs no nodes for it, and ``how`` may be ``None``."""

    @property
    def kind(self) -> str: ...

    def sampled(
        self, count: int, seed: int, nodes: Any, how: Any, *, progress: bool, keep: int = 0
    ) -> list[Graph]: ...


@runtime_checkable
class Replayable(Protocol):
    """On a GPU, its training step can be recorded for one shape of batch and replayed for others of that shape.

    So ``forward`` decides nothing on the host and reads nothing back; what must be drawn, checked or decided for a
    batch is in ``draw``.
    """

    def draw(self, batch: GraphBatch) -> dict[str, Tensor] | None:
        """Further arguments of ``forward``, of one shape for batches of one shape; ``None``: not for this batch."""


def in_bfloat16(model: Any, device: torch.device) -> bool:
    """Whether ``device`` computes the products of ``model`` in bfloat16 unless asked otherwise."""
    wanted = device.type == "cuda" and getattr(model, "trains_in_bfloat16", False)
    return wanted and torch.cuda.is_bf16_supported(including_emulation=False)


def products(model: nn.Module, device: torch.device) -> AbstractContextManager[Any]:
    """Compute products in the precision that suits ``model`` on its ``device``."""
    half = in_bfloat16(model, device)
    return torch.autocast("cuda", dtype=torch.bfloat16) if half else nullcontext()


def starting_structure(model: Any, pairs: Tensor) -> Tensor:
    """``A⁰`` at ``pairs [2, m]``: zeros, unless the model has a structure of its own to begin with, ``A0 [N, N]``."""
    if not hasattr(model, "A0"):
        return torch.zeros(pairs.shape[1])
    initial = model.A0.float().cpu()
    return ((initial + initial.T) / 2)[pairs[0], pairs[1]]


def input_settings(graphs: Sequence[Graph | Data]) -> dict[str, int]:
    """The widths of ``pos`` and ``x``, by the names they have in most models' settings."""
    pos, x = (0 if graphs[0].get(name) is None else graphs[0][name].shape[1] for name in ("pos", "x"))
    return {"in_channels": x, "pos_channels": pos}


def build_model(text: str, graphs: Sequence[Graph | Data]) -> nn.Module:
    """Build a model, such as ``GLN:width=64``, with inputs as wide as the features of ``graphs``, and their kinds.

    A class with a method ``input_settings(graphs)`` says itself which of its settings follow from them.
    """
    from gln.models import MODELS

    name, settings = MODELS.find(text)
    known = MODELS.settings(name)
    inputs = getattr(MODELS[name], "input_settings", input_settings)(graphs) | vars(kinds_in(graphs))
    return MODELS[name](**{key: value for key, value in inputs.items() if key in known} | settings)
