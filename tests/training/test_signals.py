"""Ctrl-C is obeyed after the step in work, and at once when it is meant."""

from __future__ import annotations

import pytest

from gln.training.processes import StopSignal


def test_one_signal_sent_twice_is_one_and_a_later_one_stops_at_once() -> None:
    signal = StopSignal()
    signal._hear(2, None)
    signal._hear(2, None)
    assert signal.asked
    signal.since -= 2  # two seconds later
    with pytest.raises(KeyboardInterrupt):
        signal._hear(2, None)
