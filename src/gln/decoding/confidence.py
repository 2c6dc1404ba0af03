"""How sure an answer is: the share of answers with such doubts that were right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gln.errors import GLNError

TINY = 1e-7  # doubts below this are alike


def chance(doubts: np.ndarray, weights: Sequence[float] | None) -> np.ndarray:
    """How likely each row of ``doubts [N, F]`` is right, by the ``weights`` of :func:`calibrate`.

    Without these, it is what the greater of the first two doubts leaves.
    """
    if weights is None:
        return 1 - doubts[:, :2].max(1).clip(0, 1)
    return 1 / (1 + np.exp(np.clip(weights[0] + _logs(doubts) @ np.array(weights[1:]), -30, 30)))


def calibrate(doubts: np.ndarray, right: np.ndarray) -> list[float]:
    """Weights with which :func:`chance` says how often answers with such ``doubts [N, F]`` were ``right [N]``.

    The logarithm of the odds against an answer is linear in the logarithms of its doubts: logistic regression, with
    just enough of a penalty to be unique.
    """
    if not 0 < np.sum(right) < len(right):
        raise GLNError("Got answers that are all right or all wrong; calibration needs some of both.")
    inputs = np.concatenate([np.ones((len(doubts), 1)), _logs(doubts)], axis=1)
    weights, wrong = np.zeros(inputs.shape[1]), 1.0 - np.asarray(right, dtype=float)
    penalty = np.diag([0.0, *[1e-3] * doubts.shape[1]])
    for _ in range(100):
        odds = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        slope = inputs.T @ (odds - wrong) + penalty @ weights
        curve = (inputs.T * np.maximum(odds * (1 - odds), 1e-9)) @ inputs + penalty
        step = np.linalg.solve(curve, slope)
        weights = weights - step * min(1, 3 / np.abs(step).max())
        if np.abs(step).max() < 1e-8:
            break
    return weights.tolist()


def _logs(doubts: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(doubts, TINY))
