"""What all edge metrics share: which entries count, and the ratios of their counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torchmetrics import Metric

from gln.errors import GLNError
from gln.evaluation.metrics import POOLED, Scores
from gln.evaluation.options import is_number
from gln.graphs.convert import as_graph_pairs
from gln.graphs.record import Graph

Entries = Literal["pairs", "all"]

# Sums are kept as whole multiples of 2⁻³⁰: exact, hence equal for any order and any number of processes,
# and possible on devices without float64.
UNIT = 2**30


def check_entries(entries: str) -> None:
    """Refuse anything but ``"pairs"`` and ``"all"``."""
    if entries not in get_args(Entries):
        raise GLNError(
            f'Got entries={entries!r}; expected "pairs" (i < j) or "all" (n² entries, as in the paper).'
        )


def flatten(
    probabilities: Tensor, adj: Tensor, mask: Tensor, entries: Entries
) -> tuple[Tensor, Tensor, Tensor]:
    """The ``P`` entries of every graph that count.

    Args:
        probabilities: ``[B, N, N]``; with ``"pairs"`` the mean of both directions is used, so that the
            order of the nodes does not matter.
        adj: the truth ``[B, N, N]``, bool or 0 and 1.
        mask: ``[B, N]``, True on real nodes.

    Returns:
        score float, truth bool and valid bool, each ``[B, P]``; truth is False where valid is.
    """
    count, nodes = mask.shape if mask.dim() == 2 else (-1, -1)
    if not probabilities.shape == adj.shape == (count, nodes, nodes):
        raise GLNError(
            f"Got probabilities {list(probabilities.shape)}, adj {list(adj.shape)}, mask {list(mask.shape)}; "
            "expected [B, N, N], [B, N, N] and [B, N]."
        )
    score, mask = probabilities.detach(), mask.bool()
    if not score.is_floating_point() or score.dtype in (torch.float16, torch.bfloat16):
        score = score.float()
    if entries == "all":
        valid = (mask[:, :, None] & mask[:, None, :]).flatten(1)
        return score.flatten(1), adj.bool().flatten(1) & valid, valid
    i, j = torch.triu_indices(nodes, nodes, offset=1, device=mask.device)
    valid = mask[:, i] & mask[:, j]
    return (score[:, i, j] + score[:, j, i]) / 2, adj[:, i, j].bool() & valid, valid


def invalid(score: Tensor, valid: Tensor) -> Tensor:
    """How many entries are not probabilities; only counted, since inspecting them would stall an accelerator."""
    return (~((score >= 0) & (score <= 1)) & valid).sum()


def refuse_invalid(count: Tensor, graphs: Tensor) -> None:
    """Raise if :func:`invalid` counted anything, or if there was no graph at all."""
    if int(count):
        raise GLNError(
            f"{int(count)} probabilities are NaN or outside 0 to 1; apply a sigmoid to logits first."
        )
    if not int(graphs):
        raise GLNError("No graph has been scored yet; call update with at least one.")


def real(values: Tensor) -> Tensor:
    """Convert to the widest floating type of the device (Apple's MPS has no float64)."""
    return values.to(torch.float32 if values.device.type == "mps" else torch.float64)


def to_units(values: Tensor) -> Tensor:
    """Values between 0 and 1 as int64 multiples of 2⁻³⁰."""
    return (real(values) * UNIT).round().long()


def ratios(found: Tensor, predicted: Tensor, true: Tensor, entries: Tensor) -> dict[str, Tensor]:
    """Scores from counts of any shape: true edges found, edges predicted, true edges, entries.

    Where a ratio is 0/0: all scores are 1 if there was nothing to find and nothing was predicted; otherwise
    precision without predictions and recall without true edges are 0.
    """
    nothing = real((predicted + true) == 0)

    def ratio(part: Tensor, whole: Tensor) -> Tensor:
        return torch.where(whole > 0, real(part) / real(whole.clamp(min=1)), nothing)

    return {
        "accuracy": ratio(entries - predicted - true + 2 * found, entries),
        "iou": ratio(found, predicted + true - found),
        "dice": ratio(2 * found, predicted + true),
        "precision": ratio(found, predicted),
        "recall": ratio(found, true),
    }


def average_precision(score: Tensor, truth: Tensor, valid: Tensor) -> Tensor:
    """Σ (Rₖ − Rₖ₋₁) Pₖ over the distinct scores of each row ``[B, P]``: ``[B]``, 0 without true edges."""
    score = score.masked_fill(~valid, -1)  # what does not count comes last
    score, order = score.sort(dim=1, descending=True)
    hit = truth.gather(1, order)
    found = hit.cumsum(1)  # true edges among the first k
    place = torch.arange(score.shape[1], device=score.device).expand_as(score)
    # Equal scores enter together: an edge is judged at the last place of its tie.
    tied = torch.zeros_like(hit)
    tied[:, :-1] = score[:, 1:] == score[:, :-1]
    last = place.masked_fill(tied, score.shape[1]).flip(1).cummin(1).values.flip(1)
    precision = real(found.gather(1, last)) / real(last + 1)
    return (precision * hit).sum(1) / hit.sum(1).clamp(min=1)


PER_GRAPH = ("accuracy", "iou", "dice", "precision", "recall", "average_precision", "exact")


def per_graph(counts: Tensor, precision: Tensor) -> Tensor:
    """The scores :data:`PER_GRAPH` from the ``counts [4, B]`` of :func:`ratios` and AP ``[B]``: ``[7, B]``.

    Without true edges, average precision is 1 if nothing was predicted and 0 otherwise, as the other ratios are.
    """
    found, predicted, true, _ = counts
    scores = ratios(*counts)
    scores["average_precision"] = torch.where(true > 0, precision, scores["recall"])
    scores["exact"] = real((found == predicted) & (found == true))
    return torch.stack([scores[name] for name in PER_GRAPH])


class EdgeScores(Metric):
    """Accuracy, IoU, dice (= F1), precision, recall, average precision and the share of graphs exactly right.

    :meth:`compute` gives the mean over graphs under the plain names and, under ``pooled_*``, the score over
    the entries of all graphs together. Average precision and ``exact`` are means over graphs only: pooled
    average precision would have to keep every score. :func:`gln.evaluation.edges.ratios` says what 0/0 gives.

    All states are integer sums, so reducing them over processes is exact.

    Args:
        threshold: an entry with at least this probability is an edge.
        entries: ``"pairs"`` counts unordered pairs i < j; ``"all"`` the n² entries, diagonal included.
    """

    full_state_update = False
    higher_is_better = True
    is_differentiable = False

    scores: Tensor  # [7] sums over graphs, in units
    counts: Tensor  # [4] found, predicted, true, entries
    graphs: Tensor
    invalid: Tensor

    def __init__(self, threshold: float = 0.5, entries: Entries = "pairs") -> None:
        super().__init__()
        check_entries(entries)
        if not is_number(threshold) or not 0 <= threshold <= 1:
            raise GLNError(f"Got threshold={threshold!r}; expected a probability between 0 and 1.")
        self.threshold, self.entries = float(threshold), entries
        for name, length in (("scores", len(PER_GRAPH)), ("counts", 4), ("graphs", 0), ("invalid", 0)):
            zeros = torch.zeros(length or (), dtype=torch.int64)
            self.add_state(name, zeros, dist_reduce_fx="sum")

    def update(self, probabilities: Tensor, adj: Tensor, mask: Tensor) -> None:
        """Add a batch: ``probabilities [B, N, N]``, ``adj [B, N, N]`` bool, ``mask [B, N]`` bool."""
        score, truth, valid = flatten(probabilities, adj, mask, self.entries)  # [B, P]
        chosen = (score >= self.threshold) & valid
        counts = torch.stack([part.sum(1) for part in (chosen & truth, chosen, truth, valid)])  # [4, B]
        self.scores = self.scores + to_units(per_graph(counts, average_precision(score, truth, valid))).sum(1)
        self.counts = self.counts + counts.sum(1)
        self.graphs = self.graphs + len(score)
        self.invalid = self.invalid + invalid(score, valid)

    def compute(self) -> dict[str, Tensor]:
        """All scores by name, as scalars."""
        refuse_invalid(self.invalid, self.graphs)
        means = real(self.scores) / UNIT / self.graphs
        pooled = {POOLED + name: value for name, value in ratios(*self.counts).items()}
        return dict(zip(PER_GRAPH, means, strict=True)) | pooled


def edge_scores(true: Iterable[Any], predicted: Iterable[Any], entries: Entries = "pairs") -> Scores:
    """The scores of :class:`gln.evaluation.EdgeScores` for graphs of any kind and size, in time O(edges).

    Args:
        true: the true graphs: PyG, networkx, numpy, scipy or torch.
        predicted: one graph per true graph, on the same nodes. If a ``Graph`` has ``edge_prob [2m]``, one
            probability per column of its ``edge_index``, this ranks the edges for average precision (with
            ``"pairs"``, by the mean of both directions); otherwise every edge has probability 1. A pair
            without an edge has probability 0.
        entries: ``"pairs"`` counts unordered pairs i < j; ``"all"`` the n² entries, diagonal included.
    """
    check_entries(entries)
    truths, guesses = as_graph_pairs(true, predicted)
    counts, precisions = [], []
    for index, (truth, guess) in enumerate(zip(truths, guesses, strict=True)):
        nodes = truth.num_nodes
        actual = _keys(truth.edge_index.cpu(), nodes, entries)
        chosen = _keys(guess.edge_index.cpu(), nodes, entries)
        hit = torch.isin(chosen, actual)
        total = nodes**2 if entries == "all" else nodes * (nodes - 1) // 2
        counts.append([int(hit.sum()), len(chosen), len(actual), total])
        score = _scores(guess, f"predicted[{index}]", entries)
        precisions.append(_sparse_average_precision(score, hit, len(actual), total))
    table = torch.tensor(counts).T  # [4, G]
    means = per_graph(table, torch.tensor(precisions, dtype=torch.float64)).mean(1)
    pooled = {POOLED + name: value for name, value in ratios(*table.sum(1)).items()}
    note = "over unordered pairs" if entries == "pairs" else "over all n² entries, diagonal included"
    scores = dict(zip(PER_GRAPH, means, strict=True)) | pooled
    return Scores(scores, notes=[f"{len(truths)} graphs, {note}"])


def _counted(edge_index: Tensor, entries: Entries) -> Tensor:
    """The columns that count: both directions of an edge, or i < j only."""
    source, target = edge_index
    return source < target if entries == "pairs" else source != target


def _keys(edge_index: Tensor, nodes: int, entries: Entries) -> Tensor:
    """One number per entry that holds an edge."""
    source, target = edge_index[:, _counted(edge_index, entries)]
    return source * nodes + target


def _scores(graph: Graph, what: str, entries: Entries) -> Tensor:
    """The probability of every entry that holds an edge, in the order of :func:`_keys`."""
    source, target = edges = graph.edge_index.cpu()
    counted = _counted(edges, entries)
    values = graph.get("edge_prob")
    if values is None:
        return torch.ones(int(counted.sum()))
    values = torch.as_tensor(values, dtype=torch.float64).cpu()
    if values.shape != source.shape:
        raise GLNError(
            f"{what}: edge_prob has shape {list(values.shape)}, expected one value for each of the "
            f"{len(source)} columns of edge_index."
        )
    if not ((values >= 0) & (values <= 1)).all():
        raise GLNError(f"{what}: edge_prob holds NaN or values outside 0 to 1; expected probabilities.")
    if entries == "pairs":
        # The columns are sorted, so sorting them by their reverse lists the reverse of every column in order.
        values = (values + values[(target * graph.num_nodes + source).argsort()]) / 2
    return values[counted]


def _sparse_average_precision(score: Tensor, hit: Tensor, true: int, total: int) -> float:
    """AP ``(Σ precision at each true edge) / true`` where all entries not listed tie at score 0."""
    if not true:
        return 0.0
    listed = score > 0
    hits = int(hit[listed].sum())
    among_listed = average_precision(score[None, listed], hit[None, listed], listed[None, listed])
    # Those at score 0 come last, all together: the precision there is that of taking every entry.
    return (float(among_listed) * hits + (true - hits) * true / total) / true
