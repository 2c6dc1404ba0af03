"""What a model answers to sets of nodes from files: known edges are kept, scores counted, and what fails is skipped."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gln.errors import GLNError, about
from gln.graphs.record import Graph
from gln.inference.predict import Choice, Method, Tick, predict_graphs
from gln.io import EdgeTable, Item, ReadOptions, Skipped
from gln.io.csvfile import CSVFile
from gln.models.contract import kinds_of
from gln.models.settings import misfit, unread, unseen
from gln.workflows import silent
from gln.workflows.forms import Form
from gln.workflows.methods import comparable, compared, out_of_memory

if TYPE_CHECKING:
    from gln.baselines.neighbours import Rules

SCORES = ("dice", "precision", "recall", "iou")
OF_KINDS = ("type_f1_micro", "directions", "weight_error", "node_accuracy", "exact_kinds")


class KnownEdges:
    """A table of known edges: source and target by node id, graph if there are several, and what ``model`` predicts.

    The column that names the graph and those of kinds are those of ``options``, or guessed if they are not there.
    """

    def __init__(self, path: Path, options: ReadOptions, files: int, model: Any = None) -> None:
        self.used, self.model, kinds = False, model, kinds_of(model)
        columns = CSVFile.open(path).columns
        asked = {"types": ("edge_type", "type"), "weights": ("edge_weight", "weight")}
        chosen: dict[str, Any] = {
            flag: (given if (given := getattr(options, flag)) in columns else usual)
            for flag, (kind, usual) in asked.items()
            if kind in kinds.learned
        }
        if lacking := [column for column in chosen.values() if column not in columns]:
            raise GLNError(
                f"{path} has no column {lacking[0]}, which the model predicts; say for every known edge what it is."
            )
        wanted = ReadOptions(graph=options.graph, **chosen, directed=kinds.directed)
        self.table = EdgeTable(path, wanted)
        if files > 1 and not self.table.grouped:
            raise GLNError(
                f"{path} has no graph column, but there are {files} files of nodes; add a column with their names."
            )

    def of(self, item: Item) -> Graph:
        """The known edges of ``item``, with their kinds."""
        known = self.table.graph((item.part, item.name), item.numbers())
        self.used |= known.num_edges > 0
        with about(self.table.path):
            return comparable(self.model, known)

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


def ask_each(
    model: Method, items: list[Item], choice: Choice, known: KnownEdges | None = None, tick: Tick = silent
) -> list[Graph | str]:
    """A graph for every item, with the known edges, or the reason why there is none.

    Items that fail together are tried one by one.
    """
    reasons = [misfit(model, item.graph) for item in items]
    fitting = [item for item, reason in zip(items, reasons, strict=True) if reason is None]
    found: list[Any]
    try:
        sure = None if known is None else [known.of(item) for item in fitting]
        found = predict_graphs(model, [item.graph for item in fitting], choice, tick=tick)
        found = found if sure is None else list(map(completed, found, sure))
    except (GLNError, MemoryError, RuntimeError) as error:
        if len(fitting) > 1:
            found = [answer for item in fitting for answer in ask_each(model, [item], choice, known, tick)]
        elif isinstance(error, GLNError):
            found = [str(error)]
        elif not out_of_memory(error):
            raise
        else:
            nodes = fitting[0].graph.num_nodes
            found = [f"its {nodes:,} nodes need more memory than there is; cut it into parts."]
    answers = iter(found)
    return [next(answers) if reason is None else reason for reason in reasons]


@dataclass
class Outcome:
    """Counts, scores and skipped files of a prediction."""

    graphs: int = 0  # predicted and written
    edges: int = 0  # of all of them
    skipped: list[Skipped] = field(default_factory=list)  # what was left out, and why
    labelled: int = 0  # graphs that came with their true edges
    scores: dict[str, float] = field(default_factory=dict)  # of those, the mean over graphs
    rules: dict[str, dict[str, float]] = field(default_factory=dict)  # the same of each rule, by its words
    answers: list[tuple[Item, Graph]] = field(default_factory=list)  # of a window that was just predicted
    clusters: int = 0  # of all graphs, if they were asked for
    remarks: list[str] = field(default_factory=list)  # what was said on the way
    used: bool = False  # whether any known edges were
    sure: int = 0  # molecules that are more than 99 % sure

    def facts(self) -> dict[str, Any]:
        """All but the answers themselves, as plain values."""
        skipped = [[str(what.path), what.reason] for what in self.skipped]
        return {key: value for key, value in vars(self).items() if key != "answers"} | {"skipped": skipped}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Outcome:
        return cls(**facts | {"skipped": [Skipped(Path(path), reason) for path, reason in facts["skipped"]]})

    def score(self, rules: Rules, model: Any = None) -> None:
        """Compare the answers with the true edges, where an item has them, and with what the rules predict."""
        labelled = [(item, answer) for item, answer in self.answers if item.labelled]
        if not labelled:
            return
        from gln.evaluation.edges import edge_scores  # here, as it loads torchmetrics
        from gln.evaluation.kinds import kind_scores
        from gln.inference.evaluate import score_rules

        true = [compared(model, item.graph, item.name, self.remarks.append) for item, _ in labelled]
        answers = [answer for _, answer in labelled]
        found = edge_scores(true, answers)
        self.labelled, self.scores = len(true), {name: found[name] for name in SCORES}
        each = [kind_scores([graph], [answer]) for graph, answer in zip(true, answers, strict=True)]
        for name in OF_KINDS:
            if all(name in one for one in each):
                self.scores[name] = fmean(one[name] for one in each)
        beside, nothing = score_rules(rules, true), dict.fromkeys(SCORES, 0.0)
        for words in rules:  # one that cannot be followed finds nothing
            self.rules[words] = {name: beside.get(words, nothing)[name] for name in SCORES}

    def add(self, more: Outcome) -> None:
        """Add the outcome of further files, without the answers themselves."""
        if more.labelled:
            share = more.labelled / (self.labelled + more.labelled)
            self.scores = _mean(self.scores, more.scores, share)
            each = more.rules.items()
            self.rules = {words: _mean(self.rules.get(words, {}), found, share) for words, found in each}
        self.labelled += more.labelled
        self.graphs += more.graphs
        self.edges += more.edges
        self.skipped += more.skipped
        self.used |= more.used
        self.sure += more.sure


def _mean(ours: dict[str, float], theirs: dict[str, float], share: float) -> dict[str, float]:
    """The mean of scores, of which ``theirs`` have this share, without what some graphs have no score of."""
    if share == 1:
        return theirs
    return {name: share * theirs[name] + (1 - share) * ours[name] for name in theirs if name in ours}


@dataclass
class Window:
    """Window ``number`` of the input; ``bad`` is what could not be read on the way."""

    number: int
    items: list[Item] = field(default_factory=list)
    bad: list[Skipped] = field(default_factory=list)


def answer_window(
    model: Method,
    window: Window,
    choice: Choice,
    known: KnownEdges | None = None,
    tick: Tick = silent,
    form: Form | None = None,
) -> Outcome:
    """Predict the items of ``window``, in this ``form``; skip those that do not fit the model.

    ``tick`` is called with the number of graphs of every batch that is done.
    """
    done, items, seen = Outcome(skipped=list(window.bad)), [], []
    for item in window.items:
        try:
            seen.append(item if form is None else form.checked(item))
            items.append(item)
        except GLNError as error:
            done.skipped.append(item.skipped(error))
    results = ask_each(model, seen, choice, known, tick)
    answered = [part for part, result in zip(seen, results, strict=True) if isinstance(result, Graph)]
    if results and window.number == 0:
        if not answered:
            nothing = f"None of the first {len(results)} sets of nodes can be predicted; "
            raise GLNError(f"{nothing if len(results) > 1 else ''}{seen[0].name}: {results[0]}")
        for name in unread(model, answered[0].graph):
            done.remarks.append(f"the model does not read {name}; it was trained without it.")
    for part in answered:
        if new := unseen(model, part.graph):
            names = part.x_names or [f"column {number} of x" for number in range(part.graph.widths[1])]
            done.remarks.append(f"never seen in training: {', '.join(names[number] for number in new)}")
    for item, result in zip(items, results, strict=True):
        try:
            if isinstance(result, str):
                raise GLNError(result)
            answer = result if form is None else form.made(item, result, done)
        except GLNError as error:
            done.skipped.append(item.skipped(error))
            continue
        done.answers.append((item, answer))
        done.edges += int(answer.listed_once().sum())
    done.graphs = len(done.answers)
    return done
