"""What suits the graphs at hand: which pairs to score and how large a model, each choice with its reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from torch_geometric.data import Data

from gln.baselines import BASELINES
from gln.errors import GLNError
from gln.io import ReadOptions
from gln.models.candidates import TIE, TREE_NODES
from gln.models.gln import FEWEST, SMALL
from gln.point_sets import feature_scale
from gln.specs import parse_spec, write_spec
from gln.training.tensors import read_json, write_json

FORMAT = "gln recipe 1"
RECALL = 0.999  # share of the true edges that should be among the candidates
MOST = 64  # candidates per node at most: time grows with their square
NEARLY = 0.005  # of the recall that MOST give, where they do not reach RECALL
GOOD = 0.99  # below, edges that are not near are proposed by a learned score,
PROPOSALS = 16  # so many per node
LOOKED_AT = 200  # training graphs that are measured
MANY_PAIRS = 100_000  # fewer teach a small model only
BATCH_PAIRS = 400_000  # pairs that a step of the optimiser may hold
SMALL_MODEL = {"width": 32, "pair_width": 32, "steps": 3}


@dataclass(frozen=True)
class Recipe:
    """How files become a trained model; as JSON it makes another run do the same.

    ==============  ======================================================================
    ``read``        how the files are read
    ``patches``     nodes per patch that graphs are cut into; ``None``: they are not
    ``seed``        of the split, and of the patches
    ``model``       the model with its settings, in short form
    ``batch_size``  graphs per step of the optimiser
    ``reasons``     why, in words
    ==============  ======================================================================
    """

    read: ReadOptions
    patches: int | None
    seed: int
    model: str
    batch_size: int
    reasons: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The choices, one per line with its reason."""
        values = {"candidates": "", "model": self.model, "batch_size": f"{self.batch_size} graphs"}
        return [
            f"{name.replace('_', ' '):<12}{': '.join(filter(None, (values[name], self.reasons.get(name))))}"
            for name in values
            if name == "model" or name in self.reasons
        ]

    def save(self, path: Path) -> None:
        """As JSON, for :meth:`load`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        read = {
            key: str(value) if isinstance(value, Path) else value for key, value in vars(self.read).items()
        }
        write_json(path, {"format": FORMAT, **dataclasses.asdict(self), "read": read})

    @classmethod
    def load(cls, path: Path) -> Recipe:
        """What :meth:`save` wrote."""
        facts = read_json(path)
        if facts.pop("format", None) != FORMAT:
            raise GLNError(f"{path} is not a {FORMAT!r}; expected what gln train --recipe wrote.")
        try:
            recipe = cls(**facts | {"read": _options(facts["read"])})
            numbers = [recipe.seed, recipe.batch_size, recipe.patches or 0]
            if not all(type(number) is int for number in numbers) or not isinstance(recipe.model, str):
                raise TypeError("a number or a name is something else")
            if not all(isinstance(reason, str) for reason in recipe.reasons.values()):
                raise TypeError("a reason is no text")
        except (TypeError, KeyError, AttributeError) as error:
            raise GLNError(
                f"{path} is a recipe that was changed by hand ({error}); write it again."
            ) from None
        return recipe


def _options(read: dict[str, Any]) -> ReadOptions:
    """The options back from JSON, which knows lists and text only."""
    paths = {name: Path(read[name]) for name in ("edges", "labels") if read.get(name) is not None}
    tuples = {name: tuple(value) for name, value in read.items() if isinstance(value, list)}
    options = ReadOptions(**read | paths | tuples)
    for name in ("pos", "x", "elements"):
        value = getattr(options, name)
        if value is not None and not (
            isinstance(value, tuple) and all(isinstance(word, str) for word in value)
        ):
            raise TypeError(f"{name} is no list of names")
    for name in ("graph", "id"):
        if not isinstance(getattr(options, name), str | None):
            raise TypeError(f"{name} is no name")
    return options


def choose_recipe(
    train: Sequence[Data],
    read: ReadOptions,
    patches: int | None,
    seed: int,
    model: str,
    batch_size: int,
    gpu: bool,
    whole: Sequence[Data] | None = None,
) -> Recipe:
    """Settings that suit the graphs of ``train``, besides those that ``model`` names already.

    Args:
        model: ``GLN`` or ``GLN:width=64``; what it names stays. Other models keep their own defaults, and for a
            baseline there is nothing to choose.
        batch_size: the most graphs per step; fewer if they are large.
        gpu: whether one will do the work.
        whole: the graphs that patches were cut from: what is predicted later is as large, and needs as many candidates.
    """
    name, given = parse_spec(model)
    if name in BASELINES:
        return Recipe(read, patches, seed, model, batch_size)
    reasons = {}
    settings: dict[str, Any] = {}
    if name == "GLN":
        settings, reasons["candidates"] = choose_candidates(whole or train)
        size, reasons["model"] = choose_size(train, gpu)
        settings |= size
    if given:
        reasons["model"] = f"{', '.join(given)} as asked" + (
            f"; {reasons['model']}" if "model" in reasons else ""
        )
    pairs = max(scored_pairs(graph) if name == "GLN" else graph.num_nodes**2 for graph in train)
    fitting = max(1, min(batch_size, BATCH_PAIRS // max(pairs, 1)))
    reasons["batch_size"] = (
        f"more would be over {BATCH_PAIRS:,} pairs in a step" if fitting < batch_size else "they fit"
    )
    return Recipe(read, patches, seed, write_spec(name, settings | given), fitting, reasons)


def choose_size(train: Sequence[Data], gpu: bool) -> tuple[dict[str, int], str]:
    """Settings for the width and depth of GLN, and why."""
    pairs = sum(map(scored_pairs, train)) // 2
    if not gpu:
        return dict(SMALL_MODEL), f"a small one, for there is no GPU; {pairs:,} training pairs"
    if pairs < MANY_PAIRS:
        return dict(SMALL_MODEL), f"a small one, for {pairs:,} training pairs are few"
    return {}, f"GLN's own size: {pairs:,} training pairs and a GPU"


def choose_candidates(train: Sequence[Data]) -> tuple[dict[str, int], str]:
    """Settings for the pairs that GLN scores, and why: the smallest K that reaches :data:`RECALL`."""
    if max(graph.num_nodes for graph in train) <= SMALL:
        return {}, f"all pairs: no graph has more than {SMALL} nodes"
    mean, std = feature_scale(train)
    ranks = np.concatenate(
        [neighbour_ranks(graph, MOST, mean or 0.0, std or 1.0) for graph in train[:LOOKED_AT]]
    )
    if not len(ranks):
        return {}, "GLN's own number: the training graphs have no edges to measure"
    recall = np.bincount(ranks, minlength=MOST + 2)[1 : MOST + 1].cumsum() / len(ranks)  # by K, from 1
    most, large = recall[-1], max(graph.num_nodes for graph in train) > TREE_NODES
    if most < GOOD and not large:
        settings = {"candidates": MOST // 2, "proposals": PROPOSALS}
        reason = f"only {most:.2%} of the training edges join a node to one of its {MOST} nearest"
        return settings, f"{reason}; a learned score proposes {PROPOSALS} more"
    enough = RECALL if most >= RECALL else most - NEARLY
    k = max(FEWEST, int((recall >= enough).argmax()) + 1)
    reason = f"{recall[k - 1]:.2%} of the training edges join a node to one of its {k} nearest"
    if most < RECALL:
        reason += f", {most:.2%} to one of its {MOST} nearest"
    return {"candidates": k}, reason


def neighbour_ranks(
    graph: Data, most: int, x_mean: Sequence[float] | float = 0.0, x_std: Sequence[float] | float = 1.0
) -> np.ndarray:
    """For every edge the smallest K with which it is a candidate ``[m]``; ``most + 1`` stands for more.

    That is the rank of one end among the neighbours of the other, the lower of both; equally near nodes share a rank,
    as :func:`gln.models.candidates.candidate_pairs` takes all of them. Without positions ``x`` says who is near, on the
    scale that the model will give it.
    """
    where = np.asarray((graph.x if graph.get("pos") is None else graph.pos).double())
    if graph.get("pos") is None:
        where = (where - x_mean) / x_std
    pairs = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].numpy()
    count = min(most + 1, len(where))
    distance, _ = cKDTree(where).query(where, k=count)
    distance = distance.reshape(len(where), count)  # ascending, the node itself among them
    length = np.linalg.norm(where[pairs[0]] - where[pairs[1]], axis=1)
    nearer = [(distance[end] < length[:, None] / TIE).sum(axis=1) for end in pairs]
    return np.minimum(*nearer).clip(min=1)


def scored_pairs(graph: Data) -> int:
    """How many ordered pairs of ``graph`` a model scores while it trains: all, or up to twice ``MOST`` per node."""
    return int(graph.num_nodes * min(graph.num_nodes - 1, 2 * MOST))
