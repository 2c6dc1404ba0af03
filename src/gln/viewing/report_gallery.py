"""The gallery of a report: the best, median and worst test graphs, small enough for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from gln.evaluation import edge_scores
from gln.viewing.pages import embed, pack
from gln.viewing.views import View, of_answer, watch
from gln.workflows.judge import Judged

EACH = 2  # test graphs shown of the best, the median and the worst
LARGEST = 5_000  # the most nodes of a graph that is shown
WATCHED = 1_000  # up to this many nodes in all graphs shown, every step is computed
GALLERY = 1_200_000  # the most characters of the packed graphs


def best_to_worst(scores: Sequence[float], each: int = EACH) -> list[tuple[str, int]]:
    """Some of the best, median and worst: a word and the place in ``scores`` of each; ties in order."""
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    if len(order) < 3:
        return list(zip(("best", "worst"), order, strict=False))
    each = min(each, len(order) // 3)
    middle = (len(order) - each) // 2
    groups = {"best": order[:each], "median": order[middle : middle + each], "worst": order[-each:]}
    return [(word, place) for word, places in groups.items() for place in places]


def pack_gallery(judged: Judged, method: Any) -> dict[str, Any]:
    """The graphs to show, packed, with a word on what each of them is."""
    small = [i for i, graph in enumerate(judged.true) if graph.num_nodes <= LARGEST]
    if not small:
        return {
            "words": [],
            "note": f"The test graphs have more than {LARGEST:,} nodes each, too many for this page.",
        }
    note = "" if len(small) == len(judged.true) else f"Among the test graphs of up to {LARGEST:,} nodes."
    if judged.paired:
        dice = [edge_scores([judged.true[i]], [judged.made[i]])["dice"] for i in small]
        chosen = [(word, small[place]) for word, place in best_to_worst(dice)]
        words = [word for word, _ in chosen]
        views, left_out = _watched(judged, method, [number for _, number in chosen])
        note = f"{note} {left_out}".strip()
    else:
        drawn = [i for i, graph in enumerate(judged.made) if graph.num_nodes <= LARGEST][:3]
        views = [View(judged.true[i], f"test graph {i}") for i in small[:3]]
        views += [View(judged.made[i], f"sample {i}") for i in drawn]
        words = ["true"] * len(small[:3]) + ["sampled"] * len(drawn)
    return pack_fitting(words, views, note)


def _watched(judged: Judged, method: Any, numbers: list[int]) -> tuple[list[View], str]:
    """Test graphs with their predictions after every step, or only after the last if that would take long."""
    views = [View(judged.true[number], f"test graph {number}") for number in numbers]
    if not isinstance(method, nn.Module):  # all that it predicts are edges
        answers = [of_answer(judged.made[number], 0.5) for number in numbers]
        seen = [replace(answer, chances=np.ones_like(answer.chances)) for answer in answers]
    elif sum(view.graph.num_nodes for view in views) <= WATCHED:
        return [_decided(view) for view in watch(method, views)], ""
    else:
        cut = float(getattr(method, "threshold", 0.5))
        seen = [of_answer(judged.made[number], cut, floor=cut) for number in numbers]
    note = "After the last step; gln view shows the others." if isinstance(method, nn.Module) else ""
    return [replace(view, seen=what) for view, what in zip(views, seen, strict=True)], note


def _decided(view: View) -> View:
    """Only the pairs that are an edge after some step: a report has no slider for the threshold."""
    seen = view.seen
    assert seen is not None
    stays = (seen.chances >= np.float32(seen.threshold)).any(axis=0)
    pruned = replace(seen, pairs=seen.pairs[stays], chances=seen.chances[:, stays], floor=seen.threshold)
    return replace(view, seen=pruned)


def _last_step(view: View) -> View:
    if view.seen is None:
        return view
    return _decided(replace(view, seen=replace(view.seen, chances=view.seen.chances[-1:])))


def pack_fitting(words: list[str], views: list[View], note: str) -> dict[str, Any]:
    """The gallery; if it is too large, without all steps but the last, then with only some graphs, each kind first."""
    packed = pack(views, "")
    if len(embed(packed)) > GALLERY:
        packed = pack([_last_step(view) for view in views], "")
        note = f"{note} The steps before the last have too many edges for this page.".strip()
    sizes = [len(embed(view)) for view in packed["views"]]
    kept: list[int] = []
    turns = [words[:number].count(word) for number, word in enumerate(words)]
    for number in sorted(range(len(views)), key=lambda number: (turns[number], sizes[number])):
        if sum(sizes[i] for i in kept) + sizes[number] <= GALLERY:
            kept.append(number)
    if len(kept) < len(views):
        note = f"{note} {len(views) - len(kept)} more graphs have too many edges for this page.".strip()
    kept.sort()
    packed["views"] = [packed["views"][i] for i in kept]
    return packed | {"words": [words[i] for i in kept], "note": note}
