"""What is chosen for a user's graphs, and that it can be kept and reused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import gln
from gln.errors import GLNError
from gln.graphs import GraphBatch, make_graph
from gln.graphs.record import Graph
from gln.graphs.split import cut_patches
from gln.io import ReadOptions
from gln.models import build_model
from gln.models.candidates import candidate_pairs, candidate_recall
from gln.workflows.recipe import MOST, Recipe, choose_candidates, choose_recipe, choose_size, neighbour_ranks


def asked(model: str = "GLN", patches: int | None = None, turned: bool | None = None) -> Recipe:
    return Recipe(ReadOptions(), patches, 3, model, 20, turned=turned)


def far_apart(nodes: int) -> Graph:
    """Every node is joined to one that is anywhere."""
    rng = np.random.default_rng(0)
    pairs = {tuple(sorted((i, int(rng.integers(nodes))))) for i in range(nodes)}
    return make_graph(rng.random((nodes, 2)), edges=[pair for pair in pairs if pair[0] != pair[1]])


@pytest.mark.parametrize("graph", [gln.family("delaunay", points=60).graphs(1, seed=2)[0], far_apart(60)])
def test_ranks_are_the_k_from_which_an_edge_is_a_candidate(graph: Graph) -> None:
    ranks = neighbour_ranks(graph, 20)
    batch = GraphBatch.from_graphs([graph])
    for k in range(1, 21):
        recall = candidate_recall(candidate_pairs(batch.pos, batch.mask, k), batch.adj)
        assert (ranks <= k).mean() == pytest.approx(recall.item()), k
    assert ranks.max() <= 21


def test_without_positions_ranks_are_those_on_the_scale_of_the_model() -> None:
    graph = gln.family("delaunay", points=150).graphs(1, seed=2)[0]
    wild = Graph(x=graph.pos * torch.tensor([1e4, 1.0]) + 5, edge_index=graph.edge_index, num_nodes=150)
    scaled = Graph(pos=(wild.x - wild.x.mean(0)) / wild.x.std(0, correction=0), edge_index=graph.edge_index)
    scaled.num_nodes = 150
    assert choose_candidates([wild]) == choose_candidates([scaled])
    assert choose_candidates([wild]) != choose_candidates([Graph(pos=wild.x, edge_index=wild.edge_index)])


def test_equally_near_nodes_share_a_rank_and_coincident_ones_come_first() -> None:
    square = make_graph([[0.0, 0], [1, 0], [1, 1], [0, 1], [0, 0]], edges=[[0, 1], [0, 2], [0, 4]])
    assert neighbour_ranks(square, 4).tolist() == [1, 3, 1]


@pytest.mark.parametrize(
    ("graph", "enough"),
    [
        (gln.family("surfaces", points=144, kind="torus").graphs(1)[0], 0.999),
        (gln.family("delaunay", points=150).graphs(1, seed=0)[0], None),
    ],
)
def test_the_smallest_k_that_finds_enough_edges_is_chosen(graph: Graph, enough: float | None) -> None:
    """Enough is nearly all of them, or nearly as many as the largest K would find."""
    settings, reason = choose_candidates([graph])
    ranks = neighbour_ranks(graph, MOST)
    enough = (ranks <= MOST).mean() - 0.005 if enough is None else enough
    k = settings["candidates"]
    assert (ranks <= k).mean() >= enough > (ranks <= k - 1).mean()
    assert f"{k} nearest" in reason


def test_small_sets_need_no_candidates_and_far_edges_need_proposals() -> None:
    assert choose_candidates(gln.family("delaunay", points=20).graphs(2))[0] == {}
    settings, reason = choose_candidates([far_apart(300)])
    assert settings["proposals"] > 0
    assert "only" in reason
    assert choose_candidates([make_graph(torch.rand(200, 2))])[0] == {}


def test_the_model_grows_with_the_pairs_and_the_machine() -> None:
    few, many = gln.family("delaunay", points=9).graphs(3), gln.family("delaunay", points=100).graphs(30)
    assert choose_size(few, gpu=True)[0] == choose_size(many, gpu=False)[0] != {}
    assert choose_size(many, gpu=True)[0] == {}


def test_what_is_asked_for_stays_and_the_rest_is_chosen() -> None:
    train = gln.family("delaunay", points=150).graphs(3)
    recipe = choose_recipe(train, asked("GLN:width=16,candidates=9"), "cpu")
    model = build_model(recipe.model, train)
    assert (model.config["width"], model.config["candidates"], model.config["steps"]) == (16, 9, 3)
    assert "width, candidates as asked" in "\n".join(recipe.lines())
    paper = choose_recipe(train, asked("PaperGLN"), "cpu")
    assert paper.model == "PaperGLN"
    assert choose_recipe(train, asked("copy", 9), "auto") == asked("copy", 9, turned=False)
    large = choose_recipe([far_apart(9000)], asked(), "cpu")
    assert large.batch_size < 20


def test_few_graphs_in_space_are_turned_unless_asked_otherwise() -> None:
    def turned(graphs: list[Graph], wish: bool | None = None) -> bool:
        recipe = choose_recipe(graphs, asked(turned=wish), "cpu")
        assert ("directions" in "\n".join(recipe.lines())) == (recipe.turned or wish is not None)
        return bool(recipe.turned)

    few, many = (gln.family("delaunay", points=9).graphs(count) for count in (9, 10))
    assert turned(few)
    assert not turned(few, False)
    assert not turned(many)
    assert turned(many, True)
    assert not turned(gln.family("figures", side=6).graphs(2))  # pixels are not turned
    wide = [make_graph(pos=np.eye(5), edges=[[0, 1]])]
    assert not turned(wide)  # eigenvectors, say
    with pytest.raises(GLNError, match="no positions"):
        turned([make_graph(x=np.eye(3), edges=[[0, 1]])], True)


def test_a_recipe_round_trips(tmp_path: Path) -> None:
    read = ReadOptions(pos=("a", "b"), x=(), edges=Path("e.csv"), labels=None, image_size=9)
    recipe = Recipe(read, 50, 3, "GLN:width=16", 4, {"model": "because"}, True)
    recipe.save(tmp_path / "new" / "r.json")
    assert Recipe.load(tmp_path / "new" / "r.json") == recipe


REST = '"patches": null, "seed": 0, "model": "GLN", "batch_size": 1}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not complete JSON"),
        ("{}", "is not a 'gln recipe 1'"),
        ('{"format": "gln recipe 1"}', "is not what gln wrote"),
        ('{"format": "gln recipe 1", "read": {"colour": 1}}', "is not what gln wrote"),
        (
            '{"format": "gln recipe 1", "read": {}, "patches": null, "seed": "a", "model": "GLN", "batch_size": 1}',
            "is not what gln wrote",
        ),
        (
            '{"format": "gln recipe 1", "read": {}, "patches": null, "seed": 0, "model": "GLN", "batch_size": 1, '
            '"reasons": {"model": 5}}',
            "reasons.model is 5, expected text",
        ),
        (
            '{"format": "gln recipe 1", "read": {}, "patches": null, "seed": 0, "model": "GLN", "batch_size": 1, '
            '"reasons": [1]}',
            "is not what gln wrote",
        ),
        ('{"format": "gln recipe 1", "read": {"pos": 5}, ' + REST, "read.pos is 5, expected a list"),
        ('{"format": "gln recipe 1", "read": {"x": "ab"}, ' + REST, "read.x is 'ab', expected a list"),
        ('{"format": "gln recipe 1", "read": {"id": 5}, ' + REST, "read.id is 5, expected text"),
    ],
)
def test_a_bad_recipe_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(GLNError, match=words):
        Recipe.load(tmp_path / "r.json")


def test_for_patches_the_candidates_are_those_that_the_whole_graph_needs() -> None:
    grid = torch.cartesian_prod(torch.arange(20.0), torch.arange(20.0))
    near = torch.cdist(grid, grid)
    whole = make_graph(pos=grid + 0.01 * torch.rand(400, 2), edges=((near == 1).triu()).nonzero())
    patches = cut_patches(whole, 40, 8)
    alone = choose_recipe(patches, asked(patches=40), "cpu")
    known = choose_recipe(patches, asked(patches=40), "cpu", whole=[whole])
    assert "candidates=" not in alone.model
    assert "candidates=8" in known.model
