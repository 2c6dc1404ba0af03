"""Models to play with, each with its truth and examples: from runs, saved models and shipped ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gln.errors import GLNError
from gln.families import FAMILIES, parse_family
from gln.models.contract import Kinds, ScoresCandidates, kinds_of
from gln.seeds import TEST_SEED
from gln.storage.models import find_saved
from gln.workflows.methods import load_for
from gln.workflows.runs import learned_from
from gln.workflows.training_data import is_run

KERNELS = 4  # what the arithmetic is written for
EXAMPLES = 6  # sets of a family
LEFT_OUT = ("proposals", "index_channels", "in_channels")  # what the page does not compute


@dataclass(frozen=True)
class Playable:
    """A model on a page."""

    name: str  # what it is called there
    model: Any  # a GLN that reads 2 or 3 coordinates and predicts edges of one kind
    truth: str = ""  # "delaunay" if its true graph is the Delaunay triangulation, which the page can compute
    examples: Sequence[np.ndarray] = ()  # sets of points [n, 2 | 3] to begin with; none: random ones

    def check(self) -> None:
        """Refuse a model that the page cannot run."""
        config = getattr(self.model, "config", {})
        axes, plain = config.get("pos_channels"), kinds_of(self.model) == Kinds()
        runs = isinstance(self.model, ScoresCandidates) and plain and config.get("moments", 1) == 1
        runs = runs and not any(config.get(name) for name in LEFT_OUT)
        if not runs or axes not in (2, 3):
            raise GLNError(
                f"{self.name} cannot be played with: expected a GLN that reads 2 or 3 coordinates and nothing else, "
                "and predicts edges of one kind; gln export takes any."
            )
        if config["kernels"] != KERNELS or config["width"] % 16 or config["pair_width"] % 16:
            raise GLNError(
                f"{self.name} has kernels={config['kernels']}, width={config['width']} and "
                f"pair_width={config['pair_width']}; a page runs GLNs of {KERNELS} kernels and of widths that are "
                "multiples of 16."
            )


def playable(model: str) -> Playable:
    """A shipped model or a run as its name, with the truth and examples of the family that it has learned from."""
    folder, network = find_saved(model), load_for("predict", model)
    facts = (learned_from(folder) or {}) if is_run(model) else {"family": folder.name.split("-")[0]}
    spec = str(facts.get("family", ""))
    name = spec.split(":")[0]
    found = Playable(folder.name, network, "delaunay" if name == "delaunay" else "")
    if name in FAMILIES and name != "delaunay":  # of which random points are examples
        graphs = parse_family(spec).graphs(EXAMPLES, seed=TEST_SEED)
        found = replace(found, examples=[graph.pos.numpy() for graph in graphs if graph.widths[0]])
    found.check()
    return found
