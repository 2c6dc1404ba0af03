"""The edges of a user's file as a graph holds them, and back: types, weights and directions, of which the user chooses.

A reader gives what the file says of its edges and nodes by name; words become numbers in sorted order, and numbers
stay. What is there and was not asked for is named and not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gln.errors import GLNError, quote
from gln.graphs.columns import first_of
from gln.graphs.record import Graph
from gln.io.csvfile import reads_as_number

if TYPE_CHECKING:
    from gln.io.items import ReadOptions

WEIGHTS = ("weight", "edge_weight")  # of which --threshold-weights takes the first that is there
BARE = ("id", "key", "probability", "edge_prob")  # attributes of edges that are not worth a remark
MOST_TYPES = 2**16


class Numbered(NamedTuple):
    """Types ``[m]`` that the file or its reader has numbered, and the words for 0, 1, …, if there are any."""

    numbers: np.ndarray
    names: tuple[str, ...] | None


Values = Sequence[Any] | np.ndarray | Numbered  # one per edge or node
Where = Callable[[int], str]
Columns = dict[str, np.ndarray]  # of a table, by name


@dataclass(frozen=True)
class FileEdges:
    """The edges of a graph as a file lists them."""

    pairs: np.ndarray  # source and target [m, 2] (int64), in any order and direction, repeated or not
    # What the file says of each edge, by name; None where this was not read, as nobody asked for it.
    values: Mapping[str, Values | None] = field(default_factory=dict)
    directed: bool | None = None  # an edge leads from its source to its target; None: the file does not say
    where: Where = "edge {} (counted from 0)".format  # the words for an edge, counted from 0, in a message

    def fields(self, nodes: int, options: ReadOptions, say: Callable[[str], None]) -> dict[str, Any]:
        """The ``edge_index [2, m]`` of a graph with this many nodes, and the kinds of its edges that were chosen."""
        check_numbers(self.pairs, nodes, "edge")
        if options.directed and self.directed is False and not options.kinds_if_there:
            raise GLNError("its edges have no direction; leave out --directed.")
        types, weights = self._chosen(options, say)
        stays = self.pairs[:, 0] != self.pairs[:, 1]
        if not stays.all():
            say("edges from a node to itself are dropped")
        found: dict[str, Any] = {"directed": True} if options.directed else {}
        columns: dict[str, np.ndarray] = {}
        if types is not None:
            columns["edge_type"], names = as_types(types, self.where)
            found |= {} if names is None else {"edge_type_names": names}
        least = options.threshold_weights
        if weights is not None:
            columns["edge_weight"] = as_weights(weights, self.where, positive=least is None)
            if least is not None:
                stays &= columns.pop("edge_weight") >= least
        if (chances := self.values.get("edge_prob")) is not None:
            columns["edge_prob"] = each = as_weights(chances, self.where, positive=False)
            if ((each < 0) | (each > 1)).any():
                raise GLNError(
                    "there are probabilities outside 0 to 1; expected a file written by gln predict."
                )
        rows = np.flatnonzero(stays)
        one_way = options.directed and self.directed is not False
        pairs = self.pairs[rows] if one_way else np.sort(self.pairs[rows], axis=1)
        pairs, columns = self._once(pairs, {name: each[rows] for name, each in columns.items()}, rows, nodes)
        if not one_way:
            pairs = np.concatenate([pairs, pairs[:, ::-1]])
            columns = {name: np.concatenate([each, each]) for name, each in columns.items()}
        return {"edge_index": np.ascontiguousarray(pairs.T), **columns, **found}

    def _once(
        self, pairs: np.ndarray, columns: dict[str, np.ndarray], rows: np.ndarray, nodes: int
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Each pair once, with what the file says of it; an edge that is listed twice must be the same twice."""
        key = pairs[:, 0] * nodes + pairs[:, 1]
        if not columns:  # much faster than with places
            return np.stack(np.divmod(np.unique(key), nodes), axis=1), {}
        _, first, back = np.unique(key, return_index=True, return_inverse=True)
        for name, each in columns.items():
            other = np.flatnonzero(each[first][back] != each)
            if other.size:
                what = name.removeprefix("edge_")
                raise GLNError(
                    f"{self.where(int(rows[other[0]]))}: this edge was listed before with another {what}; list each "
                    "edge once, or read directions with --directed."
                )
        return pairs[first], {name: each[first] for name, each in columns.items()}

    def _chosen(
        self, options: ReadOptions, say: Callable[[str], None]
    ) -> tuple[Values | None, Values | None]:
        """The types and weights that were asked for; what else there is, is named."""
        asked = {"types": options.types, "weights": options.weights}
        if options.threshold_weights is not None:
            del asked["weights"]
            usual = first_of(WEIGHTS, list(self.values)) or WEIGHTS[0]
            asked["threshold-weights"] = options.weights or usual
        for flag, name in asked.items():
            if name is not None and self.values.get(name) is None and not options.kinds_if_there:
                there = ", ".join(map(quote, self.values)) or "nothing but their two nodes"
                raise GLNError(f"its edges have no {quote(name)}, which --{flag} needs; they have {there}.")
        used = {*asked.values(), *BARE} | ({"direction"} if options.directed else set())
        unused = [name for name in self.values if name not in used]
        if self.directed and not options.directed and len(self.pairs):
            unused.append("their directions")
        if unused:
            say(
                f"of the edges, {', '.join(unused)} {'is' if len(unused) == 1 else 'are'} not used; "
                "see --types, --weights and --directed"
            )
        types, weights = (self.values.get(name or "") for name in asked.values())
        return types, weights


def node_fields(
    values: Mapping[str, Values], options: ReadOptions, say: Callable[[str], None]
) -> dict[str, Any]:
    """The ``node_type [n]`` that was chosen, and the words for its numbers."""
    name = options.node_types
    if unused := [each for each in values if each != name]:
        say(f"of the nodes, {', '.join(unused)} is not used; see --node-types")
    if name is None or (name not in values and options.kinds_if_there):
        return {}
    if name not in values:
        there = f"; there are {', '.join(map(quote, values))}" if values else ""
        raise GLNError(f"its nodes have no {quote(name)}, which --node-types needs{there}.")
    numbers, names = as_types(values[name], "node {} (counted from 0)".format)
    return {"node_type": numbers} | ({} if names is None else {"node_type_names": names})


def as_types(values: Values, where: Where) -> Numbered:
    """Types as whole numbers from 0 ``[m]``: numbers as they are, words by their place in sorted order.

    Numbers of which some are negative, such as signs or charges, are words.
    """
    if isinstance(values, Numbered):
        return values
    words = [
        "" if value is None or isinstance(value, list | dict) else str(value).strip() for value in values
    ]
    wrong = np.array([not word for word in words], dtype=bool)
    if words and all(map(reads_as_number, words)):
        numbers = np.array(list(map(float, words)))
        wrong = ~((abs(numbers) < MOST_TYPES) & (numbers == np.floor(numbers)))
        if not wrong.any() and numbers.min() >= 0:
            return Numbered(numbers.astype(np.int64), None)
        words = words if wrong.any() else [f"{number:.0f}" for number in numbers.tolist()]
    if wrong.any():
        place = int(wrong.argmax())
        got = quote(words[place]) if words[place] else "missing"
        raise GLNError(
            f"{where(place)}: the type is {got}; expected a word, or a whole number below {MOST_TYPES:,}."
        )
    place_of = {word: number for number, word in enumerate(sorted(set(words)))}
    return Numbered(np.array([place_of[word] for word in words], dtype=np.int64), tuple(place_of) or None)


def as_weights(values: Values, where: Where, positive: bool = True) -> np.ndarray:
    """Weights ``[m]`` as float32: finite and, unless they are only compared with a threshold, positive."""
    words = [str(value) for value in values]
    numbers = np.array([float(word) if reads_as_number(word) else np.nan for word in words], dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        single = numbers.astype(np.float32)
    wrong = ~np.isfinite(single) | (positive & ~(single > 0))
    if wrong.any():
        place = int(wrong.argmax())
        expected = "a positive number, as without weight there is no edge" if positive else "a number"
        raise GLNError(f"{where(place)}: the weight is {quote(words[place])}; expected {expected}.")
    return single


def check_numbers(rows: np.ndarray, nodes: int, what: str) -> None:
    """Refuse rows ``[m, k]`` that name nodes outside 0 … nodes − 1."""
    outside = ((rows < 0) | (rows >= nodes)).any(axis=1)
    if outside.any():
        number = int(outside.argmax())
        raise GLNError(
            f"{what} {number} (counted from 0) joins nodes {rows[number].tolist()[:8]}, but the {nodes} nodes are "
            f"numbered 0 to {nodes - 1}."
        )


def edge_columns(answer: Graph, names: np.ndarray) -> Columns:
    """Every edge once: its ends by ``names [n]``, its probability and, where predicted, type, weight and direction."""
    pairs, chances = answer.scored_once()
    source, target = names[pairs.T]
    return {"source": source, "target": target, "probability": chances, **kind_columns(answer)}


def kind_columns(answer: Graph) -> Columns:
    """What a prediction says of each edge that is listed once, besides its probability: type, weight, direction."""
    once, columns = answer.listed_once(), {}
    if answer.edge_type is not None:
        columns["type"] = _words(answer.edge_type[once].numpy(force=True), answer.get("edge_type_names"))
    if answer.edge_weight is not None:
        columns["weight"] = answer.edge_weight[once].numpy(force=True)
    if answer.directed:
        columns["direction"] = np.full(int(once.sum()), "forward", dtype=object)
    return columns


def node_words(answer: Graph) -> np.ndarray:
    """The type of every node: its name, or else its number."""
    return _words(answer.node_type.numpy(force=True), answer.get("node_type_names"))


def _words(types: np.ndarray, names: Sequence[str] | None) -> np.ndarray:
    return types if names is None else np.array([*names, ""], dtype=object)[types]
