"""Files in, edges out: a stream of items through a model, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn
from torch_geometric.data import Data
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.errors import GLNError
from gln.io import Item, ReadOptions, Skipped, open_writer, read_items
from gln.io.reading import node_files
from gln.pipeline.device import out_of_memory
from gln.pipeline.fitness import misfit, unread
from gln.pipeline.known import KnownEdges, completed
from gln.pipeline.outcome import Outcome
from gln.training.prediction import Predictor, check_choice, predict

WINDOW = 256  # items that are looked at together, so that those of like size share a batch
WINDOW_NODES = 2**17  # fewer items where they are large

Say = Callable[[str], None]


@dataclass(frozen=True)
class Choice:
    """How edges are chosen, as in :func:`gln.predict`."""

    threshold: float | None = None
    top_k: int | None = None
    steps: int | None = None
    batch_size: int = 32

    def __post_init__(self) -> None:
        check_choice(self.threshold, self.top_k, self.batch_size)


def predict_files(
    model: nn.Module | Predictor,
    paths: Sequence[Path],
    output: Path,
    options: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
    choice: Choice = Choice(),  # noqa: B008 - frozen
    *,
    known: Path | None = None,
    force: bool = False,
    say: Say | None = None,
    complain: Say | None = None,
) -> Outcome:
    """Predict the edges of every set of nodes in ``paths`` and write them to ``output``, in the order of the input.

    What cannot be read or does not fit the model is skipped, unless nothing at all fits: then nothing is written.
    Of ``paths``, ``output`` and ``known`` are left out: they may lie in a folder of input.

    Args:
        options: how to read the files.
        choice: which pairs become edges.
        known: a table of edges that are known: they are in the answer whatever the model thinks of them.
        force: replace ``output`` if it exists.
        say: receives guesses and remarks in words.
        complain: receives each skipped file as it is met.
    """
    others = [other for other in (output, known) if other is not None]
    paths = [path for path in paths if path.resolve() not in [other.resolve() for other in others]]
    if not paths:
        raise GLNError(
            f"There is nothing to read besides {' and '.join(map(str, others))}; name files of nodes."
        )
    paths = node_files(paths, options)
    given = None if known is None else KnownEdges(known, options.graph, len(paths))
    outcome = Outcome()

    def skip(what: Skipped) -> None:
        outcome.skipped.append(what)
        if complain is not None:
            complain(str(what))

    with (
        open_writer(output, force=force) as writer,
        tqdm(total=len(paths), unit="file", disable=None, leave=False) as bar,
    ):
        items = read_items(paths, options, on_bad=skip, say=say)
        for pairs in predict_items(model, items, choice, given, skip, say):
            for item, answer in pairs:
                writer.add(item, answer)
            outcome.graphs += len(pairs)
            outcome.edges += sum(answer.num_edges // 2 for _, answer in pairs)
            if given is None or options.edges is not None:  # else the edges beside may be the known ones
                outcome.add_scores(pairs)
            if pairs:
                bar.update(paths.index(pairs[-1][0].path) + 1 - bar.n)
            bar.set_postfix(graphs=outcome.graphs, refresh=False)
        if given is not None:
            given.check_used()
        if not outcome.graphs:
            raise GLNError(
                f"Nothing could be predicted: all of the input was skipped, {output} is not written."
            )
    return outcome


def predict_items(
    model: nn.Module | Predictor,
    items: Iterable[Item],
    choice: Choice,
    known: KnownEdges | None,
    skip: Callable[[Skipped], None],
    say: Say | None = None,
) -> Iterator[list[tuple[Item, Data]]]:
    """The items with their predicted graphs, in order, a window of them at a time.

    If nothing in the first window can be predicted, that is taken for a mistake about the whole input, and raised.
    """
    first = True
    for window in windows(items):
        results: list[Data | str | None] = [misfit(model, item.graph) for item in window]
        fitting = [number for number, reason in enumerate(results) if reason is None]
        answers = _answers(model, [window[number] for number in fitting], choice, known)
        for number, answer in zip(fitting, answers, strict=True):
            results[number] = answer
        if first and not any(isinstance(result, Data) for result in results):
            nothing = f"None of the first {len(window)} sets of nodes can be predicted; "
            raise GLNError(f"{nothing if len(window) > 1 else ''}{window[0].name}: {results[0]}")
        if first and say is not None:
            for name in unread(model, window[fitting[0]].graph):
                say(f"the model does not look at {name}; it was trained without.")
        first = False
        pairs = []
        for item, result in zip(window, results, strict=True):
            if isinstance(result, Data):
                pairs.append((item, result))
            else:
                where = "" if item.part is None else f"graph {item.part}: "
                skip(Skipped(item.path, f"{where}{result}"))
        yield pairs


def windows(items: Iterable[Item]) -> Iterator[list[Item]]:
    """The items, some at a time: few enough to hold, enough to find others of the same size."""
    window: list[Item] = []
    nodes = 0
    for item in items:
        if window and (len(window) == WINDOW or nodes + item.graph.num_nodes > WINDOW_NODES):
            yield window
            window, nodes = [], 0
        window.append(item)
        nodes += item.graph.num_nodes
    if window:
        yield window


def _answers(
    model: nn.Module | Predictor, items: list[Item], choice: Choice, known: KnownEdges | None
) -> list[Data | str]:
    """A graph for every item, or why there is none: what fails together is tried one by one."""
    try:
        return list(_ask(model, items, choice, known))
    except (GLNError, MemoryError, RuntimeError) as error:
        if len(items) > 1:
            return [answer for item in items for answer in _answers(model, [item], choice, known)]
        if isinstance(error, GLNError):
            return [str(error)]
        if not out_of_memory(error):
            raise
        return [f"its {items[0].graph.num_nodes:,} nodes need more memory than there is; cut it into parts."]


def _ask(
    model: nn.Module | Predictor, items: list[Item], choice: Choice, known: KnownEdges | None
) -> list[Data]:
    pairs = None if known is None else [known.of(item) for item in items]
    answers: list[Data] = predict(model, [item.graph for item in items], **vars(choice))
    if pairs is None:
        return answers
    return [completed(answer, edges) for answer, edges in zip(answers, pairs, strict=True)]
