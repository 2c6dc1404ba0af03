import sys

import pytest

from benchmarks.orbits import run
from gln.errors import GLNError


def test_a_small_run_reports_both() -> None:
    result = run(graphs=3, nodes=16)
    assert result["name"] == "orbits"
    assert result["ratio"] == pytest.approx(result["peer_seconds"] / result["ours_seconds"])
    assert result["settings"]["graphs"] == 3


def test_the_peers_own_lines_do_not_reach_the_screen(capfd) -> None:
    run(graphs=2, nodes=16)
    assert capfd.readouterr().out == ""


def test_without_the_peer_it_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyfglt.fglt", None)
    with pytest.raises(GLNError, match=r"pip install 'gln\[bench\]'"):
        run(graphs=1, nodes=16)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(GLNError, match="graphs=0"):
        run(graphs=0)
