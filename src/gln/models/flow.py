"""GraphFlow: new graphs from noise, with a GLN that tells the clean graph from a noisy one.

A pair is in one of ``S = 1 + T`` states: 0 is no edge, ``k`` an edge of type ``k − 1``. At time ``t`` a pair of the
noisy graph ``G_t`` shows its state in the data with probability ``t``, and otherwise one drawn from the *marginal*
``m [S]``: how common each state is in the training graphs. At time 0 the graph is noise, at time 1 it is data. The
network learns the chances ``p(G_1 | G_t, t)`` of every pair, by cross entropy.

To sample, start from noise and go from ``t`` to ``s > t`` until ``s = 1``, every pair on its own, or *evenly*
(:class:`gln.models.chain.Sampling`); the last step takes the likeliest states:

1. draw its clean state ``c`` from the network's chances;
2. *jump* to ``c`` with probability ``(s − t) / (1 − t)``;
3. *renew*: with probability ``1 − exp(−η (s − t))`` forget the state and draw it again as the noisy graph of time ``s``
   has it: ``c`` with probability ``s``, otherwise from ``m``.

Together they are one draw for every pair. For a fixed ``c`` each of the two leaves exactly the distribution of time
``s``, however long the step. For short steps and two states they are the rates ``R* + η R^DB`` of DeFoG (Qin et al.,
2024); more states jump straight to ``c``. The stochasticity ``η`` lets the chain correct its mistakes: the more, the
more graphs are valid, and the less varied they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from gln.errors import GLNError
from gln.graphs.batch import GraphBatch, as_batch, pair_mask, real
from gln.graphs.check import as_record, check_whole, make_graph, whole_number
from gln.graphs.columns import node_rows
from gln.graphs.record import Graph, is_data
from gln.models.chain import AS_SET, Chain, Sampling, choose, drawn_evenly
from gln.models.contract import StructureOutput, kind_names
from gln.models.features import mlp
from gln.models.gln import GLN
from gln.models.settings import APART, check_flow
from gln.ops.replay import padded_size
from gln.seeds import GENERATE, check_seed, seed_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

TIME = 2  # numbers that tell the network the time
SOON = 1e-3  # times that differ by less look alike
LEAK = 1e-4  # of every node to the ground
NEWTON = 32  # steps: one for every factor of 2 between eigenvalues, then each doubles the digits
LARGEST, MOST_OFTEN = 10_000, 2**50  # nodes of training graphs, and how many have so many
TRIPLES = 2**28  # the most triples of nodes in a batch of samples


class GraphFlow(nn.Module):
    """Generates graphs: of its own, or whole graphs over given nodes.

    Permuting the nodes permutes the chances of what is generated. Without ``pos`` and ``x`` nodes are bare: graphs are
    like the training graphs as a whole. With them, graphs are those over the nodes that are given.

    Args:
        in_channels: width of ``x``; 0 for bare nodes.
        pos_channels: width of ``pos``; 0 for bare nodes.
        width, pair_width, kernels, steps: as in :class:`gln.GLN`.
        edge_types: how many types of edges there are.
        directed: ``i → j`` and ``j → i`` are two edges.
        resistance: let nodes and pairs also read how well the noisy graph connects them, over ways of up to about 100
            edges, in whichever direction: for graphs such as trees, where a single edge more or less is wrong.
        late: train more often at times near 1, where a graph is almost clean.
        sampling_steps, stochasticity, start, lateness, evenly: those of :meth:`sample`, unless others are asked for.
        marginal: how common each state of a pair is; found in the training graphs unless given.
        x_mean, x_std: as in :class:`gln.GLN`.
    """

    name = "GraphFlow"
    every_step = True  # by default its loss is on every step's structure
    trains_in_bfloat16 = True
    loss_settings: ClassVar[dict[str, Any]] = {
        "edge": "plain",
        "structure": "none",
    }  # chances as they are: nothing is balanced
    averages = 0.999  # its weights are averaged over about a thousand steps
    keeps_last = True  # no score of single pairs says which epoch generates best
    training_facts: dict[str, Any] | None = None
    marginal: Tensor  # [S], not stored with the weights

    def __init__(
        self,
        in_channels: int = 0,
        pos_channels: int = 0,
        width: int = 96,
        pair_width: int = 64,
        kernels: int = 4,
        steps: int = 6,
        edge_types: int = 1,
        directed: bool = False,
        resistance: bool = False,
        late: bool = False,
        sampling_steps: int = 200,
        stochasticity: float = 50.0,
        start: float = 0.0,
        lateness: float = 2.0,
        evenly: bool = False,
        marginal: Sequence[float] | None = None,
        x_mean: Sequence[float] | None = None,
        x_std: Sequence[float] | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in APART}
        super().__init__()
        self.config = check_flow(given)
        self.threshold = 0.5
        self.states, self.directed, self.late = 1 + edge_types, directed, late
        self.network = GLN(
            in_channels + TIME,
            pos_channels,
            width,
            pair_width,
            kernels,
            steps,
            edge_types=edge_types,
            directed=directed,
        )
        self.resistance = Resistance(width, pair_width) if resistance else None
        self._keep_marginal(marginal)
        self.scale_features(x_mean, x_std)

    @property
    def kind(self) -> str:
        """What commands use it for: to sample graphs, or to predict them over given nodes."""
        return "predict" if self.config["pos_channels"] or self.config["in_channels"] else "sample"

    @property
    def blocks(self) -> nn.ModuleList:
        """The steps of the network, for who compiles them."""
        return self.network.blocks

    def forward(
        self,
        batch: GraphBatch,
        initial: Tensor | None = None,
        steps: int | None = None,
        time: Tensor | None = None,
        noisy: Tensor | None = None,
    ) -> StructureOutput:
        """The chances of the clean graph.

        Args:
            batch: the nodes, and in training the true graph, to be made noisy.
            initial: not taken: a flow starts from noise.
            steps: of the network; default: all.
            time: ``[B]``, and
            noisy: the states ``[B, N, N]`` of the noisy graph; default: as :meth:`draw` has them.
        """
        if initial is not None:
            raise GLNError("GraphFlow starts from noise; leave out known edges.")
        batch = as_batch(batch)
        if time is None or noisy is None:
            drawn = self.draw(batch)
            time, noisy = drawn["time"], drawn["noisy"]
        types = torch.arange(1, self.states, device=noisy.device)
        seen = (noisy[..., None] == types).to(self.marginal.dtype)  # [B, N, N, T]
        at = torch.stack([time, -(1 + SOON - time).log() / 7], dim=-1)  # [B, TIME]
        at = at[:, None] * batch.mask[..., None]  # [B, N, TIME]
        x = at if batch.x is None or not self.config["in_channels"] else torch.cat([batch.x, at], dim=-1)
        return self.network(
            replace(batch, x=x),
            initial=seen if self.states > 2 else seen[..., 0],
            steps=steps,
            pairs=pair_mask(batch.mask),
            told=None if self.resistance is None else self.resistance(seen.sum(-1)),
        )

    def draw(self, batch: GraphBatch) -> dict[str, Tensor]:
        """Times, spread evenly over the graphs, and the noisy graphs of these times; noise where edges are left out."""
        count, device = len(batch), batch.mask.device
        if not batch.has_edges:
            time = torch.zeros(count, device=device)
            return {"time": time, "noisy": self.corrupted(batch.mask, None, time)}
        place = torch.rand(count, device=device).argsort()  # graphs of a batch may be sorted
        time = (place + torch.rand(count, device=device)) / count
        time = 1 - (1 - time).square() if self.late else time
        truth = batch.adj.long() if self.states == 2 or batch.edge_type is None else batch.edge_type + 1
        return {"time": time, "noisy": self.corrupted(batch.mask, truth, time)}

    def corrupted(
        self, mask: Tensor, truth: Tensor | None, time: Tensor, rng: torch.Generator | None = None
    ) -> Tensor:
        """The states ``[B, N, N]`` of the noisy graph of time ``[B]`` over the nodes ``mask [B, N]``."""
        noise = choose(self.marginal, self.uniform(mask, rng))
        if truth is not None:
            noise = truth.where(self.uniform(mask, rng) < time[:, None, None], noise)
        return noise * pair_mask(mask)

    def chances(self, batch: GraphBatch, time: Tensor, noisy: Tensor) -> Tensor:
        """``p(G_1 | G_t, t)``, ``[B, N, N, S]``."""
        output = self(batch, time=time, noisy=noisy).full_precision()
        edge = output.logits[-1].sigmoid()[..., None]  # [B, N, N, 1]
        each = edge if output.types is None else edge * output.types[-1].softmax(-1)
        return torch.cat([1 - edge, each], dim=-1)

    def sample(
        self,
        count: int = 1,
        seed: int = 0,
        *,
        nodes: Any = None,
        steps: int | None = None,
        stochasticity: float | None = None,
        start: float | None = None,
        lateness: float | None = None,
        evenly: bool | None = None,
        batch_size: int = 64,
        progress: bool = False,
        keep: int = 0,
    ) -> list[Data]:
        """Draw new graphs.

        Args:
            count: how many; over given nodes, how many over each set of nodes.
            seed: the same seed gives the same graphs, for one ``count``, ``batch_size`` and device.
            nodes: what to draw graphs over: rows of numbers, or a ``Data``, or a list of these. For bare nodes, how
                many of them; default: a number drawn from those of the training graphs.
            steps, stochasticity, start, lateness, evenly: as in :class:`Sampling`; default: those of the model.
            batch_size: graphs at a time, fewer if they are large.
            progress: show a progress bar.
            keep: also keep the noise and the noisy graph after so many steps, evenly spread: ``forming`` is a list of
                their ``edge_index``.
        """
        how = Sampling(steps, stochasticity, start, lateness, evenly)
        made = self.sampled(count, seed, nodes, how, batch_size, progress, keep)
        return [graph.to_data() for graph in made]

    @torch.no_grad()
    def sampled(
        self,
        count: int = 1,
        seed: int = 0,
        nodes: Any = None,
        how: Sampling | None = None,
        batch_size: int = 64,
        progress: bool = False,
        keep: int = 0,
    ) -> list[Graph]:
        """As :meth:`sample`, in our own record of a graph."""
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        count, seed = check_whole("sample", "count", count, 1), check_seed("sample", seed)
        batch_size = check_whole("sample", "batch_size", batch_size, 1)
        how = (how or AS_SET).of(self.config)
        sets = self._node_sets(count, seed, nodes)
        order = sorted(range(len(sets)), key=lambda number: sets[number].num_nodes)  # less padding
        alike = sets[order[0]].num_nodes == sets[order[-1]].num_nodes
        most = max(1, TRIPLES // padded_size(sets[order[-1]].num_nodes, alike) ** 3)
        size = min(most, batch_size)
        some = [order[first : first + size] for first in range(0, len(order), size)]
        training, device = self.training, self.marginal.device
        self.eval()
        chain = Chain(self, how, alike)
        bar = tqdm(total=len(some) * how.steps, unit="step", disable=not progress)
        made: list[Any] = [None] * len(sets)
        for number, numbers in enumerate(some):
            rng = torch.Generator(device).manual_seed(seed_of(GENERATE, seed, number) % 2**63)
            kept: list[list[Graph]] = []
            for step, (batch, states) in enumerate(chain.run([sets[place] for place in numbers], rng)):
                bar.update(step > 0)
                if keep and (step * keep) // how.steps > ((step - 1) * keep) // how.steps:
                    kept.append(self._graphs(batch, states))
            for place, graph in zip(numbers, self._graphs(batch, states), strict=True):
                made[place] = graph
            for shown in kept:
                for place, graph in zip(numbers, shown, strict=True):
                    made[place].__dict__.setdefault("forming", []).append(graph.edge_index)
        bar.close()
        self.train(training)
        return made

    def _graphs(self, batch: GraphBatch, states: Tensor) -> list[Graph]:
        """The graphs that have these states ``[B, N, N]``."""
        types = states - 1 if self.states > 2 else None
        made = replace(batch, adj=states > 0, edge_type=types, directed=self.directed).to_records()
        for graph in made:
            graph.__dict__.update(kind_names(self))
        return made

    def _node_sets(self, count: int, seed: int, nodes: Any) -> list[Graph]:
        """The nodes of every graph that is to be drawn."""
        if self.kind == "sample" and (nodes is None or whole_number(nodes) is not None):
            if nodes is not None:
                return [Graph(check_whole("sample", "nodes", nodes, 1)) for _ in range(count)]
            known = ((self.training_facts or {}).get("noise") or {}).get("sizes")
            if not known:
                raise GLNError(
                    "The flow does not know how many nodes its graphs have; train it, or give nodes= their number."
                )
            if not all(
                len(pair) == 2 and 1 <= pair[0] <= LARGEST and 1 <= pair[1] <= MOST_OFTEN for pair in known
            ):
                raise GLNError("The flow remembers sizes that no graphs have; give nodes= their number.")
            sizes, often = np.array(known).T
            rng = np.random.default_rng([GENERATE, seed])
            return [Graph(int(size)) for size in rng.choice(sizes, count, p=often / often.sum())]
        if nodes is None:
            raise GLNError("The flow draws graphs over given nodes; give nodes=.")
        many = isinstance(nodes, list) and len(nodes) > 0 and not isinstance(nodes[0], list | tuple)
        widths = (self.config["pos_channels"], self.config["in_channels"])
        sets = [_points(given, widths) for given in (nodes if many else [nodes])]
        return [points for points in sets for _ in range(count)]

    def prepare(self, graphs: Sequence[Graph]) -> None:
        """Find the marginal in the training graphs, unless it was given."""
        if self.config["marginal"] is not None:
            return
        pairs = sum(graph.num_nodes * (graph.num_nodes - 1) for graph in graphs)
        if not pairs:
            raise GLNError("The training graphs have one node each; give graphs with pairs of nodes.")
        counts = torch.zeros(self.states, dtype=torch.float64)
        for graph in graphs:
            types = torch.zeros(graph.num_edges, dtype=torch.long) if self.states == 2 else graph.edge_type
            counts[1:] += torch.bincount(types, minlength=self.states - 1)
        counts[0] = pairs - counts.sum()
        self._keep_marginal((counts / pairs).tolist())

    def scale_features(self, x_mean: Sequence[float] | None, x_std: Sequence[float] | None) -> None:
        """As in :class:`gln.GLN`."""
        whole = [None if x is None else [*x, *[rest] * TIME] for x, rest in ((x_mean, 0.0), (x_std, 1.0))]
        self.network.scale_features(*whole)
        self.config |= {"x_mean": x_mean, "x_std": x_std}

    def _keep_marginal(self, marginal: Sequence[float] | None) -> None:
        self.config["marginal"] = marginal
        even = [1 / self.states] * self.states
        found = next(self.parameters()).new_tensor(even if marginal is None else marginal)
        self.register_buffer("marginal", found, persistent=False)

    def uniform(self, mask: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """A number between 0 and 1 for every pair ``[B, N, N]``, the same in both directions unless directed."""
        found = torch.rand(*mask.shape, mask.shape[1], device=mask.device, generator=rng)
        if self.directed:
            return found
        found = found.triu(1)
        return found + found.mT

    def evenly(self, chances: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """Which pairs change, evenly, with these chances ``[B, N, N]``: pairs that are as likely to are drawn apart."""
        nodes, device = chances.shape[1], chances.device
        whole = torch.ones(nodes, nodes, dtype=torch.bool, device=device)
        places = torch.nonzero(~whole.diag().diag() if self.directed else whole.triu(1)).T
        each = chances[:, *places]  # [B, P]
        order = (each * (1 - torch.rand(each.shape, device=device, generator=rng) / 64)).argsort(-1)
        start = torch.rand(len(each), device=device, generator=rng)
        drawn = drawn_evenly(each.gather(-1, order), start)
        changed = torch.zeros_like(chances, dtype=torch.bool)
        changed[:, *places] = torch.zeros_like(drawn).scatter(-1, order, drawn)
        return changed if self.directed else changed | changed.mT


class Resistance(nn.Module):
    """What the noisy graph, as a network of unit resistors, tells nodes and pairs, as first states of both.

    Between the ends of an edge that nothing bypasses the resistance is nearly 1, and the more ways around, the less;
    between nodes that no way connects it is hundreds or more. So pairs know at once which edges close cycles, and
    which parts are still apart. Directions and types of edges do not count.
    """

    def __init__(self, width: int, pair_width: int) -> None:
        super().__init__()
        self.of_node, self.of_pair = mlp(2, width, width), mlp(4, 2 * pair_width, pair_width)

    def forward(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """From ``A_t [B, N, N]``: ``[B, N, d]`` and ``[B, N, N, c]``."""
        with torch.autocast(a.device.type, enabled=False), torch.no_grad():
            degree, share, r = resistances(real(torch.maximum(a, a.mT)))
            spare = a * (1 - r).clamp(min=0)  # how much of the current others than the edge carry
            node = torch.stack([(1 + degree).log() / 4, share], dim=-1)
            pair = torch.stack(
                [r / (1 + r), (1 + r).log() / 10, spare, a * (spare + 20 * LEAK).log() / 6], dim=-1
            )
        return self.of_node(node.to(a.dtype)), self.of_pair(pair.to(a.dtype))


def resistances(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of graphs ``[B, N, N]``: degrees, about 1 by the nodes in reach, both ``[B, N]``, and resistances ``[B, N, N]``.

    Every node leaks a little to the ground, or there would be no inverse; beyond some 100 edges, little current
    arrives. The inverse is found by Newton's iteration: on a GPU, products of matrices can be recorded, and the
    factorisations of torch cannot.
    """
    degree, one = a.sum(-1), torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    laplacian = torch.diag_embed(degree + LEAK) - a  # eigenvalues: from LEAK to twice the highest degree
    inverse = one / (2 * degree.amax(-1) + LEAK)[:, None, None]
    for _ in range(NEWTON):
        inverse = inverse @ (2 * one - laplacian @ inverse)
    own = inverse.diagonal(dim1=1, dim2=2)
    return degree, LEAK * own, (own[:, :, None] + own[:, None] - 2 * inverse).clamp(min=0)


def _points(given: Any, widths: tuple[int, int]) -> Graph:
    if isinstance(given, Graph) or is_data(given):
        points = as_record(given)
        return make_graph(**points.rows(), num_nodes=points.num_nodes)
    return make_graph(**node_rows(given, widths))
