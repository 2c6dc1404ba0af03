"""Settings that suit given graphs: which pairs to score and how large a model, each with its reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gln.baselines import BASELINES
from gln.errors import GLNError
from gln.files import check_format
from gln.graphs.features import feature_scale
from gln.graphs.record import Graph
from gln.graphs.regions import is_image
from gln.io import ReadOptions
from gln.later import spatial, torch
from gln.registry import parse_spec, write_spec
from gln.seeds import SEEDS
from gln.storage.facts import as_kind, read_facts, write_json
from gln.workflows.divide import FEW

FORMAT = "gln recipe 1"
RECALL = 0.999  # share of true edges that should be among the candidates
MOST = 64  # the most candidates per node: time grows with their square
NEARLY = 0.005  # how far K may fall short of the recall of MOST, if that is below RECALL
GOOD = 0.99  # below this recall, a learned score proposes distant edges,
PROPOSALS = 16  # this many per node
ALL_PAIRS = 512  # or, in graphs of up to this many nodes, all pairs are scored
LOOKED_AT = 200  # training graphs that are examined
MANY_PAIRS = 100_000  # with fewer training pairs, a small model
BATCH_PAIRS = 400_000  # the most pairs in one optimiser step
SMALL_MODEL = {"width": 32, "pair_width": 32, "steps": 3}


@dataclass(frozen=True)
class Recipe:
    """How files become a trained model, as it was asked for or, with reasons, as :func:`choose_recipe` completed it.

    Saved as JSON, it lets another run do the same.
    """

    read: ReadOptions  # how the files are read
    patches: int | None  # nodes per patch that graphs are cut into; None: not cut
    seed: int  # of the split and of the patches
    model: str  # with its settings, in short form
    batch_size: int  # graphs per optimiser step
    reasons: dict[str, str] = field(default_factory=dict)  # for each choice
    turned: bool | None = False  # whether training graphs are turned and mirrored at random; None: left open

    def lines(self) -> list[str]:
        """The choices with their reasons, one per line."""
        turned = "training graphs are turned and mirrored at random" if self.turned else "as they are"
        values = {"candidates": "", "model": self.model, "batch_size": f"{self.batch_size} graphs"}
        values["directions"] = turned
        return [
            f"{name.replace('_', ' '):<12}{': '.join(filter(None, (values[name], self.reasons.get(name))))}"
            for name in values
            if name == "model" or name in self.reasons
        ]

    def save(self, path: Path) -> None:
        """Write the recipe as JSON, for :meth:`load`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        read = {
            key: str(value) if isinstance(value, Path) else value for key, value in vars(self.read).items()
        }
        write_json(path, {"format": FORMAT, **dataclasses.asdict(self), "read": read})

    @classmethod
    def load(cls, path: Path) -> Recipe:
        """Read a recipe written by :meth:`save`."""
        facts = read_facts(path)
        check_format(facts.pop("format", None), FORMAT, path, "a file written by gln train --recipe")
        recipe = as_kind(facts, cls, path)
        if min(recipe.batch_size, recipe.patches or 2) < 1 or not 0 <= recipe.seed < SEEDS:
            raise GLNError(f"{path} holds a number that is too small or too large; write the recipe again.")
        return recipe


def check_new_recipe(path: Path, resume: bool) -> None:
    """Refuse to replace a file; a resumed run may write its recipe again."""
    if path.suffix.lower() != ".json":
        raise GLNError(f"Got --recipe {path}; expected a name that ends in .json.")
    if path.exists() and not resume:
        raise GLNError(f"{path} already exists; choose another name, or follow it with --from-recipe.")
    if path.exists():
        Recipe.load(path)


def choose_recipe(
    train: Sequence[Graph], asked: Recipe, accelerator: str, whole: Sequence[Graph] | None = None
) -> Recipe:
    """Choose the settings that ``asked`` leaves open to suit the graphs of ``train``.

    Args:
        asked: its model is ``GLN`` or, say, ``GLN:width=64``, whose settings are kept. Other models keep their own
            defaults, and for a baseline there is nothing to choose. Its batch size is the most graphs per step; fewer
            are chosen if they are large. Whether to turn training graphs: if left open, only few graphs are.
        whole: the graphs that patches were cut from; graphs to predict are as large and need as many candidates.
    """
    name, given = parse_spec(asked.model)
    if name in BASELINES:
        return dataclasses.replace(asked, turned=False)
    reasons = {}
    settings: dict[str, Any] = {}
    if name == "GLN":
        settings, reasons["candidates"] = choose_candidates(whole or train, bool(whole))
        gpu = accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
        size, reasons["model"] = choose_size(train, gpu)
        settings |= size
    if given:
        more = f"; {reasons['model']}" if "model" in reasons else ""
        reasons["model"] = f"{', '.join(given)} as asked{more}"
    pairs = max(scored_pairs(graph) if name == "GLN" else graph.num_nodes**2 for graph in train)
    fitting = max(1, min(asked.batch_size, BATCH_PAIRS // max(pairs, 1)))
    larger = f"more would exceed {BATCH_PAIRS:,} pairs per step"
    reasons["batch_size"] = larger if fitting < asked.batch_size else "they fit"
    turned, why = choose_directions(whole or train, asked.turned)
    reasons |= {"directions": why} if why else {}
    spec = write_spec(name, settings | given)
    return dataclasses.replace(asked, model=spec, batch_size=fitting, reasons=reasons, turned=turned)


def choose_directions(train: Sequence[Graph], asked: bool | None) -> tuple[bool, str]:
    """Whether to turn training graphs at random, and why: the pose of a few graphs would be learned as if it mattered.

    A model that has seen one mesh in one pose is better on the rest of this mesh than on any other.
    """
    if asked and not train[0].widths[0]:
        raise GLNError("Got --turned yes, but the nodes have no positions; leave it out.")
    if asked is not None:
        return asked, "as asked"
    in_space = train[0].widths[0] in (2, 3) and not is_image(train[0])
    if len(train) >= FEW or not in_space:
        return False, ""
    count = "1 graph" if len(train) == 1 else f"{len(train)} graphs"
    return True, f"{count} cannot show which directions matter; if up or north do: --turned no"


def choose_size(train: Sequence[Graph], gpu: bool) -> tuple[dict[str, int], str]:
    """The width and depth of GLN, and why."""
    pairs = sum(map(scored_pairs, train)) // 2
    if not gpu:
        return dict(SMALL_MODEL), f"a small one, as there is no GPU; {pairs:,} training pairs"
    if pairs < MANY_PAIRS:
        return dict(SMALL_MODEL), f"a small one, as {pairs:,} training pairs are few"
    return {}, f"GLN's default size: {pairs:,} training pairs and a GPU"


def choose_candidates(train: Sequence[Graph], in_pieces: bool = False) -> tuple[dict[str, int], str]:
    """Settings for the pairs that GLN scores, and why: the smallest K that reaches :data:`RECALL`.

    If training sees only pieces of the graphs, and K is for prediction alone, it may be as large as a graph.
    """
    from gln.models.candidates import FEWEST, SMALL, TREE_NODES  # here and below, as it loads torch

    largest = max(graph.num_nodes for graph in train)
    if largest <= SMALL:
        return {}, f"all pairs: no graph has more than {SMALL} nodes"
    mean, std = feature_scale(train)
    scale = mean or 0.0, std or 1.0
    ranks = np.concatenate([neighbour_ranks(graph, MOST, *scale) for graph in train[:LOOKED_AT]])
    if not len(ranks):
        return {}, "GLN's default number: the training graphs have no edges to measure"
    recall = np.bincount(ranks, minlength=MOST + 2)[1 : MOST + 1].cumsum() / len(ranks)  # by K, from 1
    most = recall[-1]
    reason = f"only {most:.2%} of the training edges join a node to one of its {MOST} nearest"
    if most < GOOD and in_pieces and largest <= ALL_PAIRS:
        return {"candidates": ALL_PAIRS}, f"all pairs of up to {ALL_PAIRS} nodes: {reason}"
    if most < GOOD and largest <= TREE_NODES:
        settings = {"candidates": MOST // 2, "proposals": PROPOSALS}
        return settings, f"{reason}; a learned score proposes {PROPOSALS} more"
    enough = RECALL if most >= RECALL else most - NEARLY
    k = max(FEWEST, int((recall >= enough).argmax()) + 1)
    reason = f"{recall[k - 1]:.2%} of the training edges join a node to one of its {k} nearest"
    if most < RECALL:
        reason += f", {most:.2%} to one of its {MOST} nearest"
    return {"candidates": k}, reason


def neighbour_ranks(
    graph: Graph, most: int, x_mean: Sequence[float] | float = 0.0, x_std: Sequence[float] | float = 1.0
) -> np.ndarray:
    """The smallest K with which each edge is a candidate ``[m]``; ``most + 1`` stands for more.

    That is the lower of the ranks of each end among the neighbours of the other; equally near nodes share a rank, as
    :func:`gln.models.candidates.candidate_pairs` takes all of them. Without positions, distances are between ``x``,
    scaled as the model will scale it.
    """
    from gln.models.candidates import TIE

    where = graph.where() if graph.widths[0] else (graph.where() - x_mean) / x_std
    pairs = graph.edges_once().T
    count = min(most + 1, len(where))
    distance, _ = spatial.cKDTree(where).query(where, k=count)
    distance = distance.reshape(len(where), count)  # ascending, the node itself among them
    length = np.linalg.norm(where[pairs[0]] - where[pairs[1]], axis=1)
    nearer = [(distance[end] < length[:, None] / TIE).sum(axis=1) for end in pairs]
    return np.minimum(*nearer).clip(min=1)


def scored_pairs(graph: Graph) -> int:
    """The number of ordered pairs of ``graph`` scored in training: all, or up to twice ``MOST`` per node."""
    return int(graph.num_nodes * min(graph.num_nodes - 1, 2 * MOST))
