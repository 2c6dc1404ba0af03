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


@given(st.lists(st.integers(0, 6), min_size=3, max_size=60), st.integers(0, 3))
def test_graphs_of_one_group_stay_together(groups: list[int], seed: int) -> None:
    if len(set(groups)) < 3:
        return
    parts = split(range(len(groups)), seed, groups=groups)
    assert sorted(item for part in parts for item in part) == list(range(len(groups)))
    assert all(parts)
    train, val, test = ({groups[item] for item in part} for part in parts)
    assert len(train) + len(val) + len(test) == len(train | val | test)


def test_groups_of_one_are_no_groups_and_a_part_may_be_left_out() -> None:
    assert split(range(30), 4, groups=list(range(30))) == split(range(30), 4)
    for shares, empty in (({"test": 0.0}, 2), ({"val": 0.0}, 1)):
        parts = split(range(30), 4, **shares)
        assert [number for number, part in enumerate(parts) if not part] == [empty]
        assert sorted(item for part in parts for item in part) == list(range(30))


@pytest.mark.parametrize(
    "arguments",
    [
        {"graphs": [1, 2]},
        {"graphs": range(9), "test": 1.0},
        {"graphs": range(9), "val": -0.1},
        {"graphs": range(9), "groups": [0] * 8},
        {"graphs": range(9), "groups": [0] * 4 + [1] * 5},
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
