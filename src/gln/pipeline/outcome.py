"""What became of the files of a prediction."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from torch_geometric.data import Data

from gln.io import Item, Skipped

SHOWN = 8  # reasons in a summary
SCORES = ("dice", "precision", "recall", "iou")


@dataclass
class Outcome:
    """Counts, scores and skipped files of a prediction.

    ============  ====================================================================
    ``graphs``    number of graphs predicted and written
    ``edges``     total number of their edges
    ``skipped``   what was left out, and why
    ``labelled``  number of graphs that came with their true edges
    ``scores``    edge scores of those, the mean over graphs; empty if there are none
    ============  ====================================================================
    """

    graphs: int = 0
    edges: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    labelled: int = 0
    scores: dict[str, float] = field(default_factory=dict)

    def reasons(self) -> str:
        """How often each reason for skipping occurred, the most frequent first."""
        counts = Counter(what.reason for what in self.skipped).most_common()
        shown = [f"{count:>6} × {reason}" for reason, count in counts[:SHOWN]]
        rest = sum(count for _, count in counts[SHOWN:])
        return "\n".join([*shown, f"{rest:>6} × other reasons, given above"] if rest else shown)

    def score(self, pairs: list[tuple[Item, Data]]) -> None:
        """Compare the answers in ``pairs`` with the true edges, where an item has them."""
        true = [(item.graph, answer) for item, answer in pairs if item.labelled]
        if not true:
            return
        from gln.evaluation.edge_lists import edge_scores

        found = edge_scores([graph for graph, _ in true], [answer for _, answer in true])
        self.labelled, self.scores = len(true), {name: found[name] for name in SCORES}

    def add(self, more: Outcome) -> None:
        """Add the outcome of further files."""
        self.graphs += more.graphs
        self.edges += more.edges
        self.skipped += more.skipped
        if more.labelled:
            both = self.labelled + more.labelled
            self.scores = {
                name: (self.labelled * self.scores.get(name, 0.0) + more.labelled * more.scores[name]) / both
                for name in SCORES
            }
            self.labelled = both
