"""Atomic writing: no file is ever left half-written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to a temporary file beside ``path``, then move it there in one step.

    A reader sees the old file or the new one, never a part; two writers leave one whole file; on a full disk the
    old file stays. An ``OSError`` names ``path``, not the temporary file.
    """
    with Staged(path) as staged:
        staged.write(data)
        staged.keep(path)


class Staged:
    """A hidden temporary file beside ``path``; :meth:`keep` moves it into place in one step, otherwise it is removed.

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
        """Flush everything to disk and close the file."""
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
            os.chmod(self.temporary, 0o666 & ~umask)  # mkstemp makes files private; ours are not
            os.replace(self.temporary, target)

    def drop(self) -> None:
        """Remove the file unless it was kept. On a full disk closing it may fail again."""
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
    """Make any ``OSError`` raised inside name ``path``."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
