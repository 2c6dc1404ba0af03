"""``gln view`` of large graphs in a browser: size of the page, first drawing, and frames a second while it turns."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from gln.graphs import make_graph
from gln.graphs.record import Graph
from gln.inference.steps import Seen
from gln.viewing import View, write_page
from tests.viewing.conftest import cpu_seconds, started

STEPS = 5
SPIN = """
const [time, done] = arguments, { view } = page, begin = performance.now(), gaps = [];
let last = begin;
const move = () => {
  const now = performance.now();
  gaps.push(now - last);
  last = now;
  if (now - begin > time) {
    gaps.sort((a, b) => a - b);
    done([1000 / gaps[gaps.length >> 1], gaps.length, Painter.get()?.some ?? view.order.length]);
    return;
  }
  view.turn(4, 1);
  requestAnimationFrame(() => requestAnimationFrame(move));
};
move();
"""


def run(sides: tuple[int, ...] = (100, 258), repeats: int = 3, seed: int = 0) -> dict[str, Any]:
    """Turn tori of ``side × side`` points and three times as many edges, by WebGL in software and by the canvas.

    Args:
        sides: how many points around and across.
        repeats: how many times each turns for two seconds; the medians count.
        seed: of the points and the probabilities.
    """
    rows = []
    for side in sides:
        with TemporaryDirectory(prefix="gln-") as place, started() as driver:
            view = torus(side, np.random.default_rng(seed))
            page = write_page(Path(place) / "page.html", [view])
            driver.set_script_timeout(120)
            driver.get(page.as_uri())
            first = driver.execute_script("page.view.draw(); return performance.now()") / 1000
            for drawn in ("WebGL", "canvas"):
                if drawn == "canvas":
                    driver.execute_script("Painter.one = null")
                begin = cpu_seconds(driver)
                turns = [driver.execute_async_script(SPIN, 2000) for _ in range(repeats)]
                used = (cpu_seconds(driver) - begin) / sum(turn[1] for turn in turns)
                rows.append(
                    {
                        "edges": 3 * side**2,
                        "drawn by": drawn,
                        "frames_per_second": median(turn[0] for turn in turns),
                        "processor_seconds_per_frame": used,
                        "edges_while_turning": round(median(turn[2] for turn in turns)),
                        "page_megabytes": page.stat().st_size / 1e6,
                        "first_drawing_seconds": first,
                    }
                )
    return {"settings": {"seed": seed, "repeats": repeats, "steps": STEPS}, "rows": rows}


def torus(side: int, rng: np.random.Generator) -> View:
    """A triangulated torus with a prediction that is right after the last step."""
    around, across = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    number = around * side + across
    pairs = np.concatenate(
        [
            np.stack([number, np.roll(number, shift, (0, 1))], axis=-1).reshape(-1, 2)
            for shift in ((1, 0), (0, 1), (1, 1))
        ]
    )
    pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    u, v = (2 * np.pi * (at + 0.3 * rng.random(at.shape)) / side for at in (around, across))
    far = 3.2 + 1.4 * np.cos(v)
    pos = np.stack([far * np.cos(u), far * np.sin(u), 1.4 * np.sin(v)], axis=-1).reshape(-1, 3)
    steps = np.linspace(0, 1, STEPS)[:, None]
    chances = (steps * (0.5 + 0.5 * rng.random((STEPS, len(pairs))))).astype(np.float32)
    listed = Graph(len(pos), edge_index=torch.from_numpy(pairs.T))
    return View(
        make_graph(pos=pos, edges=pairs), f"torus of {len(pairs):,} edges", seen=Seen(listed, chances)
    )
