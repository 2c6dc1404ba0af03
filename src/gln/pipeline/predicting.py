"""Files in, edges out: a stream of items goes through a model in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from torch import nn
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.errors import GLNError
from gln.io import Item, ReadOptions, open_writer
from gln.io.reading import node_files
from gln.pipeline.answering import Answered, Choice, Unfit, answer_window
from gln.pipeline.fitness import coinciding
from gln.pipeline.known import KnownEdges
from gln.pipeline.outcome import Outcome
from gln.pipeline.windows import Say, Window, read_windows
from gln.training.prediction import Predictor


class _Enough(Exception):
    """Leaves a writer before it has written anything."""


@dataclass(frozen=True)
class Job:
    """A prediction to make: ``paths`` are files of nodes, ``known`` is a table of known edges.

    ``output`` and ``known`` may lie in a folder of input; they are dropped from ``paths``.
    """

    model: nn.Module | Predictor
    paths: Sequence[Path]
    output: Path
    options: ReadOptions = field(default_factory=ReadOptions)
    choice: Choice = field(default_factory=Choice)
    known: Path | None = None
    force: bool = False  # replace ``output`` if it exists

    def __post_init__(self) -> None:
        others = [other for other in (self.output, self.known) if other is not None]
        places = [other.resolve() for other in others]
        paths = [path for path in self.paths if path.resolve() not in places]
        if not paths:
            raise GLNError(
                f"There is nothing to read besides {' and '.join(map(str, others))}; give files of nodes."
            )
        object.__setattr__(self, "paths", node_files(paths, self.options))

    def known_edges(self) -> KnownEdges | None:
        return None if self.known is None else KnownEdges(self.known, self.options.graph, len(self.paths))

    def answers(
        self,
        known: KnownEdges | None,
        say: Say | None = None,
        blocks: Callable[[int], bool] | None = None,
        wanted: Callable[[Window], bool] = lambda window: True,
        bar: bool = True,
    ) -> Iterator[tuple[Window, Answered]]:
        """The windows with their answers, in order: those in ``blocks`` that are ``wanted``."""
        # The edges stored with the nodes may be the known ones, which must not be scored.
        scored = known is None or self.options.edges is not None
        place, remarked = {path: number for number, path in enumerate(self.paths)}, False
        with tqdm(total=len(self.paths), unit="file", disable=None if bar else True, leave=False) as progress:
            for window in read_windows(self.paths, self.options, say, blocks):
                if wanted(window):
                    answered = answer_window(self.model, window, self.choice, known, scored, say)
                    if say is not None and not remarked:
                        remarked = self._remark_on_coinciding([item for item, _ in answered.pairs], say)
                    yield window, answered
                if window.items:
                    progress.update(place[window.items[-1].path] + 1 - progress.n)

    def _remark_on_coinciding(self, items: Iterable[Item], say: Say) -> bool:
        """Report the first of ``items`` with nodes that coincide; whether there is one."""
        for item in items:
            if count := coinciding(self.model, item.graph):
                # Several processes say only once what follows the colon.
                say(
                    f"{count:,} of {item.graph.num_nodes:,} nodes of {item.name} lie exactly on another node: "
                    "such nodes cannot be told apart by their positions."
                )
                return True
        return False

    def check_output(self, force: bool = False) -> None:
        """Check before any work that the output may and can be written."""
        with suppress(_Enough), open_writer(self.output, force=self.force or force):
            raise _Enough

    def write(
        self,
        answered: Iterable[Answered],
        known: KnownEdges | None,
        complain: Say | None = None,
        force: bool = False,
    ) -> Outcome:
        """Write the answers to ``output`` atomically, unless there are none."""
        outcome = Outcome()
        with open_writer(self.output, force=self.force or force) as writer:
            for some in answered:
                for what in some.outcome.skipped if complain is not None else ():
                    complain(str(what))  # type: ignore[misc]
                for item, answer in some.pairs:
                    writer.add(item, answer)
                outcome.add(some.outcome)
            if known is not None:
                known.check_used()
            if not outcome.graphs:
                raise Unfit(
                    f"Nothing could be predicted: all of the input was skipped, and {self.output} is not written."
                )
        return outcome


def predict_files(job: Job, *, say: Say | None = None, complain: Say | None = None) -> Outcome:
    """Predict the edges of every set of nodes in the files and write them to the output, in the order of the input.

    What cannot be read or does not fit the model is skipped; if nothing at all fits, nothing is written.

    Args:
        say: receives guesses and remarks in words.
        complain: receives each skipped file when it is encountered.
    """
    known = job.known_edges()
    return job.write((answered for _, answered in job.answers(known, say)), known, complain)
