"""A trained model as a PyG transform: where ``KNNGraph`` would stand, GLN stands."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from gln.training import load, predict


class GLNGraph(BaseTransform):
    """Gives a ``Data`` with ``pos`` and/or ``x`` the edges that a trained model predicts.

    Args:
        model: a model, the folder of a saved one, or the name of a shipped one.
        threshold: a pair is an edge where its probability reaches this; by default the one stored with the model.
        edge_prob: also set ``edge_prob [2m]``, the probability of each column of ``edge_index``.
    """

    def __init__(
        self, model: nn.Module | Path | str, threshold: float | None = None, edge_prob: bool = False
    ) -> None:
        self.model = load(model) if isinstance(model, Path | str) else model
        self.threshold = threshold
        self.edge_prob = edge_prob

    def forward(self, data: Data) -> Data:
        with torch.no_grad():
            answer = predict(self.model, data, threshold=self.threshold)
        device = data.pos.device if data.get("pos") is not None else data.x.device
        data.edge_index = answer.edge_index.to(device)
        if self.edge_prob:
            data.edge_prob = answer.edge_prob.to(device)
        return data
