"""The benchmark of large meshes: where its points lie, and what it measures."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import mesh_scale
from gln.errors import GLNError


@pytest.mark.parametrize("place", [mesh_scale.bumpy_sphere, mesh_scale.knot])
def test_a_surface_is_closed_and_no_place_on_it_has_more_points_than_its_area(
    place: mesh_scale.Place,
) -> None:
    u, v = np.random.default_rng(0).random((2, 100))
    np.testing.assert_allclose(place(u, v), place(u, v + 1), atol=1e-9)
    points = mesh_scale.uniform(place, 20_000, np.random.default_rng(0))
    cells = np.meshgrid((np.arange(400) + 0.5) / 400, (np.arange(400) + 0.5) / 400)
    area, where = mesh_scale._area(place, *cells), place(*cells)
    above = where[..., 2] > 0.2
    assert (points[:, 2] > 0.2).mean() == pytest.approx(area[above].sum() / area.sum(), abs=0.02)


def test_a_small_mesh_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_scale.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(mesh_scale, "WARM", 50)
    (row,) = mesh_scale.run(points=(1000,))["rows"]
    assert row["points"] == 1000
    assert row["watertight"]
    assert row["seconds"] >= row["prediction_seconds"] + row["faces_seconds"]


def test_a_mistake_is_one_sentence() -> None:
    with pytest.raises(GLNError, match="points=\\(2,\\)"):
        mesh_scale.run(points=(2,))
