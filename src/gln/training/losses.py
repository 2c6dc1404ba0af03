"""Training losses: one number per graph, from the scores of its pairs; and scores of kinds for validation.

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
types of edges ``L_t``  over the types ``t`` of the edges, where ``−log p_t`` is that of the true type
``"plain"``             ``Σ_{Y+} −log p_t / |Y+|``
``"balanced"``          the mean of this over the types that the graph has: a rare type weighs as much as a common one
weights ``L_w``         over the weights ``w`` of the edges, of which the model predicts the logarithm ``l``
``"squared"``           ``Σ_{Y+} (l − log w)² / |Y+|``
``"absolute"``          ``Σ_{Y+} |l − log w| / |Y+|``
types of nodes ``L_n``  ``Σ −log p_t / n`` over the nodes
loss
of a step               ``ψ₁ L_c + ψ₂ L_s + ψ₃ L_t + ψ₄ L_w + ψ₅ L_n``, the last three where the model predicts them
of a graph              its last step's (paper), or the mean over its steps (``every_step``)
regulariser ``r``       ``+ r Σ w²`` over the weights ``Q`` and ``M`` of the model
proposal                ``+ L_c`` (balanced) of the scores that propose candidates, over all pairs, if there are any
======================  =======================================================================================

The paper writes ``L_c`` as a sum over pairs; as a mean, one ``ψ₁`` serves graphs of all sizes. With candidate pairs,
``Y`` are the candidates: a true edge that is not a candidate does not enter the loss. A graph without edges has
nothing to balance: it gets no gradient from ``"balanced"`` or either structure term, but it does from ``"plain"``.
If the graph is directed, ``Y`` are its ordered pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.graphs.check import check_choice, check_real
from gln.models.contract import Kinds, StructureOutput

Edge = Literal["balanced", "literal", "plain", "released"]
Structure = Literal["dice", "iou", "none"]
Types = Literal["plain", "balanced"]
Weights = Literal["squared", "absolute"]
CHOICES = {"edge": Edge, "structure": Structure, "types": Types, "weights": Weights}


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
        types: how the types of edges are weighted.
        weights: how predicted weights are compared with true ones.
        psi3: weight of the types of edges.
        psi4: weight of the weights of edges, whose squared differences soon are small numbers.
        psi5: weight of the types of nodes.
    """

    edge: Edge = "balanced"
    structure: Structure = "dice"
    psi1: float = 1.0
    psi2: float = 1.0
    regulariser: float = 0.0
    every_step: bool = False
    types: Types = "plain"
    weights: Weights = "squared"
    psi3: float = 1.0
    psi4: float = 10.0
    psi5: float = 1.0

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            check_choice("Loss", name, getattr(self, name), get_args(known))
        for name in ("psi1", "psi2", "psi3", "psi4", "psi5", "regulariser"):
            check_real("Loss", name, getattr(self, name))

    def __call__(self, output: StructureOutput, batch: GraphBatch, model: nn.Module | None = None) -> Tensor:
        """The losses ``[B]``; only the regulariser needs ``model``."""
        target, mask = output.target(batch.adj) & output.mask, output.mask  # [B, N, N | K]
        steps = torch.stack(output.logits if self.every_step else output.logits[-1:])  # [S, B, N, N | K]
        scores = _masked(steps, mask)
        terms = self.psi1 * edge_term(scores, target, mask, batch.sizes, self.edge)
        if self.structure != "none":
            terms = terms + self.psi2 * structure_term(scores, target, mask, self.structure)
        losses = terms.mean(dim=0)
        for psi, term in self._kinds(output, batch, target):
            losses = losses + psi * term.mean(dim=0)
        if output.proposal is not None:
            proposal = _masked(output.proposal, batch.pair_mask)
            either = batch.adj | batch.adj.mT if output.directed else batch.adj
            losses = losses + edge_term(proposal, either, batch.pair_mask, batch.sizes, "balanced")
        return losses + self.regulariser * squared_weights(model) if self.regulariser else losses

    def _kinds(
        self, output: StructureOutput, batch: GraphBatch, edges: Tensor
    ) -> Iterator[tuple[float, Tensor]]:
        """The terms ``[S, B]`` of what the model predicts beyond ``edges [B, N, N | K]``, with their weights."""

        def stacked(steps: tuple[Tensor, ...]) -> Tensor:
            return torch.stack(steps if self.every_step else steps[-1:])

        if output.types is not None:
            truth = output.entries(_known(batch, "edge_type"))
            yield self.psi3, type_term(stacked(output.types), truth, edges, self.types)
        if output.weights is not None:
            truth = output.entries(_known(batch, "edge_weight"))
            yield self.psi4, weight_term(stacked(output.weights), truth, edges, self.weights)
        if output.nodes is not None:  # as of pairs with one candidate
            nodes, truth = stacked(output.nodes)[..., None, :], _known(batch, "node_type")[..., None]
            yield self.psi5, type_term(nodes, truth, batch.mask[..., None], "plain")


def usual_loss(model: Any, **settings: Any) -> Loss:
    """The loss that suits ``model``, except for ``settings``: on every step for GLN, plain chances for GraphFlow."""
    own = {"every_step": getattr(model, "every_step", False)} | getattr(model, "loss_settings", {})
    return Loss(**own | settings)


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


def type_term(scores: Tensor, truth: Tensor, edges: Tensor, kind: Types) -> Tensor:
    """``L_t [..., B]`` of scores ``[..., B, N, K, T]``, of the true types ``[B, N, K]`` of ``edges``; 0 without."""
    truth = truth.where(edges, 0)
    chances = _masked(scores, edges[..., None]).log_softmax(-1)
    ce = -chances.gather(-1, truth.expand(chances.shape[:-1])[..., None]).squeeze(-1) * edges
    if kind == "plain":
        return _total(ce) / _total(edges).clamp(min=1)
    each = (truth[..., None] == torch.arange(scores.shape[-1], device=truth.device)) & edges[..., None]
    count = each.flatten(1, 2).sum(1)  # [B, T]
    share = (each / count.clamp(min=1)[:, None, None]).sum(-1)  # [B, N, K]: 1 in all for every type
    return _total(ce * share) / (count > 0).sum(-1).clamp(min=1)


def weight_term(scores: Tensor, truth: Tensor, edges: Tensor, kind: Weights) -> Tensor:
    """``L_w [..., B]`` of logarithms ``[..., B, N, K]``, from the true weights ``[B, N, K]`` of the ``edges``."""
    apart = _masked(scores, edges) - truth.where(edges, 1).log()
    return _total(apart.square() if kind == "squared" else apart.abs()) / _total(edges).clamp(min=1)


def _known(batch: GraphBatch, name: str) -> Tensor:
    """What the graphs say of their edges or nodes."""
    value: Tensor | None = getattr(batch, name)
    if value is None and (name == "node_type" or batch.adj.any()):
        raise GLNError(f"The model predicts {name}, but the graphs have none; give it to every graph.")
    return torch.zeros_like(batch.adj, dtype=torch.int64) if value is None else value


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
