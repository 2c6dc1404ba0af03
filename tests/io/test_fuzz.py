"""Whatever the bytes, a reader gives graphs or a sentence, soon and in little memory."""

from __future__ import annotations

import time
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from gln.graphs import check_graph
from gln.io import READABLE
from tests.io.samples import GOOD, PLY, STL_TEXT, little_memory, put, read_all

SECONDS, BYTES = 5.0, 2**26  # for files of some hundred bytes
fuzzed = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])

BINARY_PLY = (
    PLY.split(b"end_header\n")[0].replace(b"ascii", b"binary_little_endian")
    + b"end_header\n"
    + bytes(48)
    + b"\x03\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"
)
STARTS = [*GOOD.items(), (".ply", BINARY_PLY), (".stl", STL_TEXT)]


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, bytes]:
    """A good file in which a few stretches were replaced, dropped or doubled."""
    suffix, data = draw(st.sampled_from(STARTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from([0, 1, 1, 2, 4, 20])))
        insert = draw(
            st.one_of(
                st.binary(max_size=4),
                st.sampled_from(
                    [b"-1", b"nan", b"1e999", b"4294967295", b"9" * 30, b"\n", b",", b'"', b"<", b"[" * 5000]
                ),
                st.just(data[start:end] * 2),
            )
        )
        data = data[:start] + insert + data[end:]
    return suffix, data


def behaves(folder: Path, suffix: str, data: bytes) -> None:
    path = put(folder, f"fuzz{suffix}", data)
    start = time.monotonic()
    with little_memory(BYTES):
        items, bad = read_all(path)  # anything but GLNError would come out here
    assert time.monotonic() - start < SECONDS
    assert items or bad
    for item in items:
        check_graph(item.graph)
    for skipped in bad:
        assert skipped.path == path
        assert "\n" not in str(skipped)


@pytest.mark.parametrize("suffix", READABLE)
@fuzzed
@given(data=st.binary(max_size=300))
@example(data=bytes(34))  # as long as a binary STL file of −1 triangles would be
def test_random_bytes(suffix: str, data: bytes, tmp_path: Path) -> None:
    behaves(tmp_path, suffix, data)


@settings(fuzzed, max_examples=400)
@given(mutated=mutations())
def test_mutations_of_good_files(mutated: tuple[str, bytes], tmp_path: Path) -> None:
    behaves(tmp_path, *mutated)


@fuzzed
@given(
    data=st.text(alphabet='abxy,;\t"\n\r 019.-eé\x00', max_size=80),
    edges=st.text(alphabet="source,target\n012ab", max_size=60),
)
@example(data='""', edges="")  # a line, yet no row
def test_random_tables_with_random_edges(data: str, edges: str, tmp_path: Path) -> None:
    put(tmp_path, "fuzz.edges.csv", edges)
    behaves(tmp_path, ".csv", data.encode())
