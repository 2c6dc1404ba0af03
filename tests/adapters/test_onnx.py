"""Exported models say what torch says, for any number of nodes and sets; what cannot be exported is refused."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gln
from gln.errors import GLNError
from gln.graphs import make_graph
from gln.models import GLN, PaperGLN, Set2Graph, StructureOutput
from gln.models.flow import GraphFlow
from gln.storage.onnx import lists_of, load_onnx
from tests.storage.test_hostile import hostile, survives

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")
from gln.adapters import onnx
from gln.adapters.onnx import difference

SMALL: dict[str, Any] = {"width": 8, "pair_width": 8, "kernels": 2, "steps": 2, "shared": True}


@pytest.fixture(scope="module")
def all_heads(tmp_path_factory: pytest.TempPathFactory) -> tuple[GLN, Path]:
    """A model with every head, and where it was exported to."""
    torch.manual_seed(0)
    kinds: dict[str, Any] = {"edge_types": 3, "directed": True, "edge_weights": True, "node_types": 2}
    model = GLN(in_channels=2, pos_channels=2, candidates=10, **kinds, **SMALL).eval()
    model.threshold = 0.25
    names = {"edge_type_names": ["a", "b", "c"], "node_type_names": ["d", "e"]}
    model.training_facts = {"names": names, "surface": False, "confidence": {"bonds": [0.5, 0.9]}}
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    assert [file.name for file in gln.export(model, path)] == ["model.onnx", "model.candidates.onnx"]
    return model, path


@pytest.mark.parametrize("nodes", [1, 2, 3, 17, 128, 129, 200])
def test_all_heads_are_those_of_torch(all_heads: tuple[GLN, Path], nodes: int) -> None:
    """Up to 128 nodes over all pairs, above over candidates: sizes of 1, padding and long lists fix nothing."""
    model, path = all_heads
    batch = onnx.random_sets(model, nodes)
    with torch.no_grad():
        assert difference(model(batch), load_onnx(path)(batch)) < 1e-4


def test_the_file_is_a_model_like_any_other(all_heads: tuple[GLN, Path]) -> None:
    model, path = all_heads
    rng = np.random.default_rng(0)
    nodes = make_graph(pos=rng.random((40, 2)), x=rng.random((40, 2)))
    ours, theirs = gln.predict(model, nodes), gln.predict(str(path), nodes)
    assert gln.load(path).threshold == 0.25
    assert gln.load(path).training_facts == model.training_facts
    assert torch.equal(ours.edge_index, theirs.edge_index)
    for name in ("edge_prob", "edge_weight", "edge_type_prob", "node_type_prob"):
        torch.testing.assert_close(theirs[name], ours[name], atol=1e-4, rtol=1e-4)


def test_places_where_many_nodes_coincide_are_crowds_here_too(all_heads: tuple[GLN, Path]) -> None:
    model, path = all_heads
    rng = np.random.default_rng(0)
    pos, x = rng.random((240, 2)), rng.random((240, 2))
    pos[:180], x[:90] = 0.5, 0.25  # half of those at one place are identical
    nodes = make_graph(pos=pos, x=x)
    ours, theirs = (gln.predict(one, nodes, threshold=0) for one in (model, load_onnx(path)))
    assert torch.equal(ours.edge_index, theirs.edge_index)
    torch.testing.assert_close(theirs.edge_prob, ours.edge_prob, atol=1e-4, rtol=0)


def test_sparse_models_score_candidates_in_small_sets_too(tmp_path: Path) -> None:
    model = GLN(sparse=True, candidates=4, lengths="fine", **SMALL | {"steps": 1}).eval()
    path, _ = gln.export(model, tmp_path / "model.onnx")
    batch = onnx.random_sets(model, 20)
    with torch.no_grad():
        ours, theirs = model(batch), load_onnx(path)(batch)
    assert theirs.candidates is not None
    assert difference(ours, theirs) < 1e-4


def test_the_command_predicts_without_our_models(all_heads: tuple[GLN, Path], tmp_path: Path) -> None:
    nodes, edges = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    nodes.write_text("x,y,a,b\n0,0,1,2\n1,0,2,1\n0,1,0,0\n")
    code = (
        "import sys; sys.modules |= dict.fromkeys(['gln.models.gln', 'gln.models.paper', 'onnx', 'onnxscript'])\n"
        "from gln.commands.cli import main; main()"
    )
    given = ["predict", str(all_heads[1]), str(nodes), "-o", str(edges), "--threshold", "0"]
    done = subprocess.run([sys.executable, "-c", code, *given], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(edges.read_text().splitlines()) == 1 + 3 * 2


def test_one_file_alone_is_enough(all_heads: tuple[GLN, Path], tmp_path: Path) -> None:
    model, path = all_heads
    batch = onnx.random_sets(model, 20)
    for name in ("model.onnx", "model.candidates.onnx"):
        alone = tmp_path / name.split(".")[1] / name
        alone.parent.mkdir()
        alone.write_bytes(path.with_name(name).read_bytes())
        assert difference(model(batch), load_onnx(alone)(batch)) < 1e-4
    renamed = alone.with_name("model.onnx")  # a file says itself which graph it holds
    renamed.write_bytes(alone.read_bytes())
    with pytest.raises(GLNError, match="not both graphs of one model"):
        load_onnx(alone)
    alone.unlink()
    assert difference(model(batch), load_onnx(renamed)(batch)) < 1e-4


def test_what_the_file_cannot_do_is_said(
    all_heads: tuple[GLN, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, path = all_heads
    exported = load_onnx(path)
    with pytest.raises(GLNError, match="starts from no edges"):
        gln.predict(exported, np.zeros((3, 4)), known=[[0, 1]])
    with pytest.raises(GLNError, match="has 1 to 2"):
        gln.predict(exported, np.zeros((3, 4)), steps=3)
    with pytest.raises(GLNError, match="without weights"):
        gln.export(exported, tmp_path / "again.onnx")
    with pytest.raises(GLNError, match="A GraphFlow draws graphs at random"):
        gln.export(GraphFlow(width=8, pair_width=8, steps=1), tmp_path / "flow.onnx")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(GLNError, match="cannot be run by onnxruntime"):
        gln.load(broken)
    for good, bad in ((b"MatMul", b"Mat\xfful"), (b"in_channels", b"in\xffchannels")):
        broken.write_bytes(path.read_bytes().replace(good, bad))
        with pytest.raises(GLNError, match="cannot be run by onnxruntime"):
            gln.load(broken)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(GLNError, match=r"models are exported as NAME\.onnx"):
        gln.export("delaunay-small", tmp_path / "model.pt")


def test_any_other_value_in_its_words_gets_a_sentence(all_heads: tuple[GLN, Path], tmp_path: Path) -> None:
    import onnx as files

    program, path, points = files.load(all_heads[1]), tmp_path / "hostile.onnx", np.zeros((3, 4))
    (words,) = (word for word in program.metadata_props if word.key == "gln.facts")
    every = list(hostile(json.loads(words.value)))
    for facts in random.Random(0).sample(every, 60):
        words.value = json.dumps(facts)
        path.write_bytes(program.SerializeToString())
        survives(lambda: gln.predict(str(path), points))


def test_nothing_is_written_that_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx, "TOLERANCE", -1.0)
    model = Set2Graph(size="small").double().train()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(GLNError, match="nothing was written"):
        gln.export(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
    assert model.training
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_a_number_that_is_none_is_a_difference() -> None:
    mask = torch.ones(1, 2, 2, dtype=torch.bool)
    ours, theirs = (StructureOutput((torch.zeros(1, 2, 2) + add,), (), mask, None) for add in (0, torch.nan))
    assert np.isnan(difference(ours, theirs))


@pytest.mark.parametrize(
    "model",
    [Set2Graph(in_channels=1, size="small", edge_types=2), PaperGLN(6, 3, "stabilised", steps=2)],
    ids=lambda model: type(model).__name__,
)
def test_other_models_score_all_pairs(model: Any, tmp_path: Path) -> None:
    (path,) = gln.export(model, tmp_path / "model.onnx")
    batch = onnx.random_sets(model, 5)
    assert difference(model(batch), load_onnx(path)(batch)) < 1e-4


def test_lists_find_every_third_node() -> None:
    """``slots`` and ``third`` hold what a plain search finds."""
    from gln.models.pairs import ListedPairs

    rng = np.random.default_rng(0)
    pairs = ListedPairs.from_ends(torch.from_numpy(rng.integers(0, 9, (2, 20))), (1, 9))
    lists, count = lists_of(pairs), pairs.ends.shape[1]
    ends = [tuple(pair) for pair in pairs.ends.T.tolist()]
    for node, row in enumerate(lists["slots"].tolist()):
        assert [place for place in row if place < count] == [p for p, (i, _) in enumerate(ends) if i == node]
    for pair, (i, j) in enumerate(ends):
        row = lists["slots"][i].tolist()
        found = {(ik, jk) for ik, jk in zip(row, lists["third"][pair].tolist(), strict=True) if jk < count}
        assert found == {
            (ends.index((i, k)), ends.index((j, k))) for k in range(9) if {(i, k), (j, k)} <= {*ends}
        }


@pytest.mark.parametrize(("nodes", "nearest"), [(2, 1), (7, 3), (20, 6)])
def test_products_of_matrices_mix_as_a_search_does(nodes: int, nearest: int) -> None:
    from gln.models.candidates import candidate_pairs
    from gln.ops.mix import mix_listed_reference

    draw = torch.Generator().manual_seed(0)
    mask = torch.ones(1, nodes, dtype=torch.bool)
    pairs: Any = candidate_pairs(torch.rand(1, nodes, 2, generator=draw), mask, nearest, listed=True)
    count = pairs.ends.shape[1]
    read = torch.randn(count, 4, 3, 5, generator=draw)
    found = onnx.GivenPairs(**lists_of(pairs)).mix(read)
    expected = mix_listed_reference(read, pairs.start, pairs.ends[1], (0, nodes), (0, count))
    torch.testing.assert_close(found, expected)
