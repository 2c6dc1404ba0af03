"""Splits are a partition, a function of the seed, and of the promised sizes."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given
from torch.utils.data import Subset
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.graphs import split


@given(st.integers(3, 200), st.integers(0, 5))
def test_a_split_is_a_partition_with_no_empty_part(count: int, seed: int) -> None:
    parts = split(range(count), seed)
    assert sorted(item for part in parts for item in part) == list(range(count))
    assert all(parts)
    assert split(range(count), seed) == parts


def test_the_papers_shares() -> None:
    train, val, test = split(range(300))
    assert (len(train), len(val), len(test)) == (216, 24, 60)
    assert split(range(300), seed=1)[2] != test


@pytest.mark.parametrize(
    "arguments",
    [
        {"graphs": [1, 2]},
        {"graphs": range(9), "test": 1.0},
        {"graphs": range(9), "val": 0.0},
        {"graphs": range(9), "seed": -1},
        {"graphs": range(9), "seed": 0.5},
        {"graphs": range(9), "seed": None},
        {"graphs": None},
        {"graphs": dict.fromkeys(range(9))},
        {"graphs": Data(num_nodes=9)},
    ],
)
def test_an_impossible_split_is_refused(arguments: dict) -> None:
    with pytest.raises(GLNError):
        split(**arguments)


def test_any_iterable_is_split() -> None:
    assert split(iter(range(20)), 3) == split(range(20), 3)
    assert split(Subset(range(20), range(20)), 3) == split(range(20), 3)  # type: ignore[arg-type]
