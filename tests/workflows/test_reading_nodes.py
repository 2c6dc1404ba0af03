"""A model says what it cannot read before it is asked to."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

from gln.graphs.record import Graph
from gln.models import GLN, PaperGLN
from gln.models.settings import misfit, unread
from gln.workflows.methods import coinciding


def nodes(count: int = 4, pos: int = 0, x: int = 0) -> Graph:
    rows = {name: torch.zeros(count, width) for name, width in (("pos", pos), ("x", x)) if width}
    return Graph(count, **rows)


SMALL = {"width": 8, "pair_width": 8, "steps": 1}


@pytest.mark.parametrize(
    ("model", "graph", "words"),
    [
        (GLN(0, 2, **SMALL), nodes(pos=2), None),
        (GLN(0, 2, **SMALL), nodes(pos=2, x=5), None),
        (GLN(0, 2, **SMALL), nodes(pos=3), "3 positions"),
        (GLN(0, 2, **SMALL), nodes(x=2), "no positions"),
        (GLN(3, 2, **SMALL), nodes(pos=2), "no features"),
        (GLN(3, 2, **SMALL), nodes(pos=2, x=1), "1 features"),
        (GLN(3, 0, **SMALL), nodes(x=3), None),
        (PaperGLN(4, 3), nodes(pos=2, x=1), None),
        (PaperGLN(4, 3), nodes(pos=2), "2 values per node"),
        (PaperGLN(4, 3), nodes(9, pos=3), "exactly 4"),
        (nn.Linear(1, 1), nodes(pos=1), None),
    ],
)
def test_a_misfit_is_told_and_only_that(model: nn.Module, graph: Graph, words: str | None) -> None:
    told = misfit(model, graph)
    assert (told is None) if words is None else (words in str(told))


def test_what_is_never_looked_at_is_told() -> None:
    assert unread(GLN(0, 2, **SMALL), nodes(pos=2, x=5)) == ["x"]
    assert unread(GLN(5, 2, **SMALL), nodes(pos=2, x=5)) == []
    assert unread(PaperGLN(4, 3), nodes(pos=2, x=1)) == []


def test_nodes_coincide_where_all_that_the_model_reads_of_them_is_equal() -> None:
    pos = torch.randint(0, 4, (30, 2), generator=torch.Generator().manual_seed(0)) - 2.0
    pos[::2] *= -1  # some zeros become -0.0
    x = torch.arange(30.0)[:, None] % 2
    only_pos, both, only_x = (GLN(*inputs, **SMALL) for inputs in ((0, 2), (1, 2), (1, 0)))
    graph = Graph(pos=pos, x=x, num_nodes=30)

    def slow(rows: torch.Tensor) -> int:
        return sum(count for count in Counter(map(tuple, rows.tolist())).values() if count > 1)

    assert coinciding(only_pos, graph) == slow(pos)
    assert coinciding(both, graph) == slow(torch.cat([pos, x], dim=1)) < slow(pos)
    assert coinciding(only_x, graph) == coinciding(both, Graph(x=x, num_nodes=30)) == 0
    assert coinciding(both, Graph(pos=pos, x=torch.arange(30.0)[:, None], num_nodes=30)) == 0
