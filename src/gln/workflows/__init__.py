"""What a command does, as functions: train from files, predict files, judge a run.

Readers and writers know no models, and models know no files; this room connects them.
"""

from collections.abc import Callable
from typing import Any

from gln.io.items import Skipped

Say = Callable[[str], None]  # receives guesses, remarks and results in words
Skip = Callable[[Skipped], None]  # receives each file that is left out


def silent(what: Any) -> None:
    """Takes no notice."""
