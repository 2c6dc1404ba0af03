"""Seeded split into training, validation and test graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.graphs.check import whole_number

T = TypeVar("T")


def split(
    graphs: Iterable[T], seed: int = 0, test: float = 0.2, val: float = 0.1
) -> tuple[list[T], list[T], list[T]]:
    """Shuffle by ``seed`` and cut into ``(train, val, test)``.

    Args:
        graphs: at least three, so that no part is empty.
        seed: the same seed gives the same parts.
        test: share of all graphs held out for testing (20 % in the paper).
        val: share of the remaining graphs held out for validation.
    """
    try:
        if isinstance(graphs, Data | dict | str):
            raise TypeError
        items = list(graphs)  # tried, because PyG's datasets iterate without being an Iterable
    except TypeError:
        raise GLNError(f"Got a {type(graphs).__name__} to split; expected a list of graphs.") from None
    number = whole_number(seed)
    if number is None or number < 0:
        raise GLNError(f"Got seed={seed!r}; expected a whole number of at least 0.")
    count = len(items)
    if count < 3:
        raise GLNError(f"Got {count} graphs; expected at least 3, one each for train, val and test.")
    if not (0 < test < 1 and 0 < val < 1):
        raise GLNError(f"Got test={test} and val={val}; expected shares between 0 and 1.")
    n_test = min(max(round(count * test), 1), count - 2)
    n_val = min(max(round((count - n_test) * val), 1), count - n_test - 1)
    order = np.random.default_rng(number).permutation(count)
    parts = np.split(order, [count - n_test - n_val, count - n_test])
    train, validation, held_out = ([items[i] for i in part] for part in parts)
    return train, validation, held_out
