"""Compile the arithmetic of ``gln play`` to WebAssembly: ``pip install ziglang``, then run this file.

The hash of the source is kept in the file as a section of its own, so that a test notices a source that was changed but
not compiled.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "src" / "gln" / "viewing" / "page"
COMMAND = "cc --target=wasm32-freestanding -O3 -msimd128 -nostdlib -Wl,--no-entry -Wl,--import-memory -Wl,--strip-all"
NAME = b"source"


def digest() -> str:
    """Of the source."""
    return hashlib.sha256((PAGE / "engine.c").read_bytes()).hexdigest()


def main() -> None:
    """Write ``engine.wasm`` beside ``engine.c``."""
    target = PAGE / "engine.wasm"
    stack = "-Wl,-z,stack-size=16384"
    subprocess.run(
        [sys.executable, "-m", "ziglang", *COMMAND.split(), stack, str(PAGE / "engine.c"), "-o", str(target)],
        check=True,
    )
    content = bytes([len(NAME)]) + NAME + bytes.fromhex(digest())
    target.write_bytes(target.read_bytes() + bytes([0, len(content)]) + content)  # a custom section
    target.chmod(0o644)
    print(f"Wrote {target.name}: {target.stat().st_size:,} bytes.")


if __name__ == "__main__":
    main()
