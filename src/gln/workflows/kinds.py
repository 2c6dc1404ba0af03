"""Kinds of edges between files and models: read as a run has read them, numbered as a model numbers them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from gln.errors import GLNError
from gln.graphs.kinds import TYPES, rename_types, share_kinds
from gln.graphs.record import KINDS, NAMES, Graph
from gln.io import ReadOptions
from gln.storage.facts import as_kind, read_facts
from gln.storage.models import find_saved, saved_facts

if TYPE_CHECKING:
    from gln.models.contract import Kinds

RECIPE = "recipe.json"  # of a run: how its files were read
# By the flag that chooses it: the setting of a model that predicts it, its value in a model that does not, and words.
FLAGS: dict[str, tuple[str, int, str]] = {
    "types": ("edge_types", 1, "types of edges"),
    "weights": ("edge_weights", False, "weights"),
    "directed": ("directed", False, "directions"),
    "node_types": ("node_types", 0, "types of nodes"),
}


class KindsRead(TypedDict, total=False):
    """What a recipe says of kinds."""

    types: str | None
    weights: str | None
    directed: bool
    node_types: str | None
    threshold_weights: float | None


def options_for(model: str, options: ReadOptions) -> ReadOptions:
    """``options`` for files that the saved ``model`` is asked about.

    Kinds are read as its run has read them, where a file has them, unless ``options`` say otherwise; a flag for
    something that the model does not predict is refused.
    """
    folder = find_saved(model)
    facts = saved_facts(folder)
    config = facts["config"] if isinstance(facts.get("config"), dict) else {}
    for flag, (setting, plain, words) in FLAGS.items():
        compared = flag == "weights" and options.threshold_weights is not None  # with a number, not learned
        told = "baseline" in facts or config.get(setting, plain) != plain
        if getattr(options, flag) and not told and not compared:
            raise GLNError(f"{model} predicts no {words}; leave out --{flag.replace('_', '-')}.")
    path = folder / RECIPE
    found = as_kind(read_facts(path).get("read", {}), KindsRead, path) if path.is_file() else KindsRead()
    more: dict[str, Any] = {name: value for name, value in found.items() if name in KindsRead.__annotations__}
    more |= {"directed": True} if config.get("directed") is True else {}
    more = {name: value for name, value in more.items() if value and not getattr(options, name)}
    return replace(options, **more, kinds_if_there=bool(more))


def kinds_of_graph(graph: Graph) -> dict[str, Any]:
    """The kinds of ``graph`` with the names of their types, and whether it is directed, as far as it says."""
    return {name: graph[name] for name in (*KINDS, *NAMES, "directed") if name in graph}


def number_alike(graphs: Sequence[Graph]) -> None:
    """Give graphs from files one numbering of their types, in place.

    Where whole numbers are words in some graphs, as these have negative ones, they are words in all.
    """
    for kind in TYPES:
        names, typed = f"{kind}_names", [graph for graph in graphs if kind in graph]
        words = {word for graph in typed for word in graph.get(names) or ()}
        for graph in typed:
            if words and all(word.lstrip("-").isdecimal() for word in words):
                _put_in_words(graph, kind)
    share_kinds(graphs)


def _put_in_words(graph: Graph, kind: str) -> None:
    """Make words of types that are numbers, in place."""
    if f"{kind}_names" not in graph:
        used, numbers = graph[kind].unique(return_inverse=True)
        graph[kind], graph[f"{kind}_names"] = numbers, tuple(map(str, used.tolist()))


def comparable(model: Any, graph: Graph) -> Graph:
    """``graph`` with only the kinds that ``model`` predicts, its types numbered as the model numbers them."""
    from gln.models.contract import kind_names, kinds_of  # here, as it loads torch

    if getattr(model, "sees_kinds", False):  # a baseline that takes them as they are
        return graph
    kinds, names, out = kinds_of(model), kind_names(model), copy.copy(graph)
    for name in set(KINDS) - set(kinds.learned):
        out.__dict__.pop(name, None)
        out.__dict__.pop(f"{name}_names", None)
    for kind in set(TYPES) & set(kinds.learned) & set(out.keys()):
        known, words = getattr(kinds, f"{kind}s"), names.get(f"{kind}_names")
        if words is None and f"{kind}_names" in out:
            raise GLNError(f"its {kind} is given in words, but the model knows the numbers 0 to {known - 1}.")
        if words is not None:
            _put_in_words(out, kind)
            try:
                rename_types(out, kind, words)
            except GLNError as error:
                raise GLNError(f"it has a type that was never seen in training. {error}") from None
        if len(out[kind]) and (most := int(out[kind].max())) >= known:
            raise GLNError(f"its {kind} {most} was never seen in training, which had 0 to {known - 1}.")
    return out


def described(kinds: Kinds, graphs: Sequence[Graph]) -> str:
    """What a model with these ``kinds`` predicts beyond edges, in words; empty for a plain one."""
    words = []
    for setting, plain, what in FLAGS.values():
        count, names = getattr(kinds, setting), f"{setting.removesuffix('s')}_names"
        known = next((graph[names] for graph in graphs if names in graph), ())
        if count != plain:
            more = f" ({', '.join(known)})" if known else ""
            words.append(what if isinstance(plain, bool) else f"{count} {what}{more}")
    return "; ".join(words)


def without_kinds(graph: Graph) -> Graph:
    """``graph`` without types and weights; a directed one stays so."""
    plain = copy.copy(graph)
    for name in (*KINDS, *NAMES):
        plain.__dict__.pop(name, None)
    return plain


def not_used(kinds: Kinds, graphs: Sequence[Graph]) -> list[str]:
    """What graphs say of their edges and nodes and a model with these ``kinds`` does not predict, in words."""
    from gln.models.contract import kinds_in

    there = kinds_in(graphs)
    return [
        words
        for setting, plain, words in FLAGS.values()
        if getattr(there, setting) != plain and getattr(kinds, setting) == plain
    ]
