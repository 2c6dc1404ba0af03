"""The tiny model can be loaded by name, here only."""

from __future__ import annotations

import pytest

from gln.models import MODELS
from tests.training.tiny import Tiny


@pytest.fixture(autouse=True)
def _tiny_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "Tiny", Tiny)
