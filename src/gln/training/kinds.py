"""How well a model tells the kinds of edges and nodes apart, while it trains."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor

from gln.graphs import GraphBatch
from gln.models import StructureOutput
from gln.models.contract import Kinds


@dataclass
class KindScores:
    """Of the true edges and nodes of validation graphs, how many are of the kind that the last step says.

    ===============  ==============================================================================================
    ``val_types``    the share of true edges, among those that were scored, whose type is the most probable one
    ``val_weights``  ``exp`` of minus the mean of ``|l − log w|``: 1 where all weights are right, ½ for a factor of 2
    ``val_nodes``    the share of nodes whose type is the most probable one
    ``val_score``    the mean of these and of the IoU, by which epochs are compared
    ===============  ==============================================================================================
    """

    kinds: Kinds
    sums: Tensor  # [6]: right types, edges; differences of weights, edges; right nodes, nodes

    @classmethod
    def none_yet(cls, kinds: Kinds, device: torch.device) -> KindScores:
        return cls(kinds, torch.zeros(6, device=device))

    def update(self, output: StructureOutput, batch: GraphBatch) -> None:
        """Add a batch."""
        output, zero = output.full_precision(), self.sums.new_zeros(())
        edges = output.target(batch.adj) & output.mask
        right, apart, named = zero, zero, zero
        if output.types is not None and batch.edge_type is not None:
            right = ((output.types[-1].argmax(-1) == output.entries(batch.edge_type)) & edges).sum()
        if output.weights is not None and batch.edge_weight is not None:
            weight = output.entries(batch.edge_weight).where(edges, 1)
            apart = ((output.weights[-1] - weight.log()).abs() * edges).sum()
        if output.nodes is not None and batch.node_type is not None:
            named = ((output.nodes[-1].argmax(-1) == batch.node_type) & batch.mask).sum()
        count, nodes = edges.sum(), batch.mask.sum()
        self.sums += torch.stack([part.float() for part in (right, count, apart, count, named, nodes)])

    def compute(self, sums: Tensor, iou: float) -> dict[str, float]:
        """The scores from the ``sums`` over all processes; nothing for a model of plain graphs."""
        right, edges, apart, _, named, nodes = sums.clamp(min=1e-9).tolist()
        scores = {}
        if self.kinds.edge_types > 1:
            scores["val_types"] = right / max(edges, 1)
        if self.kinds.edge_weights:
            scores["val_weights"] = float(torch.tensor(-apart / max(edges, 1)).exp())
        if self.kinds.node_types:
            scores["val_nodes"] = named / nodes
        return scores | {"val_score": fmean([iou, *scores.values()])} if scores else {}
