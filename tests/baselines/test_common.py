"""Laws that every registered baseline obeys. A new baseline needs an entry in SMALL."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gln
import reproduction.baselines  # noqa: F401  (these are registered too)
from gln.baselines import (
    BASELINES,
    Baseline,
    Predictor,
    Sampler,
    baseline,
    load_baseline,
    register,
    save_baseline,
)
from gln.errors import GLNError
from gln.graphs import check_graph
from tests.conftest import assert_same_graph

TINY_RNN = (
    "hidden=8,embedding=4,edge_hidden=4,edge_embedding=2,layers=2,epochs=2,batches=2,batch_size=4,orders=20"
)

# Members of every registered baseline that are fitted in no time.
SMALL = {
    "constant": ["constant"],
    "copy": ["copy"],
    "neighbours": [f"neighbours:rule={rule}" for rule in ("knn", "mutual", "radius", "gabriel", "rng")],
    "graphrnn": [f"graphrnn:variant={variant},{TINY_RNN}" for variant in ("rnn", "mlp")],
    "kronecker": ["kronecker:rounds=10,steps=10"],
    "mmsb": ["mmsb:rounds=10", "mmsb:roles=2,rounds=10"],
}
MEMBERS = [spec for specs in SMALL.values() for spec in specs]


@pytest.fixture(scope="module")
def graphs() -> list[Data]:
    return gln.family("community", size=4, order="ordered").sample(12, seed=0)


@pytest.fixture(scope="module")
def fitted(graphs: list[Data]) -> dict[str, Baseline]:
    return {spec: baseline(spec).fit(graphs[:8], graphs[8:10]) for spec in MEMBERS}


def answers(model: Baseline, graphs: list[Data]) -> list[Data]:
    if isinstance(model, Predictor):
        return gln.predict(model, graphs)
    assert isinstance(model, Sampler)
    return gln.generate(model, 4, seed=3)


def test_every_registered_baseline_is_tested() -> None:
    assert set(BASELINES) == set(SMALL), "add small members of the new baseline to SMALL"
    for cls in BASELINES.values():
        assert cls.summary().endswith(".")
        assert cls.fitted.startswith(("pooled", "per graph"))


@pytest.mark.parametrize("spec", MEMBERS)
class TestEveryBaseline:
    def test_answers_are_canonical_graphs(
        self, spec: str, fitted: dict[str, Baseline], graphs: list[Data]
    ) -> None:
        for answer in answers(fitted[spec], graphs[10:]):
            assert_same_graph(check_graph(answer), answer)

    def test_saved_and_loaded_it_answers_the_same(
        self, spec: str, fitted: dict[str, Baseline], graphs: list[Data], tmp_path: Path
    ) -> None:
        loaded = load_baseline(save_baseline(fitted[spec], tmp_path))
        assert loaded == fitted[spec]
        for ours, theirs in zip(answers(fitted[spec], graphs), answers(loaded, graphs), strict=True):
            assert_same_graph(ours, theirs)

    def test_the_same_seed_learns_the_same_and_leaves_no_trace(
        self, spec: str, fitted: dict[str, Baseline], graphs: list[Data], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("the GPUs were seeded"))
        before = torch.random.get_rng_state()
        again = baseline(spec).fit(graphs[:8], graphs[8:10])
        answers(again, graphs)
        assert torch.equal(before, torch.random.get_rng_state())
        state = fitted[spec].state()
        assert state.keys() == again.state().keys()
        assert all(torch.equal(state[name], value) for name, value in again.state().items())

    def test_an_unfitted_one_says_so(self, spec: str, graphs: list[Data]) -> None:
        with pytest.raises(GLNError, match="not fitted"):
            answers(baseline(spec), graphs)
        with pytest.raises(GLNError, match="not fitted"):
            baseline(spec).state()

    def test_the_short_form_reads_back(self, spec: str) -> None:
        model = baseline(spec)
        assert baseline(str(model)) == model

    def test_whole_settings_may_be_numpys(self, spec: str) -> None:
        plain = baseline(spec)
        numpys = {
            name: np.int64(value) if type(value) is int else value for name, value in plain.settings().items()
        }
        assert json.dumps(type(plain)(**numpys).settings()) == json.dumps(plain.settings())

    def test_weights_of_something_else_are_refused(
        self, spec: str, fitted: dict[str, Baseline], tmp_path: Path
    ) -> None:
        other = Stranger()
        save_baseline(fitted[spec], tmp_path / "ours")
        save_baseline(other, tmp_path / "theirs")
        (tmp_path / "theirs" / "model.safetensors").replace(tmp_path / "ours" / "model.safetensors")
        with pytest.raises(GLNError, match="not the file"):
            load_baseline(tmp_path / "ours")


@dataclass(kw_only=True)
class Stranger(Sampler):
    """Not registered."""

    fitted = "pooled: nothing is learned."
    name = "stranger"

    def fit(self, graphs, val=(), *, seed=0, progress=False, folder=None):  # type: ignore[no-untyped-def]
        return self

    def state(self) -> dict[str, torch.Tensor]:
        return {"strange": torch.ones(1)}

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        raise NotImplementedError

    def sample(self, count: int, seed: int = 0) -> list[Data]:
        raise NotImplementedError


def test_mistakes_are_told_in_one_sentence(tmp_path: Path) -> None:
    for spec, message in {
        "nothing": "There is no baseline 'nothing'",
        "copy:seed=3": "copy has no setting 'seed'",
        "neighbours:rule=near": "rule='near'; choose from knn",
        "neighbours:most=0": "most=0; expected a whole number",
        "graphrnn:variant=cnn": "variant='cnn'",
        "graphrnn:layers=0": "layers=0",
        "graphrnn:lr=fast": "lr='fast'; expected a number above 0",
        "graphrnn:minutes=-1": "minutes=-1",
    }.items():
        with pytest.raises(GLNError, match=message):
            baseline(spec)
    with pytest.raises(GLNError, match="cannot be read"):
        load_baseline(tmp_path)
    gln.save(gln.GLN(width=8, pair_width=8, kernels=2, steps=1), tmp_path)
    with pytest.raises(GLNError, match="there is no baseline"):
        load_baseline(tmp_path)
    with pytest.raises(GLNError, match="already registered"):
        register("copy")(Stranger)


@pytest.mark.parametrize("spec", ["constant", "neighbours"])
@pytest.mark.parametrize("directed", [False, True])
def test_the_most_usual_kinds_are_predicted(spec: str, directed: bool, tmp_path: Path) -> None:
    train = [
        gln.make_graph(
            [[0.0], [1.0], [3.0]],
            edges=[[0, 1], [1, 2]],
            edge_type=[1, kind],
            edge_weight=[1, weight],
            node_type=[0, 2, 2],
            directed=directed,
        )
        for kind, weight in ((0, 2), (1, 3), (2, 9))
    ]
    save_baseline(baseline(spec).fit(train), tmp_path)
    for answer in gln.predict(load_baseline(tmp_path), train):
        check_graph(answer)
        assert set(answer.edge_type.tolist()) == {1}
        assert set(answer.edge_weight.tolist()) == {1.0}
        assert answer.node_type.tolist() == [2, 2, 2]
        assert bool(answer.get("directed")) == (directed and spec == "constant")
        assert "type_f1_macro" in gln.evaluate(load_baseline(tmp_path), train)


@pytest.mark.parametrize(
    "spec", [specs[0] for name, specs in SMALL.items() if name not in ("constant", "neighbours")]
)
def test_samplers_ignore_kinds_and_directions(spec: str, graphs: list[Data]) -> None:
    one_way = []
    for graph in graphs[:6]:
        once = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
        one_way.append(gln.make_graph(edges=once.T, num_nodes=graph.num_nodes, directed=True))
    for one, other in zip(
        answers(baseline(spec).fit(one_way), []), answers(baseline(spec).fit(graphs[:6]), []), strict=True
    ):
        assert_same_graph(one, other)
