"""GLN: the Graph Learning Network for unordered sets of any size.

The paper's alternation, no longer tied to one node order and one n. Every step

1. lets the nodes listen to one another through the current structure ``A``: the paper's ``τ(A) H W_i`` with ``k``
   kernels, each gated by the state of the pair (η, λ);
2. re-scores the structure: every pair reads its two ends and, over third nodes, other pairs; its new score is the
   next ``A`` (α, ρ).

New compared with the paper: every pair has a state of its own, pairs exchange information over third nodes, and no
weight has a shape that depends on n. Pairs are all pairs or K candidates per node (:mod:`gln.models.pairs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_batch

from gln.compiling import can_compile
from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.graphs.check import check_whole, whole_number
from gln.models.candidates import PairList, all_pairs, candidate_pairs, join_pairs
from gln.models.features import index_features, mlp, pair_features
from gln.models.gln_parts import Step
from gln.models.output import StructureOutput
from gln.models.pairs import DensePairs, SparsePairs
from gln.models.proposal import Proposal
from gln.models.small import score_small, worth_compiling
from gln.models.streaming import stream_padded

SMALL = 128  # sets of up to this many nodes are scored over all pairs
FEWEST = 8  # the smallest K drawn in training, or half the model's candidates if that is more
# The least that each setting may be.
LEAST = {"width": 1, "pair_width": 1, "kernels": 1, "steps": 1, "candidates": 1}
LEAST |= {"proposals": 0, "index_channels": 0}


class GLN(nn.Module):
    """Predicts the edges over a set of nodes from ``pos`` and ``x``.

    Permuting the nodes permutes the answer; translating ``pos`` or changing its unit of length changes nothing.
    Sets of up to ``SMALL`` nodes are scored over all pairs, larger ones over candidates.

    Args:
        in_channels: width of ``x``; 0 if the nodes have none.
        pos_channels: width of ``pos``; 0 if the nodes have none (then ``x`` determines which are near).
        width: width of the node states.
        pair_width: width of the pair states.
        kernels: the paper's k; also the number of heads in the mixing over third nodes.
        steps: how many times structure and states are refined.
        shared: use one set of weights for all steps, so that more steps can be run than were trained.
        candidates: K, the number of nearest nodes that each node of a large set is paired with. Training draws K at
            random, so that the same weights work for all pairs and for few.
        proposals: further candidates per node of a large set, those that a learned score ranks highest: for edges
            between distant nodes.
        mixing: let pairs read pairs over third nodes; off only to measure what it is worth.
        feedback: let nodes and pairs see the current ``A``; off only to measure what it is worth.
        index_channels: an even number of further features, sines and cosines of a node's index in its graph: for
            data whose node order is meaningful. Permuting the nodes then changes the answer.
        x_mean, x_std: per column; the model reads ``(x − x_mean) / x_std``. ``None`` leaves ``x`` unchanged.
    """

    every_step = True  # by default its loss is on every step's structure
    x_mean: Tensor | None  # [f], like x_std; stored in the config, not with the weights
    x_std: Tensor | None

    def __init__(
        self,
        in_channels: int = 0,
        pos_channels: int = 2,
        width: int = 96,
        pair_width: int = 64,
        kernels: int = 4,
        steps: int = 5,
        shared: bool = False,
        candidates: int = 32,
        proposals: int = 0,
        mixing: bool = True,
        feedback: bool = True,
        index_channels: int = 0,
        x_mean: Sequence[float] | None = None,
        x_std: Sequence[float] | None = None,
    ) -> None:
        config = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        super().__init__()
        if in_channels < 0 or pos_channels < 0 or in_channels + pos_channels < 1:
            raise GLNError(
                f"Got in_channels={in_channels} and pos_channels={pos_channels}; a node needs a position or a feature."
            )
        for name, least in LEAST.items():
            config[name] = check_whole("GLN", name, config[name], least)
        if width % kernels or pair_width % kernels:
            raise GLNError(
                f"Got width={width}, pair_width={pair_width}; both must be multiples of kernels={kernels}."
            )
        if index_channels % 2:
            raise GLNError(f"GLN got index_channels={index_channels}; expected 0 or a positive even number.")
        self.config: dict[str, Any] = config
        self.threshold = 0.5
        self.in_channels, self.pos_channels = in_channels, pos_channels
        self.steps, self.shared, self.candidates = steps, shared, candidates
        self.pair_width, self.index_channels = pair_width, index_channels
        features = in_channels + index_channels
        self.propose = Proposal(features, pos_channels, width, proposals) if proposals else None
        self.embed_node = mlp(max(features, 1), width, width)
        self.embed_pair = mlp(2 * pos_channels + 3 + 2 * features, 2 * pair_width, pair_width)
        blocks = 1 if shared else steps
        self.blocks = nn.ModuleList(Step(width, pair_width, kernels, mixing, feedback) for _ in range(blocks))
        self.scale_features(x_mean, x_std)

    def scale_features(self, x_mean: Sequence[float] | None, x_std: Sequence[float] | None) -> None:
        """Read ``(x − x_mean) / x_std`` in place of ``x`` from now on; ``None`` for both leaves ``x`` unchanged."""
        if (x_mean is None) != (x_std is None):
            raise GLNError("GLN got only one of x_mean and x_std; give both, or neither to keep x as it is.")
        for name, given in (("x_mean", x_mean), ("x_std", x_std)):
            values = None if given is None else [float(value) for value in given]
            self.register_buffer(
                name, None if values is None else self._scale(name, values), persistent=False
            )
            self.config[name] = values

    def _scale(self, name: str, values: list[float]) -> Tensor:
        scale = next(self.parameters()).new_tensor(values)
        fit = scale.isfinite() & ((scale > 0) | (name == "x_mean"))
        if len(scale) != self.in_channels or not bool(fit.all()):
            above = " above 0" if name == "x_std" else ""
            raise GLNError(
                f"GLN got {name}={values}; expected a number{above} for each of the {self.in_channels} columns of x."
            )
        return scale

    def forward(
        self,
        batch: GraphBatch | Data,
        initial: Tensor | None = None,
        steps: int | None = None,
        pairs: DensePairs | SparsePairs | None = None,
        candidates: int | None = None,
    ) -> StructureOutput:
        """The structure after every step.

        Args:
            batch: the nodes, padded or as a PyG ``Batch`` or ``Data``; its edges are never read.
            initial: ``A⁰`` ``[B, N, N]`` or ``[N, N]``, for instance known edges; none by default. Entries of
                at least 0.5 are candidates, however distant.
            steps: how many steps to run; default: as trained. More than that need ``shared=True``.
            pairs: the pairs to score; default: the model's own choice.
            candidates: K for sets of all sizes, small ones too; default: all pairs for sets of up to ``SMALL`` nodes,
                and the model's own K for larger ones.
        """
        batch = _padded(batch) if isinstance(batch, Data) else batch  # a Batch is a Data too
        steps = self.checked_steps(steps)
        x, pos = self.inputs(batch)
        initial = None if initial is None else _structure(initial, batch.mask, x)
        where = pos if self.pos_channels else x
        proposal = None if self.propose is None else self.propose(where, x, batch.mask)
        if pairs is None:
            pairs = self._choose(where, batch.mask, initial, proposal, candidates)
        if not torch.is_grad_enabled() and x.is_cpu and self._compiles(pairs, x):
            return self._without_gradients(pairs, where, pos, x, initial, steps, proposal)

        e = self.embed_pair(pair_features(pairs, where, pos, x))  # [B, N, S, c]
        h = self.embed_node(x if x.shape[-1] else x.new_ones(*batch.mask.shape, 1))  # [B, N, d]
        # Adding 0 · e gives the first A a gradient like the later ones: what is compiled for one step then serves all.
        a = _on_pairs(pairs, initial, e) + 0 * e[..., 0]  # [B, N, S]
        logits, states = [], []
        for number in range(steps):
            h, e, score = self.step(number)(pairs, h, e, a)
            a = score.sigmoid() * pairs.mask
            logits.append(score)
            states.append(h)
        index = pairs.target if isinstance(pairs, SparsePairs) else None
        return StructureOutput(tuple(logits), tuple(states), pairs.mask, index, proposal)

    @torch.compiler.disable
    def _compiles(self, pairs: DensePairs | SparsePairs, like: Tensor) -> bool:
        """Whether the compiled CPU loops are available and faster."""
        return can_compile() if isinstance(pairs, SparsePairs) else worth_compiling(pairs, like)

    @torch.compiler.disable
    def _without_gradients(
        self,
        pairs: DensePairs | SparsePairs,
        where: Tensor,
        pos: Tensor,
        x: Tensor,
        initial: Tensor | None,
        steps: int,
        proposal: Tensor | None,
    ) -> StructureOutput:
        """The same without empty slots and without gradients: many times faster on a CPU."""
        given = (where, pos, x, _on_pairs(pairs, initial, x), steps)
        if isinstance(pairs, SparsePairs):
            logits, states = zip(*stream_padded(self, pairs, *given), strict=True)
            return StructureOutput(logits, states, pairs.mask, pairs.target, proposal)
        logits, states = zip(*score_small(self, pairs, *given), strict=True)
        return StructureOutput(logits, states, pairs.mask, None, proposal)

    @torch.compiler.disable
    def _choose(
        self,
        where: Tensor,
        mask: Tensor,
        initial: Tensor | None,
        proposal: Tensor | None,
        candidates: int | None = None,
    ) -> DensePairs | SparsePairs:
        """All pairs of a small set, candidates of a large one; in training, a random number of candidates.

        Each graph is judged by its own size: padding must not matter.
        """
        # The host knows the padded size without waiting for the GPU, so decide by it where possible.
        all_small = mask.shape[1] <= SMALL and candidates is None
        share, everything = torch.rand(2).tolist() if self.training else (1.0, 0.0)
        if all_small and everything < 0.5:
            return all_pairs(mask)
        sizes = mask.sum(1)  # [B]
        small = (sizes <= SMALL) & (candidates is None)
        candidates = candidates or self.candidates
        nearest = torch.where(small, sizes, candidates)
        if self.training:
            least = min(max(FEWEST, candidates // 2), candidates)
            most = torch.where(small, sizes, 2 * candidates).clamp(min=least)
            nearest = torch.where(
                small & (everything < 0.5), sizes, (least * (most / least) ** share).round().long()
            )
        if not all_small and bool((nearest >= sizes).all()):
            return all_pairs(mask)
        extra = [] if initial is None else [PairList(*(initial >= 0.5).nonzero(as_tuple=True))]
        if self.propose is not None and proposal is not None:
            extra.append(self.propose.best(proposal, mask))
        return candidate_pairs(where, mask, nearest, join_pairs(extra))

    def step(self, number: int) -> Step:
        """The module with the weights of step ``number``."""
        return cast(Step, self.blocks[0 if self.shared else number])

    def checked_steps(self, steps: int | None) -> int:
        """The number of steps to run; refuse one that the weights do not allow."""
        wanted = self.steps if steps is None else whole_number(steps)
        if wanted is None or wanted < 1 or (wanted > len(self.blocks) and not self.shared):
            raise GLNError(
                f"Got steps={steps!r}; expected 1 to {len(self.blocks)}, the steps that have weights, "
                "or a model trained with shared=True."
            )
        return wanted

    def inputs(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Checked inputs: ``x``, scaled, and ``pos``; of width 0 where the model takes none."""
        weight = next(self.parameters())
        found = []
        for name, value, expected in (
            ("x", batch.x, self.in_channels),
            ("pos", batch.pos, self.pos_channels),
        ):
            got = 0 if value is None else value.shape[-1]
            if expected and got != expected:
                raise GLNError(f"Got {name} with {got} values per node; the model expects {expected}.")
            if value is None or not expected:
                value = weight.new_zeros(*batch.mask.shape, 0)
            found.append(value.to(weight.dtype))
        if self.x_mean is not None and self.x_std is not None:
            found[0] = ((found[0] - self.x_mean) / self.x_std).masked_fill(~batch.mask[..., None], 0)
        if self.index_channels:
            place = index_features(batch.mask, self.index_channels).to(weight.dtype)
            found[0] = torch.cat([found[0], place], dim=-1)
        return found[0], found[1]


def _padded(batch: Data) -> GraphBatch:
    """The nodes of a PyG batch, or of one graph, padded, without the edges."""
    if batch.get("pos") is None and batch.get("x") is None:
        raise GLNError("The batch has neither pos nor x; a model needs at least one of them.")
    pos, x = (
        None if batch.get(name) is None else to_dense_batch(batch[name], batch.batch) for name in ("pos", "x")
    )
    mask = (pos or x)[1]  # type: ignore[index]
    empty = mask.new_zeros(*mask.shape, mask.shape[1])
    return GraphBatch(pos and pos[0], x and x[0], empty, mask)


def _structure(initial: Tensor, mask: Tensor, like: Tensor) -> Tensor:
    """``A⁰`` as ``[B, N, N]``, with the device and dtype of the model."""
    count, nodes = mask.shape
    if initial.shape not in ((nodes, nodes), (count, nodes, nodes)):
        raise GLNError(
            f"Got an initial structure of shape {list(initial.shape)}; expected [{nodes}, {nodes}] or "
            f"[{count}, {nodes}, {nodes}]."
        )
    return initial.to(like).expand(count, nodes, nodes)


def _on_pairs(pairs: DensePairs | SparsePairs, structure: Tensor | None, like: Tensor) -> Tensor:
    """The entries of a structure ``[B, N, N]`` at the pairs: ``[B, N, S]``; zeros if there is no structure."""
    if structure is None:
        return like.new_zeros(pairs.mask.shape)
    return (structure.gather(2, pairs.target) if isinstance(pairs, SparsePairs) else structure) * pairs.mask
