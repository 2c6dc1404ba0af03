"""What every model returns: a structure per step of its recurrence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class StructureOutput:
    """The structure after every step, scored over all pairs or over ``K`` candidate pairs per node.

    ==============  ==============================  =====================================================
    ``logits``      steps × ``[B, N, N | K]``       ``sigmoid`` of it is the step's soft adjacency ``A``
    ``states``      steps × ``[B, N, d]``           the step's node states ``H``
    ``mask``        ``[B, N, N | K]``               bool: True on the pairs that were scored
    ``candidates``  ``[B, N, K]`` or ``None``       the node of each candidate; ``None``: all pairs
    ``proposal``    ``[B, N, N]`` or ``None``       scores by which further candidates were proposed
    ==============  ==============================  =====================================================
    """

    logits: tuple[Tensor, ...]
    states: tuple[Tensor, ...]
    mask: Tensor
    candidates: Tensor | None = None
    proposal: Tensor | None = None

    def target(self, adj: Tensor) -> Tensor:
        """The true adjacency ``[B, N, N]`` at the scored entries, shaped like one step's logits."""
        return adj if self.candidates is None else adj.gather(2, self.candidates) & self.mask

    def recall(self, adj: Tensor) -> Tensor:
        """Share of the true edges ``adj`` ``[B, N, N]`` that were scored at all, per graph ``[B]``; 1 without edges."""
        edges = adj.flatten(1).sum(1)
        found = (self.target(adj) & self.mask).flatten(1).sum(1)
        return torch.where(edges > 0, found / edges.clamp(min=1), 1.0)

    def probabilities(self, step: int = -1) -> Tensor:
        """The soft adjacency ``[B, N, N]`` after ``step``, zero where no pair was scored."""
        scored = self.logits[step].sigmoid().masked_fill(~self.mask, 0)
        if self.candidates is None:
            return scored
        count, nodes, _ = scored.shape
        dense = torch.zeros(count, nodes, nodes, dtype=scored.dtype, device=scored.device)
        return dense.scatter_add(
            2, self.candidates, scored
        )  # masked slots add nothing, whichever node they hold

    def adjacency(self, step: int = -1, threshold: float = 0.5, hard: bool = False) -> Tensor:
        """The adjacency ``[B, N, N]`` for use in a larger network: soft, or 0 and 1 with the soft one's gradient."""
        soft = self.probabilities(step)
        if not hard:
            return soft
        edges = (soft >= threshold) & (soft > 0)  # at a threshold of 0, too, only scored pairs are edges
        return edges.to(soft.dtype) + (soft - soft.detach())

    def full_precision(self) -> StructureOutput:
        """The output with logits in at least float32, whatever precision the model computed in."""
        full = torch.promote_types(self.logits[-1].dtype, torch.float32)
        return replace(self, logits=tuple(step.to(full) for step in self.logits))

    def soft_adjacency(self) -> Tensor:
        """The last step's soft adjacency ``[B, N, N]`` in full precision, the mean of both directions."""
        soft = self.full_precision().probabilities()
        return (soft + soft.transpose(1, 2)) / 2
