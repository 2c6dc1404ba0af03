"""How a flow goes from noise to a graph: the steps that :mod:`gln.models.flow` describes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from gln.graphs.batch import GraphBatch, pair_mask, real
from gln.graphs.record import Graph
from gln.models.contract import products
from gln.models.settings import check_sampling
from gln.ops.replay import Replay, padded_size

if TYPE_CHECKING:
    from gln.models.flow import GraphFlow


@dataclass(frozen=True)
class Sampling:
    """How graphs are drawn; ``None``: as the model says.

    Args:
        steps: how many; more are better and take longer.
        stochasticity: η. More gives more valid and less varied graphs, and needs more steps.
        start: where times begin after 0: what a network cannot tell from noise yet needs no steps.
        lateness: 1 for even steps; the more, the shorter are the last ones: after 0, times are ``1 − (1 − start) (1 −
            u)^lateness`` for even ``u``.
        evenly: of pairs that change with chances whose sum is ``k``, let ``k`` change in a step, not more or fewer by
            chance: of changes that contradict each other, seldom two are made at once. Pairs change as often as before.
    """

    steps: Any = None
    stochasticity: Any = None
    start: Any = None
    lateness: Any = None
    evenly: Any = None

    def __post_init__(self) -> None:
        check_sampling("sample", {name: value for name, value in vars(self).items() if value is not None})

    def of(self, config: dict[str, Any]) -> Sampling:
        """The same with what the model says where it is left open."""
        own = {name: config["sampling_steps" if name == "steps" else name] for name in vars(self)}
        return Sampling(**own | {name: value for name, value in vars(self).items() if value is not None})

    def times(self) -> list[float]:
        """From 0 to 1, one more than there are steps."""
        left = ((1 - number / self.steps) ** self.lateness for number in range(1, self.steps + 1))
        return [0.0, *(1 - (1 - self.start) * rest for rest in left)]


AS_SET = Sampling()


class Chain:
    """The steps from noise to graphs; on a GPU the network is replayed where shapes repeat."""

    def __init__(self, flow: GraphFlow, how: Sampling, alike: bool) -> None:
        self.flow, self.how, self.alike = flow, how.of(flow.config), alike
        self.device = flow.marginal.device
        self.replay = Replay(self._replayed) if self.device.type == "cuda" else None

    def run(self, sets: list[Graph], rng: torch.Generator) -> Iterator[tuple[GraphBatch, Tensor]]:
        """The nodes of all graphs, and at first and after each step the states ``[B, N, N]`` of their pairs."""
        size = padded_size(max(graph.num_nodes for graph in sets), self.alike or self.replay is None)
        batch = GraphBatch.from_graphs(sets, edges=False, nodes=size).to(self.device)
        states = self.flow.corrupted(batch.mask, None, batch.mask.new_zeros(len(sets)), rng)
        yield batch, states
        for now, then in pairwise(self.how.times()):
            time = torch.full((len(sets),), now, device=self.device)
            states = self.move(self.chances(batch, time, states), states, now, then, batch.mask, rng)
            yield batch, states

    def move(
        self, chances: Tensor, states: Tensor, now: float, then: float, mask: Tensor, rng: torch.Generator
    ) -> Tensor:
        """The states at time ``then``, from those at time ``now``."""
        flow, how = self.flow, self.how
        if then >= 1:
            return chances.argmax(-1) * pair_mask(mask)
        stays, forgets = (1 - then) / (1 - now), 1 - np.exp(-how.stochasticity * (then - now))
        kept = one_hot(states, flow.states).to(chances.dtype)
        jumped = stays * kept + (1 - stays) * chances
        next_ = (1 - forgets) * jumped + forgets * (then * chances + (1 - then) * flow.marginal)
        if not how.evenly:
            return choose(next_, flow.uniform(mask, rng)) * pair_mask(mask)
        others = next_ * (1 - kept)
        changed = flow.evenly(others.sum(-1) * pair_mask(mask), rng)
        others = others.clamp(min=1e-12)  # where there are none, nothing changes
        other = choose(others / others.sum(-1, keepdim=True), flow.uniform(mask, rng))
        return other.where(changed, states) * pair_mask(mask)

    def chances(self, batch: GraphBatch, time: Tensor, states: Tensor) -> Tensor:
        with products(self.flow, self.device):
            if self.replay is None:
                return self.flow.chances(batch, time, states)
            with self.replay.apart():
                return self.replay(batch.of_nodes() | {"time": time, "noisy": states}).clone()

    def _replayed(self, inputs: dict[str, Tensor]) -> Tensor:
        batch = GraphBatch(inputs.get("pos"), inputs.get("x"), inputs["mask"], inputs["mask"]).without_edges()
        return self.flow.chances(batch, inputs["time"], inputs["noisy"])


def drawn_evenly(chances: Tensor, start: Tensor) -> Tensor:
    """Which of ``[B, P]`` events happen, each with its chance, and of each row as many as the sum of its chances.

    It is that sum rounded up or down, by ``start [B]``, which is uniform: of all chances laid end to end, those happen
    on which one of the points ``start, start + 1, …`` falls.
    """
    ends = real(chances).cumsum(-1) - start[:, None]
    return ends.ceil() > (ends - chances).ceil()


def choose(chances: Tensor, uniform: Tensor) -> Tensor:
    """A state for every pair ``[...]``, with these chances ``[S]`` or ``[..., S]``."""
    return (uniform[..., None] >= chances.cumsum(-1)[..., :-1]).sum(-1)
