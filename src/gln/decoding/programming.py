"""The most likely molecule as an integer program, where the search over doubtful choices is too long.

Every choice is a variable of 0 or 1: of a pair its order, an aromatic bond being one of order 1 or one of order 2; of
an atom its state together with how many bonds it has and what their orders add up to, as the rules of valence allow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gln.decoding.valences import AROMATIC, State, doubles
from gln.later import sparse

MOST_BONDS = 8  # of an atom, and the most that their orders add up to
SECONDS = 2.0
DEAREST = 20.0  # nats: choices that cost more are left out


def best_choices(
    elements: Sequence[int], pairs: np.ndarray, states: Sequence[State], costs: Sequence[np.ndarray]
) -> tuple[list[int] | None, bool]:
    """The value of every variable of a :class:`gln.decoding.molecules.Space`, and whether it is known to be the best.

    Args:
        costs: of the states of the atoms ``[n, C]`` and of the types of the pairs ``[p, 5]``.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # slow, and rarely needed

    atoms = len(elements)
    price: list[float] = []
    meaning: list[tuple[int, int]] = []  # the variable of the space and its value
    row: list[int] = []
    column: list[int] = []
    factor: list[float] = []
    # Rows: one choice of each variable; then of every atom its bonds, their orders, and its aromatic ones of order 2.
    first = atoms + len(pairs)

    def choice(variable: int, value: int, cost: float, *entries: tuple[int, float]) -> None:
        for number, by in ((variable, 1.0), *entries):
            row.append(number)
            column.append(len(price))
            factor.append(by)
        price.append(cost)
        meaning.append((variable, value))

    for place, ends in enumerate(pairs.tolist()):
        for value, cost in enumerate(costs[1][place].tolist()):
            if cost <= DEAREST:
                for order in (1, 2) if value == AROMATIC else (value,):
                    second = float(value == AROMATIC and order == 2)
                    entries = [(first + 3 * end + kind, by) for end in ends for kind, by in enumerate((1.0, order, second))]
                    choice(atoms + place, value, cost, *(entries if value else ()))
    for atom, number in enumerate(elements):
        for value, cost in enumerate(costs[0][atom].tolist()):
            if cost <= DEAREST:
                hydrogens, start = states[value].hydrogens, first + 3 * atom
                for bonds in range(MOST_BONDS + 1):
                    # ``total`` counts aromatic bonds once, so it tells apart how many of them are double.
                    for total in range(bonds, MOST_BONDS + 1):
                        fits = doubles(number, states[value], total + hydrogens, bonds + hydrogens, bonds)
                        for count in fits:
                            if total + count <= MOST_BONDS:
                                choice(
                                    atom, value, cost, (start, -bonds), (start + 1, -total - count), (start + 2, -count)
                                )
    rows = first + 3 * atoms
    table = sparse.csr_matrix((factor, (row, column)), shape=(rows, len(price)))
    exact = np.concatenate([np.ones(first), np.zeros(3 * atoms)])
    found = milp(
        price,
        integrality=np.ones(len(price)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(table, exact, exact),
        options={"time_limit": SECONDS},
    )
    if found.x is None:
        return None, False
    value = [0] * first
    for number in np.flatnonzero(found.x > 0.5).tolist():
        variable, chosen = meaning[number]
        value[variable] = chosen
    return value, found.status == 0
