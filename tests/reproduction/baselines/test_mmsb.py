"""The blockmodel: its bound against loops and the evidence, ascent, symmetry, recovery of planted blocks, sampling."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Dirichlet, kl_divergence
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.graphs import GraphBatch, check_graph, make_graph
from reproduction.baselines import MMSB
from reproduction.baselines.mmsb_model import (
    CHUNK,
    Roles,
    SeenPairs,
    expect,
    fit_roles,
    inverse_digamma,
    spectral_labels,
    spectral_points,
    start,
    update,
)
from tests.conftest import assert_same_graph


def planted(sizes: list[int], inside: float, between: float, seed: int) -> tuple[Data, np.ndarray]:
    """A blockmodel with shuffled nodes, and the block of every node."""
    rng = np.random.default_rng(seed)
    block = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    chance = np.where(block[:, None] == block, inside, between)
    return make_graph(
        edges=np.argwhere(np.triu(rng.random(chance.shape) < chance, 1)), num_nodes=len(block)
    ), block


def pairs_of(graphs: list[Data], held_out: float = 0.0) -> SeenPairs:
    batch = GraphBatch.from_graphs(graphs)
    chance = torch.rand(batch.adj.shape, generator=torch.Generator().manual_seed(0)).triu(1)
    seen = batch.pair_mask & ((chance + chance.mT) >= held_out)
    return SeenPairs(batch.adj & seen, ~batch.adj & seen, batch.mask)


def random_roles(graphs: int, nodes: int, count: int, seed: int) -> Roles:
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, dtype=torch.float64, generator=generator)

    blocks = 0.05 + 0.9 * uniform(graphs, count, count)
    gamma = 0.1 + 5 * uniform(graphs, nodes, count)
    return Roles(0.2 + uniform(graphs, count), (blocks + blocks.mT) / 2, gamma)


def adjusted_rand(one: np.ndarray, other: np.ndarray) -> float:
    """1 for the same partition, 0 on average for random ones (Hubert and Arabie 1985)."""
    table = np.zeros((one.max() + 1, other.max() + 1))
    np.add.at(table, (one, other), 1)

    def pairs(counts: np.ndarray) -> float:
        return float((counts * (counts - 1) / 2).sum())

    rows, columns = pairs(table.sum(1)), pairs(table.sum(0))
    chance = rows * columns / pairs(np.array([len(one)]))
    return (pairs(table) - chance) / ((rows + columns) / 2 - chance)


def hard(memberships: Tensor) -> np.ndarray:
    return memberships.argmax(dim=-1).numpy()


class TestBound:
    def test_the_bound_is_that_of_a_loop_over_pairs_and_roles(self) -> None:
        graph = planted([3, 4], 0.7, 0.2, seed=0)[0]
        pairs, roles = pairs_of([graph], held_out=0.2), random_roles(1, 7, 3, seed=1)
        gammas = roles.gamma[0]
        log_pi = gammas.digamma() - gammas.sum(-1, keepdim=True).digamma()
        slow = -sum(float(kl_divergence(Dirichlet(gamma), Dirichlet(roles.alpha[0]))) for gamma in gammas)
        chosen, counts = torch.zeros(7, 3, dtype=torch.float64), torch.zeros(2, 3, 3, dtype=torch.float64)
        for p in range(7):
            for q in range(p):
                if pairs.joined[0, p, q] or pairs.parted[0, p, q]:
                    chance = roles.blocks[0] if pairs.joined[0, p, q] else 1 - roles.blocks[0]
                    table = log_pi[p][:, None] + log_pi[q] + chance.log()
                    slow += float(table.logsumexp(dim=(0, 1)))
                    posterior = table.flatten().softmax(0).view(3, 3)
                    chosen[p] += posterior.sum(1)
                    chosen[q] += posterior.sum(0)
                    counts[int(pairs.parted[0, p, q])] += posterior + posterior.T
        found = expect(pairs, roles)
        assert float(found.bound) == pytest.approx(slow, rel=1e-12)
        torch.testing.assert_close(found.chosen[0], chosen, rtol=1e-12, atol=0)
        torch.testing.assert_close(torch.cat([found.joined, found.parted]), counts, rtol=1e-12, atol=0)

    def test_the_bound_lies_below_the_evidence(self) -> None:
        graph = make_graph(edges=[[0, 1], [1, 2]], num_nodes=4)
        roles = random_roles(1, 4, 2, seed=2)
        pairs = pairs_of([graph])
        for _ in range(30):  # the best γ for this α and these blocks
            gamma = roles.alpha[:, None] + expect(pairs, roles).chosen
            roles = Roles(roles.alpha, roles.blocks, gamma)
        torch.manual_seed(0)
        pi = Dirichlet(roles.alpha[0]).sample((100_000, 4))  # [S, n, K]
        chance = pi @ roles.blocks[0] @ pi.mT
        each = torch.where(pairs.joined, chance, 1 - chance).log().triu(1).sum(dim=(1, 2))
        evidence = float(each.exp().mean().log())
        bound = float(expect(pairs, roles).bound)
        assert evidence - 3 < bound < evidence

    @pytest.mark.parametrize("pooled", [False, True])
    @pytest.mark.parametrize("count", [1, 2, 5])
    def test_it_never_falls(self, pooled: bool, count: int) -> None:
        graphs = [
            planted(sizes, 0.6, 0.1, seed)[0] for seed, sizes in enumerate([[6, 6], [4, 5, 6], [3], [1]])
        ]
        pairs = pairs_of(graphs, held_out=0.1)
        points = spectral_points(pairs, count)
        for roles in (
            start(pairs, points, count, pooled),
            _shared(random_roles(4, 15, count, seed=3), pooled),
        ):
            bounds = []
            for _ in range(60):
                roles, bound = update(pairs, roles, pooled)
                bounds.append(bound.sum() if pooled else bound)
                assert ((roles.blocks > 0) & (roles.blocks < 1)).all()
                assert torch.equal(roles.blocks, roles.blocks.mT)
            gains = torch.stack(bounds).diff(dim=0)
            assert (gains > -1e-9).all()
            assert (gains.sum(dim=0) > 0).any()

    def test_inverse_digamma(self) -> None:
        x = torch.logspace(-3, 3, 50, dtype=torch.float64)
        torch.testing.assert_close(inverse_digamma(x.digamma()), x)


def _shared(roles: Roles, pooled: bool) -> Roles:
    """The same α and blocks for all graphs, which pooled coordinate ascent presumes."""
    if not pooled:
        return roles
    return Roles(
        roles.alpha[:1].expand_as(roles.alpha), roles.blocks[:1].expand_as(roles.blocks), roles.gamma
    )


class TestSymmetry:
    def test_permuting_the_nodes_permutes_the_memberships(self) -> None:
        graph = planted([8, 10, 14], 0.6, 0.1, seed=4)[0]
        order = torch.from_numpy(np.random.default_rng(0).permutation(32))
        pairs = pairs_of([graph])
        moved = SeenPairs(
            *(matrix[:, order][:, :, order] for matrix in (pairs.joined, pairs.parted)), pairs.mask
        )
        one, other = (
            fit_roles(which, spectral_points(which, 3), 3, pooled=False, rounds=30, tick=lambda: None)[0]
            for which in (pairs, moved)
        )
        torch.testing.assert_close(other.means, one.means[:, order], rtol=0, atol=1e-6)
        torch.testing.assert_close(other.blocks, one.blocks, rtol=0, atol=1e-6)

    def test_a_graph_is_fitted_alike_alone_and_among_larger_ones(self) -> None:
        small, large = planted([6, 7], 0.7, 0.1, seed=5)[0], planted([20, 15], 0.5, 0.1, seed=6)[0]
        alone, together = MMSB(roles=2, rounds=20).fit([small]), MMSB(roles=2, rounds=20).fit([small, large])
        torch.testing.assert_close(together.memberships_[:13], alone.memberships_, rtol=0, atol=1e-6)
        torch.testing.assert_close(together.blocks_[0], alone.blocks_[0], rtol=0, atol=1e-6)

    def test_groups_are_numbered_by_density_in_every_graph(self) -> None:
        rng = np.random.default_rng(7)
        for block in (np.repeat([0, 1], [15, 20]), np.repeat([1, 0], [20, 15])):
            chance = np.where(block[:, None] != block, 0.05, np.where(block == 0, 0.9, 0.4))
            graph = make_graph(edges=np.argwhere(np.triu(rng.random(chance.shape) < chance, 1)), num_nodes=35)
            pairs = pairs_of([graph])
            labels = spectral_labels(pairs, spectral_points(pairs, 2), 2)
            assert (labels[0].numpy() == block).mean() > 0.9

    def test_points_for_more_roles_begin_with_those_for_fewer(self) -> None:
        """So that the eigenvectors of the graphs are found once for all numbers of roles."""
        pairs = pairs_of([planted([9, 8, 7], 0.6, 0.1, seed=13)[0], planted([4], 0.5, 0.5, seed=14)[0]])
        points = spectral_points(pairs, 6)
        assert points.shape == (2, 24, 6)
        for count in range(1, 7):
            torch.testing.assert_close(points[..., :count], spectral_points(pairs, count))
        few = pairs_of([planted([3], 0.7, 0.7, seed=15)[0]])
        assert spectral_points(few, 6).shape == (1, 3, 3)


class TestRecovery:
    @pytest.mark.parametrize(("inside", "between"), [(0.5, 0.05), (0.05, 0.4)])
    def test_planted_blocks_and_their_number_are_found(self, inside: float, between: float) -> None:
        graph, block = planted([30, 30, 30, 30], inside, between, seed=8)
        fitted = MMSB(most_roles=6).fit([graph])
        assert fitted.blocks_.shape == (1, 4, 4)
        assert adjusted_rand(block, hard(fitted.memberships_)) >= 0.95
        expected = torch.where(torch.eye(4, dtype=torch.bool), inside, between).double()
        torch.testing.assert_close(fitted.blocks_[0], expected, rtol=0, atol=0.1)

    def test_em_mends_a_bad_start(self) -> None:
        graph, block = planted([25, 25, 25], 0.5, 0.05, seed=9)
        rng = np.random.default_rng(0)
        wrong = np.where(rng.random(75) < 0.4, rng.integers(0, 3, 75), block)
        pairs = pairs_of([graph])
        gamma = 1 + 20 * torch.nn.functional.one_hot(torch.from_numpy(wrong), 3).double()[None]
        blocks = torch.full((1, 3, 3), 0.1, dtype=torch.float64) + 0.2 * torch.eye(3, dtype=torch.float64)
        roles = Roles(torch.full((1, 3), 0.3, dtype=torch.float64), blocks, gamma)
        assert adjusted_rand(block, wrong) < 0.6
        for _ in range(50):
            roles, _ = update(pairs, roles, pooled=False)
        assert adjusted_rand(block, hard(roles.means[0])) >= 0.95

    def test_one_role_is_the_density(self) -> None:
        graphs = [planted([9], 0.3, 0.0, seed=10)[0], planted([12], 0.6, 0.0, seed=11)[0]]
        each, pooled = MMSB(roles=1).fit(graphs), MMSB(roles=1, per="pool").fit(graphs)
        edges, pairs = np.array([graph.num_edges / 2 for graph in graphs]), np.array([36, 66])
        np.testing.assert_allclose(each.blocks_.flatten(), edges / pairs, atol=1e-6)
        np.testing.assert_allclose(pooled.blocks_.flatten(), edges.sum() / pairs.sum(), atol=1e-6)


class TestSampling:
    def test_edges_are_as_frequent_as_the_roles_say(self) -> None:
        fitted = MMSB(roles=2).fit([planted([4, 4], 0.8, 0.2, seed=12)[0]])
        drawn = fitted.sample(1500)
        mean = GraphBatch.from_graphs(drawn).adj.double().mean(dim=0)
        chance = (fitted.memberships_ @ fitted.blocks_[0] @ fitted.memberships_.mT).fill_diagonal_(0)
        assert ((mean - chance).abs() <= 4.5 * (chance * (1 - chance) / 1500).sqrt() + 1e-3).all()

    @pytest.mark.parametrize("settings", [{}, {"per": "pool"}, {"memberships": "drawn"}])
    def test_graphs_of_the_training_sizes_as_a_function_of_the_seed(self, settings: dict) -> None:
        graphs = [planted(sizes, 0.7, 0.2, seed)[0] for seed, sizes in enumerate([[1], [3, 3], [6, 5]])]
        fitted = MMSB(roles=2, **settings).fit(graphs, seed=3)
        drawn = fitted.sample(20, seed=1)
        assert {graph.num_nodes for graph in drawn} == {1, 6, 11}
        restored = MMSB(roles=2, **settings)
        restored.restore(fitted.state())
        for actual, expected in zip(restored.sample(12, seed=1), drawn, strict=False):
            assert_same_graph(actual, expected)
            assert_same_graph(check_graph(actual), actual)
        assert any(g.num_edges != h.num_edges for g, h in zip(fitted.sample(20, seed=2), drawn, strict=True))

    def test_isolated_nodes_are_kept(self) -> None:
        clique = [[i, j] for i in range(8) for j in range(i)]
        fitted = MMSB(roles=2).fit([make_graph(edges=clique, num_nodes=20)])
        assert {graph.num_nodes for graph in fitted.sample(5)} == {20}
        empty = MMSB(most_roles=2).fit([make_graph(num_nodes=6), make_graph(num_nodes=1)])
        assert all(graph.num_edges == 0 for graph in empty.sample(5))

    @pytest.mark.parametrize(
        "settings", [{"per": "node"}, {"memberships": "new"}, {"roles": 0}, {"most_roles": 0}, {"rounds": 0}]
    )
    def test_wrong_settings_are_refused(self, settings: dict) -> None:
        with pytest.raises(GLNError):
            MMSB(**settings)

    def test_only_what_is_fitted_samples(self) -> None:
        with pytest.raises(GLNError, match="not fitted"):
            MMSB().sample(1)
        with pytest.raises(GLNError):
            MMSB().fit([])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_finds_the_same_blocks_and_leaves_them_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [planted([12, 12], 0.8, 0.05, seed)[0] for seed in range(3)]
    there = MMSB(most_roles=3).fit(graphs).state()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name, here in MMSB(most_roles=3).fit(graphs).state().items():
        assert there[name].device.type == "cpu"
        torch.testing.assert_close(there[name], here, atol=1e-6, rtol=1e-6)


def test_several_threads_fit_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHUNK, "cpu", 100)  # a graph at a time
    graphs = [planted([6, 6], 0.9, 0.1, seed)[0] for seed in range(5)]
    threads, fitted = torch.get_num_threads(), []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            fitted.append(MMSB(most_roles=2, rounds=4).fit(graphs, seed=0))
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    one, several = fitted
    assert one.held_out_ == several.held_out_
    assert all(torch.equal(getattr(one, name), getattr(several, name)) for name in ("alpha_", "blocks_"))
