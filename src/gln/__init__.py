"""gln: predict the graph over a set of nodes from the nodes themselves.

``__all__`` lists the public names; each is loaded on first use, so that importing ``gln`` is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gln.later import names_of
from gln.threads import wait_asleep

if TYPE_CHECKING:
    from gln.adapters.onnx import export
    from gln.adapters.pyg import GLNGraph, as_graph, check_graph, make_graph
    from gln.adapters.sklearn import GraphLearner
    from gln.decoding.clusters import clusters
    from gln.errors import GLNError
    from gln.evaluation import EdgeScores, edge_scores, mmd, novelty, segmentation_scores
    from gln.families import FAMILIES, Family, family, register
    from gln.graphs import GraphBatch, split, to_networkx, to_numpy, to_scipy
    from gln.inference.evaluate import evaluate
    from gln.inference.generate import generate
    from gln.inference.predict import predict
    from gln.models import GLN, GraphFlow, PaperGLN
    from gln.storage.models import save
    from gln.training import FitConfig, Fresh, fit
    from gln.training.losses import Loss
    from gln.viewing import draw_graph, save_gallery
    from gln.workflows.forms import mesh
    from gln.workflows.methods import load

__version__ = "0.1.0"

wait_asleep()  # before anything imports torch

_HOME = {
    "gln.adapters.onnx": ["export"],
    "gln.adapters.pyg": ["GLNGraph", "as_graph", "check_graph", "make_graph"],
    "gln.adapters.sklearn": ["GraphLearner"],
    "gln.decoding.clusters": ["clusters"],
    "gln.errors": ["GLNError"],
    "gln.evaluation": ["EdgeScores", "edge_scores", "mmd", "novelty", "segmentation_scores"],
    "gln.families": ["FAMILIES", "Family", "family", "register"],
    "gln.graphs": ["GraphBatch", "split", "to_networkx", "to_numpy", "to_scipy"],
    "gln.inference.evaluate": ["evaluate"],
    "gln.inference.generate": ["generate"],
    "gln.inference.predict": ["predict"],
    "gln.models": ["GLN", "GraphFlow", "PaperGLN"],
    "gln.storage.models": ["save"],
    "gln.training": ["FitConfig", "Fresh", "fit"],
    "gln.training.losses": ["Loss"],
    "gln.viewing": ["draw_graph", "save_gallery"],
    "gln.workflows.forms": ["mesh"],
    "gln.workflows.methods": ["load"],
}

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
    "GraphFlow",
    "GraphLearner",
    "Loss",
    "PaperGLN",
    "as_graph",
    "check_graph",
    "clusters",
    "draw_graph",
    "edge_scores",
    "evaluate",
    "export",
    "family",
    "fit",
    "generate",
    "load",
    "make_graph",
    "mesh",
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


__getattr__ = names_of(__name__, _HOME)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
