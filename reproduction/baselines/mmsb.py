"""The mixed-membership stochastic blockmodel (Airoldi et al., JMLR 2008)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.baselines.base import Sampler, register, structures
from gln.graphs import GraphBatch, make_graph
from gln.graphs.check import check_whole
from gln.graphs.record import Graph
from gln.seeds import GENERATE
from reproduction.baselines.mmsb_model import Roles, SeenPairs, fit_roles, log_likelihoods, spectral_points

HELD_OUT = 0.2  # share of the pairs of every graph held out to choose the number of roles
SIGNIFICANT = 2.0  # fewer roles are rejected if worse by more than this many standard errors


@register("mmsb")
@dataclass(kw_only=True)
class MMSB(Sampler):
    """A blockmodel in which nodes hold several roles and edge probabilities depend on roles; fitted by variational EM.

    See ``mmsb_model.py``. The number of roles, the same for all graphs, is the smallest that predicts a
    random fifth of the pairs of every training graph within two standard errors of the best; then all pairs are
    fitted. Pairs are held out rather than graphs, because memberships belong to nodes, and nothing is known about the
    nodes of a new graph.

    Args:
        per: ``"graph"`` fits the blocks and the spread of the memberships to each graph, because the model describes
            a single graph and roles do not correspond across graphs; ``"pool"`` fits them to all graphs together, with
            roles ordered by density.
        memberships: a sampled graph follows a random training graph. ``"kept"`` keeps the memberships of its nodes,
            so that roles are as common as in training, and draws only the edges; ``"drawn"`` draws new nodes too.
        roles: number of roles; ``None`` chooses from 1 to ``most_roles``.
        most_roles: the largest number of roles to choose from.
        rounds: the largest number of EM rounds.

    Attributes:
        alpha_: spread of the memberships ``[1, K]`` or, per graph, ``[G, K]``.
        blocks_: the probability of an edge between two roles ``[1, K, K]`` or ``[G, K, K]``.
        memberships_: memberships of the nodes of all training graphs, stacked ``[Σn, K]``.
        sizes_: nodes of the training graphs ``[G]``.
        held_out_: after choosing, the mean log-likelihood of the held-out pairs by number of roles.
    """

    per: Literal["graph", "pool"] = "graph"
    memberships: Literal["kept", "drawn"] = "kept"
    roles: int | None = None
    most_roles: int = 8
    rounds: int = 100

    fitted = "per graph: blocks and memberships of each graph; per=pool shares the blocks."
    learned = ("alpha", "blocks", "memberships", "sizes")
    choices: ClassVar = {"per": ("graph", "pool"), "memberships": ("kept", "drawn")}
    counts = ("most_roles", "rounds")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.roles is not None:
            self.roles = check_whole(self.name, "roles", self.roles, 1)

    def learn(
        self, graphs: list[Graph], val: Sequence[Graph], seed: int, progress: bool, folder: Path | None
    ) -> None:
        """Fit to the edges of ``graphs``; ``val`` is not used, and nothing is kept in ``folder`` during the fit."""
        device = "cuda" if torch.cuda.is_available() else "cpu"
        batch = GraphBatch.from_graphs(structures(graphs)).to(device)
        with tqdm(disable=None if progress else True, unit="round", desc=self.name) as bar:
            count = self.roles or self._choose(batch, seed, bar.update)
            pairs = SeenPairs(batch.adj, batch.pair_mask & ~batch.adj, batch.mask)
            found = self._fit(pairs, spectral_points(pairs, count), count, bar.update)
        kept = slice(1) if self.per == "pool" else slice(None)
        self.alpha_, self.blocks_ = found.alpha[kept].clone().cpu(), found.blocks[kept].clone().cpu()
        self.memberships_, self.sizes_ = found.means[batch.mask].cpu(), batch.sizes.cpu()

    def draw(self, count: int, seed: int = 0) -> list[Graph]:
        count, seed = self._checked(count, seed)
        return [self._draw(np.random.default_rng([GENERATE, seed, number])) for number in range(count)]

    def _fit(self, pairs: SeenPairs, points: Tensor, count: int, tick: Callable[[], object]) -> Roles:
        return fit_roles(pairs, points, count, pooled=self.per == "pool", rounds=self.rounds, tick=tick)[0]

    def _choose(self, batch: GraphBatch, seed: int, tick: Callable[[], object]) -> int:
        """The smallest number of roles that predicts held-out pairs about as well as the best."""
        generator = torch.Generator().manual_seed(seed % 2**63)
        held = batch.pair_mask.clone()  # [G, N, N]
        for each in held:  # one graph at a time: the random numbers take many times the memory of the graphs
            chance = torch.rand(each.shape, generator=generator).triu(1)
            each &= ((chance + chance.mT) < HELD_OUT).to(each.device)
        missing = batch.pair_mask & ~batch.adj
        seen = SeenPairs(batch.adj & ~held, missing & ~held, batch.mask)
        unseen = SeenPairs(batch.adj & held.triu(1), missing & held.triu(1), batch.mask)
        counts = range(1, self.most_roles + 1)
        points = spectral_points(seen, self.most_roles)
        terms = [log_likelihoods(unseen, self._fit(seen, points, count, tick)) for count in counts]
        self.held_out_ = {count: float(each.mean()) for count, each in zip(counts, terms, strict=True)}
        return counts[_fewest(terms)]

    def _draw(self, rng: np.random.Generator) -> Graph:
        which = int(rng.integers(len(self.sizes_)))
        size, shared = int(self.sizes_[which]), which % len(self.blocks_)
        if self.memberships == "drawn":
            pi = rng.dirichlet(self.alpha_[shared].numpy(), size)  # [n, K]
        else:
            start = int(self.sizes_[:which].sum())
            pi = self.memberships_[start : start + size].numpy()
        joined = rng.random((size, size)) < pi @ self.blocks_[shared].numpy() @ pi.T
        return make_graph(edges=np.argwhere(np.triu(joined, 1)), num_nodes=size)


def _fewest(terms: Sequence[Tensor]) -> int:
    """The index of the first of ``terms``, ``[H]`` each, whose mean is not significantly below the best."""
    pairs = len(terms[0])
    if pairs < 2:
        return 0  # too few pairs to hold any out
    behind = [max(terms, key=torch.mean) - each for each in terms]
    return next(n for n, gap in enumerate(behind) if gap.mean() <= SIGNIFICANT * gap.std() / pairs**0.5)
