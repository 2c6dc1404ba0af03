"""Files: regular ones are read, all are written whole or not at all; outputs that are refused; safetensors."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import IO

from gln.errors import GLNError
from gln.later import torch

FORMATS = ("png", "pdf", "svg")  # of pictures


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read it; refuse pipes, devices and folders, which have no end or do not answer."""
    wait = getattr(os, "O_NONBLOCK", 0)  # so that a pipe without a writer does not keep us waiting
    file = open(str(path), "rb", opener=lambda name, flags: os.open(name, flags | wait))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def read_regular(path: Path, most: int) -> bytes:
    """The bytes of a regular file of at most ``most`` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"{size:,} bytes, more than {most:,}", str(path))
        return file.read(size)


def apart_from(paths: Sequence[Path], others: Sequence[Path | None]) -> list[Path]:
    """The ``paths`` that lead to none of the ``others``; unlike ``resolve``, for links that lead in circles too."""
    places = {os.path.realpath(other) for other in others if other is not None}
    return [path for path in paths if os.path.realpath(path) not in places]


def refuse_existing(path: Path, force: bool) -> None:
    """Refuse to replace a file unless ``force``."""
    if path.exists() and not force:
        raise GLNError(
            f"{path} already exists; choose another name, or replace it with --force (force=True)."
        )


def check_page(path: Path | str) -> Path:
    """Refuse a path that is not a page, or where none can be written."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise GLNError(f"Got {path.name!r}; pages are written as .html.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise GLNError(f"{path} cannot be written; choose a file name in a folder you can write to.")
    return path


def check_picture(path: Path | str) -> Path:
    """Refuse a path that is not a picture."""
    path = Path(path)
    if path.suffix.lstrip(".").lower() not in FORMATS:
        raise GLNError(f"Got {path.name!r}; pictures are written as .png, .pdf or .svg.")
    return path


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
        with suppress(OSError):  # not every disk can
            _lock(self.file)

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


def remove_unfinished(folder: Path, start: str = "") -> None:
    """Remove the hidden files that a killed process left of files whose names begin so, unless one is in use."""
    with suppress(OSError), ExitStack() as opened:
        begun = [name for name in os.listdir(folder) if name.startswith(f".{start[:50]}")]
        names = [name for name in begun if name.endswith(".part")]
        for name in names:
            _lock(opened.enter_context(open_regular(folder / name)))
        for name in names:
            os.unlink(folder / name)


def _lock(file: IO[bytes]) -> None:
    """Mark an open file as in use until it is closed; raises an ``OSError`` if it is already."""
    try:
        import fcntl
    except ImportError:  # Windows does not let anybody remove an open file
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def hold(path: Path, taken: str) -> Iterator[None]:
    """Keep the file ``path`` marked as in use; raise an error with the words ``taken`` if another process does."""
    with path.open("wb") as file:
        try:
            _lock(file)
        except BlockingIOError:
            raise GLNError(taken) from None
        except OSError:  # not every disk can
            pass
        yield


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Make any ``OSError`` raised inside name ``path``."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def read_safetensors(source: Path | bytes) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors and the header's words of a safetensors file, or the tensors of its bytes; this runs no code.

    The tensors have their own memory. Raises an ``OSError`` for a file that cannot be read, and a ``ValueError`` for
    one that is truncated or of another kind.
    """
    import safetensors.torch

    try:
        if isinstance(source, bytes):
            return safetensors.torch.load(source), {}
        open_regular(source).close()
        with safetensors.safe_open(source, framework="pt") as file:
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a dict)
            return tensors, file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise ValueError(str(error)) from None


def digest_of(tensors: Mapping[str, torch.Tensor]) -> str:
    """A hash of names and bytes: safetensors itself does not notice a flipped bit."""
    state = hashlib.sha256()
    for name in sorted(tensors):
        state.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        # Bytes, as NumPy has no bfloat16.
        state.update(tensors[name].detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return state.hexdigest()


def check_format(found: object, ours: str, path: Path, expected: str) -> None:
    """Refuse a file whose format is ``found`` unless it is ``ours``, such as ``gln model 1``, or an older version."""
    kind, _, newest = ours.rpartition(" ")
    name, _, version = str(found).rpartition(" ")
    if name != kind or not version.isdecimal():
        raise GLNError(f"{path} is not a {ours!r}; expected {expected}.")
    if int(version) > int(newest):
        raise GLNError(f"{path} is a {found!r}, newer than this gln, which reads {ours!r}; update gln.")
