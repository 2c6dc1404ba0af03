"""How sure answers of a model of molecules are, learned from molecules that it was not trained on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gln.decoding.molecules import LEAST, Decoded, logs
from gln.decoding.valences import ELEMENTS, NUMBER
from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.inference.choice import AS_TRAINED
from gln.inference.predict import predict_graphs
from gln.workflows.forms import Chemistry, confidence_of


def fit_confidence(
    model: Any, graphs: Sequence[Graph], batch_size: int = 64, smiles: Sequence[str] | None = None
) -> dict[str, list[float]]:
    """How sure answers are, learned from ``graphs`` that the model was not trained on: what their doubts are worth.

    A molecule is right if every bond and every atom has its true type, or, with ``smiles``, if it is another drawing of
    the same molecule: of one in twenty-five, as of fluorenones and of anions of barbiturates, labels know one drawing
    of several. Answers with hydrogens that are not listed are judged apart: the same doubts are worth less there, and
    together they would make all others look less sure than they are. The result is kept as
    ``model.training_facts["confidence"]`` and is saved with the model.

    Args:
        graphs: with ``pos``, ``x``, ``edge_type`` and ``node_type`` as in training.
        smiles: of each of them; needs rdkit.
    """
    chemistry = Chemistry.of(model)
    answers = predict_graphs(model, graphs, replace(AS_TRAINED, threshold=LEAST, batch_size=batch_size))
    rows: defaultdict[str, list[np.ndarray]] = defaultdict(list)
    right: defaultdict[str, list[np.ndarray]] = defaultdict(list)
    words = [""] * len(graphs) if smiles is None else smiles
    for graph, answer, word in zip(graphs, answers, words, strict=True):
        numbers = np.array([NUMBER[ELEMENTS[place]] for place in graph.x.argmax(1).tolist()])
        found = chemistry.decoded(answer, numbers)
        if found is None:
            continue
        once = graph.listed_once()
        orders = [chemistry.orders[kind] for kind in graph.edge_type[once].tolist()]
        true = dict(zip(map(tuple, graph.edges_once().tolist()), orders, strict=True))
        bonds = dict(zip(map(tuple, found.bonds.tolist()), found.types.tolist(), strict=True))
        same = true == bonds and (found.states == graph.node_type.numpy(force=True)).all()
        same = bool(same) or (bool(word) and is_drawing(word, numbers, found))
        each = [true.get(pair) == kind for pair, kind in bonds.items()]
        for what, doubts, well in (
            ("molecule", found.doubts[None], [same]),
            ("bond", found.bond_doubts, each),
        ):
            rows[confidence_of(what, found)].append(doubts)
            right[confidence_of(what, found)].append(np.array(well, dtype=bool))
    fitted = {name: calibrate(np.concatenate(rows[name]), np.concatenate(right[name])) for name in rows}
    model.training_facts = {**(getattr(model, "training_facts", None) or {}), "confidence": fitted}
    return fitted


def is_drawing(smiles: str, numbers: np.ndarray, found: Decoded) -> bool:
    """Whether an answer over atoms with these atomic ``numbers`` is a drawing of the molecule: by InChI and charge."""
    from rdkit import Chem, rdBase

    answer, _ = Chem.RWMol(), rdBase.BlockLogs()
    for number, charge, hydrogens in zip(numbers, found.charges, found.hydrogens, strict=True):
        atom = Chem.Atom(int(number))
        atom.SetFormalCharge(int(charge))
        atom.SetNumExplicitHs(int(hydrogens))
        atom.SetNoImplicit(True)
        answer.AddAtom(atom)
    orders = {1: Chem.BondType.SINGLE, 2: Chem.BondType.DOUBLE, 3: Chem.BondType.TRIPLE}
    for (one, two), order in zip(found.bonds.tolist(), found.orders.tolist(), strict=True):
        answer.AddBond(one, two, orders[order])
    try:
        Chem.SanitizeMol(answer)
        both = [Chem.RemoveHs(answer), Chem.MolFromSmiles(smiles)]
        names = {Chem.MolToInchi(mol, options="/FixedH /SNon") for mol in both}
    except (ValueError, RuntimeError):
        return False
    return len(names) == 1 and "" not in names and len({Chem.GetFormalCharge(mol) for mol in both}) == 1


def calibrate(doubts: np.ndarray, right: np.ndarray) -> list[float]:
    """Weights with which ``chance`` says how often answers with such ``doubts [N, F]`` were ``right [N]``.

    The logarithm of the odds against an answer is linear in the logarithms of its doubts: logistic regression, with
    just enough of a penalty to be unique.
    """
    if not 0 < np.sum(right) < len(right):
        raise GLNError("Got answers that are all right or all wrong; calibration needs some of both.")
    inputs = np.concatenate([np.ones((len(doubts), 1)), logs(doubts)], axis=1)
    weights, wrong = np.zeros(inputs.shape[1]), 1.0 - np.asarray(right, dtype=float)
    penalty = np.diag([0.0, *[1e-3] * doubts.shape[1]])
    for _ in range(100):
        odds = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        slope = inputs.T @ (odds - wrong) + penalty @ weights
        curve = (inputs.T * np.maximum(odds * (1 - odds), 1e-9)) @ inputs + penalty
        step = np.linalg.solve(curve, slope)
        weights = weights - step * 3 / max(3, np.abs(step).max())
        if np.abs(step).max() < 1e-8:
            break
    return weights.tolist()
