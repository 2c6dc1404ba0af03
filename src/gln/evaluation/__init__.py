"""Evaluating graphs of any kind: edge scores, kinds of edges, MMD, segmentation, novelty and calibration.

Nothing here depends on a model: predictions are probabilities in a padded batch, or lists of graphs.
"""

from typing import TYPE_CHECKING

from gln.evaluation.counting import orbits
from gln.evaluation.edges import edge_scores
from gln.evaluation.generation import isomorphic, novelty
from gln.evaluation.kinds import TypeTable, kind_scores
from gln.evaluation.metrics import METRICS, MetricInfo, Scores
from gln.evaluation.mmd import DESCRIPTORS, Descriptor, Interval, Kernel, MMDResult, mmd
from gln.evaluation.statistics import (
    adjusted_rand,
    clustering,
    component_labels,
    degrees,
    laplacian_spectrum,
    largest_components,
    segmentation_scores,
)
from gln.later import names_of

if TYPE_CHECKING:
    from gln.evaluation.padded import BestThreshold, EdgeScores, calibration_error

__all__ = [
    "DESCRIPTORS",
    "METRICS",
    "BestThreshold",
    "Descriptor",
    "EdgeScores",
    "Interval",
    "Kernel",
    "MMDResult",
    "MetricInfo",
    "Scores",
    "TypeTable",
    "adjusted_rand",
    "calibration_error",
    "clustering",
    "component_labels",
    "degrees",
    "edge_scores",
    "isomorphic",
    "kind_scores",
    "laplacian_spectrum",
    "largest_components",
    "mmd",
    "novelty",
    "orbits",
    "segmentation_scores",
]

# torchmetrics is slow to import
_PADDED = ["BestThreshold", "EdgeScores", "calibration_error"]
__getattr__ = names_of(__name__, {"gln.evaluation.padded": _PADDED})
