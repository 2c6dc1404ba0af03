"""Positions and colours decide the arrows."""

from __future__ import annotations

from gln.families import family


def test_an_arrow_leads_to_the_nearest_point_of_the_colour() -> None:
    alone = 0
    for graph in family("nearest", points=8, colours=4).graphs(40, seed=1):
        colour, pos = graph.x.argmax(1).tolist(), graph.pos.double()
        expected = []
        for i in range(8):
            same = [j for j in range(8) if j != i and colour[j] == colour[i]]
            alone += not same
            if same:
                expected.append([i, min(same, key=lambda j: float((pos[i] - pos[j]).norm()))])
        assert graph.directed
        assert graph.edges_once().tolist() == expected
        assert graph.x.sum(1).eq(1).all()
    assert alone
