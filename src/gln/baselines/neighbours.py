"""Edges by distance alone: the usual way to get a graph from points, and what stands beside the scores of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, cast, get_args

import numpy as np
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.baselines.base import Predictor, register
from gln.errors import GLNError
from gln.graphs import as_graphs, make_graph
from gln.graphs.features import feature_scale
from gln.graphs.record import Graph
from gln.later import spatial, torch
from gln.storage.facts import read_facts, write_json
from gln.storage.models import find_saved

Rule = Literal["knn", "mutual", "radius", "gabriel", "rng"]


@register("neighbours")
@dataclass(kw_only=True)
class Neighbours(Predictor):
    """Joins nodes that lie near each other, by one of five rules.

    ``k`` or the radius is the one with the highest mean F1 over the validation graphs, or over the training graphs
    if there are none. Without ``pos``, distances are between rows of ``x``, standardised as GLN does it. Nodes at
    equal distance are treated alike, so a node may get more than ``k`` neighbours. Types are the most frequent ones of
    the training graphs, weights the median; directions are ignored.

    Args:
        rule: ``"knn"`` joins a node to its ``k`` nearest, ``"mutual"`` only if that holds both ways, ``"radius"`` to
            all nodes up to a distance; ``"gabriel"`` and ``"rng"`` (relative neighbours) have no parameter.
        most: the largest ``k`` to try.
    """

    rule: Rule = "knn"
    most: int = 32

    sees_kinds = True
    fitted = "pooled: one k or radius for all graphs."
    learned = ("parameter", "scale")
    choices: ClassVar = {"rule": get_args(Rule)}
    counts = ("most",)

    def learn(
        self, graphs: list[Graph], val: Sequence[Graph], seed: int, progress: bool, folder: Path | None
    ) -> None:
        """Choose ``k`` or the radius; this is quick, so nothing is kept in ``folder``."""
        self._learn_kinds(graphs)
        judges = [graph.undirected() for graph in (as_graphs(val, "val") if len(val) else graphs)]
        judges[0].where()  # fail now, not at the first prediction
        scale = (None, None) if judges[0].widths[0] else feature_scale(graphs)
        self.scale_ = torch.tensor([] if scale[0] is None else scale, dtype=torch.float64)  # [2, f] or empty
        choices = self._choices(judges)
        scores = np.zeros(len(choices))
        if len(choices) > 1:
            for graph in tqdm(judges, desc="neighbours", disable=None if progress else True):
                scores += self._scores(graph, choices)
        self.parameter_ = torch.tensor(float(choices[scores.argmax()]), dtype=torch.float64)

    def answer(self, points: Graph) -> Graph:
        """The graph over ``points`` by the rule, with the chosen ``k`` or radius."""
        self._need_fit()
        pairs, _ = self._pairs(self._where(points), float(self.parameter_))
        edges = torch.from_numpy(pairs)
        return self._with_kinds(make_graph(**points.rows(), edges=edges, num_nodes=points.num_nodes))

    def _where(self, graph: Graph) -> np.ndarray:
        """The places ``[n, p]`` between which distances are taken."""
        where = graph.where()
        return where if not self.scale_.numel() else (where - self.scale_[0].numpy()) / self.scale_[1].numpy()

    def _pairs(self, where: np.ndarray, limit: float) -> tuple[np.ndarray, np.ndarray]:
        """The pairs ``[m, 2]`` for a ``k`` or radius of ``limit``, and the least value ``[m]`` that includes each."""
        if self.rule in ("knn", "mutual"):
            return pairs_by_rank(where, int(min(limit, len(where))), mutual=self.rule == "mutual")
        if self.rule == "radius":
            return pairs_by_distance(where, limit)
        pairs = unspoilt(where, SPOILS[self.rule])
        return pairs, np.zeros(len(pairs))

    def _choices(self, graphs: Sequence[Graph]) -> np.ndarray:
        """The values to choose from, in ascending order."""
        if self.rule in ("knn", "mutual"):
            largest = max(graph.num_nodes for graph in graphs)
            return np.arange(1, max(2, min(self.most + 1, largest)))
        if self.rule != "radius":
            return np.zeros(1)
        # The best radius is the length of an edge: shrinking it to the next shorter one loses only wrong pairs.
        edges = [lengths(self._where(graph), *graph.edge_index.numpy(force=True)) for graph in graphs]
        found = np.unique(np.concatenate([[0.0], *edges]))
        for where in map(self._where, graphs):
            while len(found) > 1 and pairs_within(where, found[-1]) > MOST_PAIRS:
                found = found[: -max(1, len(found) // 10)]
        return found

    def _scores(self, graph: Graph, choices: np.ndarray) -> np.ndarray:
        """The F1 of every choice ``[C]`` on one graph."""
        count = graph.num_nodes
        pairs, entry = self._pairs(self._where(graph), choices[-1])
        edges, judged = graph.edges_once(), graph.get("judged")
        if judged is not None:  # only pairs of these nodes count
            inside = judged.numpy() > 0
            kept = inside[pairs].all(1)
            edges, pairs, entry = edges[inside[edges].all(1)], pairs[kept], entry[kept]
        true = edges @ (count, 1)
        hit = np.isin(pairs[:, 0] * count + pairs[:, 1], true)
        found, drawn = (np.searchsorted(np.sort(part), choices, side="right") for part in (entry[hit], entry))
        total = drawn + len(true)
        return np.where(total > 0, 2 * found / np.maximum(total, 1), 1.0)


TIE = 1e-12  # distances with a smaller relative difference count as equal
NEAR = 16  # how many nearest nodes to look up first
CELLS = 2**22  # pairs processed at a time
MOST_PAIRS = 2**24  # pairs of one graph within a radius

# Whether a node at squared distances ``a`` and ``b`` from the ends of a pair of squared length ``c`` rules it out.
Spoils = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
SPOILS: dict[str, Spoils] = {
    # It lies in the closed diametral ball, and does not coincide with an end.
    "gabriel": lambda a, b, c: (a + b <= c) & (np.minimum(a, b) > 0),
    # It is nearer to both ends than they are to each other.
    "rng": lambda a, b, c: np.maximum(a, b) < c,
}


def pairs_by_rank(points: np.ndarray, most: int, mutual: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of which one end (``mutual``: each) is among the ``most`` nearest of the other, and their ranks ``[m]``.

    The rank is the smallest ``k`` for which the ``k`` nearest include the pair; nodes at equal distance share a rank.
    """
    count = len(points)
    tree = spatial.cKDTree(points)
    # The first hit is the node itself, or one that coincides with it; infinite if there are no more nodes.
    reach = tree.query(points, most + 1)[0].reshape(count, -1)[:, 1:] * (1 + TIE)  # [n, most]
    everywhere = np.square(np.ptp(points, axis=0)).sum() ** 0.5 + 1
    near = tree.query_ball_point(points, np.minimum(reach[:, -1], everywhere))
    first = np.repeat(np.arange(count), [len(others) for others in near])
    second = np.concatenate(near).astype(np.int64)
    first, second = first[first != second], second[first != second]
    rank = 1 + (reach[first] < lengths(points, first, second)[:, None]).sum(1)
    key, which, times = np.unique(
        np.minimum(first, second) * count + np.maximum(first, second), return_inverse=True, return_counts=True
    )
    best = np.zeros(len(key), dtype=np.int64) if mutual else np.full(len(key), most)
    (np.maximum if mutual else np.minimum).at(best, which, rank)
    kept = (times == 2) | (not mutual)
    return np.column_stack([key // count, key % count])[kept], best[kept]


def pairs_by_distance(points: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Pairs up to ``radius`` apart, and their distances ``[m]``."""
    if (count := pairs_within(points, radius)) > 2 * MOST_PAIRS:
        raise GLNError(
            f"{count:,} pairs of the {len(points):,} nodes lie within the radius of {radius:g}; expected fewer: "
            "the unit of length may differ from that of the training graphs."
        )
    pairs = spatial.cKDTree(points).query_pairs(radius * (1 + TIE), output_type="ndarray").astype(np.int64)
    distance = lengths(points, pairs[:, 0], pairs[:, 1])
    return pairs[distance <= radius], distance[distance <= radius]


def pairs_within(points: np.ndarray, radius: float) -> int:
    """How many pairs are up to about ``radius`` apart."""
    tree = spatial.cKDTree(points)
    return int(tree.count_neighbors(tree, radius) - len(points)) // 2


def unspoilt(points: np.ndarray, spoils: Spoils) -> np.ndarray:
    """The pairs that no third node rules out; only nodes nearer to the first end than the second is can do so."""
    count, tree = len(points), spatial.cKDTree(points)
    step = max(1, CELLS // count)
    found = [np.empty((0, 2), dtype=np.int64)]
    for start in range(0, count, step):
        row, second = np.triu_indices(min(step, count - start), 1 + start, count)
        found += _walk_outwards(tree, np.column_stack([row + start, second]), spoils)
    return np.concatenate(found)


def _walk_outwards(tree: spatial.cKDTree, pairs: np.ndarray, spoils: Spoils) -> list[np.ndarray]:
    """Check ``pairs [m, 2]`` against the nearest node of their first end, then the next nearest, …

    Most are ruled out at once, and few edges are so long that many nodes lie nearer.
    """
    points, some = tree.data, NEAR
    done = []
    while len(pairs):
        nodes, place = np.unique(pairs[:, 0], return_inverse=True)
        found = tree.query(points[nodes], min(some, tree.n))
        distance, near = (part.reshape(len(nodes), -1) for part in found)
        for column in range(near.shape[1]):
            long = _square(points[pairs[:, 0]] - points[pairs[:, 1]])
            passed = distance[place, column] ** 2 > long * (1 + TIE)
            done.append(pairs[passed])
            third = near[place, column]
            a, b = (_square(points[end] - points[third]) for end in pairs.T)
            spoilt = spoils(a, b, long) & (third != pairs[:, 0]) & (third != pairs[:, 1])
            pairs, place = pairs[~(passed | spoilt)], place[~(passed | spoilt)]
        if near.shape[1] == tree.n:
            return [*done, pairs]
        some *= 4
    return done


def lengths(points: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The distances between the nodes ``first`` and ``second``."""
    return np.sqrt(_square(points[first] - points[second]))


def _square(offset: np.ndarray) -> np.ndarray:
    return np.square(offset).sum(-1)


FILE = "rules.json"  # of a run folder: simple rules, whose scores stand beside those of every model
NAMES: tuple[Rule, ...] = ("knn", "radius")
LARGEST_K = 512
LOOKED_AT = 200  # training graphs
FROM_TRAINING = "k and radius are those that suit the training graphs best"
LARGEST = 50_000  # the most nodes of a graph that rules are fitted on while a user waits

Rules = dict[str, Neighbours]  # by the words for each


def fit_rules(train: Sequence[Graph]) -> Rules:
    """The k nearest nodes, and all nodes within a radius, with the k and the radius that suit ``train`` best."""
    if not train or not any(train[0].widths):
        return {}
    some = train[:LOOKED_AT]
    degree = sum(graph.num_edges for graph in some) / sum(graph.num_nodes for graph in some)
    most = min(max(Neighbours.most, int(2 * degree)), LARGEST_K)
    rules = [Neighbours(rule=name, most=most).fit(some) for name in NAMES]
    return {words_for(rule): rule for rule in rules}


def rules_of_scored(graphs: Sequence[Graph]) -> tuple[Rules, str]:
    """For a model that has none, such as a shipped one: the rules that suit what is scored best, and these words."""
    some = [graph for graph in graphs if graph.num_nodes <= LARGEST][:LOOKED_AT]
    first = "graph" if len(some) == 1 else f"{len(some)} graphs"
    suited = f"k and radius are those that suit the first {first} scored here best, which favours the rules"
    return fit_rules(some), suited


def words_for(rule: Neighbours) -> str:
    """What the rule does, in a few words."""
    value = float(rule.parameter_)
    return f"{value:.0f} nearest" if rule.rule == "knn" else f"within {value:.3g}"


def save_rules(run: Path, rules: Rules) -> None:
    """Write the rules into a run folder, for :func:`load_rules`."""
    facts = {
        rule.rule: {name: value.tolist() for name, value in rule.state().items()} for rule in rules.values()
    }
    write_json(run / FILE, facts)


def load_rules(run: Path | str) -> Rules:
    """The rules of a run; none if it has none, as a shipped model."""
    path = find_saved(run) / FILE
    if not path.is_file():
        return {}
    facts, rules = read_facts(path), {}
    try:
        for name, state in facts.items():
            rule = Neighbours(rule=cast(Rule, name))
            rule.restore({key: torch.tensor(value, dtype=torch.float64) for key, value in state.items()})
            rules[words_for(rule)] = rule
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):  # also a GLNError
        raise GLNError(f"{path} does not hold the rules of a run; train again, or delete it.") from None
    return rules
