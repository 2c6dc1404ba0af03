"""The paper's network in loops over entries, from its formulas: slow, obvious, and differentiable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gln.models.paper import PaperGLN

Matrix = list[list[Any]]  # of scalar tensors, so that gradients flow through the loops


def rows(tensor: Tensor) -> Matrix:
    return [list(row.unbind()) for row in tensor.unbind()]


def product(a: Matrix, b: Matrix) -> Matrix:
    return [[sum(a[i][k] * b[k][j] for k in range(len(b))) for j in range(len(b[0]))] for i in range(len(a))]


def transposed(a: Matrix) -> Matrix:
    return [list(column) for column in zip(*a, strict=True)]


def each(function: Callable[..., Any], *matrices: Matrix) -> Matrix:
    return [
        [function(*values) for values in zip(*lines, strict=True)] for lines in zip(*matrices, strict=True)
    ]


def added(a: Matrix, b: Matrix) -> Matrix:
    return each(lambda x, y: x + y, a, b)


def tau(A: Matrix) -> Matrix:
    degree = [sum(row) + 1 for row in A]
    return [
        [(A[i][j] + (i == j)) / (degree[i] * degree[j]) ** 0.5 for j in range(len(A))] for i in range(len(A))
    ]


def standardised(values: list[Any], epsilon: float) -> list[Any]:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return [(value - mean) / (variance + epsilon) ** 0.5 for value in values]


def over_nodes(X: Matrix) -> Matrix:
    return transposed([standardised(column, 1e-5) for column in transposed(X)])


def over_batch(batch: list[Matrix], scale: Tensor, shift: Tensor) -> list[Matrix]:
    new: list[Matrix] = [[[None] * len(X[0]) for _ in X] for X in batch]
    for i in range(len(batch[0])):
        for j in range(len(batch[0][0])):
            for X, value in zip(new, standardised([X[i][j] for X in batch], 1e-12), strict=True):
                X[i][j] = value * scale[j] + shift[j]
    return new


def by_the_equations(model: PaperGLN, V: Tensor) -> list[Tensor]:
    """Scores of every step ``[B, N, N]``, one graph after the other, α and M α Mᵀ in full."""
    config, answers = model.config, []
    norm = over_nodes if config["normalise"] else lambda X: X
    for graph in V:
        H, A, steps = rows(graph), rows(model.A0), []
        for l in range(config["steps"]):
            block = 0 if config["shared"] else l
            W = model.W[min(l, 1) if config["shared"] else l]
            U, Z, Q, M = (rows(getattr(model, name)[block]) for name in "UZQM")
            H_int = None
            for i in range(config["kernels"]):
                kernel = each(torch.sigmoid, norm(product(product(tau(A), H), rows(W[:, i]))))
                H_int = kernel if H_int is None else added(H_int, kernel)
            H = each(torch.sigmoid, norm(product(product(tau(A), H_int), U)))
            H_global = each(torch.tanh, product(H, Z))
            if config["m_bias"]:
                first, second = (rows(half) for half in model.B[block].chunk(2, dim=1))
                left = added(product(M, product(H, Q)), first)
                S = product(left, transposed(added(product(M, H_global), second)))
            else:
                alpha = product(product(H, Q), transposed(H_global))
                S = product(product(M, alpha), transposed(M))
            if config["symmetric"]:
                S = each(lambda x, y: (x + y) / 2, S, transposed(S))
            A = each(torch.sigmoid, S)
            steps.append(torch.stack([torch.stack(row) for row in S]))
        answers.append(steps)
    return [torch.stack(step) for step in zip(*answers, strict=True)]


def by_the_released_code(model: PaperGLN, V: Tensor) -> list[Tensor]:
    """As :func:`by_the_equations`, but all graphs step by step together, since BN joins them."""

    def unit(weight: Tensor) -> Matrix:
        return rows(weight / sum(entry**2 for entry in weight.flatten()) ** 0.5)

    def activated(batch: list[Matrix], name: str, l: int, part: slice = slice(None)) -> list[Matrix]:
        norm = model.norm[name][l]
        return [each(torch.relu, X) for X in over_batch(batch, norm.scale[part], norm.shift[part])]

    config, count = model.config, len(V)
    H, A, answers = [rows(graph) for graph in V], [rows(model.A0)] * count, []
    for l, d in enumerate(config["width"]):
        taus = [tau(a) for a in A]
        H_int: list[Matrix] = []
        for i in range(config["kernels"]):
            X = [product(product(t, h), unit(model.W[l][:, i])) for t, h in zip(taus, H, strict=True)]
            kernel = activated(X, "W", l, slice(i * d, (i + 1) * d))
            H_int = [added(a, b) for a, b in zip(H_int, kernel, strict=True)] if H_int else kernel
        H = H_int
        mixed = [product(product(t, h), unit(model.U[l])) for t, h in zip(taus, H, strict=True)]
        H_local = activated(mixed, "U", l)
        H_global = activated([product(h, unit(model.Z[l])) for h in H], "Z", l)
        Q, M = rows(model.Q[l]), rows(model.M[l])
        pairs = zip(H_local, H_global, strict=True)
        alpha = [product(product(h, Q), transposed(g)) for h, g in pairs]
        scores = [product(product(M, a), transposed(M)) for a in alpha]
        norm = model.norm["M"][l]
        before = over_batch(scores, norm.scale, norm.shift)
        A = [each(torch.relu, S) for S in before]
        answers.append(torch.stack([torch.stack([torch.stack(row) for row in S]) for S in before]))
    flat = torch.stack([torch.stack([entry for row in a for entry in row]) for a in A])
    final = [
        [(flat[g] * w).sum() + b for w, b in zip(model.dense.weight, model.dense.bias, strict=True)]
        for g in range(count)
    ]
    answers[-1] = torch.stack([torch.stack(line) for line in final]).view_as(answers[-1])
    return answers
