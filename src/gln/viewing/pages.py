"""Pages: single HTML files that need neither a server nor a network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from gln.errors import GLNError
from gln.files import check_page, write_atomically
from gln.graphs import make_graph
from gln.graphs.check import as_record
from gln.graphs.regions import is_image
from gln.inference.steps import Seen
from gln.viewing.pictures import main_axes, places
from gln.viewing.style import DARK_PAGE, GROUPS, LIGHT_PAGE, TYPE_DASHES
from gln.workflows.views import View

COMMON = ("common.js", "graph.js", "webgl.js", "drawing.js", "canvas.js")  # the scripts of every page


def write_page(path: Path | str, views: Sequence[View], title: str = "gln") -> Path:
    """Write a page that shows ``views``: the graphs, truth against prediction, and the recurrence step by step.

    The page contains all its data, and its content security policy forbids every request.
    """
    check_page(path)
    if not views:
        raise GLNError("Got no graphs; a page shows at least one.")
    views = [replace(view, graph=as_record(view.graph)) for view in views]  # a user may give Data
    return write_html(path, "page", ["molecule.js", "viewer.js"], pack(views, title), title)


def write_html(
    path: Path | str,
    name: str,
    scripts: Sequence[str],
    content: dict[str, Any],
    title: str,
    styles: Sequence[str] = (),
    worker: Sequence[str] = (),
) -> Path:
    """Write the page ``name`` from the files in ``page/``: style, script and ``content`` in one text.

    Its template is a whole page, or parts under ``<!-- names -->`` that stand at these places of ``stage.html``.

    The policy in its head allows exactly this style and this script, by their hashes, and forbids every request. A
    ``worker`` is a script that the page starts from its own text, and that may compile WebAssembly.
    """
    path = check_page(path)
    style = "\n".join([_variables(), *map(_part, ("common.css", *styles, f"{name}.css"))])
    script = "\n".join(['"use strict";', *map(_part, (*COMMON, *scripts, f"{name}.js"))])
    script = re.sub(r"(?m)^ +", "", script)  # what indents a script is a fifteenth of it
    policy = [
        "default-src 'none'",
        f"script-src {_hash(script)}" + (" 'wasm-unsafe-eval'; worker-src blob:" if worker else ""),
        f"style-src {_hash(style)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    slots = {"policy": "; ".join(policy), "title": escape(title), "style": style, "script": script}
    slots |= {"data": embed(content), "worker": "\n".join(map(_part, worker))}
    # In one pass, so that inserted text is never taken for a slot.
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: slots[match[1]], _template(name))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page.encode("utf-8", "backslashreplace"))
    return path


def _template(name: str) -> str:
    text = _part(f"{name}.html")
    if not text.startswith("<!--"):
        return text
    place = re.compile(r"<!-- (\w+) -->\n")
    _, *pieces = place.split(text)
    parts = dict(zip(pieces[::2], pieces[1::2], strict=True))
    return place.sub(lambda match: parts.get(match[1], ""), _part("stage.html"))


def _part(name: str) -> str:
    return (files("gln.viewing") / "page" / name).read_text(encoding="utf-8")


def _variables() -> str:
    """The colours as variables of the style sheet."""

    def block(selector: str, colours: Mapping[str, str]) -> str:
        return f"{selector} {{ {' '.join(f'--{name}: {value};' for name, value in colours.items())} }}"

    return f"{block(':root', LIGHT_PAGE)}\n{block(':root[data-theme=dark]', DARK_PAGE)}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


LEVELS, FEW_LEVELS = 65_000, 200
BYTES = 700_000  # a graph that needs more gets few levels, then loses unlikely pairs,
SPARE = 1.3  # as long as it has so many times those at its threshold
PULLED = 1_000  # up to this many nodes, a graph without positions gets a spring layout


def offered(own: Iterable[float]) -> np.ndarray:
    """The thresholds of the slider, ascending: the hundredths and ``own``, in float32 as the model compares."""
    wanted = {cut(value, FEW_LEVELS): np.float32(value) for value in np.arange(1, 101) / 100}
    for value in own:  # replaces a hundredth that the levels cannot tell from it
        wanted[cut(value, FEW_LEVELS)] = np.float32(value)
    return np.array([wanted[level] for level in sorted(wanted) if level > 0], dtype=np.float32)


def cut(threshold: float | np.ndarray, levels: int) -> Any:
    """The level at which a pair becomes an edge; the page computes the same."""
    return np.floor(np.asarray(threshold, dtype=np.float64) * levels + 0.5).astype(np.int64)[()]


def to_levels(chances: np.ndarray, thresholds: np.ndarray, levels: int = LEVELS) -> np.ndarray:
    """Probabilities of any shape as integers up to ``levels`` that stay on their side of every threshold."""
    chances = chances.astype(np.float32)
    cuts = np.concatenate([[0], cut(thresholds, levels), [levels + 1]])
    passed = np.searchsorted(thresholds, chances, side="right")
    level = np.floor(chances.astype(np.float64) * levels).astype(np.int64)
    return level.clip(cuts[passed], cuts[passed + 1] - 1).astype("<u2" if levels == LEVELS else "u1")


def pack_view(view: View, thresholds: np.ndarray) -> dict[str, Any]:
    """One view as plain data."""
    graph, nodes = view.graph, view.graph.num_nodes
    true = graph.edges_once() if _is_known(view) else np.empty((0, 2), dtype=np.int64)
    seen = view.seen
    packed: dict[str, Any] = {"name": view.name, "nodes": nodes, "truth": view.labelled}
    if view.labels is not None:
        packed["labels"] = [str(label) for label in view.labels]
    if view.title:
        packed["title"] = view.title
    if view.symbols is not None:
        packed["symbols"] = list(view.symbols)
    if view.clusters is not None:
        packed["clusters"] = encode(view.clusters.astype(number_kind(nodes)))
    keys = true @ [nodes, 1]
    if seen is not None:
        numbers = seen.pairs @ [nodes, 1]
        first = max(0, int(np.searchsorted(thresholds, np.float32(seen.floor))))
        own = max(first, int(np.abs(thresholds - np.float32(seen.threshold)).argmin()))
        first, levels = _spare(numbers, keys, seen, thresholds, first, own)
        stays = (seen.chances.max(axis=0, initial=0) >= thresholds[first]) | np.isin(numbers, keys)
        numbers, chances = numbers[stays], seen.chances[:, stays]
        keys, true_keys = np.union1d(numbers, keys), keys
        full = np.zeros((len(chances), len(keys)), dtype=np.float32)
        full[:, np.searchsorted(keys, numbers)] = chances
        packed |= {"levels": levels, "steps": len(full), "first": first, "own": own}
        packed["chances"] = encode(to_levels(full, thresholds, levels))
        packed["true"] = encode(np.packbits(np.isin(keys, true_keys), bitorder="little"))
    ends = np.stack(np.divmod(keys, nodes)).astype(number_kind(nodes))
    packed["source"], packed["target"] = map(encode, ends)
    return packed | _kinds(view, keys) | _faces(view) | _drawing(view, true)


def _is_known(view: View) -> bool:
    """Whether there are true edges."""
    return view.labelled and view.graph.edge_index is not None


def _faces(view: View) -> dict[str, Any]:
    """Triangles: those that are right (or all, where there is nothing to compare), missing, and one too many."""
    face = view.graph.get("face") if view.labelled else None
    true = None if face is None else face.T.numpy(force=True)
    known = [faces for faces in (view.faces, true) if faces is not None]
    if not known:
        return {}
    made, wanted, nodes = known[0], known[-1], view.graph.num_nodes
    order = [np.sort(faces, axis=1) @ [nodes**2, nodes, 1] for faces in (made, wanted)]
    right = np.isin(*order)
    parts = [made[right], wanted[~np.isin(order[1], order[0])], made[~right]]
    numbers = np.concatenate(parts).astype(number_kind(nodes))
    return {"faces": encode(numbers), "face_counts": [len(part) for part in parts]}


def _kinds(view: View, keys: np.ndarray) -> dict[str, Any]:
    """What is known of the pairs ``keys [m]`` (source · nodes + target) and of the nodes beyond which are edges.

    It is as predicted, with what is true beside it or, without a prediction, as it is.
    """
    graph, nodes = view.graph, view.graph.num_nodes
    known = graph.some_edges(graph.listed_once()) if _is_known(view) else None
    shown = known if view.seen is None else view.seen.graph
    if shown is None:
        return {}
    packed: dict[str, Any] = {"directed": True} if shown.directed else {}
    told = {"": shown} | ({} if known is None or known is shown else {"true_": known})
    for what, words in (("edge_type", "type_names"), ("node_type", "node_names")):
        if shown[what] is not None:
            names = next((one[f"{what}_names"] for one in told.values() if f"{what}_names" in one), ())
            types = [one[what].max() for one in told.values() if one[what] is not None and len(one[what])]
            packed[words] = [
                *names,
                *(f"type {number}" for number in range(len(names), int(max(types, default=-1)) + 1)),
            ]
    for before, one in told.items():
        own = one.edge_index.T.numpy(force=True) @ [nodes, 1]
        here = np.isin(own, keys)
        for name, short, kind, most in (
            ("edge_type", "types", "u1", 255),
            ("edge_weight", "weights", "<f4", np.inf),
        ):
            if one[name] is not None:
                full = np.zeros(len(keys), dtype=kind)
                full[np.searchsorted(keys, own[here])] = one[name].numpy(force=True)[here].clip(max=most)
                packed[before + short] = encode(full)
        if one.node_type is not None:
            packed[f"{before}node_types"] = encode(one.node_type.numpy(force=True).clip(max=255).astype("u1"))
    return packed | ({"dashes": TYPE_DASHES} if "type_names" in packed else {})


def _spare(
    numbers: np.ndarray, true: np.ndarray, seen: Seen, thresholds: np.ndarray, first: int, own: int
) -> tuple[int, int]:
    """The first threshold of the slider and the number of levels, so that a graph with very many pairs stays small.

    Edges at the threshold ``own`` are never left out.
    """
    steps = len(seen.chances)
    best = seen.chances.max(axis=0, initial=0)
    best = np.sort(best[~np.isin(numbers, true)])

    def pairs(first: int) -> int:
        return len(true) + len(best) - int(np.searchsorted(best, thresholds[first]))

    if pairs(first) * (5 + 2 * steps) <= BYTES:
        return first, LEVELS
    most = max(BYTES / (5 + steps), SPARE * pairs(own))
    while first < own and pairs(first) > most:
        first += 1
    return first, FEW_LEVELS


def _drawing(view: View, true: np.ndarray) -> dict[str, Any]:
    """Where the nodes are drawn, in which colours, and over which image."""
    graph = view.graph
    if is_image(graph):
        column_row = graph.pos.numpy(force=True)
        colours = (graph.x.numpy(force=True).clip(0, 1) * 255).round().astype(np.uint8)
        return {"dimensions": 2, "image": encode(colours), "pos": encode(column_row.astype("<f4"))}
    where, placed_by = _places(view, true)
    packed = {"dimensions": where.shape[1], "pos": encode(where.astype("<f4"))}
    if placed_by is not None:
        packed["placed_by"] = placed_by
    groups = graph.get("community")
    if groups is not None:
        packed["groups"] = encode((groups.numpy(force=True) % len(GROUPS)).astype(np.uint8))
    return packed


def _places(view: View, true: np.ndarray) -> tuple[np.ndarray, str | None]:
    """Where the nodes are drawn, and what this follows if they have no positions."""
    graph = view.graph
    width, features = graph.widths
    if width:
        return places(graph), None
    edges, placed_by = true, "true edges"
    if not view.labelled and view.seen is not None:
        edges = view.seen.pairs[view.seen.chances[-1] >= view.seen.threshold]
        placed_by = "predicted edges"
    if len(edges) and graph.num_nodes <= PULLED:
        edges = np.unique(np.sort(edges, axis=1), axis=0)  # a directed pair may be listed both ways
        return places(make_graph(edges=edges, num_nodes=graph.num_nodes)), placed_by
    if features:
        flat = main_axes(graph.x.numpy(force=True).astype(float))[:, :2]
        return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1]))), "features"
    angle = np.linspace(0, 2 * np.pi, graph.num_nodes, endpoint=False)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1), "order"


def number_kind(nodes: int) -> str:
    """Whole numbers that count so many nodes."""
    return "<u2" if nodes <= 2**16 else "<u4"


def encode(values: np.ndarray) -> str:
    """The bytes of an array, row by row, as base64."""
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def pack(views: Sequence[View], title: str) -> dict[str, Any]:
    """Everything that a page shows, as plain data."""
    thresholds = offered(view.seen.threshold for view in views if view.seen is not None)
    return {
        "title": title,
        "thresholds": thresholds.astype(float).tolist(),
        "groups": GROUPS,
        "views": [pack_view(view, thresholds) for view in views],
    }


def embed(content: dict[str, Any]) -> str:
    """JSON that is safe inside an HTML page: whatever a label says, it can neither open nor close a tag."""
    text = json.dumps(content, separators=(",", ":"))  # ASCII: U+2028 and the like are escaped
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
