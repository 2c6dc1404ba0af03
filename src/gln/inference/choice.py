"""What may be asked of a prediction: which edges to keep, and from how many steps and candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gln.errors import GLNError
from gln.graphs.check import whole_number


@dataclass(frozen=True)
class Choice:
    """How edges are chosen, as in :func:`gln.predict`."""

    threshold: float | None = None
    top_k: int | None = None
    steps: int | None = None
    candidates: int | None = None
    batch_size: int = 32

    def __post_init__(self) -> None:
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise GLNError(f"Got threshold={self.threshold}; expected a probability between 0 and 1.")
        for name in ("top_k", "batch_size", "candidates", "steps"):
            value = getattr(self, name)
            if value is not None and (whole_number(value) or 0) < 1:
                raise GLNError(f"Got {name}={value!r}; expected a whole number of at least 1.")

    def cut(self, model: Any) -> float:
        """The threshold: the one asked for, or the one stored with the model."""
        return float(getattr(model, "threshold", 0.5) if self.threshold is None else self.threshold)


AS_TRAINED = Choice()
