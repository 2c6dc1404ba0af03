"""A trained model as a PyG transform, to use in place of ``KNNGraph``."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import BaseTransform

from gln.training import load, predict


class GLNGraph(BaseTransform):
    """PyG transform that replaces the edges of a ``Data`` by those a trained model predicts from ``pos`` and/or ``x``.

    Args:
        model: a model, the folder of a saved one, or the name of a shipped one.
        threshold: a pair with at least this probability is an edge; by default the threshold stored with the model.
        edge_prob: also set ``edge_prob [2m]``, the probability of each column of ``edge_index``.
    """

    def __init__(
        self, model: nn.Module | Path | str, threshold: float | None = None, edge_prob: bool = False
    ) -> None:
        self.model = load(model) if isinstance(model, Path | str) else model
        self.threshold = threshold
        self.edge_prob = edge_prob

    def forward(self, data: Data) -> Data:
        answers = predict(self.model, data if isinstance(data, Batch) else [data], threshold=self.threshold)
        starts = data.ptr.tolist() if isinstance(data, Batch) else [0]
        device = (data.x if data.get("pos") is None else data.pos).device
        for key in [key for key in data.keys() if data.is_edge_attr(key)]:  # noqa: SIM118
            del data[key]  # attributes of the old edges
        data.edge_index = torch.cat(
            [answer.edge_index + start for answer, start in zip(answers, starts, strict=False)], dim=1
        ).to(device)
        if self.edge_prob:
            data.edge_prob = torch.cat([answer.edge_prob for answer in answers]).to(device)
        return data
