"""Writing files so that nothing is ever half-written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` beside ``path`` and move it there in one step.

    A reader sees the old file or the new one, never a part; two writers end with one whole file; on a full disk
    the old file stays. An ``OSError`` names ``path``, not the file beside it.
    """
    with Staged(path) as staged:
        staged.write(data)
        staged.keep(path)


class Staged:
    """A hidden file beside ``path``, to be moved into place in one step by :meth:`keep`, or removed.

    An ``OSError`` names ``path``, not the hidden file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with naming(path):
            handle, temporary = tempfile.mkstemp(
                dir=path.parent, prefix=f".{path.name[:50]}.", suffix=".part"
            )
        self.file = os.fdopen(handle, "wb")
        self.temporary = Path(temporary)

    def write(self, data: bytes) -> None:
        with naming(self.path):
            self.file.write(data)

    def close(self) -> None:
        """Everything is on the disk after this."""
        with naming(self.path):
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()

    def keep(self, target: Path) -> None:
        if not self.file.closed:
            self.close()
        umask = os.umask(0)
        os.umask(umask)
        with naming(target):
            os.chmod(self.temporary, 0o666 & ~umask)  # mkstemp makes files private; ours are ordinary
            os.replace(self.temporary, target)

    def drop(self) -> None:
        """Remove the file unless it was kept; on a full disk closing it may fail again."""
        with suppress(OSError):
            self.file.close()
        self.temporary.unlink(missing_ok=True)

    def __enter__(self) -> Staged:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An ``OSError`` from within speaks of ``path``."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
