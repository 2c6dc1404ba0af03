"""Training of GraphRNN on a GPU: its GRUs in one launch per layer, against torch's own."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.common import device_name, fast_products, seconds_of
from gln.baselines import baseline
from gln.baselines.graphrnn_network import KERNELS
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs.record import Graph

SIZES = {"community": 300, "surfaces:points=100": 300, "surfaces:points=400": 150}  # families and graphs
SHORT, LONG = 2, 12  # epochs: their difference leaves out what is done once


def run(seed: int = 0) -> dict[str, Any]:
    """Seconds per epoch of the released settings, on graphs of 40, 100 and 400 nodes."""
    if not torch.cuda.is_available():
        raise GLNError("This benchmark compares GPU kernels, but there is no GPU; run it where there is one.")
    rows = []
    with fast_products():
        for family, count in SIZES.items():
            graphs = parse_family(family).graphs(count, seed)
            seconds = {fused: _epoch(graphs, fused, seed) for fused in (True, False)}
            row = {"family": family, "graphs": count, "ours_seconds": seconds[True]}
            rows.append(row | {"peer_seconds": seconds[False], "ratio": seconds[False] / seconds[True]})
    settings = {"seed": seed, "device": device_name(), "peer": "torch's GRU (cuDNN)"}
    return {"name": "graphrnn", "rows": rows, "settings": settings}


def _epoch(graphs: list[Graph], fused: bool, seed: int) -> float:
    """Seconds of an epoch, after the kernels are compiled."""

    def fit(epochs: int) -> float:
        method = baseline(f"graphrnn:epochs={epochs},orders=200")
        return seconds_of(lambda: method.fit(graphs, seed=seed))

    KERNELS.clear()
    if not fused:
        KERNELS["cuda"] = None
    try:
        fit(SHORT)
        return (fit(LONG) - fit(SHORT)) / (LONG - SHORT)
    finally:
        KERNELS.clear()
