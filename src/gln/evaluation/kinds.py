"""Scores of kinds: types, directions and weights of edges, and types of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gln.evaluation.metrics import Scores, number, table
from gln.graphs.convert import as_graph_pairs
from gln.graphs.record import KINDS, Graph

BINS = 15  # of the calibration error
NONE = "no edge"


@dataclass(frozen=True)
class TypeTable:
    """Precision, recall and F1 of every type, and which types are taken for which.

    ===============  ==================  ========================================================================
    ``names``        ``T``               the words for the types, or their numbers
    ``confusion``    ``[T + 1, T + 1]``  pairs with the true type of a row and the predicted one of a column; the
                                         last of both is no edge
    ``calibration``  ``[T]``             the calibration error of each type over the edges found; ``None`` where the
                                         prediction has no ``edge_type_prob``
    ===============  ==================  ========================================================================
    """

    names: tuple[str, ...]
    confusion: np.ndarray
    calibration: np.ndarray | None = None

    @property
    def occurs(self) -> np.ndarray:
        """Which types are true or predicted somewhere: bool ``[T]``."""
        return (self.confusion.sum(0) + self.confusion.sum(1))[:-1] > 0

    def scores(self) -> dict[str, np.ndarray]:
        """``precision``, ``recall`` and ``f1`` ``[T]``; 0 where nothing was predicted, or nothing is true."""
        right, true, predicted = self.confusion.diagonal()[:-1], self._sums(1), self._sums(0)
        return {
            "precision": right / predicted.clip(1),
            "recall": right / true.clip(1),
            "f1": 2 * right / (true + predicted).clip(1),
        }

    def named(self) -> dict[str, float]:
        """The scores over all types: micro counts the edges of all types together, macro is the mean over types."""
        right, every = self.confusion.diagonal()[:-1].sum(), self._sums(0).sum() + self._sums(1).sum()
        f1 = self.scores()["f1"][self.occurs]
        found = {
            "type_accuracy": np.trace(self.confusion) / max(self.confusion.sum(), 1),
            "type_f1_micro": 2 * right / every if every else 1.0,
            "type_f1_macro": f1.mean() if len(f1) else 1.0,
        }
        if self.calibration is not None and self.occurs.any():
            found["type_calibration_error"] = self.calibration[self.occurs].mean()
        return {name: float(value) for name, value in found.items()}

    def _sums(self, axis: int) -> np.ndarray:
        return self.confusion.sum(axis)[:-1]

    def columns(self) -> dict[str, np.ndarray]:
        """What is told of every type: the scores, and the calibration error if there is one."""
        return self.scores() | ({} if self.calibration is None else {"calibration error": self.calibration})

    def __str__(self) -> str:
        scores = self.columns()
        columns = [[number(value) for value in values] for values in scores.values()]
        first = table(["type of edge", *scores], zip(self.names, *columns, strict=True))
        names = (*self.names, NONE)
        counts = zip(names, *self.confusion.T.astype(str).tolist(), strict=True)
        second = table(["true \\ predicted", *names], counts)
        return f"{first}\n\n{second}"


def kind_scores(true: Iterable[Any], predicted: Iterable[Any]) -> Scores:
    """The scores of all kinds that true and predicted graphs both have; nothing for plain graphs.

    All graphs count as one. Types are scored over pairs, ordered ones if the graphs are directed: a pair is right if
    both graphs have no edge there, or both one of the same type. Directions are scored over the pairs that both graphs
    join, whichever way; weights over the edges that both have; ``exact_kinds`` is the share of graphs right in edges,
    directions, types and types of nodes, whatever their weights.

    Args:
        true: the true graphs, of any kind.
        predicted: one graph per true graph, on the same nodes, perhaps with ``edge_type_prob [m, T]``.
    """
    return kinds_of_pairs(*as_graph_pairs(true, predicted))


def kinds_of_pairs(truths: Sequence[Graph], guesses: Sequence[Graph]) -> Scores:
    """:func:`kind_scores` of checked graphs."""
    scores: dict[str, float] = {}
    tables: list[TypeTable] = []
    there = [name for name in KINDS if _all_have(name, truths, guesses)]
    directed = any(truth.directed for truth in truths)
    if not there and not directed:
        return Scores({})
    pairs = [Matched(truth, guess) for truth, guess in zip(truths, guesses, strict=True)]
    if "edge_type" in there:
        tables = [_type_table(pairs)]
        scores |= tables[0].named()
    if directed:
        right, joined = np.sum([pair.directions() for pair in pairs], axis=0)
        scores["directions"] = right / joined if joined else 1.0
    if "edge_weight" in there:
        weights = zip(*(pair.values("edge_weight", pair.both) for pair in pairs), strict=True)
        actual, found = (np.concatenate(part).astype(np.float64) for part in weights)
        if len(actual):
            scores["weight_error"] = float(np.abs(actual - found).mean())
            spread = ((actual - actual.mean()) ** 2).sum()
            if spread:
                scores["weight_r2"] = float(1 - ((actual - found) ** 2).sum() / spread)
    if "node_type" in there:
        scores["node_accuracy"] = float(np.concatenate([pair.nodes_right() for pair in pairs]).mean())
    if there != ["edge_weight"] or directed:
        scores["exact_kinds"] = float(np.mean([pair.exact() for pair in pairs]))
    return Scores(scores, [f"{len(pairs)} graphs, counted as one"], tables=tables)


def _all_have(name: str, *sets: Sequence[Graph]) -> bool:
    """Whether all graphs of each set have the kind ``name``, those without edges aside."""
    return all(
        any(name in graph for graph in graphs)
        and all(name in graph or (name != "node_type" and not graph.num_edges) for graph in graphs)
        for graphs in sets
    )


class Matched:
    """The edges of a true and a predicted graph, matched; each direction on its own if one of them is ``directed``.

    ============  ==============================================================================
    ``true``      the columns of the true ``edge_index`` that count, and
    ``found``     those of the predicted one: one for each edge
    ``both``      the columns of the edges that both have, in either
    ``only``      those of edges that the other has not
    ``pairs``     how many pairs there are: all, or as many as the attribute ``scored_pairs`` says
    ============  ==============================================================================
    """

    def __init__(self, truth: Graph, guess: Graph, directed: bool = False) -> None:
        self.truth, self.guess, self.nodes = truth, guess, truth.num_nodes
        self.directed = directed or truth.directed or guess.directed
        (true, self.true), (found, self.found) = self._columns(truth), self._columns(guess)
        _, here, there = np.intersect1d(true, found, assume_unique=True, return_indices=True)
        self.both = self.true[here], self.found[there]  # the columns of the edges that both have
        self.only = np.delete(self.true, here), np.delete(self.found, there)
        pairs = self.nodes * (self.nodes - 1) // (1 if self.directed else 2)
        self.pairs = truth.get("scored_pairs") or pairs

    def _columns(self, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
        """A number for every edge, and its column in ``edge_index``."""
        source, target = graph.edge_index.numpy(force=True)
        columns = np.arange(len(source)) if self.directed else np.flatnonzero(source < target)
        return (source * self.nodes + target)[columns], columns

    def values(self, name: str, columns: tuple[np.ndarray, np.ndarray]) -> list[np.ndarray]:
        """The attribute ``name`` of columns of the true and of the predicted graph."""
        return [
            np.empty(0, int) if graph.get(name) is None else graph[name].numpy(force=True)[some]
            for graph, some in zip((self.truth, self.guess), columns, strict=True)
        ]

    def nodes_right(self) -> np.ndarray:
        return (self.truth.node_type == self.guess.node_type).numpy(force=True)

    def directions(self) -> tuple[int, int]:
        """Of the pairs that both graphs join, whichever way: how many have the same directions, and how many in all."""
        ways = []
        for graph in (self.truth, self.guess):
            ends = graph.edge_index.numpy(force=True)
            key, place = np.unique(ends.min(0) * self.nodes + ends.max(0), return_inverse=True)
            ways.append((key, np.bincount(place, np.where(ends[0] < ends[1], 1, 2), minlength=len(key))))
        joined, here, there = np.intersect1d(ways[0][0], ways[1][0], return_indices=True)
        return int((ways[0][1][here] == ways[1][1][there]).sum()), len(joined)

    def exact(self) -> bool:
        """Whether edges, directions, types and types of nodes are all right."""
        if any(map(len, self.only)):
            return False
        typed, labelled = (name in self.truth and name in self.guess for name in ("edge_type", "node_type"))
        actual, found = self.values("edge_type", self.both)
        same_types = not typed or bool((actual == found).all())
        return same_types and (not labelled or bool(self.nodes_right().all()))


def _type_table(pairs: Sequence[Matched]) -> TypeTable:
    """The table of the types of all edges."""
    graphs = [graph for pair in pairs for graph in (pair.truth, pair.guess) if "edge_type" in graph]
    named = next((graph.edge_type_names for graph in graphs if "edge_type_names" in graph), ())
    most = max((int(graph.edge_type.max()) for graph in graphs if graph.num_edges), default=-1)
    names = (*named, *map(str, range(len(named), most + 1)))
    count = len(names)
    confusion = np.zeros((count + 1, count + 1), dtype=np.int64)
    for pair in pairs:
        np.add.at(confusion, tuple(pair.values("edge_type", pair.both)), 1)
        missed, extra = pair.values("edge_type", pair.only)
        confusion[:, count] += np.bincount(missed, minlength=count + 1)
        confusion[count] += np.bincount(extra, minlength=count + 1)
        confusion[count, count] += pair.pairs - len(pair.both[0]) - len(missed) - len(extra)
    chances = [pair.guess.get("edge_type_prob") for pair in pairs]
    if any(chance is None for chance in chances):
        return TypeTable(names, confusion)
    promised = np.concatenate([pair.values("edge_type_prob", pair.both)[1] for pair in pairs])  # [m, T]
    actual = np.concatenate([pair.values("edge_type", pair.both)[0] for pair in pairs])  # [m]
    errors = np.zeros(count)
    for index in range(min(count, promised.shape[1])):
        errors[index] = binned_error(promised[:, index], actual == index)
    return TypeTable(names, confusion, errors)


def binned_error(promised: np.ndarray, true: np.ndarray, bins: int = BINS) -> float:
    """The mean over edges or pairs of |mean probability − share that is true| in their bin."""
    bin_ = (promised * bins).astype(int).clip(max=bins - 1)  # probability 1 belongs to the last bin
    gaps = np.bincount(bin_, promised, bins) - np.bincount(bin_, true, bins)
    return float(np.abs(gaps).sum() / max(len(promised), 1))
