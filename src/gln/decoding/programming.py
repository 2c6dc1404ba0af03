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


def best_choices(
    elements: Sequence[int],
    pairs: np.ndarray,
    states: Sequence[State],
    costs: Sequence[np.ndarray],
    dearest: float,
) -> tuple[list[int] | None, bool]:
    """The value of every variable of a :class:`gln.decoding.molecules.Space`, and whether none is known to be better.

    ``costs`` are of the states of the atoms ``[n, C]`` and of the types of the pairs ``[p, 5]``, in nats; choices that
    cost more than ``dearest`` are left out.
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

    for pair, ends in enumerate(pairs.tolist()):
        for kind, cost in enumerate(costs[1][pair].tolist()):
            if cost <= dearest:
                for order in (1, 2) if kind == AROMATIC else (kind,):
                    sums = (1.0, order, float(kind == AROMATIC and order == 2))
                    entries = [(first + 3 * end + place, by) for end in ends for place, by in enumerate(sums)]
                    choice(atoms + pair, kind, cost, *(entries if kind else ()))
    # ``total`` counts aromatic bonds once, so it tells apart how many of them are double.
    sums_of_atom = [
        (bonds, total) for bonds in range(MOST_BONDS + 1) for total in range(bonds, MOST_BONDS + 1)
    ]
    for atom, number in enumerate(elements):
        start = first + 3 * atom
        for state, cost in enumerate(costs[0][atom].tolist()):
            hydrogens = states[state].hydrogens
            for bonds, total in sums_of_atom if cost <= dearest else ():
                for count in doubles(number, states[state], total + hydrogens, bonds + hydrogens, bonds):
                    if total + count <= MOST_BONDS:
                        met = (start, -bonds), (start + 1, -total - count), (start + 2, -count)
                        choice(atom, state, cost, *met)
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
