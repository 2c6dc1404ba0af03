"""``play.html``: one page in which points are placed and dragged, and a trained GLN says at once what joins them.

The model runs in the browser: its weights, the arithmetic (``page/engine.c``, compiled to ``engine.wasm``) and the page
are in one file, which opens without a server and makes no request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from gln.errors import GLNError
from gln.families import FAMILIES, parse_family
from gln.models.contract import Kinds, ScoresCandidates, kinds_of
from gln.seeds import TEST_SEED
from gln.storage.models import find_saved
from gln.viewing.pages import encode, offered, write_html
from gln.viewing.style import GROUPS
from gln.workflows.methods import load_for
from gln.workflows.runs import is_run, learned_from

KERNELS = 4  # what the arithmetic is written for
EXAMPLES = 6  # sets of a family
LEFT_OUT = ("proposals", "index_channels", "in_channels")  # what the page does not compute


@dataclass(frozen=True)
class Playable:
    """A model on a page.

    Attributes:
        name: what it is called there.
        model: a GLN that reads 2 or 3 coordinates and predicts edges of one kind.
        truth: ``"delaunay"`` if its true graph is the Delaunay triangulation, which the page can compute.
        examples: sets of points ``[n, 2 | 3]`` to begin with; none: random ones.
    """

    name: str
    model: Any
    truth: str = ""
    examples: Sequence[np.ndarray] = ()

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

    def packed(self, thresholds: np.ndarray) -> dict[str, Any]:
        """The model as plain data."""
        tensors, parts, place = {}, [], 0
        for name, weight in self.model.state_dict().items():
            tensors[name] = [place, *weight.shape]
            parts.append(weight.float().numpy(force=True).ravel())
            place += weight.numel()
        defaults = {"lengths": "local", "directions": True, "mixing": True, "feedback": True, "shared": False}
        return {
            "name": self.name,
            "dimensions": self.model.config["pos_channels"],
            "truth": self.truth,
            "own": int(np.abs(thresholds - np.float32(self.model.threshold)).argmin()),
            "config": defaults | self.model.config,
            "tensors": tensors,
            "weights": encode(np.concatenate(parts).astype("<f4")),
            "examples": [encode(points.astype("<f4")) for points in self.examples],
        }


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


def write_play(path: Path | str, models: Sequence[Playable], title: str = "gln play") -> Path:
    """Write a page with ``models`` to choose from."""
    if not models:
        raise GLNError("Got no models; a page to play with needs at least one.")
    for one in models:
        one.check()
    thresholds = offered(one.model.threshold for one in models)
    content = {
        "title": title,
        "thresholds": thresholds.astype(float).tolist(),
        "groups": GROUPS,
        "wasm": encode(np.frombuffer((files("gln.viewing") / "page" / "engine.wasm").read_bytes(), np.uint8)),
        "models": [one.packed(thresholds) for one in models],
    }
    scripts, worker = ["viewer.js", "delaunator.js"], ["engine.js", "worker.js"]
    return write_html(path, "play", scripts, content, title, styles=["page.css"], worker=worker)
