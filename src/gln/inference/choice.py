"""What may be asked of a prediction: which edges to keep, and from how many steps and candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gln.errors import GLNError
from gln.graphs.check import check_real, check_whole
from gln.graphs.record import Graph
from gln.later import torch


@dataclass(frozen=True)
class Choice:
    """How edges are chosen, as in :func:`gln.predict`."""

    threshold: float | None = None
    top_k: int | None = None
    steps: int | None = None
    candidates: int | None = None
    batch_size: int = 32
    type_thresholds: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None:
            check_real("Prediction", "threshold", self.threshold, 0, 1)
        for value in self.type_thresholds or ():
            check_real("Prediction", "type_thresholds", value, 0, 1)
        for name in ("top_k", "batch_size", "candidates", "steps"):
            if self.asks(name):
                check_whole("Prediction", name, getattr(self, name), 1)

    def asks(self, name: str) -> bool:
        """Whether something is asked for by this name."""
        return getattr(self, name) is not None

    def cut(self, model: Any) -> float:
        """The threshold: the one asked for, the lowest of those of types, or the one stored with the model."""
        if self.type_thresholds is not None:
            return min(self.type_thresholds)
        return float(getattr(model, "threshold", 0.5) if self.threshold is None else self.threshold)

    def keeps(self, model: Any, graph: Graph) -> torch.Tensor:
        """Which columns of a prediction with ``edge_prob`` are edges: bool ``[2m]``."""
        least: float | torch.Tensor = self.cut(model)
        if self.type_thresholds is not None:
            types, count = getattr(model, "config", {}).get("edge_types", 1), len(self.type_thresholds)
            if types != count:
                raise GLNError(
                    f"Got {count} type_thresholds for a model of {types} types of edges; give one each."
                )
            if types > 1:
                least = graph.edge_prob.new_tensor(self.type_thresholds)[graph.edge_type]
        return graph.edge_prob >= least


AS_TRAINED = Choice()
