"""Methods to compare with, by name; each is fitted to graphs, then predicts edges or samples graphs.

Set2Graph is a network, so it is a model like any other, trained by ``gln.fit``, and not in this registry.
"""

from gln.baselines.base import (
    BASELINES,
    Baseline,
    Constant,
    Copy,
    Predictor,
    Sampler,
    baseline,
    load_baseline,
    register,
    save_baseline,
)
from gln.baselines.neighbours import Neighbours

__all__ = [
    "BASELINES",
    "Baseline",
    "Constant",
    "Copy",
    "Neighbours",
    "Predictor",
    "Sampler",
    "baseline",
    "load_baseline",
    "register",
    "save_baseline",
]
