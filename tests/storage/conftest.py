"""The tiny model can be loaded by name, here too."""

from tests.training.conftest import _tiny_is_known

__all__ = ["_tiny_is_known"]
