"""The models that come with the package, loaded by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gln
from gln.errors import GLNError
from gln.evaluation.generation import Valid, is_planar, is_tree
from gln.graphs.check import as_record
from gln.storage.models import SHIPPED, shipped
from tests.conftest import run
from tests.test_results import LISTED, ROOT

# name: a family member it has not seen and the F1 to reach on a few of its graphs
EXPECTED = {
    "charged": [("particles:kind=charged", 0.999)],
    "community": [("community", 0.99), ("community:communities=4", 0.99)],
    "delaunay": [("delaunay:points=40", 0.995), ("delaunay:points=140", 0.98)],
    "delaunay-small": [("delaunay:points=40", 0.98), ("delaunay:points=140", 0.97)],
    "figures": [("figures", 0.999)],
    "molecules": [],  # tested below
    "planar": [],
    "shapes": [("shapes:points=500,kind=smooth", 0.95)],
    "surfaces": [("surfaces", 0.96), ("surfaces:points=196", 0.93)],
    "tree": [],
}


def test_every_shipped_model_is_tested_and_has_a_card() -> None:
    assert shipped() == sorted(EXPECTED)
    for name in shipped():
        card = (SHIPPED / name / "CARD.md").read_text()
        for word in ("seed", "commit", "minutes", "python recipes/"):
            assert word in card


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_card_says_what_the_model_says(name: str) -> None:
    card = (SHIPPED / name / "CARD.md").read_text(encoding="utf-8")
    facts = json.loads((SHIPPED / name / "model.json").read_text(encoding="utf-8"))
    weights = sum(weight.numel() for weight in gln.load(name).parameters())
    assert f"{weights:,} weights".replace(",", " ") in card
    assert f"{facts['training']['epoch']} epochs" in card or " was the best" in card
    commands = re.findall(r"`python (recipes/\w+\.py) train\b", card)
    assert commands
    assert all((ROOT / command).exists() for command in commands)
    if f"src/gln/shipped/{name}/model.json" not in LISTED:
        assert f"`{facts['commit'][:7]}`" in card


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_scores_of_a_card_are_those_measured_with_this_model(name: str) -> None:
    card = (SHIPPED / name / "CARD.md").read_text(encoding="utf-8")
    trained = json.loads((SHIPPED / name / "model.json").read_text(encoding="utf-8"))["training"]
    paths = re.findall(r"`(results/[\w/-]+\.json)`", card)
    assert paths
    found: set[str] = set()
    for path in paths:
        facts = json.loads((ROOT / path).read_text(encoding="utf-8"))
        for key in ("epoch", "val_iou") if "training" in facts else ():
            assert facts["training"][key] == pytest.approx(trained[key])
        found |= {text for value in numbers(facts) for text in printed(value)}
    rows = [line for line in card.splitlines() if line.startswith("|")]
    scores = [
        cell for row in rows for cell in row.strip("| ").split(" | ") if re.match(r"\.\d|[\d.]+ %$", cell)
    ]
    assert scores
    assert not [score for score in scores if score not in found]


def numbers(facts: Any) -> Iterator[float]:
    """Every number in JSON."""
    if isinstance(facts, dict | list):
        for value in facts.values() if isinstance(facts, dict) else facts:
            yield from numbers(value)
    elif isinstance(facts, int | float):
        yield facts


def printed(value: float) -> set[str]:
    """How a card may write a share."""
    return {f"{value:.{digits}f}".lstrip("0") for digits in (3, 4)} | {
        f"{100 * value:.{d}f} %" for d in (0, 1)
    }


@pytest.mark.parametrize(
    ("name", "spec", "least"), [(n, s, f) for n, rows in EXPECTED.items() for s, f in rows]
)
def test_a_shipped_model_predicts_graphs_it_has_not_seen(name: str, spec: str, least: float) -> None:
    from gln.families import parse_family

    graphs = parse_family(spec).sample(2, seed=424242)
    predicted = gln.predict(gln.load(name), graphs)
    assert gln.edge_scores(graphs, predicted)["dice"] > least


def test_the_types_of_a_shipped_model_have_names() -> None:
    graphs = gln.family("particles", kind="charged").sample(20, seed=424242)
    predicted = gln.predict("charged", graphs)
    assert gln.edge_scores(graphs, predicted)["type_accuracy"] > 0.95
    assert list(predicted[0].edge_type_names) == ["attract", "repel"]


def test_a_molecule_is_found_from_elements_and_positions(tmp_path: Path) -> None:
    from rdkit import Chem
    from rdkit.Chem import AllChem

    from gln.adapters.rdkit import molecules

    words = ["CC(=O)Nc1ccc(O)cc1", "[NH3+]CC(=O)[O-]", "C#CCN(C)C", "O=[N+]([O-])c1ccncc1"]
    made = [Chem.AddHs(Chem.MolFromSmiles(word)) for word in words]
    for mol in made:
        AllChem.EmbedMolecule(mol, randomSeed=1)
    found = [Chem.MolToSmiles(Chem.RemoveHs(mol)) for mol in molecules("molecules", made)]
    assert found == [Chem.CanonSmiles(word) for word in words]


def test_a_page_draws_molecules_as_chemists_do_where_the_types_of_bonds_have_names(here: Path) -> None:
    Path("water.xyz").write_text("3\n\nO 0 0 0.117\nH 0 0.757 -0.469\nH 0 -0.757 -0.469\n")
    assert run("predict", "molecules", "water.xyz", "-o", "water.sdf", "--view", "page.html") == 0
    assert '"type_names":["single","double","triple","aromatic"]' in Path("page.html").read_text()


@pytest.mark.parametrize(("name", "valid"), [("planar", is_planar), ("tree", is_tree)])
def test_a_shipped_generator_draws_graphs_that_are_valid_and_new(name: str, valid: Valid) -> None:
    made = [as_record(graph) for graph in gln.load(name).sample(4, seed=0, steps=50)]
    assert sum(map(valid, made)) >= 3
    assert {graph.num_nodes for graph in made} == {64}
    assert gln.novelty(made, made)["uniqueness"] == 1


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(GLNError, match="delaunay"):
        gln.load("triangles")


def test_the_transform_stands_where_knngraph_would() -> None:
    graph = gln.family("delaunay", points=30).sample(1, seed=5)[0]
    points = gln.make_graph(pos=graph.pos)
    joined = gln.GLNGraph("delaunay", edge_prob=True)(points)
    assert joined.edge_prob.shape == joined.edge_index[0].shape
    assert gln.edge_scores([graph], [joined])["iou"] > 0.97


# Nodes, pairs and probabilities in float64: "model.case.number", a dot, and which of them. The code that wrote them
# gave the first release's predictions with the first release's weights.
PREDICTED = np.load(Path(__file__).with_name("shipped-predictions.npz"))
# In float32 up to 4e-5 from float64: rounding, which the order of the sums decides.
PRECISIONS = {"float64": (torch.float64, 1e-9), "float32": (torch.float32, 5e-5)}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("case", sorted({name.rsplit(".", 1)[0] for name in PREDICTED}))
def test_the_predictions_are_those_that_were_kept(case: str, precision: str) -> None:
    model, size, _ = case.rsplit(".", 2)
    kept = {name: PREDICTED[f"{case}.{name}"] for name in ("pairs", "prob")}
    rows = {name: PREDICTED[f"{case}.{name}"] for name in ("pos", "x") if f"{case}.{name}" in PREDICTED}
    threshold = {"small": 0.001, "large": 0.3}[size]
    dtype, close = PRECISIONS[precision]
    graph = gln.predict(gln.load(model).to(dtype), gln.make_graph(**rows), threshold=threshold)
    once = graph.edge_index[0] < graph.edge_index[1]
    ends = map(tuple, graph.edge_index[:, once].T.tolist())
    found = dict(zip(ends, graph.edge_prob[once].tolist(), strict=True))
    wanted = dict(zip(map(tuple, kept["pairs"].T.tolist()), kept["prob"].tolist(), strict=True))
    for pair in found.keys() | wanted.keys():  # a pair left out has a probability just below the threshold
        assert abs(found.get(pair, threshold) - wanted.get(pair, threshold)) < close, pair
