"""The laws of the set model."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

import gln
from gln.errors import GLNError
from gln.graphs import GraphBatch, make_graph
from gln.models.candidates import all_pairs, candidate_pairs, candidate_recall, choose_pairs
from gln.models.gln import GLN

SIZES = (1, 2, 5, 12, 9)


def batch_of(sizes: tuple[int, ...] = SIZES, seed: int = 0, width: int = 2) -> GraphBatch:
    """Random points in float64, so that laws can be tested to 1e-9."""
    rng = torch.Generator().manual_seed(seed)
    batch = GraphBatch.from_graphs(
        [
            make_graph(pos=torch.rand(n, width, generator=rng), x=torch.rand(n, 1, generator=rng))
            for n in sizes
        ]
    )
    return GraphBatch(batch.pos.double(), batch.x.double(), batch.adj, batch.mask)


def model_of(**changes: object) -> GLN:
    torch.manual_seed(0)
    settings = {"in_channels": 1, "pos_channels": 2, "width": 8, "pair_width": 8, "kernels": 2, "steps": 3}
    return GLN(**settings | changes).double().eval()


@pytest.fixture(autouse=True)
def every_set_is_large(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Where a test says so: candidates instead of all pairs, without needing hundreds of nodes."""
    if "candidates" in request.fixturenames and request.getfixturevalue("candidates"):
        monkeypatch.setattr("gln.models.candidates.SMALL", 0)
        monkeypatch.setattr("gln.models.candidates.DENSE_NODES", 0)


def close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("candidates", [0, 3])
def test_permuting_the_nodes_permutes_the_answer(candidates: int) -> None:
    model, batch = model_of(candidates=candidates or 32), batch_of((11, 11))
    order = torch.randperm(11)
    shuffled = GraphBatch(batch.pos[:, order], batch.x[:, order], batch.adj, batch.mask)
    for step in range(3):
        assert close(
            model(shuffled).probabilities(step), model(batch).probabilities(step)[:, order][:, :, order]
        )


def test_ties_in_distance_do_not_let_the_order_in() -> None:
    """On a grid many nodes are equally near; all of them or none are candidates."""
    grid = torch.cartesian_prod(torch.arange(5.0), torch.arange(5.0)).double()
    order = torch.randperm(25)
    mask = torch.ones(1, 25, dtype=torch.bool)
    pairs, shuffled = candidate_pairs(grid[None], mask, 3), candidate_pairs(grid[None, order], mask, 3)
    assert torch.equal(pairs.mask[:, order][:, :, order], shuffled.mask)


@pytest.mark.parametrize("candidates", [0, 3])
def test_scores_are_symmetric_and_only_pairs_have_a_probability(candidates: int) -> None:
    batch = batch_of()
    output = model_of(candidates=candidates or 32)(batch)
    for step in range(3):
        probability = output.probabilities(step)
        assert torch.equal(probability, probability.mT)
        assert not probability[~batch.pair_mask].any()
        assert int((probability > 0).sum()) == int(output.mask.sum())


@pytest.mark.parametrize("candidates", [0, 3])
def test_padding_changes_nothing(candidates: int) -> None:
    model, batch = model_of(candidates=candidates or 32), batch_of()
    together = model(batch).probabilities()
    for row, size in enumerate(SIZES):
        alone = GraphBatch(
            batch.pos[row : row + 1, :size],
            batch.x[row : row + 1, :size],
            batch.adj,
            batch.mask[row : row + 1, :size],
        )
        assert close(model(alone).probabilities()[0], together[row, :size, :size])


def test_padding_beyond_the_border_of_small_sets_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small set is scored over all pairs, also beside a large one."""
    monkeypatch.setattr("gln.models.candidates.SMALL", 8)
    model, batch = model_of(candidates=3), batch_of((6, 14))
    alone = GraphBatch(batch.pos[:1, :6], batch.x[:1, :6], batch.adj[:1, :6, :6], batch.mask[:1, :6])
    assert close(model(alone).probabilities()[0], model(batch).probabilities()[0, :6, :6])
    assert int((model(batch).probabilities()[0] > 0).sum()) == 6 * 5


def test_a_sparse_model_scores_candidates_of_small_sets_too() -> None:
    batch = batch_of((12, 5, 2))
    sparse, dense = model_of(candidates=3, sparse=True), model_of(candidates=3)
    assert close(sparse(batch).probabilities(), dense(batch, candidates=3).probabilities())
    assert not close(sparse(batch).probabilities(), dense(batch).probabilities())
    assert close(sparse(batch, candidates=11).probabilities(), dense(batch).probabilities())


def test_proposals_keep_the_laws_of_order_and_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gln.models.candidates.SMALL", 0)
    model, batch = model_of(candidates=2, proposals=1), batch_of((12, 5))
    batch.pos[0, :4], batch.x[0, :4] = batch.pos[0, 0], batch.x[0, 0]  # nodes that no score can tell apart
    order = torch.randperm(12)
    shuffled = GraphBatch(batch.pos[:1, order], batch.x[:1, order], batch.adj[:1], batch.mask[:1])
    together = model(batch).probabilities()
    assert close(model(shuffled).probabilities()[0], together[0][order][:, order])
    alone = GraphBatch(batch.pos[1:, :5], batch.x[1:, :5], batch.adj[1:, :5, :5], batch.mask[1:, :5])
    assert close(model(alone).probabilities()[0], together[1, :5, :5])


def test_the_unit_of_length_changes_nothing_where_points_coincide() -> None:
    model, batch = model_of(), batch_of((10,))
    batch.pos[0, :6] = batch.pos[0, 0]
    larger = GraphBatch(batch.pos * 1024, batch.x, batch.adj, batch.mask)
    assert close(model(larger).probabilities(), model(batch).probabilities())


def test_translation_and_unit_of_length_change_nothing() -> None:
    model, batch = model_of(), batch_of()
    moved = GraphBatch(batch.pos * 37 + torch.tensor([5.0, -800.0]), batch.x, batch.adj, batch.mask)
    assert close(model(moved).probabilities(), model(batch).probabilities())


@pytest.mark.parametrize("nearest", [2, 4, 11])
def test_all_pairs_and_a_list_agree_in_values_and_gradients(nearest: int) -> None:
    """For any K, and so for K = n − 1."""
    model, batch = model_of(), batch_of()
    forms = [candidate_pairs(batch.pos, batch.mask, nearest, listed=listed) for listed in (False, True)]
    gradients = []
    outputs = [model(batch, pairs=pairs) for pairs in forms]
    for output in outputs:
        model.zero_grad()
        sum(logits[output.mask].square().sum() for logits in output.logits).backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters()]))
    for step in range(3):
        assert close(outputs[0].probabilities(step), outputs[1].probabilities(step))
    assert torch.allclose(*gradients, rtol=1e-9, atol=1e-9)
    if nearest == 11:
        assert torch.equal(forms[0].mask, all_pairs(batch.mask).mask)


@pytest.mark.parametrize("candidates", [2])
def test_the_initial_structure_has_an_effect_and_its_edges_are_candidates(candidates: int) -> None:
    model, batch = model_of(candidates=candidates or 32), batch_of((12,))
    far = (torch.cdist(batch.pos, batch.pos)).flatten().argmax()
    i, j = divmod(int(far), 12)
    known = torch.zeros(1, 12, 12)
    known[0, i, j] = known[0, j, i] = 1
    plain, informed = model(batch), model(batch, initial=known)
    assert plain.probabilities()[0, i, j] == 0
    assert informed.probabilities()[0, i, j] > 0
    near = plain.probabilities() > 0
    assert not close(plain.probabilities()[near], informed.probabilities()[near])


@pytest.mark.parametrize("listed", [False, True])
def test_an_initial_identity_makes_no_node_its_own_neighbour(
    listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gln.models.candidates.SMALL", 0)
    monkeypatch.setattr("gln.models.candidates.DENSE_NODES", 0 if listed else 99)
    output = model_of(candidates=2)(batch_of((12, 5)), initial=torch.eye(12))
    assert not output.probabilities().diagonal(dim1=1, dim2=2).any()
    assert not output.probabilities()[1, 5:].any()
    with pytest.raises(GLNError, match="initial structure of shape"):
        model_of()(batch_of((12, 5)), initial=torch.eye(5))


def test_shared_weights_run_for_more_steps_and_others_refuse() -> None:
    batch = batch_of()
    model = model_of(shared=True)
    assert len(model(batch, steps=7).logits) == 7
    assert close(model(batch, steps=7).logits[2], model(batch).logits[2])
    with pytest.raises(GLNError, match="shared=True"):
        model_of()(batch, steps=7)
    with pytest.raises(GLNError, match=r"steps=1\.0; expected 1 to"):
        model_of()(batch, steps=1.0)


def test_the_true_edges_are_never_read() -> None:
    model, batch = model_of(), batch_of()
    other = GraphBatch(batch.pos, batch.x, batch.pair_mask, batch.mask)
    assert torch.equal(model(batch).probabilities(), model(other).probabilities())


@pytest.mark.parametrize("nodes", [1, 4])
def test_coinciding_points_and_lonely_nodes_give_sane_gradients(nodes: int) -> None:
    pos = torch.zeros(1, nodes, 2, requires_grad=True)
    mask = torch.ones(1, nodes, dtype=torch.bool)
    batch = GraphBatch(pos, torch.zeros(1, nodes, 1), mask.new_zeros(1, nodes, nodes), mask)
    model = model_of(proposals=2).float()
    output = model(batch)
    (1000 * (output.probabilities().sum() + output.proposal.sum())).backward()
    assert pos.grad.abs().max() < 1e9
    assert all(weight.grad.isfinite().all() for weight in model.parameters() if weight.grad is not None)


def test_candidate_recall_is_the_share_of_edges_that_can_be_found() -> None:
    pos = torch.tensor([[[0.0], [1.0], [2.1], [10.0]]])
    mask = torch.ones(1, 4, dtype=torch.bool)
    adj = torch.zeros(1, 4, 4, dtype=torch.bool)
    adj[0, 0, 1] = adj[0, 1, 0] = adj[0, 0, 3] = adj[0, 3, 0] = True
    for listed in (False, True):
        assert candidate_recall(candidate_pairs(pos, mask, 1, listed=listed), adj).item() == 0.5
        extra = torch.tensor([[0], [3]])
        assert candidate_recall(candidate_pairs(pos, mask, 1, extra, listed=listed), adj).item() == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"in_channels": 0, "pos_channels": 0}, "position or a feature"),
        ({"width": 7}, "multiples of kernels"),
        ({"proposals": -1}, "proposals=-1"),
        ({"proposals": 1.5}, "proposals=1.5"),
    ],
)
def test_impossible_settings_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        model_of(**settings)


def test_features_the_model_was_not_made_for_are_named() -> None:
    with pytest.raises(GLNError, match="pos with 3 values"):
        model_of()(batch_of(width=3))
    with pytest.raises(GLNError, match="x with 0 values"):
        model_of()(GraphBatch.from_graphs([make_graph(pos=[[0.0, 0.0]])]))


def test_training_draws_the_number_of_candidates_and_all_of_them_by_half() -> None:
    model, batch = model_of().train(), batch_of((30,))
    counts = {int(model(batch).mask.sum()) for _ in range(30)}
    assert max(counts) == 30 * 29
    assert len(counts) > 4


@pytest.mark.parametrize("candidates", [1])
def test_proposed_pairs_are_candidates_and_the_proposal_learns(candidates: int) -> None:
    model, batch = model_of(candidates=candidates, proposals=2), batch_of((12, 5))
    output = model(batch)
    best = output.proposal.masked_fill(~batch.pair_mask, -torch.inf).argmax(2)  # [B, N]
    for row, size in enumerate((12, 5)):
        for node in range(size):
            assert output.probabilities()[row, node, best[row, node]] > 0
    assert close(output.proposal, output.proposal.mT)
    output.proposal.sum().backward()
    assert model.propose.Q.weight.grad.abs().sum() > 0


def test_a_pyg_batch_is_answered_as_the_padded_one_with_edges_or_without() -> None:
    graphs = [make_graph(pos=torch.rand(n, 2), x=torch.rand(n, 1)).to_data() for n in (4, 7)]
    model = model_of()
    graphs[0].pos.requires_grad_()
    (gradient,) = torch.autograd.grad(model(Batch.from_data_list(graphs)).logits[-1].sum(), graphs[0].pos)
    assert gradient.abs().sum() > 0
    graphs[0].pos.requires_grad_(False)
    with pytest.raises(GLNError, match="Got a list; expected a GraphBatch"):
        model(graphs)
    bare = Batch.from_data_list([Data(pos=graph.pos, x=graph.x) for graph in graphs])
    assert close(model(bare).logits[-1], model(GraphBatch.from_graphs(graphs)).logits[-1])
    assert close(
        model(Batch.from_data_list(graphs)).logits[-1], model(GraphBatch.from_graphs(graphs)).logits[-1]
    )
    assert close(model(graphs[0]).logits[-1], model(GraphBatch.from_graphs(graphs[:1])).logits[-1])


def test_the_hard_adjacency_is_zero_or_one_and_passes_the_soft_gradient() -> None:
    model, batch = model_of(), batch_of((6,))
    weight = torch.rand(6, 6, dtype=torch.float64)
    gradients = []
    for hard in (False, True):
        model.zero_grad()
        adjacency = model(batch).adjacency(hard=hard)
        (adjacency * weight).sum().backward()
        gradients.append(model.blocks[-1].score[1].weight.grad.clone())
    assert set(adjacency.unique().tolist()) <= {0.0, 1.0}
    assert close(*gradients)


@pytest.mark.parametrize("candidates", [0, 3])
def test_a_pair_that_was_not_scored_is_never_an_edge(candidates: int) -> None:
    output = model_of(candidates=candidates or 32)(batch_of())
    edges = output.adjacency(threshold=0.0, hard=True).detach()
    assert edges.equal((output.probabilities() > 0).double())
    assert edges.sum() == output.mask.sum()


def test_the_proposal_learns_edges_that_are_not_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node is joined to its mirror image across the centre, which is seldom among its nearest."""
    monkeypatch.setattr("gln.models.candidates.SMALL", 0)
    monkeypatch.setattr("gln.ops.mix.WORTH", 2**60)  # do not compile loops for this test alone
    rng = torch.Generator().manual_seed(0)

    def mirrored() -> Data:
        half = torch.randn(8, 2, generator=rng)
        return make_graph(pos=torch.cat([half, -half]), edges=[[i, i + 8] for i in range(8)])

    train, test = [mirrored() for _ in range(300)], GraphBatch.from_graphs([mirrored() for _ in range(50)])
    torch.manual_seed(0)
    model = GLN(width=32, pair_width=8, kernels=2, steps=1, candidates=2, proposals=2)
    gln.fit(model, train, train[:20], epochs=12, batch_size=20, lr=1e-2, accelerator="cpu", progress=False)
    near = candidate_recall(candidate_pairs(test.pos, test.mask, 2), test.adj).mean()
    chosen = choose_pairs(model, test.pos, test.pos[..., :0], test.mask, None, model(test).proposal)
    found = candidate_recall(chosen, test.adj).mean()
    assert near < 0.3
    assert found > 0.9


def test_bf16_stays_near_float32() -> None:
    batch = GraphBatch.from_graphs([make_graph(pos=torch.rand(9, 2), x=torch.rand(9, 1))])
    model = model_of().float()
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(batch).probabilities()
    assert torch.allclose(rough.float(), model(batch).probabilities(), atol=0.03)


SCALE = {"x_mean": [300.0], "x_std": [0.5]}


@pytest.mark.parametrize("candidates", [0, 3])
@pytest.mark.parametrize("pos_channels", [0, 2])
def test_features_are_scaled_before_anything_else(candidates: int, pos_channels: int) -> None:
    settings = {"candidates": candidates or 32, "pos_channels": pos_channels, "proposals": 2}
    plain, scaling = model_of(**settings), model_of(**settings, **SCALE)
    batch = batch_of((11, 4))
    raw = (batch.x * 0.5 + 300) * batch.mask[..., None]  # padding is zero, as in every batch
    wild = GraphBatch(batch.pos, raw, batch.adj, batch.mask)
    one, other = plain(batch), scaling(wild)
    assert torch.allclose(one.probabilities(), other.probabilities(), rtol=0, atol=1e-6)
    assert not torch.allclose(one.probabilities(), plain(wild).probabilities(), rtol=0, atol=1e-6)


def test_the_scale_is_in_the_config_and_not_among_the_weights() -> None:
    plain, scaling = model_of(), model_of(**SCALE)
    assert scaling.state_dict().keys() == plain.state_dict().keys()
    assert scaling.config == plain.config | SCALE
    again = GLN(**json.loads(json.dumps(scaling.config))).double()
    assert torch.equal(again.x_mean, scaling.x_mean)
    older = {key: value for key, value in plain.config.items() if not key.startswith("x_")}
    GLN(**older).load_state_dict(plain.state_dict())  # as models were saved before there was a scale
    scaling.scale_features(None, None)
    assert scaling.config == plain.config
    assert close(scaling(batch_of()).probabilities(), plain(batch_of()).probabilities())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"x_mean": [0.0]}, "only one of"),
        ({"x_mean": [0.0, 1.0], "x_std": [1.0, 1.0]}, "each of the 1 columns"),
        ({"x_mean": [0.0], "x_std": [0.0]}, "above 0"),
        ({"x_mean": [0.0], "x_std": [-1.0]}, "above 0"),
        ({"x_mean": [float("nan")], "x_std": [1.0]}, "x_mean="),
    ],
)
def test_a_scale_that_cannot_be_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        model_of(**settings)


@pytest.mark.parametrize("candidates", [0, 3])
def test_a_model_in_half_precision_runs(candidates: int) -> None:
    model = model_of(candidates=candidates or 32)
    batch, half = batch_of(), model_of(candidates=candidates or 32).bfloat16()
    exact, coarse = model(batch).probabilities(), half(batch).probabilities()
    assert coarse.dtype == torch.bfloat16
    assert (exact - coarse.double()).abs().mean() < 0.05


def test_the_node_index_is_a_feature_where_asked_for() -> None:
    batch = batch_of((6,))
    order = torch.tensor([1, 0, 2, 3, 4, 5])
    swapped = GraphBatch(batch.pos[:, order], batch.x[:, order], batch.adj, batch.mask)
    for channels, same in ((0, True), (8, False)):
        model = model_of(index_channels=channels)
        answers = [model(swapped).probabilities(), model(batch).probabilities()[:, order][:, :, order]]
        assert close(*answers) is same
    longer = batch_of((6, 9))  # what a graph is padded to does not change its answer
    model = model_of(index_channels=8)
    assert close(model(longer).probabilities()[:1, :6, :6], model(batch).probabilities())
    with pytest.raises(GLNError, match="even number"):
        model_of(index_channels=3)
