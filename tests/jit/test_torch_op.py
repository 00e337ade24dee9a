# SPDX-License-Identifier: Apache-2.0
"""Kernels as torch operators: schema, tracing, compiling, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T

torch = pytest.importorskip("torch")


def scale(out_idx: Any = -1, **kwargs: Any) -> Any:
    m, n = T.dynamic("m n")

    @T.prim_func
    def main(
        A: T.Tensor((m, n), "float32"), s: T.float32, C: T.Tensor((m, T.ceildiv(n, 2)), "float32")
    ):
        with T.Kernel(m) as bx:
            for j in T.Parallel(T.ceildiv(n, 2)):
                C[bx, j] = A[bx, 2 * j] * s

    return tilelang.compile(
        main, out_idx=out_idx, target="llvm", execution_backend="torch", **kwargs
    )


def test_calls() -> None:
    kernel = scale()
    for m, n in ((4, 6), (1, 1), (3, 7)):
        a = torch.rand(m, n)
        assert torch.equal(kernel(a, 2.0), a[:, ::2] * 2)
    a = np.ones((2, 4), np.float32)
    out = kernel(a, 3)
    assert isinstance(out, np.ndarray)
    assert (out == 3).all()


def test_arguments_by_name() -> None:
    kernel, a = scale(), torch.rand(4, 6)
    assert torch.equal(kernel(a, s=2.0), a[:, ::2] * 2)
    assert torch.equal(kernel(s=2.0, A=a), a[:, ::2] * 2)
    for named, text in (({"A": a}, "A is given by position and by"), ({"D": a}, "no parameter D")):
        with pytest.raises(TypeError, match=text):
            kernel(a, 2.0, **named)


def test_without_outputs_the_schema_says_what_is_written() -> None:
    kernel = scale(None)
    a, c = torch.rand(4, 6), torch.zeros(4, 3)
    assert kernel(a, 2.0, c) is None
    assert torch.equal(c, a[:, ::2] * 2)
    schema = str(kernel.adapter.op._schema)
    assert "Tensor(a2!) C_2" in schema
    assert "Tensor A_0, float s_1" in schema


def test_refusals() -> None:
    kernel = scale()
    with pytest.raises(ValueError, match="expected 2 arguments"):
        kernel(torch.rand(2, 2))
    with pytest.raises(ValueError, match="expected 2 dimensions, got 1"):
        kernel(torch.rand(2), 1.0)
    with pytest.raises(TypeError, match="expected dtype float32, got float64"):
        kernel(torch.rand(2, 2).double(), 1.0)
    with pytest.raises(ValueError, match="not contiguous"):
        kernel(torch.rand(2, 4).T, 1.0)


@pytest.mark.parametrize("out_idx", [-1, None])
def test_opcheck(out_idx: Any) -> None:
    kernel = scale(out_idx)
    args = (torch.rand(4, 6), 2.0) if out_idx else (torch.rand(4, 6), 2.0, torch.zeros(4, 3))
    torch.library.opcheck(kernel.adapter.op, args)


def several(**kwargs: Any) -> Any:
    n = T.dynamic("n")

    @T.prim_func
    def main(
        P: T.Tensor((2, n), "int32"),
        A: T.Tensor((n,), "float32"),
        s: T.float32,
        Q: T.Tensor((n,), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, 16), threads=32) as bx:
            for i in T.Parallel(16):
                Q[bx * 16 + i] = A[bx * 16 + i] * s
                P[0, bx * 16 + i] = T.cast(A[bx * 16 + i], "int32")
                P[1, bx * 16 + i] = 7

    return tilelang.compile(main, target="llvm", execution_backend="torch", **kwargs)


def test_opcheck_of_several_outputs_and_of_none() -> None:
    op = several(out_idx=[3, 0]).adapter.op
    torch.library.opcheck(op, (torch.rand(5), 2.0))
    in_place = (torch.zeros(2, 5, dtype=torch.int32), torch.rand(5), 2.0, torch.zeros(5))
    torch.library.opcheck(several().adapter.op, in_place)


@tilelang.jit(target="llvm", execution_backend="torch")
def added(A, B):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B: T.Tensor((N,), "float32")
    C = T.empty((N,), "float32")
    D = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, 16), threads=32) as bx:
        for i in T.Parallel(16):
            C[bx * 16 + i] = A[bx * 16 + i] + B[bx * 16 + i]
            D[bx * 16 + i] = A[bx * 16 + i] * B[bx * 16 + i]
    return C, D


def one_output(x: Any) -> Any:
    return KERNELS["scale"](x.reshape(2, -1) * 2, 3.0) + 1


def by_name(x: Any) -> Any:
    q, p = KERNELS["several"](s=3.0, A=x * 2)
    return q + 1, p * 2


def in_place(x: Any) -> Any:
    p, q = torch.zeros(2, x.shape[0], dtype=torch.int32), torch.zeros_like(x)
    KERNELS["in place"](p, x, Q=q, s=2.0)
    return p + 1, q * 2


def eager(x: Any) -> Any:
    c, d = added(x, B=x + 1)
    return c * 2, d


KERNELS: dict[str, Any] = {}


@pytest.mark.parametrize("program", [one_output, by_name, in_place, eager])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_under_torch_compile(program: Any, dynamic: bool) -> None:
    """In one graph: kernels by position and by name, with and without outputs, eager functions."""
    KERNELS.update({"scale": scale(), "several": several(out_idx=[3, 0]), "in place": several()})
    want = {n: program(torch.arange(float(n))) for n in (6, 8)}
    torch._dynamo.reset()
    graph = torch.compile(program, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for n, result in want.items():
        torch.testing.assert_close(graph(torch.arange(float(n))), result)


@pytest.mark.slow
def test_under_torchs_own_compiler() -> None:
    KERNELS.update({"several": several(out_idx=[3, 0])})
    graph = torch.compile(by_name, fullgraph=True)
    x = torch.arange(20.0)
    torch.testing.assert_close(graph(x), by_name(x))


def test_derivative() -> None:
    kernel = scale(pass_configs={"tl.enable_fast_math": False})

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.shape, ctx.scale = inputs[0].shape, inputs[1]

    def backward(ctx: Any, grad: Any) -> Any:
        out = torch.zeros(ctx.shape)
        out[:, ::2] = grad * ctx.scale
        return out, None

    kernel.adapter.register_autograd(backward, setup)
    x = torch.rand(3, 4, requires_grad=True)
    kernel.adapter.op(x, 5.0).sum().backward()
    assert torch.equal(x.grad, torch.tensor([[5.0, 0, 5, 0]] * 3))
    torch.testing.assert_close(kernel(x, 5.0).detach(), x.detach()[:, ::2] * 5)


def test_from_the_disk_cache() -> None:
    first = scale()
    tilelang.cache.clear_memory()
    again = scale()
    assert again is not first
    a = torch.rand(4, 6)
    assert torch.equal(again(a, 2.0), a[:, ::2] * 2)
