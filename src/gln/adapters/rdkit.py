"""Molecules of rdkit (``gln[molecules]``): to and from graphs, and with bonds predicted from positions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch_geometric.data import Data

from gln.decoding.valences import BONDS, ELEMENTS, STATES, parse_states
from gln.errors import GLNError
from gln.graphs.check import as_record, make_graph
from gln.inference.choice import Choice
from gln.io import Item, ReadOptions, find_files, read_items
from gln.io.items import Source
from gln.io.molecules import Molecule, item_of
from gln.io.molfiles import sanitised
from gln.workflows.forms import Chemistry, knows_molecules, state_in_words
from gln.workflows.methods import load

if TYPE_CHECKING:
    from rdkit.Chem import Mol
    from torch import nn


def molecules(
    model: nn.Module | str, sources: Mol | str | Path | Sequence[Mol | str | Path], *, batch_size: int = 32
) -> list[Mol]:
    """Predict the bonds, orders, charges and hydrogens of molecules from elements and positions.

    Args:
        model: a model of bonds, or the name of one: ``"molecules"``.
        sources: molecules of rdkit with a conformer, whose bonds and charges are not looked at, or files (``.xyz``,
            ``.pdb``, ``.cif``, …), folders and patterns.

    Returns:
        A sanitised ``Mol`` with a conformer for each, in order, with the properties ``confidence`` and ``note`` and,
        on each bond, ``confidence``. What is no molecule raises :class:`GLNError`.
    """
    model = load(model) if isinstance(model, str) else model  # type: ignore[assignment]
    chemistry = Chemistry.of(model)
    given = sources if isinstance(sources, list | tuple) else [sources]
    items = [item for number, source in enumerate(given) for item in _items(model, source, number)]
    done = chemistry.ask(model, items, Choice(batch_size=batch_size))
    if done.skipped:
        raise GLNError(str(done.skipped[0].reason))
    return [to_mol(answer, item) for item, answer in done.answers]


def _items(model: Any, source: Any, number: int) -> list[Item]:
    config = getattr(model, "config", {})
    only = knows_molecules(config)
    options = ReadOptions(elements=ELEMENTS if only else None, only_elements=only)
    if isinstance(source, str | Path):
        return list(read_items(find_files([source]), options))
    if not hasattr(source, "GetConformers"):
        raise GLNError(f"Got a {type(source).__name__}; expected an rdkit Mol, or the name of a file.")
    name = source.GetProp("_Name") if source.HasProp("_Name") else ""
    where = _positions(source).tolist()
    symbols = [atom.GetSymbol() for atom in source.GetAtoms()]
    unnamed = Source(Path(f"molecule {number}"), f"molecule {number}", options)
    return [item_of(unnamed, Molecule(where, symbols, name), None)]


def _positions(mol: Mol) -> np.ndarray:
    if not mol.GetNumConformers():
        raise GLNError("The Mol has no conformer; bonds are predicted from positions, so embed it first.")
    return np.asarray(mol.GetConformer().GetPositions())


def to_mol(graph: Any, item: Item | None = None) -> Mol:
    """A sanitised rdkit ``Mol`` of a graph with ``pos``, one-hot elements ``x`` and either the result of a prediction
    of molecules (``edge_order``, ``charge``, ``hydrogens``), or types of edges and nodes as :func:`from_mol` gives.
    """
    graph = as_record(graph)
    if item is not None:
        symbols, where, title = list(item.symbols or ()), item.rows()["pos"], item.title or item.label
    else:
        if graph.x is None or graph.pos is None or graph.x.shape[1] != len(ELEMENTS):
            raise GLNError(
                f"Expected pos [n, 3] and x [n, {len(ELEMENTS)}], one-hot of {' '.join(ELEMENTS)}."
            )
        symbols = [ELEMENTS[number] for number in graph.x.argmax(1).tolist()]
        where, title = graph.pos.numpy(force=True), ""
    if graph.get("edge_order") is None:
        graph = _as_certain(graph, symbols)
    mol = sanitised(title, symbols, where, graph)
    once = graph.listed_once()
    if graph.get("molecule_prob") is not None:
        mol.SetDoubleProp("confidence", float(graph["molecule_prob"]))
    if graph.get("note"):
        mol.SetProp("note", graph["note"])
    if graph.edge_prob is not None:
        for (a, b), sure in zip(graph.edges_once().tolist(), graph.edge_prob[once].tolist(), strict=True):
            mol.GetBondBetweenAtoms(a, b).SetDoubleProp("confidence", sure)
    return mol


def _as_certain(graph: Any, symbols: list[str]) -> Any:
    """A graph whose types of edges and nodes are those of a molecule, with orders and charges."""
    if graph.edge_type is None or graph.node_type is None:
        raise GLNError("The graph has no edge_type and node_type, so it says nothing of bonds and charges.")
    graph.edge_prob = torch.ones(graph.num_edges)
    graph.edge_type_prob = torch.nn.functional.one_hot(graph.edge_type, len(BONDS)).double()
    graph.node_type_prob = torch.nn.functional.one_hot(graph.node_type, len(STATES)).double()
    chemistry = Chemistry(tuple(range(1, 1 + len(BONDS))), tuple(parse_states(STATES)), stated=True, sure={})
    return chemistry.molecule(graph, symbols, np.ones(len(symbols), dtype=bool))


def from_mol(mol: Mol) -> Data:
    """The graph of a molecule as the model ``molecules`` reads it: ``pos`` and ``x``, and its bonds with their types.

    ``node_type`` has the charges of the given resonance form; hydrogens that are no atoms of it are counted. The
    reference that the shipped model is trained on also says which charges are shared.
    """
    symbols = [atom.GetSymbol() for atom in mol.GetAtoms()]
    strange = sorted(set(symbols) - set(ELEMENTS))
    if strange:
        raise GLNError(f"The model does not know {', '.join(strange)}; it knows {' '.join(ELEMENTS)}.")
    kinds = {1.0: 0, 2.0: 1, 3.0: 2, 1.5: 3}
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]
    types = [kinds.get(bond.GetBondTypeAsDouble(), -1) for bond in mol.GetBonds()]
    words = [state_in_words(atom.GetFormalCharge(), atom.GetTotalNumHs()) for atom in mol.GetAtoms()]
    if -1 in types or (odd := [word for word in words if word not in STATES]):
        what = "a bond of another order than 1 to 3" if -1 in types else f"an atom in the state {odd[0]}"
        raise GLNError(f"The molecule has {what}, which the model does not know.")
    graph = make_graph(
        _positions(mol),
        np.array([[symbol == each for each in ELEMENTS] for symbol in symbols], dtype=np.float32),
        np.array(bonds, dtype=np.int64).reshape(-1, 2),
        edge_type=torch.tensor(types, dtype=torch.int64),
        node_type=torch.tensor([STATES.index(word) for word in words]),
    )
    graph.edge_type_names, graph.node_type_names = BONDS, STATES
    return graph.to_data()
