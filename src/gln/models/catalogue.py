"""The models by name, with their settings: read from the source where a class is not loaded, as that takes torch."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gln.errors import GLNError, instead
from gln.models.settings import CHECKS
from gln.registry import parse_spec

if TYPE_CHECKING:
    from torch import nn


class Models(MutableMapping[str, "type[nn.Module]"]):
    """Names and classes; a class is imported when it is asked for. ``homes``: the module of each of ours."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = dict(homes)
        self._classes: dict[str, type[nn.Module]] = {}

    def __getitem__(self, name: str) -> type[nn.Module]:
        if name not in self._classes:
            self._classes[name] = getattr(import_module(self._homes[name]), name)
        return self._classes[name]

    def __setitem__(self, name: str, model: type[nn.Module]) -> None:
        self._homes[name], self._classes[name] = model.__module__, model

    def __delitem__(self, name: str) -> None:
        del self._homes[name]
        self._classes.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def __contains__(self, name: object) -> bool:  # the inherited one would load the class
        return name in self._homes

    def summary(self, name: str) -> str:
        """The first line of its docstring."""
        loaded = self._classes.get(name)
        text = ast.get_docstring(self._source(name)) if loaded is None else loaded.__doc__
        return (text or "").strip().split("\n")[0]

    def settings(self, name: str) -> dict[str, Any]:
        """Every setting and its default; ``inspect.Parameter.empty`` without one."""
        if name in self._classes:
            given = inspect.signature(self._classes[name]).parameters
            return {setting: parameter.default for setting, parameter in given.items()}
        body = self._source(name).body
        init = next(part for part in body if isinstance(part, ast.FunctionDef) and part.name == "__init__")
        names = [argument.arg for argument in init.args.args[1:]]
        without = len(names) - len(init.args.defaults)
        defaults = [inspect.Parameter.empty] * without + [*map(ast.literal_eval, init.args.defaults)]
        return dict(zip(names, defaults, strict=True))

    def _source(self, name: str) -> ast.ClassDef:
        spec = find_spec(self._homes[name])
        assert spec is not None
        text = spec.loader.get_source(spec.name)  # type: ignore[union-attr]
        return next(part for part in ast.parse(text).body if getattr(part, "name", None) == name)

    def find(self, text: str, others: Iterable[str] = ()) -> tuple[str, dict[str, Any]]:
        """The name of a model, whatever its case, and its settings, from ``GLN:width=64``; refuse what is unknown.

        ``others`` are further names that would do.
        """
        asked, settings = parse_spec(text)
        name = next((name for name in self if name.lower() == asked.lower()), None)
        if name is None:
            raise GLNError(f"There is no model {asked!r}; {instead(asked, [*sorted(self), *others])}")
        known = self.settings(name)
        for setting in settings:
            if setting not in known:
                raise GLNError(f"{name} has no setting {setting!r}; {instead(setting, known)}")
        if name in CHECKS and self._homes[name].startswith("gln.models."):
            # What its graphs determine is not known yet.
            CHECKS[name](known | {key: 1 for key in ("nodes", "in_channels") if key in known} | settings)
        return name, settings
