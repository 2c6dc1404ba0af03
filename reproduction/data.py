"""The graphs of a column, drawn from a seed and split as in the paper."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, cast

import torch
from torch_geometric.data import Data

from gln import Family, split
from gln.families import parse_family
from gln.seeds import TEST_SEED
from reproduction.specs import Scale, columns

SEED = 0  # of the graphs, the split and training; the shipped models were trained on other graphs
PART_SEEDS = (1, 2, TEST_SEED)  # of the train, val and test graphs of columns that draw them separately
SMOKE_COUNT = 12


@dataclass(frozen=True)
class Parts:
    """The train, validation and test graphs of one family, each drawn on first use."""

    family: Family
    draw: Callable[[int], list[Data]]  # the graphs of part 0, 1 or 2
    seed: int = SEED  # of the test graphs

    @cached_property
    def train(self) -> list[Data]:
        return self.draw(0)

    @cached_property
    def val(self) -> list[Data]:
        return self.draw(1)

    @cached_property
    def test(self) -> list[Data]:
        return self.draw(2)

    @property
    def known(self) -> list[Data]:
        """All graphs outside the test set: what a baseline learns from, and the floor."""
        return [*self.train, *self.val]

    def taught_by(self, other: Parts) -> Parts:
        """The train and validation graphs of ``other``, with those test graphs of this one that are not among them.

        Two families that draw from the same seed may have graphs in common.
        """
        seen = {_nodes_of(graph) for graph in other.known}
        test = [graph for graph in self.test if _nodes_of(graph) not in seen]
        return dataclasses.replace(self, draw=[other.train, other.val, test].__getitem__)


@lru_cache(maxsize=2)  # the cells of a column run in a row; some learn from a second column
def parts_of(scale: Scale, protocol: str, column: str) -> Parts:
    """The graphs of a column under a protocol."""
    chosen = columns()[column]
    family = parse_family(chosen.full if scale == "full" else chosen.smoke)
    family = dataclasses.replace(family, order=cast(Any, protocol))
    if scale == "smoke":
        return split_parts(family, SMOKE_COUNT)
    if chosen.parts is None:
        return split_parts(family, chosen.count or family.paper_count, chosen.shares)
    counts = chosen.parts
    return Parts(family, lambda part: family.sample(counts[part], PART_SEEDS[part]), PART_SEEDS[2])


def split_parts(family: Family, count: int | None, shares: tuple[float, float] | None = None) -> Parts:
    """``count`` graphs of a family, drawn together and split; ``shares`` of all graphs for validation and testing."""
    assert count is not None
    val, test = shares or (0.0, 0.0)
    sizes: dict[str, Any] = {"test": test, "val": val / (1 - test)} if shares else {}
    drawn = cache(lambda: split(family.sample(count, SEED), SEED, **sizes))
    return Parts(family, lambda part: drawn()[part])


def standardised(parts: Parts) -> Parts:
    """The same graphs, with every feature at mean 0 and deviation 1 over the nodes of the training graphs."""
    lists = [[copy.copy(graph) for graph in part] for part in (parts.train, parts.val, parts.test)]
    for name in ("pos", "x"):
        if parts.train[0].get(name) is not None:
            rows = torch.cat([graph[name] for graph in parts.train])
            mean, deviation = rows.mean(0), rows.std(0)
            for graph in (graph for part in lists for graph in part):
                graph[name] = (graph[name] - mean) / deviation
    return dataclasses.replace(parts, draw=lists.__getitem__)


def _nodes_of(graph: Data) -> tuple[bytes, ...]:
    """What a model sees of ``graph``; equal for equal nodes."""
    return tuple(graph[name].numpy().tobytes() for name in ("pos", "x") if graph.get(name) is not None)
