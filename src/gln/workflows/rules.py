"""Simple rules, fitted on the training graphs, whose scores stand beside those of every model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.later import torch
from gln.storage.facts import read_facts
from gln.storage.models import find_saved
from gln.storage.tensors import write_json

if TYPE_CHECKING:
    from gln.baselines.neighbours import Neighbours, Rule

FILE = "rules.json"  # of a run folder
NAMES: tuple[Rule, ...] = ("knn", "radius")
LARGEST_K = 512
LOOKED_AT = 200  # training graphs
FROM_TRAINING = "k and radius are those that suit the training graphs best"
LARGEST = 50_000  # the most nodes of a graph that rules are fitted on while a user waits

Rules = dict[str, "Neighbours"]  # by the words for each


def fit_rules(train: Sequence[Graph]) -> Rules:
    """The k nearest nodes, and all nodes within a radius, with the k and the radius that suit ``train`` best."""
    from gln.baselines.neighbours import Neighbours  # here and below, as a prediction may need no baselines

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
    from gln.baselines.neighbours import Neighbours

    facts, rules = read_facts(path), {}
    try:
        for name, state in facts.items():
            rule = Neighbours(rule=cast("Rule", name))
            rule.restore({key: torch.tensor(value, dtype=torch.float64) for key, value in state.items()})
            rules[words_for(rule)] = rule
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):  # also a GLNError
        raise GLNError(f"{path} does not hold the rules of a run; train again, or delete it.") from None
    return rules
