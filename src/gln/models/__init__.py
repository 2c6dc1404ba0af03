"""The models, by name; each is loaded on first use. What a model is, :mod:`gln.models.contract` says.

``MODELS`` maps the name stored with a saved model to its class; add your own class to it to load your own models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gln.later import names_of
from gln.models.settings import Models

if TYPE_CHECKING:
    from gln.models.contract import StructureOutput, build_model
    from gln.models.flow import GraphFlow
    from gln.models.gln import GLN
    from gln.models.paper import PaperGLN
    from gln.models.set2graph import Set2Graph

__all__ = ["GLN", "MODELS", "GraphFlow", "PaperGLN", "Set2Graph", "StructureOutput", "build_model"]

_HOME = {
    "GLN": "gln.models.gln",
    "GraphFlow": "gln.models.flow",
    "PaperGLN": "gln.models.paper",
    "Set2Graph": "gln.models.set2graph",
}

MODELS = Models(_HOME)
_CONTRACT = {"gln.models.contract": ["StructureOutput", "build_model"]}
__getattr__ = names_of(__name__, _CONTRACT | {home: [name] for name, home in _HOME.items()})
