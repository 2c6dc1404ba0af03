"""The arithmetic of ``gln play`` in WebAssembly against the same in plain JavaScript, both in node: bytes and seconds."""

from __future__ import annotations

import json
import subprocess
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.play import PAGE, SEED
from gln.viewing.play import playable

PLAIN = Path(__file__).with_name("plain.js")
SCRIPT = """
const fs = require("fs"), [page, given, plain] = process.argv.slice(2);
const { model, sets, repeats } = JSON.parse(fs.readFileSync(given));
const Engine = new Function(fs.readFileSync(page + "/engine.js", "utf8") + "; return Engine;")();
const calls = new Function(fs.readFileSync(plain, "utf8") + "; return plainCalls;")();
const engines = [0, 1].map(() => new Engine(fs.readFileSync(page + "/engine.wasm"), model));
engines[1].memory.memory.grow(8192); // so that views of it stay valid
engines[1].call = calls(engines[1].memory.memory);
console.log(JSON.stringify(sets.map(({ pos, nodes }) => {
  const times = [[], []]; let worst = 0;
  for (let turn = 0; turn < repeats + 2; turn++) {
    const found = engines.map((engine, which) => {
      const begin = performance.now(), { chances } = engine.run(Float32Array.from(pos), nodes);
      if (turn > 1) times[which].push((performance.now() - begin) / 1000);
      return chances.at(-1);
    });
    found[0].forEach((chance, pair) => { worst = Math.max(worst, Math.abs(chance - found[1][pair])); });
  }
  const median = (all) => all.sort((a, b) => a - b)[all.length >> 1];
  return { points: nodes, ours_seconds: median(times[0]), peer_seconds: median(times[1]), largest_difference: worst };
})));
"""


def run(
    model: str = "delaunay-small", sizes: tuple[int, ...] = (50, 200, 1000), repeats: int = 5
) -> dict[str, Any]:
    """Time both in turn, the medians.

    Args:
        model: a shipped model.
        sizes: numbers of points.
        repeats: how many times each is timed, after two runs that are not.
    """
    rng = np.random.default_rng(SEED)
    sets = [
        {"pos": rng.random((nodes, 2)).astype(np.float32).ravel().tolist(), "nodes": nodes} for nodes in sizes
    ]
    with TemporaryDirectory(prefix="gln-") as folder:
        place = Path(folder)
        packed = playable(model).packed(np.array([0.5], dtype=np.float32))
        (place / "script.cjs").write_text(SCRIPT, encoding="utf-8")
        (place / "given.json").write_text(
            json.dumps({"model": packed, "sets": sets, "repeats": repeats}), encoding="utf-8"
        )
        command = [
            "node",
            str(place / "script.cjs"),
            str(PAGE.resolve()),
            str(place / "given.json"),
            str(PLAIN.resolve()),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout.splitlines()[-1])
    for row in rows:
        row["ratio"] = row["peer_seconds"] / row["ours_seconds"]
    bytes_of = {"our": PAGE / "engine.wasm", "peer": PLAIN}
    sizes_of = {f"{name}_bytes": path.stat().st_size for name, path in bytes_of.items()}
    sizes_of |= {
        f"{name}_compressed_bytes": len(zlib.compress(path.read_bytes(), 9))
        for name, path in bytes_of.items()
    }
    settings = {
        "model": model,
        "ours": "engine.wasm in node",
        "peer": "the same in plain JavaScript",
        "seed": SEED,
    }
    return {"settings": settings | {"repeats": repeats} | sizes_of, "rows": rows}
