"""The equations of docs/how-it-works.md, in plain loops and in their order, give what the model gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu

from gln.graphs import GraphBatch, make_graph
from gln.models import GLN
from gln.models.candidates import all_pairs, candidate_pairs
from gln.models.gln import Step


def the_start(model: GLN, N: list[list[int]], p: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    n = len(N)
    r = torch.cdist(p, p)
    u = torch.stack([r[i, N[i]][r[i, N[i]] > 0].sort().values[:4].mean() for i in range(n)])
    e = p.new_zeros(n, n, model.config["pair_width"])
    for i in range(n):
        for j in N[i]:
            way, u_ij = p[j] - p[i], (u[i] * u[j]).sqrt()
            lengths = [r[i, j] / u_ij, (r[i, j] / u[i] + 1e-3).log(), (r[i, j] / u[j] + 1e-3).log()]
            f = torch.cat([way / u_ij, way / r[i, j], torch.stack(lengths), x[j] - x[i], (x[j] - x[i]).abs()])
            e[i, j] = model.embed_pair(f)
    return model.embed_node(x), e, p.new_zeros(n, n)


def nodes_listen(step: Step, N: list[list[int]], h: Tensor, e: Tensor, a: Tensor) -> Tensor:
    listen, n = step.listen, len(N)
    s = torch.stack([(1 + a[i, N[i]].sum()) ** -0.5 for i in range(n)])
    v = listen.W(listen.norm(h)).unflatten(-1, (listen.kernels, -1))  # [n, k, d/k]
    m = torch.zeros_like(v)
    for i in range(n):
        for q in range(listen.kernels):
            m[i, q] = s[i] ** 2 * v[i, q]
            for j in N[i]:
                g = 2 * listen.gate(listen.pair_norm(e[i, j]))[q].sigmoid()
                m[i, q] += s[i] * a[i, j] * s[j] * g * v[j, q]
    h = h + listen.U(gelu(m.flatten(1)))
    return h + step.think(h)


def pairs_read_their_ends(step: Step, N: list[list[int]], h: Tensor, e: Tensor, a: Tensor) -> Tensor:
    ends, new = step.ends, e.clone()
    for i, neighbours in enumerate(N):
        for j in neighbours:
            left, left_factor = ends.source(ends.norm(h[i])).chunk(2)
            right, right_factor = ends.target(ends.norm(h[j])).chunk(2)
            new[i, j] += ends.out(
                gelu(left + right + left_factor * right_factor + ends.structure(a[i, j][None]))
            )
    return new


def pairs_read_pairs(step: Step, N: list[list[int]], e: Tensor) -> Tensor:
    mix, new = step.mix, e.clone()
    assert mix is not None
    q, k, y, z = (
        mix.read(mix.norm(e)).unflatten(-1, (4, mix.heads, -1)).unbind(2)
    )  # each [n, n, heads, c/heads]
    for i, neighbours in enumerate(N):
        for j in neighbours:
            third = [m for m in neighbours if m in N[j]]
            t = [(q[i, m] * k[j, m]).sum(-1) for m in third]  # [heads] each
            Z = (1 + sum(value.exp() for value in t)).log() if third else q.new_zeros(mix.heads)
            o = torch.zeros_like(y[i, j])
            for m, value in zip(third, t, strict=True):
                o += (value - Z).exp()[:, None] * (y[i, m] + z[j, m])
            new[i, j] += mix.out(torch.cat([o.flatten(), Z]))
    return new + step.weigh(new)


def the_structure(step: Step, N: list[list[int]], e: Tensor) -> Tensor:
    y, a = step.score(e).squeeze(-1), e.new_zeros(e.shape[:2])
    for i, neighbours in enumerate(N):
        for j in neighbours:
            a[i, j] = ((y[i, j] + y[j, i]) / 2).sigmoid()
    return a


@pytest.mark.parametrize("nearest", [None, 3])
@torch.no_grad()
def test_the_page_says_what_the_model_computes(nearest: int | None) -> None:
    torch.manual_seed(0)
    model = GLN(in_channels=2, pos_channels=3, width=8, pair_width=4, kernels=2, steps=3).double().eval()
    p, x = torch.randn(8, 3, dtype=torch.float64), torch.randn(8, 2, dtype=torch.float64)
    batch = GraphBatch.from_graphs([make_graph(pos=p.float(), x=x.float())])
    p, x = batch.pos[0].double(), batch.x[0].double()
    mask = torch.ones(1, 8, dtype=torch.bool)
    dense = all_pairs(mask) if nearest is None else candidate_pairs(p[None], mask, nearest, listed=False)
    pairs = dense if nearest is None else candidate_pairs(p[None], mask, nearest, listed=True)
    output = model(batch, pairs=pairs)

    N = [row.nonzero().flatten().tolist() for row in dense.mask[0]]
    h, e, a = the_start(model, N, p, x)
    for number, step in enumerate(model.blocks):
        h = nodes_listen(step, N, h, e, a)
        e = pairs_read_their_ends(step, N, h, e, a)
        e = pairs_read_pairs(step, N, e)
        a = the_structure(step, N, e)
        torch.testing.assert_close(a, output.probabilities(number)[0], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(h, output.states[number][0], rtol=1e-9, atol=1e-9)
