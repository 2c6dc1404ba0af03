"""GraphLearner keeps scikit-learn's contract and GLN's laws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from torch_geometric.data import Data

from gln.adapters.sklearn import GraphLearner, as_sets
from gln.errors import GLNError
from gln.inference.evaluate import evaluate
from gln.inference.predict import predict
from gln.storage.models import save
from gln.training.loop import fit
from gln.workflows.methods import load

TINY = {"width": 8, "pair_width": 8, "steps": 2, "epochs": 2, "device": "cpu", "random_state": 0}


def pairs_nearer(points: np.ndarray, length: float) -> np.ndarray:
    near = np.linalg.norm(points[:, None] - points[None], axis=-1) < length
    return np.argwhere(np.triu(near, 1))


RNG = np.random.default_rng(0)
X = [RNG.random((int(n), 2)) for n in RNG.integers(3, 9, 12)]
Y = [pairs_nearer(points, 0.5) for points in X]
LEARNER = GraphLearner(**TINY).fit(X, Y)


def test_a_clone_has_the_settings_and_nothing_learned() -> None:
    other = clone(LEARNER)
    assert other.get_params() == LEARNER.get_params()
    for call in (other.predict, other.predict_proba, other.save):
        with pytest.raises(NotFittedError):
            call(X)
    with pytest.raises(NotFittedError):
        other.score(X, Y)
    assert other.set_params(width=16).width == 16


def test_edges_are_sorted_pairs_and_come_from_the_probabilities() -> None:
    for points, edges, matrix in zip(X, LEARNER.predict(X), LEARNER.predict_proba(X), strict=True):
        dense = matrix.toarray()
        assert dense.shape == (len(points), len(points))
        assert (dense == dense.T).all()
        assert (dense.diagonal() == 0).all()
        assert matrix.nnz == len(points) * (len(points) - 1)  # a small set: every pair is scored
        assert edges.tolist() == np.argwhere(np.triu(dense >= np.float32(LEARNER.threshold_), 1)).tolist()


def test_the_score_is_the_mean_f1() -> None:
    f1 = []
    for edges, true in zip(LEARNER.predict(X), Y, strict=True):
        found = len(set(map(tuple, edges.tolist())) & set(map(tuple, true.tolist())))
        total = len(edges) + len(true)
        f1.append(2 * found / total if total else 1.0)
    assert LEARNER.score(X, Y) == pytest.approx(np.mean(f1))


def test_the_same_random_state_learns_the_same_and_leaves_torch_alone() -> None:
    before = torch.get_rng_state()
    again = clone(LEARNER).fit(X, Y)
    assert torch.equal(before, torch.get_rng_state())
    for name, weight in again.model_.state_dict().items():
        assert torch.equal(weight, LEARNER.model_.state_dict()[name]), name
    other = clone(LEARNER).set_params(random_state=1).fit(X, Y)
    assert other.predict_proba(X)[0].toarray() != pytest.approx(LEARNER.predict_proba(X)[0].toarray())


def test_save_and_load_give_the_same_learner(tmp_path: Path) -> None:
    features = [(points, points[:, :1] * 1e4) for points in X]
    learner = GraphLearner(**TINY, threshold=0.3).fit(features, Y)
    loaded = GraphLearner.load(learner.save(tmp_path / "new" / "learner"))
    assert loaded.get_params() == learner.get_params()
    assert loaded.history_ == learner.history_
    assert (loaded.threshold_, loaded.n_features_in_) == (0.3, 3)
    assert loaded.model_.threshold == learner.model_.threshold == 0.3
    assert loaded.model_.training_facts == learner.model_.training_facts
    for one, other in zip(loaded.predict_proba(features), learner.predict_proba(features), strict=True):
        assert (one != other).nnz == 0
    alone = load(save(learner.model_, tmp_path / "alone"))  # the scale of the features goes with the model
    for model in (alone, load(tmp_path / "new" / "learner"), tmp_path / "new" / "learner"):
        for matrix, (points, x) in zip(learner.predict_proba(features), features, strict=True):
            answer = predict(model, Data(pos=torch.tensor(points), x=torch.tensor(x)), threshold=0.0)
            assert matrix.data.tolist() == pytest.approx(answer.edge_prob.tolist(), abs=1e-6)


def test_a_learner_is_predicted_with_and_evaluated_like_its_model() -> None:
    graphs = as_sets(X, Y)
    assert evaluate(LEARNER, graphs) == evaluate(LEARNER.model_, graphs)
    assert evaluate(LEARNER, graphs)["dice"] == pytest.approx(LEARNER.score(X, Y))
    answers = (predict(model, graphs[0]).edge_prob for model in (LEARNER, LEARNER.model_))
    assert torch.equal(*answers)


def test_numbers_of_numpy_are_as_good(tmp_path: Path) -> None:
    """A search over ``np.arange`` passes them."""
    numbers = {name: np.int64(value) for name, value in TINY.items() if isinstance(value, int)}
    learner = GraphLearner(**TINY | numbers, threshold=np.float32(0.5)).fit(X, Y)
    assert learner.model_.config == LEARNER.model_.config
    loaded = GraphLearner.load(learner.save(tmp_path / "learner"))
    assert loaded.get_params() == LEARNER.get_params() | {"threshold": 0.5}


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    save(LEARNER.model_, tmp_path / "a")
    facts = json.loads((LEARNER.save(tmp_path / "b") / "model.json").read_text())
    facts["learner"]["settings"]["colour"] = 3
    (tmp_path / "b" / "model.json").write_text(json.dumps(facts))
    for name, words in (("a", "is not a GraphLearner"), ("b", "was changed"), ("c", "There is no folder")):
        with pytest.raises(GLNError, match=words):
            GraphLearner.load(tmp_path / name)


def test_the_unit_of_a_feature_does_not_matter() -> None:
    sets = [(points, points) for points in X]
    scaled = [(points, points * [1e5, 1e-3] + 7) for points in X]
    one, other = (GraphLearner(**TINY).fit(part, Y).predict_proba(part) for part in (sets, scaled))
    for left, right in zip(one, other, strict=True):
        assert np.allclose(left.toarray(), right.toarray(), atol=1e-2)
    with pytest.warns(UserWarning, match="times as much as another, and the model does not scale them"):
        raw = GraphLearner(**TINY, standardize=False).fit(scaled, Y)
    assert raw.model_.config["x_mean"] is raw.model_.config["x_std"] is None


def test_arrays_tuples_and_data_are_the_same_sets() -> None:
    expected = LEARNER.predict(X)
    for sets in ([(p, None) for p in X], [Data(pos=torch.from_numpy(p).float()) for p in X]):
        assert [edges.tolist() for edges in LEARNER.predict(sets)] == [edges.tolist() for edges in expected]


def test_a_table_is_positions_or_features_by_width_and_by_name() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    tables = [rng.random((6, 5)) for _ in range(4)]
    edges = [[[0, 1], [2, 3]]] * 4
    frames = [pd.DataFrame(table, columns=["mass", "y", "x", "age", "size"]) for table in tables]
    for some in frames:
        some["name"] = "text"
    for sets, said in (
        (tables, "5 features"),
        ([table[:, :3] for table in tables], "3 positions"),
        ([table[:, :2].tolist() for table in tables], "2 positions"),
        (frames, "2 positions and 3 features"),
    ):
        learner = GraphLearner(**TINY).fit(sets, edges)
        assert learner.nodes_ == said
        assert len(learner.predict(sets)) == 4
    columns = ["x", "y", "mass", "age", "size"]
    assert as_sets(frames)[0].pos.numpy() == pytest.approx(frames[0][["x", "y"]].to_numpy())
    assert as_sets(frames)[0].x.numpy() == pytest.approx(frames[0][columns[2:]].to_numpy())


def test_columns_of_dataframes_are_found_by_name(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame(rng.random((6, 4)), columns=["x", "y", "mass", "age"]) for _ in range(3)]
    learner = GraphLearner(**TINY).fit(frames, [[[0, 1], [2, 3]]] * 3)
    learner = GraphLearner.load(learner.save(tmp_path / "learner"))
    turned = [frame[["age", "mass", "y", "x"]].assign(more=1.0) for frame in frames]
    for ours, theirs in zip(learner.predict_proba(turned), learner.predict_proba(frames), strict=True):
        assert np.array_equal(ours.toarray(), theirs.toarray())
    with pytest.raises(GLNError, match="has no column 'mass'"):
        learner.predict([frame.rename(columns={"mass": "weight"}) for frame in frames])
    assert predict(learner, frames[0]).num_nodes == 6  # as its network


def test_positions_of_unequal_scales_are_probably_features() -> None:
    sets = [points * [1, 1e4] for points in X]
    with pytest.warns(UserWarning, match="taken for positions, but one varies"):
        GraphLearner(**TINY).fit(sets, Y)


@pytest.mark.parametrize(
    "given",
    [
        lambda edges, n: edges[:, ::-1],
        lambda edges, n: np.concatenate([edges, edges[:, ::-1]]),
        lambda edges, n: np.concatenate([edges, edges[:, ::-1]]).T,
        lambda edges, n: torch.from_numpy(np.concatenate([edges, edges[:, ::-1]]).T.copy()),
        lambda edges, n: matrix(edges, n),
        lambda edges, n: sp.csr_array(matrix(edges, n)),
        lambda edges, n: nx.from_numpy_array(matrix(edges, n)),
    ],
)
def test_edges_may_be_given_in_any_form(given: Any) -> None:
    expected = [graph.edge_index.tolist() for graph in as_sets(X, Y)]
    other = [given(edges, len(points)) for points, edges in zip(X, Y, strict=True)]
    assert [graph.edge_index.tolist() for graph in as_sets(X, other)] == expected


def matrix(edges: np.ndarray, nodes: int) -> np.ndarray:
    dense = np.zeros((nodes, nodes), dtype=int)
    dense[edges[:, 0], edges[:, 1]] = dense[edges[:, 1], edges[:, 0]] = 1
    return dense


def test_sets_of_one_group_are_learned_or_validated_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[float]] = {}

    def watch(model: Any, train: Any, val: Any, **settings: Any) -> Any:
        seen.update(train=[float(g.pos[0, 0]) for g in train], val=[float(g.pos[0, 0]) for g in val])
        return fit(model, train, val, **settings)

    monkeypatch.setattr("gln.adapters.sklearn.fit", watch)
    groups = [number // 3 for number in range(12)]
    GraphLearner(**TINY).fit(X, Y, groups=groups)
    group_of = {float(np.float32(points[0, 0])): group for points, group in zip(X, groups, strict=True)}
    train, val = ({group_of[name] for name in seen[part]} for part in ("train", "val"))
    assert not train & val
    assert train | val == set(range(4))


def test_it_runs_in_cross_validation_and_grid_search() -> None:
    scores = cross_val_score(GraphLearner(**TINY), X, Y, cv=3)
    assert len(scores) == 3
    assert ((scores >= 0) & (scores <= 1)).all()
    search = GridSearchCV(GraphLearner(**TINY), {"steps": [1, 2]}, cv=2, error_score="raise").fit(X, Y)
    assert search.best_params_["steps"] in (1, 2)
    assert len(search.predict(X)) == len(X)


def test_it_learns() -> None:
    """Joining a node to its nearest ones cannot be had by joining all or none."""
    rng = np.random.default_rng(1)
    sets = [rng.random((8, 2)) for _ in range(60)]
    nearest = []
    for points in sets:
        distance = np.linalg.norm(points[:, None] - points[None], axis=-1) + 9 * np.eye(8)
        pairs = np.stack([np.arange(8), distance.argmin(1)], 1)
        nearest.append(np.unique(np.sort(pairs, axis=1), axis=0))
    learner = GraphLearner(**TINY | {"epochs": 15, "learning_rate": 1e-2}).fit(sets[:40], nearest[:40])
    assert learner.score(sets[40:], nearest[40:]) > 0.7  # joining all gives 0.33


@pytest.mark.parametrize(
    ("sets", "edges", "settings", "words"),
    [
        (X, Y[:-1], {}, "12 point sets and 11 sets of edges"),
        (X, None, {}, "y=None"),
        (X, Y, {"threshold": 2}, "threshold=2"),
        (X[:1], Y[:1], {}, "at least 2"),
        ([], [], {}, "no point sets"),
        ([X[0], np.zeros((3, 4))], [Y[0], []], {}, r"X\[1\] has 0 positions and 4 features"),
        (X[:2], [Y[0], np.zeros((3, 3, 2))], {}, r"X\[1\]: edges has shape"),
        (X[:2], [Y[0], nx.path_graph(2)], {}, r"X\[1\]: The edges are of a graph of 2 nodes"),
        ([X[0], X[1] * np.nan], Y[:2], {}, r"X\[1\]: .*not finite"),
        (X[:2], [Y[0], [[0, 99]]], {}, r"X\[1\]: An edge names node 99"),
        ([X[0], (X[1],)], Y[:2], {}, "tuple of length 1"),
        (X, Y, {"epochs": 0}, "epochs=0"),
        (X, Y, {"validation_fraction": 1.5}, "validation_fraction=1.5"),
        (X, Y, {"validation_fraction": None}, "validation_fraction=None"),
        (X, Y, {"edge_loss": "much"}, "edge='much'"),
    ],
)
def test_a_mistake_is_one_sentence_from_fit(
    sets: Any, edges: Any, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(GLNError, match=words):
        GraphLearner(**TINY | settings).fit(sets, edges)


def test_a_training_that_fails_leaves_nothing_half_learned() -> None:
    learner = GraphLearner(**TINY | {"learning_rate": 1e30, "epochs": 9})
    with pytest.raises(GLNError, match="train again"):
        learner.fit(X, Y)
    with pytest.raises(NotFittedError):
        learner.predict(X)


class Labelled(list):
    """Found by label and not by place, as the values of a pandas Series are; here the labels count down."""

    def __getitem__(self, label: Any) -> Any:
        return super().__getitem__(len(self) - 1 - label)


def test_edges_belong_to_the_set_in_the_same_place_whatever_their_labels() -> None:
    assert LEARNER.score(X, Labelled(Y)) == LEARNER.score(X, Y)


def test_what_was_not_seen_in_training_is_refused() -> None:
    with pytest.raises(GLNError, match="pos with 3 values"):
        LEARNER.predict([np.zeros((4, 3))])
