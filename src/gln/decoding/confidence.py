"""How sure an answer is: the share of answers with such doubts that were right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

TINY = 1e-7  # doubts below this are alike


def chance(doubts: np.ndarray, weights: Sequence[float] | None) -> np.ndarray:
    """How likely each row of ``doubts [N, F]`` is right, by ``weights`` that were fitted to answers.

    Without these, it is what the greater of the first two doubts leaves.
    """
    if weights is None:
        return 1 - doubts[:, :2].max(1).clip(0, 1)
    return 1 / (1 + np.exp(np.clip(weights[0] + logs(doubts) @ np.array(weights[1:]), -30, 30)))


def logs(doubts: np.ndarray) -> np.ndarray:
    """The logarithms of doubts: those of the odds against an answer are linear in these."""
    return np.log(np.maximum(doubts, TINY))
