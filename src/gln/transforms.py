"""A trained model as a PyG transform, to use in place of ``KNNGraph``."""

from __future__ import annotations

from pathlib import Path

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
        device = (data.x if data.get("pos") is None else data.pos).device
        # Attributes of the old edges; by its size alone, a label or ``ptr`` may look like one.
        for key in [key for key in data.keys() if "edge" in key and data.is_edge_attr(key)]:  # noqa: SIM118
            del data[key]
        names = ["edge_index", "edge_prob"] if self.edge_prob else ["edge_index"]
        parts = [
            Data(num_nodes=answer.num_nodes, **{name: answer[name] for name in names}) for answer in answers
        ]
        edges = Batch.from_data_list(parts)
        for name in names:
            data[name] = edges[name].to(device)
        if hasattr(data, "_slice_dict"):  # a batch of graphs: whose edges are whose, for ``to_data_list``
            data._slice_dict = data._slice_dict | edges._slice_dict
            data._inc_dict = data._inc_dict | edges._inc_dict
        return data
