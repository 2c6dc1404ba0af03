"""Laws of the figures family, and its edges against a slow obvious reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.families.figures import Figures
from gln.graphs.regions import region_edges


def slow_edges(pos: torch.Tensor, region: torch.Tensor, neighbours: int) -> torch.Tensor:
    """All pairs, one by one: in one region, and a side (or, with 8, a corner) in common."""
    edges = []
    for i, (a, b) in enumerate(pos.tolist()):
        for j, (c, d) in enumerate(pos.tolist()):
            near = abs(a - c) + abs(b - d) == 1 if neighbours == 4 else max(abs(a - c), abs(b - d)) == 1
            if near and region[i] == region[j]:
                edges.append((i, j))
    return torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T


def figure_of(graph: Data, side: int) -> np.ndarray:
    """The pixels of the first object: bool ``[side, side]``."""
    mask = np.zeros((side, side), dtype=bool)
    col, row = graph.pos[graph.region == 1].long().numpy().T
    mask[row, col] = True
    return mask


@pytest.mark.parametrize("order", ["set", "ordered"])
@pytest.mark.parametrize(("objects", "neighbours"), [(1, 4), (1, 8), (3, 4), (3, 8)])
def test_the_regions_give_the_graph_back(order: str, objects: int, neighbours: int) -> None:
    for graph in Figures(side=6, objects=objects, neighbours=neighbours, order=order).sample(8, seed=1):
        assert torch.equal(region_edges(graph.pos, graph.region, neighbours), graph.edge_index)
        assert torch.equal(slow_edges(graph.pos, graph.region, neighbours), graph.edge_index)


@pytest.mark.parametrize("neighbours", [4, 8])
def test_edges_of_pixels_in_any_order_anywhere_with_holes(neighbours: int) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        keep = torch.randperm(35, generator=generator)[:25]
        pos = torch.stack([keep % 7 - 3, keep // 7 + 100], dim=1).float()
        region = torch.randint(-1, 2, (25,), generator=generator)
        assert torch.equal(region_edges(pos, region, neighbours), slow_edges(pos, region, neighbours))


@pytest.mark.parametrize("pos", [[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.5, 0.0]]])
def test_positions_that_are_no_pixels_are_refused(pos: list) -> None:
    with pytest.raises(GLNError, match="pixel"):
        region_edges(torch.tensor(pos), torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize("side", [4, 5, 20])
@pytest.mark.parametrize("objects", [1, 4])
def test_every_image_shows_at_least_two_regions(side: int, objects: int) -> None:
    for graph in Figures(side=side, objects=objects).sample(300, seed=2):
        seen = graph.region.unique().tolist()
        assert len(seen) >= 2
        assert set(seen) <= set(range(objects + 1))


def test_many_objects_show_many_regions() -> None:
    seen = [len(graph.region.unique()) for graph in Figures(objects=4).sample(100, seed=3)]
    assert max(seen) == 5
    assert np.mean(seen) > 3


def test_set_shuffles_the_images_that_ordered_lists_row_by_row() -> None:
    shuffled, listed = Figures(side=7).sample(40, seed=4), Figures(side=7, order="ordered").sample(40, seed=4)
    for graph, image in zip(shuffled, listed, strict=True):
        assert image.pos.tolist() == [[col, row] for row in range(7) for col in range(7)]
        place = (graph.pos[:, 1] * 7 + graph.pos[:, 0]).long()
        assert not torch.equal(place, torch.arange(49))
        assert torch.equal(image.x[place], graph.x)
        assert torch.equal(image.region[place], graph.region)
    assert not torch.equal(shuffled[0].pos, shuffled[1].pos)


SIDE = 12


@pytest.fixture(scope="module")
def masks() -> list[np.ndarray]:
    return [figure_of(graph, SIDE) for graph in Figures(side=SIDE).sample(450, seed=5)]


class TestShapes:
    def test_every_figure_is_a_disc_a_rectangle_or_one_side_of_a_line(self, masks: list[np.ndarray]) -> None:
        # Small discs are squares and level half planes are rectangles, so the shares overlap a little.
        discs = [is_disc(mask) and len(box(mask)) >= 4 for mask in masks]
        rectangles = [box(mask).all() for mask in masks]
        halves = [
            not r and not d and is_half_plane(m) for m, r, d in zip(masks, rectangles, discs, strict=True)
        ]
        assert all(map(any, zip(discs, rectangles, halves, strict=True)))
        assert np.mean(discs) == pytest.approx((1 / 3) * 9 / 12, abs=0.06)
        assert np.mean(halves) == pytest.approx(1 / 3, abs=0.08)
        assert 0.25 < np.mean(rectangles) < 0.6

    def test_dimensions_reach_from_one_pixel_to_the_side(self, masks: list[np.ndarray]) -> None:
        discs = [len(box(mask)) for mask in masks if is_disc(mask) and len(box(mask)) >= 4]
        rectangles = [box(mask).shape for mask in masks if box(mask).all()]
        assert set(discs) == set(range(4, SIDE + 1))
        assert (
            {height for height, _ in rectangles}
            == {width for _, width in rectangles}
            == set(range(1, SIDE + 1))
        )

    def test_smallest_bounds_the_dimensions(self) -> None:
        for graph in Figures(side=SIDE, smallest=5).sample(150, seed=6):
            mask = figure_of(graph, SIDE)
            assert min(box(mask).shape) >= 5 or is_half_plane(mask)


def box(mask: np.ndarray) -> np.ndarray:
    """The part of ``mask`` within its bounding box."""
    rows, cols = mask.any(axis=1).nonzero()[0], mask.any(axis=0).nonzero()[0]
    return mask[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1]


def is_disc(mask: np.ndarray) -> bool:
    inner = box(mask)
    if inner.shape[0] != inner.shape[1]:
        return False
    offset = np.arange(len(inner)) - (len(inner) - 1) / 2
    return np.array_equal(inner, np.hypot(offset[:, None], offset) <= len(inner) / 2)


def is_half_plane(mask: np.ndarray) -> bool:
    """Whether a line separates the figure from the rest: a linear programme with nothing to optimise."""
    row, col = np.indices(mask.shape).reshape(2, -1)
    sign = np.where(mask.ravel(), -1, 1)[:, None]
    rows = sign * np.stack([row, col, np.ones_like(row)], axis=1)
    return linprog(np.zeros(3), A_ub=rows, b_ub=-np.ones(len(rows)), bounds=(None, None)).status == 0


@pytest.mark.parametrize(
    ("contrast", "objects"), [(0.5, 1), (0.5, 3), (0.05, 60), (0.25, 46), (0.5, 9), (0.8, 3), (1.0, 2)]
)
def test_the_colours_of_two_regions_differ_by_the_contrast(contrast: float, objects: int) -> None:
    """Also for the most objects that a contrast allows."""
    for graph in Figures(side=6, contrast=contrast, objects=objects, noise=0).sample(30, seed=7):
        colours = [graph.x[graph.region == label].unique(dim=0) for label in graph.region.unique()]
        assert all(len(colour) == 1 for colour in colours)
        assert torch.pdist(torch.cat(colours)).min() >= contrast - 1e-6


def test_noise_is_white_and_clipped() -> None:
    clean, noisy = Figures(noise=0).sample(60, seed=8), Figures(noise=0.1).sample(60, seed=8)
    before = torch.cat([graph.x for graph in clean])
    after = torch.cat([graph.x for graph in noisy])
    assert after.min() == 0
    assert after.max() == 1
    noise = (after - before)[((before > 0.4) & (before < 0.6)).all(dim=1)]  # 4 σ from being clipped
    assert noise.mean().abs() < 0.01
    torch.testing.assert_close(noise.T.cov(), 0.01 * torch.eye(3), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"side": 3}, "side=3; expected a whole number of at least 4"),
        ({"side": "big"}, "side='big'"),
        ({"objects": 0}, "objects=0"),
        ({"objects": 10}, "at contrast=0.5 colours can be found for at most 9"),
        ({"objects": 3, "contrast": 1.0}, "at most 2"),
        ({"neighbours": 6}, "neighbours=6; choose 4"),
        ({"smallest": 20}, "smallest=20; expected less than side=20"),
        ({"contrast": 0}, "contrast=0; expected"),
        ({"contrast": 1.2}, "contrast=1.2; expected"),
        ({"contrast": True}, "contrast=True; expected"),
        ({"noise": True}, "noise=True; expected"),
        ({"noise": -0.1}, "noise=-0.1; expected"),
        ({"noise": float("nan")}, "noise=nan; expected"),
        ({"noise": float("inf")}, "noise=inf; expected"),
    ],
)
def test_impossible_figures_are_refused(parameters: dict, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        Figures(**parameters)


# The images of the released code ------------------------------------------------------------------------------


def test_released_images_have_two_colours_of_their_own_for_every_pixel() -> None:
    for graph in Figures(images="released", side=8, order="ordered").sample(30, seed=1):
        assert torch.equal(slow_edges(graph.pos, graph.region, 4), graph.edge_index)
        red, _, blue = graph.x.T
        # Red from 150 and blue below 10, or red below 30 and blue from 90: one of the two for every pixel of a region.
        reddish, bluish = (red >= 150) & (blue < 10), (red < 30) & (blue >= 90)
        assert torch.equal(reddish, ~bluish)
        for region in graph.region.unique():
            assert len(reddish[graph.region == region].unique()) == 1
    assert torch.equal(graph.pos[:9], torch.tensor([[0.0, col] for col in range(8)] + [[1.0, 0.0]]))


def test_released_figures_are_lines_discs_and_rectangles_some_of_which_miss_the_image() -> None:
    """On 3 000 images of the authors' generator a full grid has a mean IoU of .975, self-loops counted."""
    graphs = Figures(images="released", order="ordered").graphs(1200, seed=3)
    full = 4 * 19 * 20 + 400
    assert np.mean([(graph.num_edges + 400) / full for graph in graphs]) == pytest.approx(0.9748, abs=0.0015)
    assert {len(graph.region.unique()) for graph in graphs} == {1, 2}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"images": "theirs"}, "images='theirs'"),
        ({"images": "released", "noise": 0.2}, "noise; leave it out"),
    ],
)
def test_released_images_have_no_settings_of_ours(parameters: dict, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        Figures(**parameters)
