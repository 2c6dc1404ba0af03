"""What the answers of a model are made into: molecules from what it says of atoms, and meshes from points."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from gln.decoding import molecules
from gln.decoding.valences import BONDS, ELEMENTS, NUMBER, STATES, State, group, parse_states
from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.graphs.triangles import half_edges
from gln.inference.choice import Choice
from gln.io.items import Item
from gln.io.meshes import MESHES
from gln.later import spatial, torch
from gln.models.settings import input_widths

if TYPE_CHECKING:
    from gln.inference.predict import Method
    from gln.workflows.answers import Outcome

NEAREST = 0.2  # ångström: atoms closer than this are at one place
SHORT = 1.75  # and nearly every molecule has a bond shorter than this; in bohr none is
MOST = 10_000  # atoms of a molecule
SURE = 0.99
UNSTATED = (State(0, 0), State(1, 0), State(-1, 0))  # for a model that predicts no charges,
USUAL = (0.99, 0.005, 0.005)  # how likely they are


class Form(Protocol):
    """What answers are made into: molecules or meshes."""

    @property
    def least(self) -> float:
        """Edges that are less likely than this are not looked at."""

    def checked(self, item: Item) -> Item:
        """The item as the model is to see it; refuses what the form cannot be made of."""

    def made(self, item: Item, answer: Graph, done: Outcome) -> Graph:
        """The form over the nodes of ``item``, by the ``answer`` to what :meth:`checked` left of it."""


def knows_molecules(config: dict[str, Any]) -> bool:
    """Whether a model with this config reads the elements of the shipped one and predicts its states of atoms."""
    wanted = {"in_channels": len(ELEMENTS), "edge_types": len(BONDS), "node_types": len(STATES)}
    return all(config.get(name) == value for name, value in wanted.items())


def check_molecules(model: str, facts: dict[str, Any], choice: Choice) -> None:
    """Refuse to write molecules by a model that says nothing of bonds, or with choices that valence makes."""
    Chemistry.of_facts(facts, model)
    for name in ("threshold", "top_k", "type_thresholds"):
        if choice.asks(name):
            raise GLNError(
                f"Got --{name.replace('_', '-')}; which bonds a molecule has follows from the rules of valence, so "
                "leave it out, or write a .csv."
            )


@dataclass(frozen=True)
class Chemistry:
    """What the types of a model mean: the order of every type of edge, and the state of every type of node."""

    orders: tuple[int, ...]
    states: tuple[State, ...]
    stated: bool  # whether it predicts states at all
    sure: dict[str, list[float]]  # for :func:`gln.decoding.molecules.chance`
    least: ClassVar[float] = molecules.LEAST

    @classmethod
    def of_facts(cls, facts: dict[str, Any], name: str) -> Chemistry:
        """By the ``config`` and ``training`` of a saved model."""
        config, training = facts.get("config") or {}, facts.get("training") or {}
        names = training.get("names") or {}
        types, kinds = names.get("edge_type_names"), names.get("node_type_names")
        if knows_molecules(config):
            types, kinds = types or BONDS, kinds or STATES
        if not types or not set(types) <= set(BONDS) or config.get("pos_channels") != 3:
            raise GLNError(
                f"{name} does not predict bonds, so it cannot write molecules; use the model molecules, train with "
                "--types order --node-types charge, or write a .csv."
            )
        orders = tuple(1 + BONDS.index(word) for word in types)
        states = tuple(parse_states(kinds)) if kinds else UNSTATED
        return cls(orders, states, bool(kinds), training.get("confidence") or {})

    @classmethod
    def of(cls, model: Any) -> Chemistry:
        """By a model that is loaded."""
        about = {"config": getattr(model, "config", None), "training": getattr(model, "training_facts", None)}
        return cls.of_facts(about, type(model).__name__)

    def checked(self, item: Item) -> Item:
        """The item without the atoms of elements that the model does not know; refuse what is no molecule."""
        if item.symbols is None:
            raise GLNError(f"{item.name} names no elements, so it is no molecule; write a .csv.")
        nodes = item.graph.num_nodes
        if nodes > MOST:
            raise GLNError(
                f"it has {nodes:,} atoms; molecules are written with at most {MOST:,}, cut it into parts, or write a "
                ".csv."
            )
        where = item.graph.pos.numpy(force=True)
        near = spatial.cKDTree(where).query_pairs(NEAREST)
        if near:
            a, b = min(near)
            raise GLNError(
                f"atoms {a + 1} and {b + 1} are at one place ({np.linalg.norm(where[a] - where[b]):.2f} Å apart); "
                "positions are expected in ångström, one for each atom."
            )
        known = known_atoms(item)
        if not known.any():
            raise GLNError(f"the model knows none of its elements: {', '.join(sorted(set(item.symbols)))}.")
        if known.all() and item.graph.edge_index is None:
            return item
        rows = {name: values[torch.from_numpy(known)] for name, values in item.graph.rows().items()}
        return replace(item, graph=Graph(int(known.sum()), **rows))

    def made(self, item: Item, answer: Graph, done: Outcome) -> Graph:
        """The molecule over the atoms of ``item``, by the ``answer`` for those that the model knows."""
        molecule = self.molecule(answer, item.symbols or (), known_atoms(item))
        done.sure += molecule.molecule_prob > SURE and not molecule.get("note")
        return molecule

    def molecule(self, answer: Graph, symbols: Sequence[str], known: np.ndarray) -> Graph:
        """The most likely molecule that keeps the rules of valence, of all atoms ``symbols [n]``.

        ``answer`` predicts every bond that is likelier than ``gln.decoding.molecules.LEAST``, among those that are
        ``known [n]``; the others are left without bonds. The result has ``edge_prob`` and ``edge_type`` of its bonds,
        ``edge_order`` (1 to 3) in one resonance form, ``node_type``, ``charge`` and ``hydrogens`` of its atoms,
        ``molecule_prob`` and a ``note``.
        """
        numbers = np.array([NUMBER[symbol] for symbol in symbols])
        found = self.decoded(answer, numbers[known])
        if found is None:
            raise GLNError(
                "no molecule that keeps the rules of valence was found among the likely bonds; are its atoms those of "
                "one or several whole molecules?"
            )
        place = np.flatnonzero(known)
        ends = torch.from_numpy(place[found.bonds].reshape(-1, 2).T.copy())
        bonds = {
            "edge_prob": molecules.chance(found.bond_doubts, self.worth("bond", found)).astype(np.float32),
            "edge_type": np.array([self.orders.index(order) for order in found.types], dtype=np.int64),
            "edge_order": found.orders,
        }
        both = torch.cat([ends, ends.flip(0)], dim=1)
        order = (both[0] * len(numbers) + both[1]).argsort()
        atoms = {"charge": lone_charges(numbers, known), "hydrogens": np.zeros(len(numbers), dtype=np.int64)}
        atoms["charge"][place], atoms["hydrogens"][place] = found.charges, found.hydrogens
        if self.stated:
            atoms["node_type"] = np.zeros(len(numbers), dtype=np.int64)
            atoms["node_type"][place] = found.states
        sure = float(molecules.chance(found.doubts[None], self.worth("molecule", found))[0])
        strange = sorted({symbols[atom] for atom in np.flatnonzero(~known).tolist()})
        notes = [] if found.proven else ["a likelier molecule may have been missed"]
        where = answer.pos.numpy(force=True)
        if len(where) > 1 and not spatial.cKDTree(where).query_pairs(SHORT):
            notes.append(f"no two atoms are within {SHORT} Å; positions are expected in ångström")
        if strange:
            notes.append(f"{', '.join(strange)}: unknown to the model, left without bonds")
        return Graph(
            len(numbers),
            edge_index=both[:, order],
            **{name: torch.from_numpy(np.concatenate([row, row]))[order] for name, row in bonds.items()},
            **{name: torch.from_numpy(row) for name, row in atoms.items()},
            edge_type_names=tuple(BONDS[order - 1] for order in self.orders),
            **({"node_type_names": answer["node_type_names"]} if "node_type_names" in answer else {}),
            molecule_prob=sure,
            note="; ".join(notes) or None,
        )

    def worth(self, what: str, found: molecules.Decoded) -> list[float] | None:
        """What doubts of a ``"bond"`` or of the ``"molecule"`` are worth; it differs where hydrogens are missing."""
        return self.sure.get(confidence_of(what, found)) or self.sure.get(what)

    def decoded(self, answer: Graph, numbers: np.ndarray) -> molecules.Decoded | None:
        """The most likely molecule by what ``answer`` says of atoms with these atomic ``numbers``."""
        once = answer.listed_once()
        prob = answer.edge_prob[once].numpy(force=True).astype(np.float64)
        chances = np.zeros((len(prob), 1 + len(BONDS)))
        chances[:, 0] = 1 - prob
        types = answer.edge_type_prob[once].numpy(force=True).astype(np.float64)
        chances[:, list(self.orders)] = prob[:, None] * types / types.sum(1, keepdims=True).clip(1e-9)
        if self.stated:
            likely = answer.node_type_prob.numpy(force=True).astype(np.float64)
        else:
            likely = np.tile(USUAL, (answer.num_nodes, 1))
        return molecules.decode(numbers, answer.edges_once(), chances, self.states, likely)

    def ask(self, model: Any, items: Sequence[Item], choice: Choice) -> Outcome:
        """The molecules over the atoms of ``items``, and what is skipped."""
        from gln.workflows.answers import Window, answer_window

        return answer_window(
            model, Window(1, list(items)), replace(choice, threshold=molecules.LEAST), form=self
        )


def confidence_of(what: str, found: molecules.Decoded) -> str:
    """The name of the weights for such an answer: of those with hydrogens that are not listed, ``"bare …"``."""
    return f"bare {what}" if found.hydrogens.any() else what


def state_in_words(charge: int, hydrogens: int) -> str:
    """As :func:`gln.decoding.valences.parse_states` reads it."""
    return (f"{charge:+d}" if charge else "0") + (f" H{hydrogens}" if hydrogens else "")


def drawing(molecule: Graph) -> Graph:
    """A molecule whose node types are the charges and hydrogens of its resonance form, for a drawing."""
    drawn = copy.copy(molecule)
    drawn.edge_type = torch.where(_in_chains(molecule), molecule.edge_order - 1, molecule.edge_type)
    words = list(map(state_in_words, molecule.charge.tolist(), molecule.hydrogens.tolist()))
    names = tuple(sorted(set(words)))
    drawn.node_type, drawn.node_type_names = torch.tensor([names.index(word) for word in words]), names
    return drawn


def _in_chains(molecule: Graph) -> torch.Tensor:
    """Which delocalised bonds lie in no ring of such bonds, as those of a carboxylate: bool ``[2m]``."""
    ends = molecule.edge_index
    left = delocalised = molecule.edge_type == BONDS.index("aromatic")
    while True:  # take off the ends of chains, again and again
        degree = torch.bincount(ends[0][left], minlength=molecule.num_nodes)
        stays = left & (degree[ends[0]] > 1) & (degree[ends[1]] > 1)
        if torch.equal(stays, left):
            return delocalised & ~left
        left = stays


def known_atoms(item: Item) -> np.ndarray:
    """Which atoms have an element that the model knows ``[n]``."""
    return item.graph.x.numpy(force=True).any(1)


def lone_charges(numbers: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The charges of atoms that are not ``known``: those of alkali and earth alkali metals as ions, 0 of others."""
    usual = [0 if here else (group(int(number)) or 0) for number, here in zip(numbers, known, strict=True)]
    return np.array([electrons if electrons in (1, 2) else 0 for electrons in usual], dtype=np.int64)


FEWEST = 4  # points of a solid
LEAST = 0.02  # edges less likely than this are not looked at
EITHER = (".ply", ".obj")  # files of edges, or of faces

Faces = Literal["auto", "closed", "open", "no"]


class Mesh(NamedTuple):
    """A mesh, where trimesh is not installed."""

    vertices: np.ndarray
    faces: np.ndarray


def mesh(
    points: Any,
    model: Method | str = "shapes",
    *,
    open: bool = False,
    steps: int | None = None,
    candidates: int | None = None,
) -> Any:
    """The triangle mesh of the surface that ``points`` lie on.

    Every edge has at most two faces, and the faces of a point are one fan. Holes are closed unless ``open``.

    Args:
        points: one row per point ``[n, 3]``: an array or tensor, a list of rows, or a ``Data`` with ``pos``.
        model: a model of points in space, the name of a shipped one, or the folder of a saved one.
        open: keep the boundaries of an open surface, such as a scan of a landscape; only small holes are closed.
        steps: how many steps of the recurrence; default: as trained.
        candidates: as in :func:`gln.predict`.

    Returns:
        A ``trimesh.Trimesh`` or, if trimesh is not installed, a tuple of ``vertices [n, 3]`` and ``faces [f, 3]``. The
        vertices are the points, all of them, in their order; faces are counterclockwise, seen from outside.
    """
    from gln.inference.predict import as_method, as_points, predict_graphs  # here, as they load torch

    model = as_method(model)
    graph = as_points(points, None, input_widths(model))
    choice = Choice(LEAST, steps=steps, candidates=candidates)
    faces = faces_of(graph, predict_graphs(model, [check_points(graph)], choice)[0], open)
    vertices = graph.pos.numpy(force=True).astype(np.float64)
    vertices = vertices + graph.origin.numpy() if "origin" in graph else vertices
    try:
        import trimesh
    except ImportError:
        return Mesh(vertices, faces)
    return trimesh.Trimesh(vertices, faces, process=False)


def faces_of(graph: Graph, answer: Graph, open: bool) -> np.ndarray:
    """The faces ``[f, 3]`` over the points of ``graph``, by an ``answer`` with every pair that is worth a look."""
    from gln.decoding.faces import find_faces

    pairs, chances = answer.scored_once()
    return find_faces(graph.pos.numpy(force=True).astype(np.float64), pairs, chances, open)


@dataclass(frozen=True)
class Meshing:
    """Turns the answers of a prediction into meshes, whose edges are those of their ``face [3, t]``."""

    open: bool
    least: ClassVar[float] = LEAST

    @classmethod
    def of(cls, faces: Faces, output: Path, facts: dict[str, Any], name: str) -> Meshing | None:
        """What ``--faces`` asks for; by default faces where the file holds nothing else, or the model knows surfaces.

        ``facts`` are the ``config`` and ``training`` of the saved model ``name``.
        """
        kind = output.suffix.lower()
        if faces == "no" or (faces == "auto" and kind not in (*MESHES, *EITHER)):
            if kind in MESHES:
                raise GLNError(f"{output.name} can hold nothing but faces; write a .ply, an .obj or a .csv.")
            return None
        knows = bool((facts.get("training") or {}).get("surface"))
        if faces == "auto" and kind in EITHER and not knows:
            return None
        if kind not in (*MESHES, *EITHER):
            raise GLNError(f"{output.name} cannot hold faces; write {', '.join((*EITHER, *MESHES))}.")
        if (width := (facts.get("config") or {}).get("pos_channels")) not in (3, None):
            raise GLNError(f"{name} reads points with {width} coordinates; faces need x, y and z.")
        return cls(faces == "open")

    def checked(self, item: Item) -> Item:
        """The item; refuse points that no surface runs through."""
        check_points(item.graph)
        return item

    def made(self, item: Item, answer: Graph, done: Outcome) -> Graph:
        """The ``answer`` as a mesh, which ``done`` tells about."""
        from gln.decoding.faces import describe

        faces = faces_of(item.graph, answer, self.open)
        done.remarks.append(f"{item.name}: {describe(answer.num_nodes, faces)}")
        keep_faces(answer, faces)
        return answer


def keep_faces(answer: Graph, faces: np.ndarray) -> None:
    """Leave of a prediction the edges of the faces; those that close a hole or bend less may be unlikely."""
    count, sides = answer.num_nodes, half_edges(faces)
    key = np.unique(np.concatenate([sides @ [count, 1], sides @ [1, count]]))
    known = answer.edge_index.numpy(force=True).T @ [count, 1]
    _, place, there = np.intersect1d(key, known, assume_unique=True, return_indices=True)
    chance = np.full(len(key), LEAST, np.float32)
    chance[place] = answer.edge_prob.numpy(force=True)[there]
    answer.edge_index = torch.from_numpy(np.stack(np.divmod(key, count)))
    answer["edge_prob"] = torch.from_numpy(chance)
    answer["face"] = torch.from_numpy(np.ascontiguousarray(faces.T))


def check_points(graph: Graph) -> Graph:
    """Refuse points that no surface runs through."""
    width = graph.widths[0]
    if width != 3:
        raise GLNError(f"Got points with {width} coordinates; a mesh needs x, y and z.")
    count = graph.num_nodes
    if count < FEWEST:
        raise GLNError(f"Got {count} points; a mesh needs at least {FEWEST}.")
    where = graph.pos.numpy(force=True).astype(np.float64)
    spread = np.linalg.svd(np.cov(where.T))[1] ** 0.5
    if spread[1] <= 1e-6 * spread[0]:
        raise GLNError(f"The {count:,} points lie on one line; a mesh needs points on a surface.")
    distinct = len(np.unique(where, axis=0))
    if distinct < count:
        raise GLNError(
            f"{count - distinct:,} of {count:,} points lie exactly on another one; remove them, as with numpy.unique."
        )
    return graph
