"""The laws of kinds: types, directions and weights of edges, types of nodes, and what a model reads of positions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gln.errors import GLNError
from gln.graphs import GraphBatch, make_graph
from gln.models.candidates import all_pairs, candidate_pairs
from gln.models.contract import Kinds, StructureOutput, kinds_in, kinds_of
from gln.models.gln import GLN
from gln.models.set2graph import Set2Graph

SIZES = (1, 2, 5, 12, 9)
ALL = {"edge_types": 3, "edge_weights": True, "node_types": 4}
EACH = [ALL, ALL | {"directed": True}, {"directed": True}, {"edge_weights": True}, {"edge_types": 2}]


def batch_of(sizes: tuple[int, ...] = SIZES, seed: int = 0) -> GraphBatch:
    """Random points in float64, so that laws can be tested to 1e-9."""
    rng = torch.Generator().manual_seed(seed)
    rows = [{"pos": torch.rand(n, 2, generator=rng), "x": torch.rand(n, 1, generator=rng)} for n in sizes]
    batch = GraphBatch.from_graphs([make_graph(**row) for row in rows])
    return replace(batch, pos=batch.pos.double(), x=batch.x.double())


def model_of(**changes: object) -> GLN:
    torch.manual_seed(0)
    settings = {"in_channels": 1, "pos_channels": 2, "width": 8, "pair_width": 8, "kernels": 2, "steps": 3}
    return GLN(**settings | changes).double().eval()


def values_of(output: StructureOutput, step: int = -1) -> dict[str, Tensor]:
    """All that a step says, pairs as ``[B, N, N, ...]``, 0 where no pair was scored."""
    found = {"logits": output.logits, "types": output.types, "weights": output.weights}
    values = {} if output.proposal is None else {"proposal": output.proposal}
    for name, steps in found.items():
        if steps is not None:
            value = steps[step] * output.mask.view(*output.mask.shape, *[1] * (steps[step].dim() - 3))
            if output.candidates is not None:
                places = output.candidates.view(*output.mask.shape, *[1] * (value.dim() - 3)).expand_as(value)
                nodes = output.mask.shape[1]
                empty = value.new_zeros(*value.shape[:2], nodes, *value.shape[3:])
                value = empty.scatter_add(2, places, value)
            values[name] = value
    return values | ({} if output.nodes is None else {"nodes": output.nodes[step]})


def permuted(values: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    return {
        name: value[:, order] if name == "nodes" else value[:, order][:, :, order]
        for name, value in values.items()
    }


def close(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    assert one.keys() == other.keys()
    return all(torch.allclose(one[name], other[name], rtol=0, atol=1e-9) for name in one)


@pytest.fixture(autouse=True)
def every_set_is_large(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Where a test says so: candidates instead of all pairs, without needing hundreds of nodes."""
    if "candidates" in request.fixturenames and request.getfixturevalue("candidates"):
        monkeypatch.setattr("gln.models.candidates.SMALL", 0)
        monkeypatch.setattr("gln.models.candidates.DENSE_NODES", 0)


def test_the_plain_case_has_the_weights_and_the_answer_that_it_had() -> None:
    plain = model_of()
    said = model_of(
        edge_types=1, directed=False, edge_weights=False, node_types=0, lengths="local", directions=True
    )
    assert kinds_of(plain) == Kinds() == kinds_of(object())
    assert not any("kind" in name or "label" in name for name in plain.state_dict())
    for one, other in zip(plain.state_dict().values(), said.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    output = plain(batch_of())
    assert (output.types, output.weights, output.nodes, output.directed) == (None, None, None, False)
    # What is asked for is created last in every part: the weights that a plain model has begin with the same values.
    typed = model_of(edge_types=2, steps=1).state_dict()
    first = {name: weight for name, weight in model_of(steps=1).state_dict().items() if "embed" in name}
    assert all(torch.equal(typed[name], weight) for name, weight in first.items())


@pytest.mark.parametrize("candidates", [0, 3])
@pytest.mark.parametrize("kinds", EACH, ids=str)
def test_permuting_the_nodes_permutes_all_that_is_said(kinds: dict, candidates: int) -> None:
    model, batch = model_of(**kinds, candidates=candidates or 32), batch_of((11, 11))
    order = torch.randperm(11, generator=torch.Generator().manual_seed(1))
    shuffled = replace(batch, pos=batch.pos[:, order], x=batch.x[:, order])
    for step in range(3):
        expected = permuted(values_of(model(batch), step), order)
        assert close(values_of(model(shuffled), step), expected)


@pytest.mark.parametrize("candidates", [0, 3])
def test_undirected_kinds_are_symmetric_to_the_bit_and_directed_ones_are_not(candidates: int) -> None:
    for directed in (False, True):
        output = model_of(**ALL, directed=directed, candidates=candidates or 32)(batch_of())
        assert output.directed is directed
        for name, value in values_of(output).items():
            if name != "nodes":
                assert torch.equal(value, value.transpose(1, 2)) is not directed, name


def test_swapping_the_ends_of_a_directed_pair_swaps_its_scores() -> None:
    model, batch = model_of(**ALL, directed=True), batch_of((2,))
    swapped = replace(batch, pos=batch.pos.flip(1), x=batch.x.flip(1))
    one, other = values_of(model(batch)), values_of(model(swapped))
    for name in ("logits", "types", "weights"):
        assert torch.allclose(one[name][0, 0, 1], other[name][0, 1, 0], rtol=0, atol=1e-12)
        assert not torch.allclose(one[name][0, 0, 1], one[name][0, 1, 0])


@pytest.mark.parametrize("candidates", [0, 3])
@pytest.mark.parametrize("directed", [False, True])
def test_padding_changes_nothing(directed: bool, candidates: int) -> None:
    model, batch = model_of(**ALL, directed=directed, candidates=candidates or 32), batch_of()
    together = values_of(model(batch))
    for row, size in enumerate(SIZES):
        alone = batch.some(torch.tensor([row]), size)
        expected = {
            name: value[row : row + 1, :size] if name == "nodes" else value[row : row + 1, :size, :size]
            for name, value in together.items()
        }
        assert close(values_of(model(alone)), expected)


@pytest.mark.parametrize("directed", [False, True])
def test_all_pairs_and_a_list_agree_in_values_and_gradients(directed: bool) -> None:
    model, batch = model_of(**ALL, directed=directed), batch_of()
    forms = [candidate_pairs(batch.pos, batch.mask, 3, listed=listed) for listed in (False, True)]
    found, gradients = [], []
    for pairs in (*forms, forms[1].padded()):
        model.zero_grad()
        found.append(values_of(model(batch, pairs=pairs)))
        found[-1]["nodes"] = found[-1]["nodes"][batch.mask]
        sum(value.square().sum() for value in found[-1].values()).backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters()]))
    for values, gradient in zip(found[1:], gradients[1:], strict=True):
        assert close(values, found[0])
        assert torch.allclose(gradient, gradients[0], rtol=1e-9, atol=1e-9)
    # At the first step there is no structure to see.
    later = [weight for name, weight in model.named_parameters() if not name.startswith("blocks.0.")]
    assert all((weight.grad != 0).any() for weight in later)


@pytest.mark.parametrize("directed", [False, True])
def test_blocks_of_a_large_set_say_what_the_whole_says(
    directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gln.models.candidates.SMALL", 0)
    model, batch = model_of(**ALL, directed=directed, candidates=4), batch_of((40,))
    known, types = torch.tensor([[0, 39, 5], [39, 0, 6]]), torch.tensor([2, 2, 1])
    initial = torch.zeros(1, 40, 40, 3)
    initial[0, known[0], known[1], types] = 1
    expected = values_of(model(batch, initial=initial))
    scored = model.score_set(batch, known, block=50, known_types=types)
    for name, value in (("logits", scored.score), ("types", scored.types), ("weights", scored.weights)):
        assert torch.allclose(expected[name][0, scored.source, scored.target], value, rtol=0, atol=1e-9)
    assert torch.allclose(expected["nodes"][0], scored.nodes, rtol=0, atol=1e-9)


def test_the_types_of_known_edges_are_seen_and_unknown_ones_are_all_alike() -> None:
    model, batch = model_of(**ALL), batch_of((6,))
    edges = torch.zeros(1, 6, 6, dtype=torch.float64)
    edges[0, 0, 1] = edges[0, 1, 0] = 1
    first, second = (torch.stack([edges * (k == t) for k in range(3)], dim=-1) for t in (0, 1))
    answers = [values_of(model(batch, initial=start)) for start in (first, second, edges, edges[0])]
    assert not torch.allclose(answers[0]["logits"], answers[1]["logits"], atol=1e-6)
    assert close(answers[2], values_of(model(batch, initial=edges[..., None].expand(-1, -1, -1, 3) / 3)))
    assert close(answers[2], answers[3])
    blind = model_of(**ALL, feedback=False)
    assert close(*(values_of(blind(batch, initial=start)) for start in (first, second)))
    with pytest.raises(GLNError, match=r"shape \[1, 6, 6, 2\]"):
        model(batch, initial=first[..., :2])


def test_both_directions_are_fed_back_and_heard() -> None:
    model, batch = model_of(directed=True, node_types=2), batch_of((6,))
    edge = torch.zeros(1, 6, 6)
    edge[0, 0, 1] = 1
    along, against = (values_of(model(batch, initial=start, steps=1)) for start in (edge, edge.mT))
    nothing = values_of(model(batch, steps=1))
    for given in (along, against):
        # The pair 1 → 0 sees the known edge 0 → 1, and the other way round.
        assert (given["logits"] - nothing["logits"])[0, [0, 1], [1, 0]].abs().min() > 1e-6
    assert not close(along, against)


@pytest.mark.parametrize("directions", [True, False])
@pytest.mark.parametrize("lengths", ["local", "absolute", "fine"])
def test_what_moving_stretching_and_turning_the_points_changes(lengths: str, directions: bool) -> None:
    settings = {"lengths": lengths, "directions": directions, "proposals": 1}
    model, batch = model_of(**ALL, **settings), batch_of((7, 4))
    cos, sin = math.cos(1.0), math.sin(1.0)
    turn = torch.tensor([[cos, sin], [sin, -cos]], dtype=torch.float64)  # and mirrored
    expected, real = values_of(model(batch)), batch.mask[..., None]
    for pos, same in (
        (batch.pos + torch.tensor([5.0, -800.0]), True),
        (batch.pos * 37, lengths == "local"),
        (batch.pos @ turn, not directions),
    ):
        assert close(values_of(model(replace(batch, pos=pos * real))), expected) is same


def test_a_model_with_kinds_runs_in_half_precision() -> None:
    for directed in (False, True):
        model, batch = model_of(**ALL, directed=directed, lengths="absolute").float(), batch_of((9, 5))
        batch = replace(batch, pos=batch.pos.float(), x=batch.x.float())
        exact = values_of(model(batch))
        with torch.autocast("cpu", torch.bfloat16):
            rough = values_of(model(batch).full_precision())
        for name, value in exact.items():
            assert rough[name].dtype == torch.float32
            assert (rough[name] - value).abs().max() < 0.1


@pytest.mark.parametrize("candidates", [0, 3])
def test_series_keep_the_laws_and_are_read_alike_at_all_moments(candidates: int) -> None:
    settings = {"in_channels": 12, "moments": 6, "edge_types": 2, "directed": True}
    model, batch = model_of(**settings, candidates=candidates or 32), batch_of((9, 5))
    series = torch.rand(2, 9, 12, generator=torch.Generator().manual_seed(2)).double() * batch.mask[..., None]
    batch = replace(batch, x=series)
    values, order = values_of(model(batch)), torch.randperm(9, generator=torch.Generator().manual_seed(1))
    first = batch.some(torch.tensor([0]), 9)
    shuffled = replace(first, pos=first.pos[:, order], x=first.x[:, order])
    assert close(
        values_of(model(shuffled)), permuted({name: part[:1] for name, part in values.items()}, order)
    )
    alone = batch.some(torch.tensor([1]), 5)
    assert close(values_of(model(alone)), {name: part[1:, :5, :5] for name, part in values.items()})
    forms = [candidate_pairs(batch.pos, batch.mask, 3, listed=listed) for listed in (False, True)]
    assert close(*(values_of(model(batch, pairs=pairs)) for pairs in (*forms,)))
    scored = model.score_set(first, candidates=3, block=10)
    whole = values_of(model(first, pairs=candidate_pairs(first.pos, first.mask, 3)))
    assert torch.allclose(whole["logits"][0, scored.source, scored.target], scored.score, rtol=0, atol=1e-9)
    # Far from both ends, the mean over time does not depend on when something happens.
    quiet = torch.zeros(1, 2, 40, 1, dtype=torch.float64)
    early, late = quiet.clone(), quiet.clone()
    early[0, 0, 10:13], late[0, 0, 20:23] = 1, 1
    reads = model_of(in_channels=40, moments=40).series
    blocks = all_pairs(torch.ones(1, 2, dtype=torch.bool)).blocks(99)
    read = [reads(blocks, part.flatten(2))[0][0] for part in (early, late)]
    assert torch.allclose(*read, rtol=0, atol=1e-9)


def test_what_graphs_say_is_found_in_them() -> None:
    plain = make_graph(torch.rand(3, 2), edges=[[0, 1]])
    typed = make_graph(torch.rand(3, 2), edges=[[0, 1]], edge_type=[4], node_type=[0, 2, 1])
    directed = make_graph(torch.rand(3, 2), edges=[[0, 1]], edge_weight=[0.5], directed=True)
    assert kinds_in([plain]) == Kinds()
    assert kinds_in([plain, typed]) == Kinds(edge_types=5, node_types=3)
    assert kinds_in([directed]) == Kinds(directed=True, edge_weights=True)
    assert Kinds(edge_types=5, node_types=3).learned == ("edge_type", "node_type")


@pytest.mark.parametrize("directed", [False, True])
def test_set2graph_has_types_too(directed: bool) -> None:
    torch.manual_seed(0)
    model = Set2Graph(in_channels=1, size="small", edge_types=3, directed=directed).double()
    batch = batch_of((6, 6))
    order = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    shuffled = replace(batch, pos=batch.pos[:, order], x=batch.x[:, order])
    values = values_of(model(batch))
    assert values["types"].shape == (2, 6, 6, 3)
    assert torch.equal(values["types"], values["types"].transpose(1, 2)) is not directed
    assert torch.equal(values["logits"], values["logits"].mT) is not directed
    assert close(values_of(model(shuffled)), permuted(values, order))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"edge_types": 0}, "edge_types=0; expected a whole number of at least 1"),
        ({"node_types": 2.5}, "node_types=2.5"),
        ({"directed": 1}, "directed=1; expected true or false"),
        ({"lengths": "metres"}, "lengths='metres'; choose from local, absolute"),
        ({"edge_types": 2**20}, "expected at most"),
        ({"in_channels": 5, "moments": 2}, "as many values at every moment"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        GLN(**wrong)
