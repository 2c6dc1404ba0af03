"""Novelty and uniqueness: whether generated graphs are new, and different from one another.

Copying training graphs reaches the best possible MMD, so a generator's MMD says little without these two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from torch_geometric.data import Data

from gln.evaluation.isomorphism import graph_hashes, isomorphic_of
from gln.evaluation.metrics import Scores
from gln.graphs import as_graphs


def novelty(training: Iterable[Any], generated: Iterable[Any]) -> Scores:
    """How many generated graphs are new and distinct; isomorphic graphs count as the same.

    ``novelty`` is the share of generated graphs that are not training graphs, ``uniqueness`` the number of
    distinct generated graphs divided by the number of generated graphs.

    Candidates are found by a Weisfeiler–Leman hash and decided by an exact isomorphism test. A pair too
    hard for the test's budget counts as the same graph, and a note says how many there were.

    Args:
        training: the graphs that the generator learned from, of any kind.
        generated: the graphs that it generated.
    """
    known, made = as_graphs(training, "training"), as_graphs(generated, "generated")
    hashes = graph_hashes([*known, *made])
    known_by_hash: defaultdict[int, list[Data]] = defaultdict(list)
    for graph, key in zip(known, hashes[: len(known)], strict=True):
        known_by_hash[key].append(graph)
    undecided = 0

    def find(graph: Data, others: Iterable[Data]) -> int | None:
        """The index of the first graph that is the same."""
        nonlocal undecided
        for place, other in enumerate(others):
            same = isomorphic_of(graph, other)
            undecided += same is None
            if same is not False:
                return place
        return None

    kinds: defaultdict[int, list[int]] = defaultdict(list)  # by hash: the first graph of each kind
    kind_of: list[int] = []
    for index, (graph, key) in enumerate(zip(made, hashes[len(known) :], strict=True)):
        place = find(graph, (made[kind] for kind in kinds[key]))
        if place is None:
            kinds[key].append(index)
        kind_of.append(index if place is None else kinds[key][place])
    new = {
        kind for key, group in kinds.items() for kind in group if find(made[kind], known_by_hash[key]) is None
    }
    notes = [f"{len(made)} generated graphs, {len(known)} training graphs"]
    if undecided:
        notes.append(f"{undecided} pairs were too hard to tell apart and count as the same graph")
    shares = {
        "novelty": sum(kind in new for kind in kind_of) / len(made),
        "uniqueness": len(set(kind_of)) / len(made),
    }
    return Scores(shares, notes)
