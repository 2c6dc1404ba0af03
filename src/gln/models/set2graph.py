"""Set2Graph (Serviansky et al., 2020): a network over the set, then one over every pair of nodes.

It sees ``pos`` and ``x`` as they are: unlike GLN, it depends on where the points lie and on the unit of measurement.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.graphs.batch import as_batch
from gln.models.contract import StructureOutput
from gln.models.settings import APART, Size, check_set2graph

# Widths of the layers over the set, and of the hidden layers over the pairs. The published ones are those of the
# Delaunay benchmark. Its count of 5.9 million weights includes a second pair network for the diagonal, without which
# there are 4.75 million; graphs here have no self-loops, so that network would never be used.
WIDTHS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "published": ((500, 500, 500, 1000, 500, 500, 80), (1000, 1000)),
    "small": ((64, 64, 64, 32), (64, 64)),
}


class Set2Graph(nn.Module):
    """DeepSets over the nodes, then an MLP on every pair; unless directed, its score is the mean of both directions.

    Args:
        in_channels: width of ``x``; 0 if the nodes have none.
        pos_channels: width of ``pos``; 0 if the nodes have none.
        size: ``"published"``, the widths of the Delaunay benchmark, or ``"small"``.
        total: a pair also reads the mean over all nodes, as the published S2G+ does.
        edge_types: how many types of edges there are; of more than one, it predicts the chances of each.
        directed: the two directions of a pair have scores of their own.
    """

    def __init__(
        self,
        in_channels: int = 0,
        pos_channels: int = 2,
        size: Size = "published",
        total: bool = False,
        edge_types: int = 1,
        directed: bool = False,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in APART}
        super().__init__()
        self.config = check_set2graph(given)
        self.types, self.directed = (edge_types if edge_types > 1 else 0), directed
        self.threshold = 0.5
        self.inputs = in_channels + pos_channels
        self.total = total
        nodes, hidden = WIDTHS[size]
        self.set_layers = nn.ModuleList(SetLayer(*widths) for widths in pairwise((self.inputs, *nodes)))
        self.first = nn.Linear((3 if total else 2) * nodes[-1], hidden[0])
        outputs = 1 + self.types  # the score, and those of every type
        self.pair_layers = nn.ModuleList(nn.Linear(*widths) for widths in pairwise((*hidden, outputs)))

    def forward(
        self, batch: GraphBatch, initial: Tensor | None = None, steps: int | None = None
    ) -> StructureOutput:
        """The scores of all pairs in one step; ``initial`` is refused, as there is no recurrence to start."""
        if initial is not None or steps not in (None, 1):
            raise GLNError("Set2Graph scores all pairs in one step; leave out known edges and steps.")
        batch = as_batch(batch)
        nodes = self._nodes(batch)
        scores = self._score(nodes, batch.mask)
        if not self.directed:
            scores = (scores + scores.transpose(1, 2)) / 2
        logits, types = (scores[..., 0],), (scores[..., 1:],) if self.types else None
        return StructureOutput(logits, (nodes,), batch.pair_mask, types=types, directed=self.directed)

    def draw(self, batch: GraphBatch) -> dict[str, Tensor]:
        """Nothing: it scores all pairs."""
        return {}

    def _nodes(self, batch: GraphBatch) -> Tensor:
        """The node states ``[B, N, d]``, in full precision: nearby points differ only in the last digits."""
        given = batch.features
        if given.shape[-1] != self.inputs:
            raise GLNError(
                f"Got {given.shape[-1]} values per node (pos and x together); the model expects {self.inputs}."
            )
        with torch.autocast(given.device.type, enabled=False):
            states = given.to(self.first.weight.dtype)
            for number, layer in enumerate(self.set_layers):
                states = layer(states.relu() if number else states, batch.mask)
        return states

    def _score(self, nodes: Tensor, mask: Tensor) -> Tensor:
        """Scores ``[B, N, N, 1 + T]`` of the ordered pairs of ``nodes [B, N, d]``."""
        # The first layer is linear in both ends, so it is computed once per node instead of once per pair.
        with torch.autocast(nodes.device.type, enabled=False):
            source, target, *total = self.first.weight.split(nodes.shape[-1], dim=1)
            shared = self.first.bias if not total else self.first.bias + _mean(nodes, mask) @ total[0].T
            pairs = (nodes @ source.T + shared)[:, :, None] + (nodes @ target.T)[:, None]  # [B, N, N, h]
        for layer in self.pair_layers:
            pairs = layer(pairs.relu())
        return pairs


class SetLayer(nn.Module):
    """``A x + B (x − mean of x)`` at every node, normalised to length 1; only the mean connects the nodes."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.own = nn.Linear(inputs, outputs)
        self.apart = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """``x [B, N, inputs]`` to ``[B, N, outputs]``, zero on padding."""
        x = self.own(x) + self.apart(x - _mean(x, mask))
        return nn.functional.normalize(x, dim=-1) * mask[..., None]


def _mean(x: Tensor, mask: Tensor) -> Tensor:
    """The mean over the real nodes ``[B, 1, d]``."""
    return (x * mask[..., None]).sum(1, keepdim=True) / mask.sum(1)[:, None, None]
