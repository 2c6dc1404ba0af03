"""Draw the pictures of the documentation: python recipes/pictures.py"""

from __future__ import annotations

import io
import json
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from PIL import Image, ImageColor
from torch_geometric.data import Data

import gln
from gln.files import write_atomically
from gln.graphs.record import Graph
from gln.models.candidates import candidate_pairs
from gln.models.chain import Sampling
from gln.models.pairs import ListedPairs
from gln.viewing.pictures import draw_errors, draw_graph, places
from gln.viewing.style import EDGE, EXTRA, GROUPS, INK, MISSING, RIGHT, WRONG, legend_entry

IMAGES, RESULTS = Path("docs/images"), Path("results")
PALE, MIDDLE = "#d5e3ee", "#8fb4d1"
SEED, POINTS_SEED = 2, 8


def main() -> None:
    """Draw all; the SVG figures of docs/how-it-works.md are the same byte for byte when nothing has changed."""
    front()
    settings = {"svg.hashsalt": "gln", "font.size": 9, "text.color": INK, "axes.labelcolor": INK}
    with matplotlib.rc_context(settings):
        for draw in (steps, one_step, pairs, recall, forming, trade):
            draw()


def front() -> None:
    """Draw the pictures of the front page: surfaces, and triangulations predicted from points."""
    surfaces = gln.family("surfaces", points=400)
    graphs = surfaces.sample(6, seed=0)
    captions = [surfaces.caption(graph) for graph in graphs]
    shrink(gln.save_gallery(graphs, IMAGES / "surfaces.png", captions=captions))
    truths = [gln.family("delaunay", points=n).sample(1, seed=11)[0] for n in (50, 200, 1000)]
    predicted = gln.predict(gln.load("delaunay"), truths)
    shrink(gln.save_gallery(predicted, IMAGES / "delaunay.png", truths=truths))


def shrink(path: Path) -> None:
    """Reduce a picture to a palette, a quarter of its size; colours with a meaning are kept exactly."""
    buffer = io.BytesIO()
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    most = picture.quantize(64).getpalette() or []
    kept = [part for colour in (EDGE, MISSING, EXTRA, INK) for part in ImageColor.getrgb(colour)]
    palette = Image.new("P", (1, 1))
    palette.putpalette([255 if part > 248 else part for part in most[: 3 * 64]] + kept)  # white is white
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(buffer, "png", optimize=True)
    write_atomically(path, buffer.getvalue())


def steps() -> None:
    """A⁰ … A^L of the shipped surfaces model on one set of points."""
    model = gln.load("surfaces")
    truth = gln.family("surfaces", points=49, kind="saddle").sample(1, seed=SEED)[0]
    shown = min(model.steps, 5)  # later ones look alike
    rows = -(-(shown + 1) // 3)
    figure = Figure(figsize=(7.6, 2.7 * rows), layout="constrained")
    for number in range(shown + 1):
        ax = figure.add_subplot(rows, 3, number + 1)
        points = Data(pos=truth.pos, edge_index=truth.edge_index[:, :0], num_nodes=truth.num_nodes)
        graph = gln.predict(model, truth, steps=number) if number else points
        draw_graph(graph, ax)
        said = "no edges yet"
        if number:
            said = "{} missing, {} extra".format(*draw_errors(graph, truth, ax))
        ax.set_title(f"$A^{number}$: {said}", fontsize=9, color=INK, y=-0.09)
    names = [RIGHT, *WRONG]
    lines = [legend_entry(kind, image=False, thick=1.0) for kind in names]
    figure.legend(lines, names, loc="outside lower center", ncols=3, frameon=False, labelcolor=INK)
    save(figure, "how-steps.svg")


NODES = {"i": (0.0, 0.35), "j": (1.0, 0.35), "m": (0.5, 1.0), "a": (-0.55, 0.85), "b": (-0.45, -0.25)}


def one_step() -> None:
    """What is read in one step: by a node, its neighbours; by a pair, its ends and the pairs of third nodes."""
    figure = Figure(figsize=(7.6, 2.5), layout="constrained")
    faint = [("i", "a"), ("i", "b"), ("i", "m"), ("i", "j"), ("j", "m")]
    panels = [
        (
            "1. Node $i$ reads its neighbours,\nweighted by the structure $A$",
            [("a", "i"), ("b", "i"), ("m", "i"), ("j", "i")],
        ),
        ("2. Pair $ij$ reads its ends\nand its entry $a_{ij}$", [("i", "ij"), ("j", "ij")]),
        (
            "3. Pair $ij$ reads pairs $im$ and $jm$\nfor every third node $m$",
            [("im", "ij"), ("jm", "ij")],
        ),
    ]
    for number, (title, arrows) in enumerate(panels):
        ax = figure.add_subplot(1, 3, number + 1)
        places = {name: np.array(place) for name, place in NODES.items()}
        for one, other in faint:
            places[one + other] = (places[one] + places[other]) / 2
            ax.plot(*zip(places[one], places[other], strict=True), color=PALE, linewidth=2.2, zorder=1)
        for start, end in arrows:
            way = places[end] - places[start]
            gaps = [0.08 if len(name) == 2 else 0.16 for name in (start, end)]  # pairs are drawn smaller
            ahead, short = (gap * way / np.linalg.norm(way) for gap in gaps)
            style = {"arrowstyle": "-|>", "color": EDGE, "linewidth": 1.6, "mutation_scale": 11}
            style["connectionstyle"] = "arc3,rad=0.18" if len(start) == 2 else "arc3,rad=0"
            ax.annotate("", places[end] - short, places[start] + ahead, arrowprops=style, zorder=3)
        for name, place in NODES.items():
            main_ = name in "ijm"
            ax.scatter(*place, s=190 if main_ else 60, c="white" if main_ else PALE, edgecolors=INK, zorder=4)
            ax.text(*place, f"${name}$" if main_ else "", ha="center", va="center", fontsize=10, zorder=5)
        for pair in sorted({point for arrow in arrows for point in arrow if len(point) == 2}):
            ax.scatter(*places[pair], s=45, marker="s", c=GROUPS[1], edgecolors=INK, linewidths=0.7, zorder=4)
        ax.set(xlim=(-0.8, 1.25), ylim=(-0.45, 1.2))
        ax.set_aspect("equal")
        ax.set_axis_off()
        ax.set_title(title, fontsize=9, color=INK)
    save(figure, "how-one-step.svg")


def pairs() -> None:
    """The same candidates as a drawing, as a matrix (dense) and as a table (sparse)."""
    pos = gln.family("delaunay", points=10).sample(1, seed=POINTS_SEED)[0].pos
    pos = pos[pos[:, 0].argsort()]
    mask = torch.ones(1, len(pos), dtype=torch.bool)
    sparse = candidate_pairs(pos[None], mask, 3, listed=True)
    dense = candidate_pairs(pos[None], mask, 3, listed=False).mask[0]
    assert isinstance(sparse, ListedPairs)
    index, held = sparse.candidates[0], sparse.mask[0]
    figure = Figure(figsize=(7.6, 2.9), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.05, 1, 0.75])
    ends = dense.triu(1).nonzero().numpy()
    left.add_collection(LineCollection(pos.numpy()[ends], colors=MIDDLE, linewidths=1.3))
    left.scatter(*pos.T, s=150, c="white", edgecolors=INK, zorder=2)
    for number, place in enumerate(pos.tolist()):
        left.text(*place, str(number), ha="center", va="center", fontsize=8, zorder=3)
    left.set_aspect("equal")
    left.margins(0.1)
    left.set_title("candidates: each node paired\nwith its K = 3 nearest", fontsize=9)
    _cells(middle, dense, [""] * dense.numel())
    middle.set_title("dense: N × N entries,\nmasked to the candidates", fontsize=9)
    words = [str(int(node)) * bool(here) for node, here in zip(index.flatten(), held.flatten(), strict=True)]
    _cells(right, held, words)
    right.set_title(f"sparse: partners of each node,\nN × S, here S = {held.shape[1]}", fontsize=9)
    left.set_axis_off()
    save(figure, "how-pairs.svg")


def _cells(ax: Axes, held: torch.Tensor, words: list[str]) -> None:
    rows, columns = held.shape
    ax.imshow(held, cmap=ListedColormap(["white", MIDDLE]), vmin=0, vmax=1)
    for number, word in enumerate(words):
        ax.text(number % columns, number // columns, word, ha="center", va="center", fontsize=7.5)
    ax.set_xticks(np.arange(columns + 1) - 0.5, [""] * (columns + 1))
    ax.set_yticks(range(rows), [str(row) for row in range(rows)], fontsize=7.5)
    ax.hlines(np.arange(rows + 1) - 0.5, -0.5, columns - 0.5, colors=PALE, linewidths=0.8)
    ax.vlines(np.arange(columns + 1) - 0.5, -0.5, rows - 0.5, colors=PALE, linewidths=0.8)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def recall() -> None:
    """Measured candidate recall against K."""
    table = json.loads((RESULTS / "candidate-recall.json").read_text())["recall"]
    names = {
        "figures": "figures, 20×20",
        "community:communities=4": "community, 80 nodes",
        "delaunay:points=1000": "delaunay, 1 000 points",
        "surfaces": "surfaces, 100 points",
        "surfaces:points=400": "surfaces, 400 points",
    }
    figure = Figure(figsize=(5.6, 3.1), layout="constrained")
    ax = figure.add_subplot()
    for (spec, name), colour, marker in zip(names.items(), GROUPS, "osD^v", strict=False):
        counts, shares = zip(*table[spec].items(), strict=True)
        look = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.4}
        ax.plot([int(count) for count in counts], shares, label=name, **look)
    ax.set_xscale("log", base=2)
    ax.set_xticks([8, 16, 32, 64], ["8", "16", "32", "64"])
    ax.minorticks_off()
    ax.set(xlabel="K (nearest nodes paired with each node)", ylabel="candidate recall")
    ax.grid(color=PALE, linewidth=0.7)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    save(figure, "how-recall.svg")


def forming() -> None:
    """A planar graph on its way from noise, drawn where its nodes end up."""
    flow = gln.load("planar")
    how = Sampling(steps=100)
    (graph,) = flow.sampled(1, SEED, how=how, keep=10)
    times, where = how.of(flow.config).times()[:: how.steps // 10], places(graph)
    shown = [(times[number], graph.forming[number]) for number in (0, 5, 6, 7, 10)]
    final = set(map(tuple, graph.edges_once().tolist()))
    figure = Figure(figsize=(7.6, 1.9), layout="constrained")
    for ax, (time, edges) in zip(figure.subplots(1, len(shown)), shown, strict=True):
        here = Graph(graph.num_nodes, edge_index=edges).edges_once()
        stays = np.array([pair in final for pair in map(tuple, here.tolist())])
        for lines, colour, width in ((here[~stays], PALE, 0.5), (here[stays], EDGE, 0.9)):
            ax.add_collection(LineCollection(where[lines], colors=colour, linewidths=width))
        ax.scatter(*where.T, s=4, c=INK, zorder=3)
        ax.set_title(f"t = {time:.2g}: {len(here)} edges", fontsize=8, color=INK)
        ax.set_aspect("equal")
        ax.set_axis_off()
    save(figure, "forming.svg")


def trade() -> None:
    """Fidelity against likeness, for every measured number of steps and stochasticity."""
    some = [
        json.loads((RESULTS / f"flows/planar{part}.json").read_text())["settings"]
        for part in ("-50", "-start", "")
    ]
    fresh = json.loads((RESULTS / "flows/planar-fresh.json").read_text())["fresh"]
    figure = Figure(figsize=(5.6, 3.1), layout="constrained")
    ax = figure.add_subplot()
    for rows, colour, marker in zip(some, GROUPS, "osD", strict=False):
        start = f" from time {rows[0]['start']:g}" if rows[0]["start"] else ""
        x, y = [row["mmd_ratio"] for row in rows], [row["vun"] for row in rows]
        label = f"{rows[0]['steps']} steps{start}"
        ax.plot(x, y, label=label, color=colour, marker=marker, markersize=4, linewidth=1.4)
        for row in rows:
            spot = row["mmd_ratio"], row["vun"]
            ax.annotate(f"{row['stochasticity']:g}", spot, (5, -9), textcoords="offset points", fontsize=7)
    ax.plot(
        fresh["mmd_ratio"], fresh["vun"], "*", color=INK, markersize=9, label="fresh graphs of the family"
    )
    ax.set(xlabel="MMD² to the test graphs, by that of the training graphs", ylabel="valid, unique and novel")
    ax.grid(color=PALE, linewidth=0.7)
    ax.margins(y=0.1)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(
        frameon=False, fontsize=8, loc="lower right", title="(numbers: stochasticity)", title_fontsize=8
    )
    save(figure, "generating-trade.svg")


def save(figure: Figure, name: str) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    write_atomically(IMAGES / name, buffer.getvalue())


if __name__ == "__main__":
    main()
