"""``gln play`` in a real browser: how large the page is, how soon it draws, and how often while a point is dragged.

With ``--ort-web``, an unpacked onnxruntime-web (its folder ``dist``, with onnxruntime-common beside it), the arithmetic
is also compared with the exported model in that runtime, both in node.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from gln.adapters.onnx import export
from gln.models.candidates import DENSE_NODES, candidate_pairs
from gln.storage.models import load_model
from gln.storage.onnx import lists_of
from gln.viewing.play import pack_model, write_play
from gln.workflows.playable import playable
from tests.viewing.conftest import cpu_seconds, started
from tests.viewing.test_play import DRAG, FOLLOW, SETTLE

SEED = 0
FOLLOWED = (
    20  # moves of a point whose processor time is counted: what else the machine does hardly changes it
)
PAGE = Path(__file__).resolve().parents[1] / "src" / "gln" / "viewing" / "page"
OURS = """
const fs = require("fs"), [page, given] = process.argv.slice(2);
const { model, sets, repeats } = JSON.parse(fs.readFileSync(given));
const Engine = new Function(fs.readFileSync(page + "/engine.js", "utf8") + "; return Engine;")();
const engine = new Engine(fs.readFileSync(page + "/engine.wasm"), model);
console.log(JSON.stringify(sets.map(({ pos, nodes }) => Array.from({ length: repeats + 1 }, () => {
  const begin = performance.now();
  engine.run(Float32Array.from(pos), nodes);
  return (performance.now() - begin) / 1000;
}).slice(1))));
"""
THEIRS = """
import fs from "fs";
const [dist, given] = process.argv.slice(2), { sets, repeats } = JSON.parse(fs.readFileSync(given));
const ort = await import(dist + "/ort.node.min.mjs"), found = [];
ort.env.wasm.numThreads = 1; // as in a page from a file, which shares no memory between threads
for (const { file, inputs } of sets) {
  const session = await ort.InferenceSession.create(file, { executionProviders: ["wasm"] }), feed = {};
  for (const [name, [shape, values]] of Object.entries(inputs))
    feed[name] = name === "pos" ? new ort.Tensor("float32", Float32Array.from(values), shape)
      : name === "mask" ? new ort.Tensor("bool", Uint8Array.from(values), shape)
      : new ort.Tensor("int64", BigInt64Array.from(values.map(BigInt)), shape);
  const times = [];
  for (let turn = 0; turn <= repeats; turn++) {
    const begin = performance.now();
    await session.run(feed);
    times.push((performance.now() - begin) / 1000);
  }
  found.push(times.slice(1));
}
console.log(JSON.stringify(found));
"""


def run(
    model: str = "delaunay-small",
    sizes: tuple[int, ...] = (50, 200, 1000),
    repeats: int = 5,
    ort_web: Path | None = None,
) -> dict[str, Any]:
    """Open the page, drag a point for two seconds at every size, and time single answers; all several times.

    Args:
        model: a shipped model.
        sizes: numbers of points.
        repeats: how many times each is timed; the medians count.
        ort_web: the folder dist of onnxruntime-web.
    """
    rng = np.random.default_rng(SEED)
    points = [rng.random((nodes, 2)).astype(np.float32) for nodes in sizes]
    with TemporaryDirectory(prefix="gln-") as place:
        page = write_play(Path(place) / "play.html", [playable(model)])
        rows, first = _in_browser(page, points, repeats)
        more: dict[str, Any] = {"page_megabytes": page.stat().st_size / 1e6, "first_drawing_seconds": first}
        if ort_web is not None:
            runtime = max(path.stat().st_size for path in ort_web.glob("ort-wasm-simd-threaded.wasm"))
            more |= {"our_wasm_bytes": (PAGE / "engine.wasm").stat().st_size, "peer_wasm_bytes": runtime}
            for row, ours, peer in zip(
                rows, *_in_node(Path(place), model, points, repeats, ort_web), strict=True
            ):
                row |= {"ours_seconds": ours, "peer_seconds": peer, "ratio": peer / ours}
    settings = {
        "model": model,
        "ours": "engine.wasm in node",
        "peer": "onnxruntime-web in node",
        "seed": SEED,
    }
    return {"settings": settings | {"repeats": repeats} | more, "rows": rows}


def _in_browser(page: Path, points: list[np.ndarray], repeats: int) -> tuple[list[dict[str, Any]], float]:
    rows = []
    with started() as driver:
        driver.set_script_timeout(120)
        driver.get(page.as_uri())
        driver.execute_async_script(SETTLE)
        first = driver.execute_script("return page.first") / 1000
        for some in points:
            took = []
            for _ in range(repeats):
                driver.execute_script("page.load(arguments[0], 2)", some.ravel().tolist())
                driver.execute_async_script(SETTLE)
                took.append(driver.execute_script("return page.found.took") / 1000)
            frames = [driver.execute_async_script(DRAG, 2000) for _ in range(repeats)]
            begin = cpu_seconds(driver)
            driver.execute_async_script(FOLLOW, FOLLOWED)
            facts = {"points": len(some), "answer_seconds": median(took)}
            facts |= {"frames_per_second": median(frames), "slowest": min(frames)}
            rows.append(facts | {"processor_seconds_per_frame": (cpu_seconds(driver) - begin) / FOLLOWED})
    return rows, first


def _in_node(
    place: Path, model: str, points: list[np.ndarray], repeats: int, ort_web: Path
) -> tuple[list[float], list[float]]:
    """Seconds of every set, by our arithmetic and by onnxruntime-web."""
    network: Any = load_model(model)
    whole, listed = export(network, place / "model.onnx")
    sets, theirs = [], []
    for some in points:
        pos, nodes = torch.from_numpy(some), len(some)
        sets.append({"pos": some.ravel().tolist(), "nodes": nodes})
        mask, inputs = torch.ones(1, nodes, dtype=torch.bool), {"pos": pos[None]}
        if nodes <= DENSE_NODES:
            inputs["mask"] = mask
        else:
            pairs: Any = candidate_pairs(pos[None], mask, network.candidates, listed=True)
            inputs = lists_of(pairs) | {"pos": pairs.from_batch(pos[None])}
        plain = {name: [list(value.shape), value.flatten().tolist()] for name, value in inputs.items()}
        theirs.append({"file": str(whole if nodes <= DENSE_NODES else listed), "inputs": plain})
    packed = pack_model(playable(model), np.array([0.5], dtype=np.float32))
    found = []
    for script, name, first, given in (
        (OURS, "ours.cjs", PAGE, {"model": packed, "sets": sets, "repeats": repeats}),
        (THEIRS, "theirs.mjs", ort_web.resolve(), {"sets": theirs, "repeats": repeats}),
    ):
        (place / name).write_text(script, encoding="utf-8")
        (place / "given.json").write_text(json.dumps(given), encoding="utf-8")
        command = ["node", str(place / name), str(first), str(place / "given.json")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append([median(times) for times in json.loads(done.stdout.splitlines()[-1])])
    return found[0], found[1]
