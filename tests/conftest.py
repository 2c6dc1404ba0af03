"""Small graphs of every shape, for property tests."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

if shutil.which("nvidia-smi") is None:
    os.environ["TRITON_INTERPRET"] = "1"  # GPU kernels are tested without a GPU; read when triton is imported

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import settings
from torch_geometric.data import Data

from gln.graphs import batch, make_graph

# What a shell starts in the background ignores Ctrl-C, and so would the processes to which tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Two test processes on two cores: more threads only get in each other's way.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("gln", deadline=None, max_examples=60)
settings.load_profile("gln")


def run(*words: str) -> int:
    """The command ``gln`` with these words; its exit code."""
    from gln.commands.cli import main

    with patch.object(sys, "argv", ["gln", *words]):
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0)
    return 0


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that the test is in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def first_process() -> Iterator[None]:
    """Lightning keeps for ever which of several processes this is, once a test has pretended to be another."""
    yield
    if ranks := sys.modules.get("lightning_utilities.core.rank_zero"):
        ranks.rank_zero_only.rank = 0


@st.composite
def graphs(
    draw: st.DrawFn,
    pos_width: int | None = 2,
    x_width: int | None = None,
    max_nodes: int = 7,
    kinds: bool = False,
    directed: bool = False,
) -> Data:
    """Any graph of up to ``max_nodes`` nodes: empty, complete, disconnected, a single node; perhaps with all kinds."""
    n = draw(st.integers(1, max_nodes))
    pairs = [(i, j) for i in range(n) for j in range(n if directed else i) if i != j]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    value = st.floats(-1e6, 1e6, width=32).map(lambda number: number if abs(number) > 1e-6 else 0.0)
    rows = {
        name: draw(st.lists(st.lists(value, min_size=width, max_size=width), min_size=n, max_size=n))
        for name, width in (("pos", pos_width), ("x", x_width))
        if width is not None
    }
    types = st.integers(0, 3)
    if kinds:
        rows["edge_type"] = draw(st.lists(types, min_size=len(edges), max_size=len(edges)))
        weight = st.floats(2.0**-20, 2.0**20, width=32)
        rows["edge_weight"] = draw(st.lists(weight, min_size=len(edges), max_size=len(edges)))
        rows["node_type"] = draw(st.lists(types, min_size=n, max_size=n))
    return make_graph(**rows, edges=edges, num_nodes=n, directed=directed)


def assert_same_graph(actual: Data, expected: Data) -> None:
    """Equal to the bit, in every attribute."""
    assert set(actual.keys()) == set(expected.keys())
    assert actual.num_nodes == expected.num_nodes
    for name in set(expected.keys()) - {"num_nodes"}:
        if name == "directed":
            continue
        if name.endswith("_names"):  # a tuple, in a Data a list
            assert list(actual[name]) == list(expected[name]), name
            continue
        assert actual[name].dtype == expected[name].dtype, name
        assert torch.equal(actual[name], expected[name]), name


_filled = batch._filled


def no_matrix(values: torch.Tensor, slot: torch.Tensor, shape: tuple[int, ...], empty: int) -> torch.Tensor:
    """As ``_filled``, without matrices of more than 100 nodes."""
    assert len(shape) < 3 or shape[-1] <= 100, "a matrix of all pairs was asked for"
    return _filled(values, slot, shape, empty)
