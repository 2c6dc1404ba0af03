"""Libraries that take long to import, each imported when a name of it is first used.

A mistake must be answered at once, and ``gln list`` too: what checks a setting stands beside what computes with torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import safetensors.torch as safetensors
    import scipy.sparse as sparse
    import scipy.sparse.csgraph as csgraph
    import scipy.spatial as spatial
    import torch as torch
else:

    class _Later:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(sys.modules.get(self._name) or import_module(self._name), name)

    safetensors, torch = _Later("safetensors.torch"), _Later("torch")
    sparse, spatial = _Later("scipy.sparse"), _Later("scipy.spatial")
    csgraph = _Later("scipy.sparse.csgraph")


def names_of(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose ``names``, by their modules, are loaded on first use."""
    homes = {name: module for module, some in names.items() for name in some}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find
