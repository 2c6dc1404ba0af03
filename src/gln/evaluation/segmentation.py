"""Segmentation as the paper defines it: the regions of an image are the connected components of its graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from gln.errors import GLNError
from gln.evaluation.metrics import Scores
from gln.evaluation.statistics import component_labels
from gln.graphs.convert import as_graph_pairs
from gln.graphs.record import Graph


def segmentation_scores(true: Iterable[Any], predicted: Iterable[Any]) -> Scores:
    """Adjusted Rand index of the predicted components, mean over graphs.

    ``ari_components`` compares them with the components of the true graph, ``ari_regions`` with the whole
    numbers in the attribute ``region [n]`` of the true graphs, if they have it.

    Args:
        true: the true graphs, of any kind.
        predicted: one graph per true graph, on the same nodes.
    """
    truths, guesses = as_graph_pairs(true, predicted)
    components = component_labels(guesses)
    scores = {"ari_components": adjusted_rand(component_labels(truths), components)}
    regions = [graph.get("region") for graph in truths]
    if any(region is not None for region in regions):
        numbers = [_region(graph, f"true[{index}]") for index, graph in enumerate(truths)]
        scores["ari_regions"] = adjusted_rand(numbers, components)
    return Scores({name: value.mean() for name, value in scores.items()}, notes=[f"{len(truths)} graphs"])


def _region(graph: Graph, what: str) -> Tensor:
    """The attribute ``region`` as int64 ``[n]`` on the CPU, checked."""
    if (value := graph.get("region")) is None:
        raise GLNError(f"{what} has no region; expected a number for each of its nodes.")
    with suppress(TypeError, ValueError, RuntimeError):
        region = torch.as_tensor(value).cpu()
        if region.shape == (graph.num_nodes,) and (region.long() == region).all():
            return region.long()
    raise GLNError(f"{what} has the region {str(value)[:60]}; expected a whole number for each of its nodes.")


def adjusted_rand(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """The adjusted Rand index of two labellings ``[n]`` of the nodes of each of ``G`` graphs: float64 ``[G]``.

    It is 1 if both put all nodes together, or if both keep all nodes apart.
    """
    graph = torch.repeat_interleave(torch.tensor([len(labels) for labels in first]))  # [n]: which graph
    cells = torch.stack([graph, torch.cat(list(first)), torch.cat(list(second))])

    def together(*rows: int) -> Tensor:
        """The number of node pairs of each graph that agree in these rows."""
        kinds, sizes = cells[list(rows)].unique(dim=1, return_counts=True)
        pairs = torch.zeros(len(first), dtype=torch.float64)
        return pairs.index_add(0, kinds[0], sizes.double() * (sizes - 1) / 2)

    both, one, other, every = together(0, 1, 2), together(0, 1), together(0, 2), together(0)
    expected = one * other / every.clamp(min=1)
    spread = (one + other) / 2 - expected
    return torch.where(spread > 0, (both - expected) / spread.where(spread > 0, 1), 1.0)
