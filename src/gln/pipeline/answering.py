"""Predict a window of sets of nodes: the answers, and what became of each set."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.io import Item, Skipped
from gln.pipeline.device import out_of_memory
from gln.pipeline.fitness import misfit, unread
from gln.pipeline.known import KnownEdges, completed
from gln.pipeline.outcome import Outcome
from gln.pipeline.windows import Say, Window
from gln.training.prediction import Predictor, check_choice, predict


@dataclass(frozen=True)
class Choice:
    """How edges are chosen, as in :func:`gln.predict`."""

    threshold: float | None = None
    top_k: int | None = None
    steps: int | None = None
    candidates: int | None = None
    batch_size: int = 32

    def __post_init__(self) -> None:
        check_choice(self.threshold, self.top_k, self.batch_size, self.candidates)


class Unfit(GLNError):
    """Nothing in the first window, or nothing at all, can be predicted: something is wrong with the whole input."""


@dataclass
class Answered:
    """The predicted items of a window with their graphs, in order, and the outcome for all items."""

    pairs: list[tuple[Item, Data]] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)


def answer_window(
    model: nn.Module | Predictor,
    window: Window,
    choice: Choice,
    known: KnownEdges | None = None,
    scored: bool = True,
    say: Say | None = None,
) -> Answered:
    """Predict the items of ``window``; skip those that do not fit the model. ``scored``: compare with true edges."""
    results: list[Data | str | None] = [misfit(model, item.graph) for item in window.items]
    fitting = [number for number, reason in enumerate(results) if reason is None]
    answers = _answers(model, [window.items[number] for number in fitting], choice, known)
    for number, answer in zip(fitting, answers, strict=True):
        results[number] = answer
    if window.items and (window.block, window.number) == (0, 0):
        if not any(isinstance(result, Data) for result in results):
            nothing = f"None of the first {len(results)} sets of nodes can be predicted; "
            raise Unfit(f"{nothing if len(results) > 1 else ''}{window.items[0].name}: {results[0]}")
        if say is not None:
            for name in unread(model, window.items[fitting[0]].graph):
                say(f"the model does not read {name}; it was trained without it.")
    done = Answered(outcome=Outcome(skipped=list(window.bad)))
    for item, result in zip(window.items, results, strict=True):
        if isinstance(result, Data):
            done.pairs.append((item, result))
        else:
            where = "" if item.part is None else f"graph {item.part}: "
            done.outcome.skipped.append(Skipped(item.path, f"{where}{result}"))
    done.outcome.graphs = len(done.pairs)
    done.outcome.edges = sum(answer.num_edges // 2 for _, answer in done.pairs)
    if scored:
        done.outcome.score(done.pairs)
    return done


def _answers(
    model: nn.Module | Predictor, items: list[Item], choice: Choice, known: KnownEdges | None
) -> list[Data | str]:
    """A graph for every item, or the reason why there is none; items that fail together are tried one by one."""
    try:
        return list(ask(model, items, choice, known))
    except (GLNError, MemoryError, RuntimeError) as error:
        if len(items) > 1:
            return [answer for item in items for answer in _answers(model, [item], choice, known)]
        if isinstance(error, GLNError):
            return [str(error)]
        if not out_of_memory(error):
            raise
        return [f"its {items[0].graph.num_nodes:,} nodes need more memory than there is; cut it into parts."]


def ask(
    model: nn.Module | Predictor, items: list[Item], choice: Choice, known: KnownEdges | None
) -> list[Data]:
    """A graph for every item, with the known edges."""
    pairs = None if known is None else [known.of(item) for item in items]
    answers: list[Data] = predict(model, [item.graph for item in items], **vars(choice))
    if pairs is None:
        return answers
    return [completed(answer, edges) for answer, edges in zip(answers, pairs, strict=True)]
