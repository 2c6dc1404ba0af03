"""Predict the edges of every set of nodes in files.

The files are read as windows: sets of nodes that are predicted together. Windows depend on the files alone, so the
answers are the same in any process and in any run (:mod:`gln.workflows.shards`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.errors import GLNError, escaped
from gln.files import apart_from
from gln.graphs.check import check_graph
from gln.graphs.record import Graph
from gln.inference.predict import Choice, Method, Tick, predict_graphs
from gln.io import EdgeTable, Item, ReadOptions, Skipped, open_writer
from gln.io.csvfile import CSVFile
from gln.io.items import as_tensors
from gln.io.reading import node_files, read_all
from gln.models.contract import kinds_of
from gln.models.settings import misfit, unread, unseen
from gln.workflows import Say, silent
from gln.workflows.engines import Engine, in_this_process
from gln.workflows.kinds import comparable, without_kinds
from gln.workflows.methods import coinciding, out_of_memory, put_on

if TYPE_CHECKING:
    from gln.decoding.clusters import Grouping
    from gln.evaluation.metrics import Scores
    from gln.workflows.rules import Rules

WINDOW = 256  # items considered together, so that those of similar size share a batch
WINDOW_NODES = 2**17  # fewer items where they are large
SHOWN = 8  # reasons in a summary
SCORES = ("dice", "precision", "recall", "iou")
OF_KINDS = ("type_f1_micro", "directions", "weight_error", "node_accuracy", "exact_kinds")
LOST = "the processes that were to predict it were killed, perhaps for want of memory."
OF = ": "  # between the words for a rule and the name of its score


@dataclass
class Window:
    """Window ``number`` of the input; ``bad`` is what could not be read on the way."""

    number: int
    items: list[Item] = field(default_factory=list)
    bad: list[Skipped] = field(default_factory=list)


def cut_windows(events: Iterable[Item | Skipped]) -> Iterator[Window]:
    """Cut items and unreadable files into windows small enough for memory."""
    window, nodes = Window(0), 0
    for event in events:
        if isinstance(event, Skipped):
            window.bad.append(event)
            continue
        if window.items and (len(window.items) == WINDOW or nodes + event.graph.num_nodes > WINDOW_NODES):
            yield window
            window, nodes = Window(window.number + 1), 0
        window.items.append(event)
        nodes += event.graph.num_nodes
    yield window


class KnownEdges:
    """A table of known edges: source and target by node id, graph if there are several, and what ``model`` predicts.

    Args:
        path: the table.
        options: the column that names the graph, and those of kinds; guessed if they are not there.
        files: the number of files of nodes.
        model: the model, whose answers are completed.
    """

    def __init__(self, path: Path, options: ReadOptions, files: int, model: Any = None) -> None:
        self.used, self.model, self.kinds = False, model, kinds_of(model)
        columns = CSVFile.open(path).columns
        asked = {"types": ("edge_type", "type"), "weights": ("edge_weight", "weight")}
        chosen: dict[str, Any] = {
            flag: (given if (given := getattr(options, flag)) in columns else usual)
            for flag, (kind, usual) in asked.items()
            if kind in self.kinds.learned
        }
        if lacking := [column for column in chosen.values() if column not in columns]:
            raise GLNError(
                f"{path} has no column {lacking[0]}, which the model predicts; say for every known edge what it is."
            )
        self.options = ReadOptions(graph=options.graph, **chosen, directed=self.kinds.directed)
        self.table = EdgeTable(path, self.options)
        if files > 1 and not self.table.grouped:
            raise GLNError(
                f"{path} has no graph column, but there are {files} files of nodes; add a column with their names."
            )

    def of(self, item: Item) -> Graph:
        """The known edges of ``item``, with their kinds."""
        nodes = item.graph.num_nodes
        ids = [str(node) for node in range(nodes)] if item.ids is None else item.ids
        listed = self.table.edges((item.part, item.name), {name: n for n, name in enumerate(ids)})
        self.used |= len(listed.pairs) > 0
        fields = listed.fields(nodes, self.options, silent)
        try:
            return comparable(self.model, check_graph(Graph(nodes, **as_tensors(fields))))
        except GLNError as error:
            raise GLNError(f"{self.table.path}: {error}") from None

    def check_used(self, used: bool) -> None:
        """Refuse a table of which nothing was ``used``: it is the wrong one or names the graphs differently."""
        if not self.table.places:
            raise GLNError(f"{self.table.path} holds no edges; give a table with a row for each known edge.")
        if not used:
            raise GLNError(
                f"{self.table.path} holds no edge of any of the graphs; check the names in its graph column."
            )


def completed(answer: Graph, known: Graph) -> Graph:
    """``answer`` with the edges of ``known`` added at probability 1, with their types and weights.

    The model does not start from them, as with ``gln.predict(known=...)``: it was trained to start from nothing, and
    from half of the true edges of a triangulation it finds fewer of the others than from nothing.
    """
    sure: dict[str, Any] = {"edge_prob": torch.ones(known.num_edges)}
    sure |= {name: known[name] for name in ("edge_type", "edge_weight") if name in answer}
    if (chances := answer.get("edge_type_prob")) is not None:
        sure["edge_type_prob"] = torch.nn.functional.one_hot(known.edge_type, chances.shape[1])
    edges = torch.cat([known.edge_index, answer.edge_index], dim=1)
    # The first of equal keys, which is the known edge.
    first = np.unique(edges[0] * answer.num_nodes + edges[1], return_index=True)[1]
    answer.edge_index = edges[:, first]
    for name, value in sure.items():
        answer[name] = torch.cat([value.to(answer[name].dtype), answer[name]])[first]
    return answer


@dataclass
class Outcome:
    """Counts, scores and skipped files of a prediction.

    ============  ====================================================================
    ``graphs``    number of graphs predicted and written
    ``edges``     total number of their edges
    ``clusters``  total number of their clusters, if they were asked for
    ``skipped``   what was left out, and why
    ``labelled``  number of graphs that came with their true edges
    ``scores``    edge scores of those, the mean over graphs; empty if there are none; those of a rule follow its words
    ``answers``   the items of a window that was just predicted, with their graphs
    ``remarks``   what was said on the way
    ``used``      whether any known edges were used
    ============  ====================================================================
    """

    graphs: int = 0
    edges: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    labelled: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    answers: list[tuple[Item, Graph]] = field(default_factory=list)
    clusters: int = 0
    remarks: list[str] = field(default_factory=list)
    used: bool = False

    def facts(self) -> dict[str, Any]:
        """All but the answers themselves, as plain values."""
        skipped = [[str(what.path), what.reason] for what in self.skipped]
        return {key: value for key, value in vars(self).items() if key != "answers"} | {"skipped": skipped}

    @classmethod
    def from_facts(cls, facts: dict[str, Any], answers: Sequence[tuple[Item, Graph]] = ()) -> Outcome:
        skipped = [Skipped(Path(path), reason) for path, reason in facts["skipped"]]
        return cls(**facts | {"skipped": skipped, "answers": list(answers)})

    def reasons(self) -> str:
        """How often each reason for skipping occurred, the most frequent first."""
        counts = Counter(what.reason for what in self.skipped).most_common()
        shown = [f"{count:>6} × {escaped(reason)}" for reason, count in counts[:SHOWN]]
        rest = sum(count for _, count in counts[SHOWN:])
        return "\n".join([*shown, f"{rest:>6} × other reasons, given above"] if rest else shown)

    def score(self, rules: Rules, model: Any = None, say: Say = silent) -> None:
        """Compare the answers with the true edges, where an item has them, and with what the rules predict."""
        true = [(_truth(model, item, say), answer) for item, answer in self.answers if item.labelled]
        if true:
            from gln.evaluation.edges import edge_scores  # here, as it loads torchmetrics
            from gln.evaluation.kinds import kind_scores
            from gln.inference.evaluate import score_rules

            graphs = [graph for graph, _ in true]
            found = edge_scores(graphs, [answer for _, answer in true])
            self.labelled, self.scores = len(true), {name: found[name] for name in SCORES}
            each = [kind_scores([graph], [answer]) for graph, answer in true]
            for name in OF_KINDS:
                if all(name in one for one in each):
                    self.scores[name] = fmean(one[name] for one in each)
            beside = score_rules(rules, graphs)
            for words in rules:  # one that cannot be followed finds nothing
                self.scores |= {
                    f"{words}{OF}{name}": (beside[words][name] if words in beside else 0.0) for name in SCORES
                }

    def table(self, notes: Sequence[str]) -> Scores:
        """The scores, with those of the rules beside them."""
        from gln.evaluation.metrics import Scores  # as above

        words = dict.fromkeys(key.partition(OF)[0] for key in self.scores if OF in key)
        rules = {rule: {name: self.scores[f"{rule}{OF}{name}"] for name in SCORES} for rule in words}
        names = [name for name in (*SCORES, *OF_KINDS) if name in self.scores]
        return Scores({name: self.scores[name] for name in names}, notes, rules=rules)

    def add(self, more: Outcome) -> None:
        """Add the outcome of further files, without the answers themselves."""
        self.graphs += more.graphs
        self.edges += more.edges
        self.skipped += more.skipped
        self.used |= more.used
        if more.labelled:
            both = self.labelled + more.labelled
            sums = {name: more.labelled * value for name, value in more.scores.items()}
            if self.labelled:  # without what some graphs have no score of
                sums = {
                    name: sums[name] + self.labelled * self.scores[name]
                    for name in sums
                    if name in self.scores
                }
            self.scores = {name: value / both for name, value in sums.items()}
            self.labelled = both


def _truth(model: Any, item: Item, say: Say) -> Graph:
    """The true graph of ``item``, to compare with what ``model`` predicts; without kinds that cannot be compared."""
    try:
        return comparable(model, item.graph)
    except GLNError as error:
        say(f"{item.name}: {error} Its kinds are not scored.")
        return without_kinds(item.graph)


class Unfit(GLNError):
    """Nothing in the first window, or nothing at all, can be predicted: something is wrong with the whole input."""


def answer_window(
    model: Method,
    window: Window,
    choice: Choice,
    known: KnownEdges | None = None,
    scored: bool = True,
    say: Say = silent,
    rules: Rules | None = None,
    tick: Tick = silent,
) -> Outcome:
    """Predict the items of ``window``; skip those that do not fit the model.

    ``scored``: compare with true edges, and what ``rules`` predict too. ``tick`` is called with the number of graphs of
    every batch that is done.
    """
    results: list[Graph | str | None] = [misfit(model, item.graph) for item in window.items]
    fitting = [number for number, reason in enumerate(results) if reason is None]
    answers = answer_items(model, [window.items[number] for number in fitting], choice, known, tick)
    for number, answer in zip(fitting, answers, strict=True):
        results[number] = answer
    if window.items and window.number == 0:
        if not any(isinstance(result, Graph) for result in results):
            nothing = f"None of the first {len(results)} sets of nodes can be predicted; "
            raise Unfit(f"{nothing if len(results) > 1 else ''}{window.items[0].name}: {results[0]}")
        for name in unread(model, window.items[fitting[0]].graph):
            say(f"the model does not read {name}; it was trained without it.")
    for item in (window.items[number] for number in fitting):
        if new := unseen(model, item.graph):
            names = item.x_names or [f"column {number} of x" for number in range(item.graph.widths[1])]
            say(f"never seen in training: {', '.join(names[number] for number in new)}")
    done = Outcome(skipped=list(window.bad))
    for item, result in zip(window.items, results, strict=True):
        if isinstance(result, Graph):
            done.answers.append((item, result))
            done.edges += int(result.listed_once().sum())
        else:
            where = "" if item.part is None else f"graph {item.part}: "
            done.skipped.append(Skipped(item.path, f"{where}{result}"))
    done.graphs = len(done.answers)
    if scored:
        done.score(rules or {}, model, say)
    return done


def answer_items(
    model: Method, items: list[Item], choice: Choice, known: KnownEdges | None, tick: Tick
) -> list[Graph | str]:
    """A graph for every item, or the reason why there is none; items that fail together are tried one by one."""
    try:
        return list(ask(model, items, choice, known, tick))
    except (GLNError, MemoryError, RuntimeError) as error:
        if len(items) > 1:
            return [answer for item in items for answer in answer_items(model, [item], choice, known, tick)]
        if isinstance(error, GLNError):
            return [str(error)]
        if not out_of_memory(error):
            raise
        return [f"its {items[0].graph.num_nodes:,} nodes need more memory than there is; cut it into parts."]


def ask(
    model: Method, items: list[Item], choice: Choice, known: KnownEdges | None, tick: Tick = silent
) -> list[Graph]:
    """A graph for every item, with the known edges."""
    sure = None if known is None else [known.of(item) for item in items]
    answers = predict_graphs(model, [item.graph for item in items], choice, tick=tick)
    if sure is None:
        return answers
    return [completed(answer, edges) for answer, edges in zip(answers, sure, strict=True)]


def once(say: Say) -> Say:
    """Says what it is given, but nothing twice, not even about several files."""
    said: set[str] = set()

    def say_once(text: str) -> None:
        what = text.partition(": ")[2] or text
        if what not in said:
            said.add(what)
            say(text)

    return say_once


class Answerer:
    """What answers the windows of a job, one after another; each of several processes has one."""

    def __init__(self, job: Job, tick: Tick = silent) -> None:
        self.model, self.device, self.choice, self.rules = job.model, job.device, job.choice, job.rules
        self.known_table = job.known, job.options, len(job.paths)
        # The edges stored with the nodes may be the known ones, which must not be scored.
        self.scored = job.known is None or job.options.edges is not None
        self.tick, self.remarked = tick, False

    def begin(self, local: int | None) -> None:
        self.model = put_on(self.model, self.device, local)
        path, options, files = self.known_table
        self.known = None if path is None else KnownEdges(path, options, files, self.model)

    def __call__(self, window: Window) -> Outcome:
        remarks: list[str] = []
        rest = (self.known, self.scored, remarks.append, self.rules, self.tick)
        done = answer_window(self.model, window, self.choice, *rest)
        done.used = self.known is not None and self.known.used
        self.remarked = self.remarked or self._remark_on_coinciding(done, remarks.append)
        done.remarks = remarks
        return done

    def _remark_on_coinciding(self, done: Outcome, say: Say) -> bool:
        """Report the first graph with nodes that coincide; whether there is one."""
        for item, _ in done.answers:
            if count := coinciding(self.model, item.graph):
                # Of several processes only one says what follows the colon.
                say(
                    f"{count:,} of {item.graph.num_nodes:,} nodes of {item.name} lie exactly on another node: "
                    "such nodes cannot be told apart by their positions."
                )
                return True
        return False


@dataclass
class Job:
    """A prediction to make: ``paths`` are files of nodes, ``known`` is a table of known edges.

    ``output`` and ``known`` may lie in a folder of input; they are dropped from ``paths``.
    """

    model: Method
    paths: Sequence[Path]
    output: Path
    options: ReadOptions = field(default_factory=ReadOptions)
    choice: Choice = field(default_factory=Choice)
    known: Path | None = None
    force: bool = False  # replace ``output`` if it exists
    clusters: Grouping | None = None  # write these instead of edges
    rules: Rules | None = None  # to be scored beside the model; None: those that suit the first window best
    about_rules: str = ""  # where they come from
    device: str = "cpu"

    def __post_init__(self) -> None:
        paths = apart_from(self.paths, (self.output, self.known))
        if not paths:
            others = " and ".join(str(other) for other in (self.output, self.known) if other is not None)
            raise GLNError(f"There is nothing to read besides {others}; give files of nodes.")
        self.paths = node_files(paths, self.options)

    def known_edges(self) -> KnownEdges | None:
        if self.known is None:
            return None
        return KnownEdges(self.known, self.options, len(self.paths), self.model)

    def answers(
        self, engine: Engine, say: Say, wanted: Callable[[int], bool] = lambda number: True
    ) -> Iterator[tuple[int, Outcome]]:
        """The numbers of the windows that are ``wanted``, and their outcomes, as they come from ``engine``."""
        place = {path: number for number, path in enumerate(self.paths)}
        handed: dict[int, Window] = {}
        graphs = 0
        with tqdm(total=len(self.paths), unit="file", disable=None, leave=False) as progress:

            def tick(count: int) -> None:  # a window may take minutes
                nonlocal graphs
                graphs += count
                progress.set_postfix_str(f"{graphs:,} graphs")

            def tasks() -> Iterator[tuple[int, Window]]:
                for window in cut_windows(read_all(self.paths, self.options, say)):
                    if answer.rules is None and answer.scored:
                        answer.rules = self._fit_rules(window)
                    if wanted(window.number):
                        handed[window.number] = window
                        yield window.number, window

            # A bound method or a closure cannot be handed to another process.
            answer = Answerer(self, tick) if engine is in_this_process else Answerer(self)
            for number, done in engine(answer, tasks()):
                window = handed.pop(number)
                if done is None:
                    lost = [Skipped(item.path, f"{item.name}: {LOST}") for item in window.items]
                    done = Outcome(skipped=[*window.bad, *lost])
                for text in done.remarks:
                    say(text)
                if window.items:
                    progress.update(max(place[window.items[-1].path] + 1 - progress.n, 0))
                yield number, done

    def _fit_rules(self, window: Window) -> Rules:
        true = [item.graph for item in window.items if item.labelled]
        if not true:
            return {}
        from gln.workflows.rules import rules_of_scored  # here, as most predictions need no baselines

        rules, self.about_rules = rules_of_scored(true)
        return rules

    def write(
        self,
        done: Iterable[Outcome],
        known: KnownEdges | None,
        complain: Say = silent,
    ) -> Outcome:
        """Write the answers to ``output`` atomically, unless there are none."""
        outcome = Outcome()
        with open_writer(self.output, force=self.force, clustered=self.clusters is not None) as writer:
            for some in done:
                for what in some.skipped:
                    complain(str(what))
                for item, answer in some.answers:
                    if self.clusters is not None:
                        from gln.decoding.clusters import clusters  # here, as it loads scipy

                        answer["cluster"] = clusters(
                            item.graph.with_edges(answer.edge_index, edge_prob=answer.edge_prob),
                            self.clusters,
                        )
                        outcome.clusters += int(answer["cluster"].max()) + 1
                    writer.add(item, answer)
                outcome.add(some)
            if known is not None:
                known.check_used(outcome.used)
            if not outcome.graphs:
                raise Unfit(
                    f"Nothing could be predicted: all of the input was skipped, and {self.output} is not written."
                )
        return outcome


def predict_files(
    job: Job, *, engine: Engine = in_this_process, say: Say = silent, complain: Say = silent
) -> Outcome:
    """Predict the edges of every set of nodes in the files and write them to the output, in the order of the input.

    What cannot be read or does not fit the model is skipped; if nothing at all fits, nothing is written.

    Args:
        engine: what computes the windows, here or elsewhere.
        say: receives guesses and remarks in words.
        complain: receives each skipped file when it is encountered.
    """
    return job.write(_in_order(job.answers(engine, once(say))), job.known_edges(), complain)


def _in_order(answers: Iterable[tuple[int, Outcome]]) -> Iterator[Outcome]:
    waiting: dict[int, Outcome] = {}
    turn = 0
    for number, done in answers:
        waiting[number] = done
        while turn in waiting:
            yield waiting.pop(turn)
            turn += 1
