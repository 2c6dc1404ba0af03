"""gln: predict the graph over a set of nodes from the nodes themselves.

``__all__`` lists the public names; each is loaded on first use, so that importing ``gln`` is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gln.errors import GLNError
    from gln.estimator import GraphLearner
    from gln.evaluation import EdgeScores, edge_scores, mmd, novelty, segmentation_scores
    from gln.families import FAMILIES, Family, family, register
    from gln.graphs import (
        GraphBatch,
        as_graph,
        check_graph,
        make_graph,
        split,
        to_networkx,
        to_numpy,
        to_scipy,
    )
    from gln.losses import Loss
    from gln.models import GLN, PaperGLN
    from gln.training import FitConfig, Fresh, evaluate, fit, generate, load, predict, save
    from gln.transforms import GLNGraph
    from gln.viewing import draw_graph, save_gallery

__version__ = "0.1.0"

_HOME = {
    "gln.errors": ["GLNError"],
    "gln.estimator": ["GraphLearner"],
    "gln.evaluation": ["EdgeScores", "edge_scores", "mmd", "novelty", "segmentation_scores"],
    "gln.families": ["FAMILIES", "Family", "family", "register"],
    "gln.graphs": [
        "GraphBatch",
        "as_graph",
        "check_graph",
        "make_graph",
        "split",
        "to_networkx",
        "to_numpy",
        "to_scipy",
    ],
    "gln.losses": ["Loss"],
    "gln.models": ["GLN", "PaperGLN"],
    "gln.training": ["FitConfig", "Fresh", "evaluate", "fit", "generate", "load", "predict", "save"],
    "gln.transforms": ["GLNGraph"],
    "gln.viewing": ["draw_graph", "save_gallery"],
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "FAMILIES",
    "GLN",
    "EdgeScores",
    "Family",
    "FitConfig",
    "Fresh",
    "GLNError",
    "GLNGraph",
    "GraphBatch",
    "GraphLearner",
    "Loss",
    "PaperGLN",
    "as_graph",
    "check_graph",
    "draw_graph",
    "edge_scores",
    "evaluate",
    "family",
    "fit",
    "generate",
    "load",
    "make_graph",
    "mmd",
    "novelty",
    "predict",
    "register",
    "save",
    "save_gallery",
    "segmentation_scores",
    "split",
    "to_networkx",
    "to_numpy",
    "to_scipy",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'gln' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
