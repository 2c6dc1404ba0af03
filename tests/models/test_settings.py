"""The settings of a model that is not loaded are those that its class has."""

from __future__ import annotations

from inspect import signature

import pytest

from gln.errors import GLNError
from gln.models import _HOME, MODELS
from gln.models.settings import Models


@pytest.mark.parametrize("name", _HOME)
def test_the_source_says_what_the_class_says(name: str) -> None:
    unloaded, model = Models(_HOME), MODELS[name]
    given = {key: value.default for key, value in signature(model).parameters.items()}
    assert unloaded.settings(name) == MODELS.settings(name) == given
    assert unloaded.summary(name) == MODELS.summary(name) == (model.__doc__ or "").split("\n")[0]
    assert unloaded[name] is model


def test_a_class_of_ones_own_can_be_added_and_removed() -> None:
    class Mine(MODELS["GLN"]):  # type: ignore[misc, name-defined]
        """Mine."""

        def __init__(self, depth: int = 3) -> None: ...

    models = Models(_HOME)
    models["Mine"] = Mine
    assert models.find("mine:depth=4") == ("Mine", {"depth": 4})
    assert models.summary("Mine") == "Mine."
    with pytest.raises(GLNError, match="Mine has no setting 'width'; choose from depth"):
        models.find("Mine:width=4")
    del models["Mine"]
    assert list(models) == list(_HOME)
    with pytest.raises(GLNError, match="no model 'Mine'; choose from GLN, GraphFlow, PaperGLN, Set2Graph"):
        models.find("Mine")
