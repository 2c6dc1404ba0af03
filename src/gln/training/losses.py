"""Training losses: one number per graph, from the scores of its pairs.

``Y`` are the pairs of a graph that count (``output.mask``), ``Y+`` the edges among them and ``Y−`` the others; ``s``
are scores, ``p = σ(s)``, ``y`` the truth, ``β = |Y+|/|Y|``, and ``CE = −y log p − (1 − y) log(1 − p)``.

======================  =======================================================================================
edge term ``L_c``
``"balanced"`` (HED)    ``((1 − β) Σ_{Y+} CE + β Σ_{Y−} CE) / |Y|``: edges weigh as much as non-edges
``"literal"`` (paper)   ``(β Σ_{Y+} CE + (1 − β) Σ_{Y−} CE) / |Y|``: the rarer class weighs even less
``"plain"``             ``Σ_Y CE / |Y|``
``"released"``          ``2β(1 − β) Σ_Y CE / n``, ``β`` over the whole batch, so its graphs interact
structure term ``L_s``
``"dice"`` (paper)      ``1 − 2 Σ p y / (Σ p² + Σ y²)``
``"iou"`` (released)    ``1 − Σ p y / (Σ p + Σ y − Σ p y)``
``"none"``              0
loss
of a step               ``ψ₁ L_c + ψ₂ L_s``
of a graph              its last step's (paper), or the mean over its steps (``every_step``)
regulariser ``r``       ``+ r Σ w²`` over the weights ``Q`` and ``M`` of the model
proposal                ``+ L_c`` (balanced) of the scores that propose candidates, over all pairs, if there are any
======================  =======================================================================================

The paper writes ``L_c`` as a sum over pairs; as a mean, one ``ψ₁`` serves graphs of all sizes. With candidate pairs,
``Y`` are the candidates: a true edge that is not a candidate does not enter the loss. A graph without edges has
nothing to balance: it gets no gradient from ``"balanced"`` or either structure term, but it does from ``"plain"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.models.contract import StructureOutput

Edge = Literal["balanced", "literal", "plain", "released"]
Structure = Literal["dice", "iou", "none"]


@dataclass(frozen=True)
class Loss:
    """The loss of every graph, ``[B]``, from a model's output; the formulas are at the top of this module.

    Train on the mean. Except with ``edge="released"``, a graph's loss does not depend on its batch, so it does not
    matter how graphs are spread over processes.

    Args:
        edge: how edges and non-edges are weighted.
        structure: how the predicted graph as a whole is compared with the true one.
        psi1: weight of the edge term (paper: 1).
        psi2: weight of the structure term (paper: 1).
        regulariser: weight of the squared ``Q`` and ``M`` (paper: not needed; 0.05 is a usual value).
        every_step: average the loss over all steps instead of taking only the last step's.
    """

    edge: Edge = "balanced"
    structure: Structure = "dice"
    psi1: float = 1.0
    psi2: float = 1.0
    regulariser: float = 0.0
    every_step: bool = False

    def __post_init__(self) -> None:
        for name, value, known in (("edge", self.edge, Edge), ("structure", self.structure, Structure)):
            if value not in get_args(known):
                raise GLNError(f"Loss got {name}={value!r}; choose from {', '.join(get_args(known))}.")
        for name in ("psi1", "psi2", "regulariser"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise GLNError(
                    f"Loss got {name}={getattr(self, name)!r}; expected a finite number, at least 0."
                )

    def __call__(self, output: StructureOutput, batch: GraphBatch, model: nn.Module | None = None) -> Tensor:
        """The losses ``[B]``; only the regulariser needs ``model``."""
        target, mask = output.target(batch.adj) & output.mask, output.mask  # [B, N, N | K]
        steps = torch.stack(output.logits if self.every_step else output.logits[-1:])  # [T, B, N, N | K]
        losses = self._steps(_masked(steps, mask), target, mask, batch.sizes).mean(dim=0)
        if output.proposal is not None:
            proposal = _masked(output.proposal, batch.pair_mask)
            losses = losses + edge_term(proposal, batch.adj, batch.pair_mask, batch.sizes, "balanced")
        return losses + self.regulariser * squared_weights(model) if self.regulariser else losses

    def _steps(self, scores: Tensor, target: Tensor, mask: Tensor, sizes: Tensor) -> Tensor:
        edge = edge_term(scores, target, mask, sizes, self.edge)
        if self.structure == "none":
            return self.psi1 * edge
        return self.psi1 * edge + self.psi2 * structure_term(scores, target, mask, self.structure)


def edge_term(scores: Tensor, target: Tensor, mask: Tensor, sizes: Tensor, kind: Edge) -> Tensor:
    """``L_c [..., B]`` of scores ``[..., B, N, N | K]``; ``sizes [B]`` is ``n``."""
    truth = target.to(scores.dtype).expand_as(scores)
    ce = binary_cross_entropy_with_logits(scores, truth, reduction="none") * mask
    pairs = _total(mask).clamp(min=1)  # [B]; a graph of one node has no pair
    edges = _total(target)
    if kind == "plain":
        return _total(ce) / pairs
    if kind == "released":
        beta = edges.sum() / pairs.sum()
        return 2 * beta * (1 - beta) * _total(ce) / sizes
    on_edges, on_all = _total(ce * truth), _total(ce)
    beta = edges / pairs
    weight = beta if kind == "literal" else 1 - beta
    return (weight * on_edges + (1 - weight) * (on_all - on_edges)) / pairs


def structure_term(scores: Tensor, target: Tensor, mask: Tensor, kind: Structure) -> Tensor:
    """``L_s [..., B]`` of scores ``[..., B, N, N | K]``; 1 for a graph without edges, whatever is predicted."""
    p, truth = scores.sigmoid() * mask, target.to(scores.dtype)
    both = _total(p * truth)
    if kind == "dice":
        both, all_ = 2 * both, _total(p * p) + _total(truth)
    else:
        all_ = _total(p) + _total(truth) - both
    return 1 - both / all_.clamp(min=torch.finfo(p.dtype).eps)  # without edges both is 0 and p may be too


def squared_weights(model: nn.Module | None) -> Tensor:
    """``Σ w²`` over the parameters named ``Q`` or ``M``, which score pairs."""
    named = [] if model is None else list(model.named_parameters())
    weights = [weight for name, weight in named if {"Q", "M"} & set(name.split("."))]
    if not weights:
        raise GLNError(
            "The regulariser needs a model with weights Q or M; pass a PaperGLN or set regulariser=0."
        )
    return torch.stack([weight.square().sum() for weight in weights]).sum()


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    """Scores ``[..., B, N, N | K]`` in at least float32, 0 where ``mask`` is False.

    Sums over many pairs lose small terms in half precision. Padding is replaced, not multiplied by zero, so that
    whatever a model leaves there cannot reach the loss.
    """
    return scores.to(torch.promote_types(scores.dtype, torch.float32)).masked_fill(~mask, 0)


def _total(values: Tensor) -> Tensor:
    """Sum over all pairs of each graph: ``[..., B]``."""
    return values.flatten(-2).sum(dim=-1)
