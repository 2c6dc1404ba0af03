"""GLN: the Graph Learning Network for unordered sets of any size.

The paper's alternation, no longer tied to one node order and one n. Every step

1. lets the nodes listen to one another through the current structure ``A``: the paper's ``τ(A) H W_i`` with ``k``
   kernels, each gated by the state of the pair (η, λ);
2. re-scores the structure: every pair reads its two ends and, over third nodes, other pairs; its new score is the
   next ``A`` (α, ρ).

New compared with the paper: every pair has a state of its own, pairs exchange information over third nodes, and no
weight has a shape that depends on n. Edges may have types, directions and weights, which are fed back as further
channels of ``A``. Pairs are all pairs or K candidates per node (:mod:`gln.models.pairs`); below, ``[..., c]`` stands
for the values of nodes or pairs in either form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, one_hot

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.graphs.batch import as_batch
from gln.models.candidates import Proposal, candidate_pairs, choose_pairs
from gln.models.contract import Kinds, ScoredPairs, StructureOutput, kinds_of
from gln.models.features import (
    Explain,
    Series,
    Structure,
    checked_structure,
    feature_count,
    fed_back,
    first_structure,
    index_features,
    local_unit,
    mlp,
    next_structure,
    pair_features,
    said,
    types_and_weights,
)
from gln.models.pairs import (
    AllPairs,
    Block,
    ListedPairs,
    Pairs,
    in_one_piece,
    joined,
    replaced,
)
from gln.models.region import Region
from gln.models.settings import APART, Lengths, check_gln, check_steps
from gln.ops.layers import ends_linear, gelu_linear, has_kernel, normed_linear, normed_mlp

Tick = Callable[[int], object]


class After(NamedTuple):
    """What a step gives: node states ``[..., d]``, scores, and, where predicted, the kinds of edges and of nodes."""

    h: Tensor
    score: Tensor  # [...]
    types: Tensor | None  # [..., T]
    weights: Tensor | None  # [...]
    nodes: Tensor | None  # [..., C]


class GLN(nn.Module):
    """Predicts the edges over a set of nodes from ``pos`` and ``x``, and of which kind they are.

    Permuting the nodes permutes the answer; translating ``pos`` or changing its unit of length changes nothing.
    Sets of up to 128 nodes are scored over all pairs, unless ``sparse``, and larger ones over candidates.

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
        edge_types: how many types of edges there are; of more than one, it predicts the chances of each.
        directed: ``i → j`` and ``j → i`` are two edges, each with its own score, type and weight.
        edge_weights: predict a positive number for every edge; pairs then also read the sum of ``x`` at their ends.
        node_types: how many types of nodes there are to predict; 0: none.
        lengths: ``"absolute"`` also reads lengths in the data's own unit, which then matters; ``"fine"`` tells apart
            those that differ by a hundredth of it, such as those of bonds in ångström.
        sparse: score candidates alone in small sets too, where all pairs take several times as long.
        directions: False reads only what rotating and mirroring ``pos`` leaves alone.
        moments: ``x`` is a series of the same values at so many moments, one after another; each is read in the same
            way (:mod:`gln.models.features`).
    """

    every_step = True  # by default its loss is on every step's structure
    trains_in_bfloat16 = True  # it learns as well with products in bfloat16
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
        edge_types: int = 1,
        directed: bool = False,
        edge_weights: bool = False,
        node_types: int = 0,
        lengths: Lengths = "local",
        directions: bool = True,
        moments: int = 1,
        sparse: bool = False,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in APART}
        super().__init__()
        self.config = check_gln(given)
        self.threshold = 0.5
        self.in_channels, self.pos_channels, self.index_channels = in_channels, pos_channels, index_channels
        self.steps, self.shared, self.candidates, self.feedback = steps, shared, candidates, feedback
        self.lengths, self.directions, self.sparse, self.kinds = lengths, directions, sparse, kinds_of(self)
        features = in_channels + index_channels
        self.propose = Proposal(features, pos_channels, width, proposals, directions) if proposals else None
        self.embed_node = mlp(max(features, 1), width, width)
        inputs = feature_count(pos_channels, features, lengths, directions, sums=edge_weights)
        self.embed_pair = mlp(inputs, 2 * pair_width, pair_width)
        self.blocks = nn.ModuleList(
            Step(width, pair_width, kernels, mixing, self.kinds) for _ in range(1 if shared else steps)
        )
        self.series = Series(moments, in_channels // moments, pair_width) if moments > 1 else None
        if moments > 1:
            seen = 1 + fed_back(self.kinds)
            self.explain = nn.ModuleList(Explain(pair_width, seen) for _ in self.blocks)
        self.label = Label(width, pair_width, kernels, self.kinds) if node_types else None
        self.scale_features(x_mean, x_std)

    def forward(
        self,
        batch: GraphBatch,
        initial: Tensor | None = None,
        steps: int | None = None,
        pairs: Pairs | Tensor | None = None,
        candidates: int | None = None,
        told: tuple[Tensor, Tensor] | None = None,
        **listed: Tensor,
    ) -> StructureOutput:
        """The structure after every step.

        Args:
            batch: the nodes, padded or as a PyG ``Batch`` or ``Data``; its edges are never read.
            initial: ``A⁰`` ``[B, N, N]`` or ``[N, N]``, for instance known edges; none by default. Entries of
                at least 0.5 are candidates, however distant. ``[B, N, N, T]`` is ``A⁰`` for each type.
            steps: how many steps to run; default: as trained. More than that need ``shared=True``.
            pairs: the pairs to score, perhaps as a symmetric mask ``[B, N, N]``; default: the model's own choice.
            candidates: K for sets of all sizes, small ones too; default: all pairs for small sets, and the model's own
                K for larger ones.
            told: what nodes ``[B, N, d]`` and pairs ``[B, N, N, c]`` know beforehand; added to their first states.
            listed: a list of pairs, as :meth:`draw` gives it.
        """
        batch = as_batch(batch)
        steps = self.checked_steps(steps)
        where, pos, x = self.inputs(batch)
        initial = None if initial is None else checked_structure(self.kinds, initial, batch.mask, x)
        proposal = None if self.propose is None else self.propose(where, x, batch.mask)
        if isinstance(pairs, Tensor):
            pairs = AllPairs(pairs)
        elif listed:
            pairs = ListedPairs.from_tensors(batch.mask.shape, **listed)
        pairs = pairs or choose_pairs(self, where, x, batch.mask, initial, proposal, candidates)
        a = None if initial is None else pairs.on_pairs(initial)
        whole, scored = pairs.of_all_nodes()
        found: dict[str, list[Tensor]] = {name: [] for name in After._fields}
        for after in self.unroll(pairs, (where, pos, x), a, steps, told=told):
            for name, values in after._asdict().items():
                if values is None:
                    continue
                if name in ("h", "nodes"):
                    found[name].append(pairs.to_batch(values))
                else:
                    found[name].append(whole.in_slots(values if scored is None else values[scored]))
        scores, states = (tuple(found.pop(name)) for name in ("score", "h"))
        kinds = {name: tuple(values) or None for name, values in found.items()}
        return StructureOutput(
            scores, states, whole.mask, whole.candidates, proposal, **kinds, directed=self.kinds.directed
        )

    def draw(self, batch: GraphBatch) -> dict[str, Tensor] | None:
        """Which pairs a training step scores, unless some are proposed, or many nodes coincide."""
        if self.propose is not None:
            return None
        where, _, x = self.inputs(batch)
        pairs = choose_pairs(self, where, x, batch.mask)
        if isinstance(pairs, AllPairs):
            return {"pairs": pairs.mask}
        return pairs.padded().as_tensors() if pairs.is_plain else None

    @torch.no_grad()
    def score_set(
        self,
        batch: GraphBatch,
        known: Tensor | None = None,
        steps: int | None = None,
        candidates: int | None = None,
        block: int | None = None,
        tick: Tick | None = None,
        known_types: Tensor | None = None,
    ) -> ScoredPairs:
        """The last step's score of every candidate pair of one set, however large, in memory O(n·K).

        Args:
            batch: the nodes of one graph; its edges are not read.
            known: edges ``[2, m]`` to start from, in both directions; they become candidates.
            steps: how many to run.
            candidates: how many nearest nodes each node is paired with; default: the model's own number.
            block: how many pairs to process at once; by default what suits the device.
            tick: called with the number of nodes of every block that has finished a step.
            known_types: the type of every known edge ``[m]``; default: unknown.
        """
        where, pos, x = self.inputs(batch)
        known = (torch.empty(2, 0, dtype=torch.long) if known is None else known).to(x.device)
        nearest = torch.tensor([candidates or self.candidates], device=x.device)
        proposed = None if self.propose is None else partial(self.propose.best_of_set, where, x)
        pairs = candidate_pairs(where, batch.mask, nearest, known, True, x, proposed)
        assert isinstance(pairs, ListedPairs)
        a = x.new_zeros(pairs.ends.shape[1], *[self.kinds.edge_types][: known_types is not None])
        a[pairs.places(known)] = 1
        if known_types is not None:
            a[pairs.places(known)] = one_hot(known_types.to(x.device), a.shape[1]).to(a)
        for after in self.unroll(pairs, (where, pos, x), a, self.checked_steps(steps), block, tick):  # noqa: B007
            pass  # only the last step counts
        whole, scored = pairs.of_all_nodes()
        source, target = whole.batch_ends
        score, types, weights = (
            values if scored is None or values is None else values[scored]
            for values in (after.score, after.types, after.weights)
        )
        nodes = None if after.nodes is None else pairs.to_batch(after.nodes)[0]
        return ScoredPairs(source, target, cast(Tensor, score), types, weights, nodes)

    def unroll(
        self,
        pairs: Pairs,
        inputs: tuple[Tensor, Tensor, Tensor],
        a: Tensor | None,
        steps: int,
        block: int | None = None,
        tick: Tick | None = None,
        told: tuple[Tensor, Tensor] | None = None,
        region: Region | None = None,
    ) -> Iterator[After]:
        """What each step gives, from ``A⁰``: ``a`` ``[...]`` or, for each type, ``[..., T]``.

        With a ``region``, every step is for fewer nodes and ``pairs``: for those of ``region.pairs``.
        """
        blocks, h, e = self.embed(pairs, inputs, block)
        if told is not None:
            h, e = h + pairs.from_batch(told[0]), e + pairs.on_pairs(told[1])
        if self.series is not None:
            read, moments = self.series(blocks, pairs.from_batch(inputs[2])[..., : self.in_channels])
            e = e + read
        # Adding 0 · e gives the first A a gradient like the later ones: what is compiled for one step then serves all.
        structure = first_structure(self.kinds, pairs, a, 0 * e[..., 0])
        for number in range(steps):
            if region is not None and number:
                pairs, blocks, h, e, structure = region.narrowed(number, h, e, structure)
            seen = structure if self.feedback else structure.hidden(pairs)
            if self.series is not None:
                e = e + self.explain[0 if self.shared else number](blocks, moments, seen.channels())
            h, e, score, kinds = self.step(number)(pairs, blocks, h, e, seen, tick)
            types, weights = types_and_weights(self.kinds, kinds)
            structure = next_structure(self.kinds, pairs, score, types, weights)
            nodes = None
            if self.label is not None and region is None:
                nodes = self.label(pairs, blocks, h, e, structure)
            yield After(h, score, types, weights, nodes)

    def embed(
        self, pairs: Pairs, inputs: tuple[Tensor, Tensor, Tensor], block: int | None = None
    ) -> tuple[Sequence[Block], Tensor, Tensor]:
        """The blocks of pairs, and the first states of nodes ``[..., d]`` and of pairs ``[..., c]``."""
        where, pos, x = (pairs.from_batch(values) for values in inputs)
        blocks: Sequence[Block] = pairs.blocks(block)
        unit = joined([local_unit(block, where) for block in blocks])[..., None]
        h = self.embed_node(x if x.shape[-1] else x.new_ones(*x.shape[:-1], 1))
        how = (self.lengths, self.directions, self.kinds.edge_weights)
        states = (self.embed_pair(pair_features(block, where, pos, x, unit, *how)) for block in blocks)
        return blocks, h, in_one_piece(states, blocks)

    def step(self, number: int) -> Step:
        """The module with the weights of step ``number``."""
        return cast(Step, self.blocks[0 if self.shared else number])

    def checked_steps(self, steps: int | None) -> int:
        """The number of steps to run; refuse one that the weights do not allow."""
        return check_steps(steps, self.steps, self.shared)

    def inputs(self, batch: GraphBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Checked inputs ``[B, N, ·]``: where the nodes are, ``pos``, and ``x``, scaled; of width 0 if not taken."""
        weight = next(self.parameters())
        found = []
        for name, value, expected in (
            ("pos", batch.pos, self.pos_channels),
            ("x", batch.x, self.in_channels),
        ):
            got = 0 if value is None else value.shape[-1]
            if expected and got != expected:
                raise GLNError(f"Got {name} with {got} values per node; the model expects {expected}.")
            if value is None or not expected:
                value = weight.new_zeros(*batch.mask.shape, 0)
            found.append(value.to(weight.dtype))
        pos, x = found
        if self.x_mean is not None and self.x_std is not None:
            x = ((x - self.x_mean) / self.x_std).masked_fill(~batch.mask[..., None], 0)
        if self.index_channels:
            place = index_features(batch.mask, self.index_channels).to(weight.dtype)
            x = torch.cat([x, place], dim=-1)
        return pos if self.pos_channels else x, pos, x

    def scale_features(self, x_mean: Sequence[float] | None, x_std: Sequence[float] | None) -> None:
        """Read ``(x − x_mean) / x_std`` in place of ``x`` from now on; ``None`` for both leaves ``x`` unchanged."""
        if (x_mean is None) != (x_std is None):
            raise GLNError("GLN got only one of x_mean and x_std; give both, or neither to keep x as it is.")
        for name, given in (("x_mean", x_mean), ("x_std", x_std)):
            values, scale = None if given is None else [float(value) for value in given], None
            if values is not None:
                scale = next(self.parameters()).new_tensor(values)
                kept = torch.tensor(values, dtype=scale.dtype, device="cpu")  # as the model will keep them
                fit = kept.isfinite() & ((kept > 0) | (name == "x_mean"))
                if len(kept) != self.in_channels or not bool(fit.all()):
                    above, columns = " above 0" if name == "x_std" else "", self.in_channels
                    raise GLNError(
                        f"GLN got {name}={values}; expected a number{above} for each of the {columns} columns of x."
                    )
            self.register_buffer(name, scale, persistent=False)
            self.config[name] = values


class Step(nn.Module):
    """One step: nodes listen to one another through the structure, then the structure is re-scored."""

    def __init__(self, width: int, pair_width: int, kernels: int, mixing: bool, kinds: Kinds) -> None:
        super().__init__()
        self.directed = kinds.directed
        self.listen = Listen(width, pair_width, kernels, kinds)
        self.think = nn.Sequential(nn.LayerNorm(width), mlp(width, 2 * width, width))
        self.ends = Ends(width, pair_width, kinds)
        self.mix = Mix(pair_width, kernels) if mixing else None
        self.weigh = nn.Sequential(nn.LayerNorm(pair_width), mlp(pair_width, 2 * pair_width, pair_width))
        self.score = nn.Sequential(nn.LayerNorm(pair_width), nn.Linear(pair_width, 1))
        self.kind: nn.Sequential | None = None
        if outputs := said(kinds):
            self.kind = nn.Sequential(nn.LayerNorm(pair_width), nn.Linear(pair_width, outputs))

    def forward(
        self,
        pairs: Pairs,
        blocks: Sequence[Block],
        h: Tensor,
        e: Tensor,
        structure: Structure,
        tick: Tick | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """New states of nodes ``[..., d]`` and of pairs ``[..., c]``, scores ``[...]``, and kinds ``[..., k]``.

        Of several blocks, the states ``e`` are replaced where they are.
        """
        h = h + self.listen(pairs, blocks, h, e, structure)
        h = h + self.think(h)
        ends = self.ends.project(h)
        for block in blocks:
            e = replaced(e, blocks, block, self.ends(block, block.pairs(e), *ends, structure))
        # A block reads its surroundings as they were before any block mixed.
        before: list[Tensor | None] = [block.pairs(e) for block in blocks]
        scores, kinds = [], []
        for number, block in enumerate(blocks):
            state = block.pairs(e)
            if self.mix is not None:
                state = state + self.mix(block, block.around(before, number))
                if before[number] is not None and len(blocks) > 1:  # a later block reads what is replaced now
                    before[number] = block.pairs(e).clone()
            e = replaced(e, blocks, block, normed_mlp(self.weigh, state))
            scores.append(normed_linear(self.score[0], self.score[1], block.pairs(e)).squeeze(-1))
            if self.kind is not None:
                kinds.append(normed_linear(self.kind[0], self.kind[1], block.pairs(e)))
            if tick is not None:
                tick(len(block.rows(h)))
        score, kind = joined(scores), joined(kinds) if kinds else None
        if not self.directed:
            score = (score + pairs.reverse(score)) / 2
            kind = None if kind is None else (kind + pairs.reverse(kind)) / 2
        return h, e, score, kind


class Listen(nn.Module):
    """The paper's η and λ: ``Σ_i τ(A) H W_i``, with each kernel ``i`` gated by the pair's state and kind.

    If directed, a node hears along its edges and against them, each with gates of their own.
    """

    def __init__(self, width: int, pair_width: int, kernels: int, kinds: Kinds) -> None:
        super().__init__()
        self.kernels = kernels
        gates = 2 * kernels if kinds.directed else kernels
        self.norm, self.pair_norm = nn.LayerNorm(width), nn.LayerNorm(pair_width)
        self.W = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(pair_width, gates)
        self.U = nn.Linear(width, width)
        self.kinds = nn.Linear(seen, gates, bias=False) if (seen := fed_back(kinds)) else None

    def forward(
        self, pairs: Pairs, blocks: Sequence[Block], h: Tensor, e: Tensor, structure: Structure
    ) -> Tensor:
        """What every node hears, ``[..., d]``."""
        a, back, kinds = structure
        values = self.W(self.norm(h)).unflatten(-1, (self.kernels, -1))  # [..., k, d/k]
        # D̂^(-1/2): every node also counts itself.
        root = (1 + pairs.total(a if back is None else a + back)).rsqrt()[..., None]
        heard = []
        for block in blocks:
            gate = normed_linear(self.pair_norm, self.gate, block.pairs(e))
            if self.kinds is not None and kinds is not None:
                gate = gate + self.kinds(block.pairs(kinds))
            along, *against = (2 * gate.sigmoid()).split(self.kernels, dim=-1)  # each [..., k]
            weight = block.pairs(a)[..., None] * block.source(root) * block.target(root) * along
            if back is not None:
                heard_back = block.pairs(back)[..., None] * block.source(root) * block.target(root)
                weight = weight + heard_back * against[0]
            heard.append(block.aggregate(weight, values))
        own = root[..., None].square() * values
        return self.U(gelu((joined(heard) + own).flatten(-2)))


class Ends(nn.Module):
    """What a pair reads: its two ends and its own entry in the current structure, with its kind; added to its state."""

    def __init__(self, width: int, pair_width: int, kinds: Kinds) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.source, self.target = nn.Linear(width, 2 * pair_width), nn.Linear(width, 2 * pair_width)
        self.structure = nn.Linear(1, pair_width)
        self.out = nn.Linear(pair_width, pair_width)
        self.kinds = nn.Linear(seen, pair_width, bias=False) if (seen := fed_back(kinds)) else None

    def project(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """What every node contributes as a source and as a target, both ``[..., 2c]``."""
        h = self.norm(h)
        return self.source(h), self.target(h)

    def forward(
        self, block: Block, e: Tensor, sources: Tensor, targets: Tensor, structure: Structure
    ) -> Tensor:
        a = block.pairs(structure.a)
        if self.kinds is None and has_kernel(e):
            return ends_linear(self.out, self.structure, e, a, *block.fused(sources, targets))
        left, left_factor = block.source(sources).chunk(2, dim=-1)
        right, right_factor = block.target(targets).chunk(2, dim=-1)
        # An outer product of one column: no matrix product has a kernel for it.
        entry = torch.addcmul(self.structure.bias, a[..., None], self.structure.weight[:, 0])
        if self.kinds is not None and structure.kinds is not None:
            entry = entry + self.kinds(block.pairs(structure.kinds))
        # Sum and product: α.
        return gelu_linear(self.out, e, left + right + left_factor * right_factor + entry.to(left.dtype))


class Mix(nn.Module):
    """Pairs read pairs: ``ij`` attends over third nodes ``k``, scored by ``ik`` and ``jk`` together."""

    def __init__(self, pair_width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(pair_width)
        self.read = nn.Linear(pair_width, 4 * pair_width)
        self.out = nn.Linear(pair_width + heads, pair_width)

    def forward(self, block: Block, around: Tensor) -> Tensor:
        """What the pairs of a block read of the pairs around it, ``[..., c]``."""
        read = normed_linear(self.norm, self.read, around)
        read = read.unflatten(-1, (4, self.heads, -1))  # query, key, first, second
        mixed, total = block.mix(read)
        of_mixed, of_total = self.out.weight.split([read.shape[-1] * self.heads, self.heads], dim=1)
        return linear(mixed.flatten(-2), of_mixed, self.out.bias) + linear(total, of_total)


class Label(nn.Module):
    """The types of nodes, read from states that have listened once more: to the structure that was just scored."""

    def __init__(self, width: int, pair_width: int, kernels: int, kinds: Kinds) -> None:
        super().__init__()
        self.listen = Listen(width, pair_width, kernels, kinds)
        self.think = nn.Sequential(nn.LayerNorm(width), mlp(width, 2 * width, width))
        self.read = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, kinds.node_types))

    def forward(
        self, pairs: Pairs, blocks: Sequence[Block], h: Tensor, e: Tensor, structure: Structure
    ) -> Tensor:
        """Scores ``[..., C]``."""
        h = h + self.listen(pairs, blocks, h, e, structure)
        return self.read(h + self.think(h))
