"""The shape and scale of the features of many graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gln.graphs.record import ROWS, Graph
from gln.later import torch


def feature_noise(graphs: Sequence[Graph]) -> dict[str, Any]:
    """The shape and scale of the features: sizes with their counts, mean and standard deviation per column."""
    from gln.graphs.batch import values_of_all  # here, as it loads torch

    sizes, counts = np.unique([graph.num_nodes for graph in graphs], return_counts=True)
    noise: dict[str, Any] = {"sizes": np.stack([sizes, counts], axis=1).tolist()}
    for name in ROWS:
        rows = values_of_all(name, graphs)
        if rows is not None:
            rows = rows.double()
            deviation = rows.std(dim=0, correction=0)
            noise[name] = {"mean": rows.mean(dim=0).tolist(), "std": deviation.tolist()}
    return noise


def feature_scale(graphs: Sequence[Graph]) -> tuple[list[float], list[float]] | tuple[None, None]:
    """Mean and deviation of every column of ``x``, by which :class:`gln.GLN` standardises; ``None`` without ``x``.

    Columns of zeros and ones (classes, flags) are left alone: divided by its deviation, a rare one would drown out
    the others. A constant column is only shifted.
    """
    if not graphs[0].widths[1]:
        return None, None
    rows = torch.cat([graph.x for graph in graphs]).double()  # [nodes of all graphs, f]
    mean, deviation = rows.mean(dim=0), rows.std(dim=0, correction=0)
    binary = ((rows == 0) | (rows == 1)).all(dim=0)
    mean = mean.where(~binary, 0.0)
    changes = (rows.amax(dim=0) > rows.amin(dim=0)) & (deviation > torch.finfo(torch.float32).tiny)
    deviation = deviation.where(~binary & changes, 1.0)
    return mean.tolist(), deviation.tolist()
