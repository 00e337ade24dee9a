# SPDX-License-Identifier: Apache-2.0
"""LOOP to DEVICE: the text of each pass, and before = after by execution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilelang.config import Options
from tilelang.errors import InternalError, ResourceError
from tilelang.interp import thread
from tilelang.ir import (
    Alloc,
    Assume,
    Bind,
    Buffer,
    Builder,
    Const,
    DType,
    HostProgram,
    If,
    Launch,
    Load,
    PrimFunc,
    Return,
    Var,
    address_of,
    call,
    cast,
    const,
    if_then_else,
    logical_and,
    maximum,
    seq,
    session,
)  # fmt: skip
from tilelang.layout import make_swizzled
from tilelang.target import Target
from tilelang.testing.golden import check_golden
from tilelang.transform import PIPELINE, PassContext, run_passes

GOLDEN = Path(__file__).parents[1] / "golden" / "transform"
CUDA, CPU = "cuda -arch=sm_80", "llvm -mcpu=x86-64-v4"
PASSES = [p.name for p in PIPELINE]
LOOP_PASSES = PASSES[PASSES.index("guard_bounds") :]


@pytest.fixture(autouse=True)
def one_session() -> Iterator[None]:
    with session():
        yield


@dataclass
class Made:
    """A LOOP-stage function and the context its passes run in."""

    func: PrimFunc
    ctx: PassContext

    def after(self, *names: str) -> Any:
        rows = [p for p in PIPELINE if p.name in names]
        return run_passes(self.func, self.ctx, rows, stage="LOOP")

    def until(self, name: str) -> Any:
        return self.after(*LOOP_PASSES[: LOOP_PASSES.index(name) + 1])

    def everything(self) -> HostProgram:
        return self.until("split_host_device")


def kernel(
    target: str,
    params: list[Any],
    grid: Any,
    threads: int,
    body: Callable[..., None],
    **options: Any,
) -> Made:
    bx, tx = Var("bx"), Var("tx")
    b = Builder()
    body(b, bx, tx)
    launch = Launch(
        (const(grid) if isinstance(grid, int) else grid,), (threads, 1, 1), (bx,), (tx,), b.finish()
    )
    func = PrimFunc("f", tuple(params), launch)
    return Made(func, PassContext(Target(target), Options(**options)))


def text(program: Any) -> str:
    if isinstance(program, PrimFunc):
        return program.script()
    return "\n".join(
        f"{k.name}<<<{k.grid}, {k.block}, {k.dynamic_smem}>>>"
        f"({', '.join(a.name for a in k.args)})\n{k.body}"
        for k in program.launches
    )


# ---------------------------------------------------------------------------------- kernels


def ragged_copy(target: str, m: Any, n: Any, width: int = 8, **options: Any) -> Made:
    """A tile of 4 x 32 of A to shared memory, then out, converted: for every m, n."""
    a, c = Buffer("A", (m, n), "float16"), Buffer("C", (m, n), "float32")
    per_row = 32 // width
    threads = 4 * per_row if "cuda" in target else 1

    def body(b: Builder, bx: Var, tx: Var) -> None:
        s = b.alloc("S", (4, 32), "float16", "shared.dyn")
        if threads == 1:
            with b.for_("i", 4) as i, b.for_("v", 32, kind="vectorized") as v:
                b.store(s, (i, v), Load(a, (bx // 2 * 4 + i, bx % 2 * 32 + v)))
            with b.for_("i", 4) as i, b.for_("v", 32, kind="vectorized") as v:
                b.store(c, (bx // 2 * 4 + i, bx % 2 * 32 + v), Load(s, (i, v)))
            return
        row, col = tx // per_row, tx % per_row * width
        with b.for_("v", width, kind="vectorized") as v:
            b.store(s, (row, col + v), Load(a, (bx // 2 * 4 + row, bx % 2 * 32 + col + v)))
        b.call("sync_threads")
        with b.for_("v", width, kind="vectorized") as v:
            b.store(c, (bx // 2 * 4 + row, bx % 2 * 32 + col + v), Load(s, (row, col + v)))

    return kernel(target, [a, c], (m + 3) // 4 * 2, threads, body, **options)


def run_on(program: PrimFunc | HostProgram, *arrays: np.ndarray) -> list[np.ndarray]:
    copies = [a.copy() for a in arrays]
    thread.run(program, *copies)
    return copies


def random(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    values = np.random.default_rng(7).integers(-8, 8, shape)
    return values.astype(dtype)


# ---------------------------------------------------------------------------------- execution


@pytest.mark.parametrize("target", [CUDA, CPU])
@pytest.mark.parametrize(("m", "n"), [(8, 64), (7, 61), (1, 1), (5, 40), (3, 33)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_ragged_tile_is_copied_exactly(target: str, m: int, n: int, dynamic: bool) -> None:
    made = ragged_copy(target, Var("M") if dynamic else m, Var("N") if dynamic else n)
    a, c = random((m, n), np.float16), np.full((m, n), -99, np.float32)
    _, out = run_on(made.everything(), a, c)
    np.testing.assert_array_equal(out, a.astype(np.float32))


def test_every_pass_keeps_the_result() -> None:
    for target in (CUDA, CPU):
        made = ragged_copy(target, 8, 64)
        a, c = random((8, 64), np.float16), np.full((8, 64), -99, np.float32)
        want = run_on(made.func, a, c)[1]
        for name in LOOP_PASSES:
            if target == CUDA or name != "merge_shared":
                np.testing.assert_array_equal(run_on(made.until(name), a, c)[1], want, err_msg=name)


def elementwise(target: str, n: Any, extent: Any, value: Callable[..., Any], **notes: Any) -> Made:
    """C[v] = value(b, A, v) for a vectorized v."""
    a, c = Buffer("A", (n,), "float32"), Buffer("C", (n,), "float32")

    def body(b: Builder, bx: Var, tx: Var) -> None:
        with b.for_("v", extent, kind="vectorized", **notes) as v:
            b.store(c, (v,), value(b, a, v))

    return kernel(target, [a, c], 1, 1, body)


VALUES: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray], np.ndarray]]] = {
    "scaled": (lambda b, a, v: a[v] * 2.0 + 1.0, lambda x: x * 2 + 1),
    "index": (lambda b, a, v: a[v] + cast(v, "float32"), lambda x: x + np.arange(len(x))),
    "reversed": (
        lambda b, a, v: a[a.shape[0] - 1 - v],
        lambda x: x[::-1],
    ),
    "strided": (lambda b, a, v: a[v // 2 * 2], lambda x: x[np.arange(len(x)) // 2 * 2]),
    "shifted": (
        lambda b, a, v: a[v + 1],
        lambda x: np.append(x[1:], np.float32(0)),
    ),
    "shifted_down": (
        lambda b, a, v: a[v - 3],
        lambda x: np.append(np.zeros(min(3, len(x)), np.float32), x[:-3])[: len(x)],
    ),
    "choice": (
        lambda b, a, v: if_then_else(v % 3 < 1, a[v], const(5.0)),
        lambda x: np.where(np.arange(len(x)) % 3 < 1, x, np.float32(5)),
    ),
    "bound": (lambda b, a, v: b.bind("x", a[v] + 1.0) * 3.0, lambda x: (x + 1) * 3),
}


@pytest.mark.parametrize("target", [CUDA, CPU])
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("n", [1, 3, 8, 16, 37, 100])
def test_elementwise_loops(target: str, name: str, n: int) -> None:
    value, expected = VALUES[name]
    x = random((n,))
    for size, extent in ((n, n), (Var("N"), n), (symbol := Var("N"), symbol)):
        made = elementwise(target, size, extent, value)
        _, out = run_on(made.everything(), x, np.full(n, -99, np.float32))
        np.testing.assert_array_equal(out, expected(x))


@pytest.mark.parametrize("target", [CUDA, CPU])
@pytest.mark.parametrize("n", [1, 5, 16, 100, 200])
@pytest.mark.parametrize("kind", ["add", "max", "min"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_reductions(target: str, n: int, kind: str, dynamic: bool) -> None:
    size: Any = Var("N") if dynamic else n
    a, c = Buffer("A", (size,), "float32"), Buffer("C", (1,), "float32")

    def body(b: Builder, bx: Var, tx: Var) -> None:
        with b.for_("v", size, kind="vectorized", reassociate=True) as v:
            x = a[v] * 2.0
            ops = {"add": lambda p, q: p + q, "max": maximum, "min": lambda p, q: -maximum(-p, -q)}
            b.store(c, (0,), ops[kind](c[0], x))

    made = kernel(target, [a, c], 1, 1, body)
    x, start = random((n,)), np.array([3], np.float32)
    _, out = run_on(made.everything(), x, start)
    fold = {"add": np.sum, "max": np.max, "min": np.min}[kind]
    want = fold(np.append(x * 2, start)).astype(np.float32)
    assert out[0] == want


def test_a_sum_of_floats_keeps_its_order_unless_it_may_not() -> None:
    def made(**notes: Any) -> Made:
        a, c = Buffer("A", (64,), "float32"), Buffer("C", (1,), "float32")

        def body(b: Builder, bx: Var, tx: Var) -> None:
            with b.for_("v", 64, kind="vectorized", **notes) as v:
                b.store(c, (0,), c[0] + a[v])

        return kernel(CPU, [a, c], 1, 1, body)

    ordered, free = made(), made(reassociate=True)
    assert "Ramp" not in ordered.until("vectorize_loops").script()
    assert any("keeps its order" in n for n in ordered.ctx.notes)
    assert "reduce_lanes_add" in free.until("vectorize_loops").script()


@pytest.mark.parametrize("target", [CUDA, CPU])
def test_lanes_that_depend_on_each_other_stay_in_order(target: str) -> None:
    a = Buffer("A", (17,), "int32")

    def body(b: Builder, bx: Var, tx: Var) -> None:
        with b.for_("v", 16, kind="vectorized") as v:
            b.store(a, (v + 1,), a[v] + 1)

    made = kernel(target, [a], 1, 1, body)
    (out,) = run_on(made.everything(), np.zeros(17, np.int32))
    np.testing.assert_array_equal(out, np.arange(17))
    assert (
        any("one lane to another" in n or "lane before" in n for n in made.ctx.notes)
        or target == CUDA
    )


@pytest.mark.parametrize("target", [CUDA, CPU])
def test_statements_that_pass_values_between_lanes_are_not_torn_apart(target: str) -> None:
    a, c = Buffer("A", (16,), "int32"), Buffer("C", (16,), "int32")

    def body(b: Builder, bx: Var, tx: Var) -> None:
        acc = b.alloc("acc", (1,), "int32")
        b.store(acc, (0,), 0)
        with b.for_("v", 16, kind="vectorized") as v:
            b.store(acc, (0,), acc[0] + a[v])
            b.store(c, (v,), acc[0])

    x = random((16,), np.int32)
    made = kernel(target, [a, c], 1, 1, body)
    _, out = run_on(made.everything(), x, np.zeros(16, np.int32))
    np.testing.assert_array_equal(out, np.cumsum(x))


# ---------------------------------------------------------------------------------- guards


def test_guards_are_proved_away() -> None:
    made = ragged_copy(CUDA, 8, 64)
    assert "if" not in made.after("guard_bounds").script()


@pytest.mark.parametrize("guard", [True, False])
def test_guards_only_where_needed(guard: bool, update_golden: bool) -> None:
    made = ragged_copy(CUDA, Var("M"), 64, bounds_guard=guard)
    out = made.after("guard_bounds").script()
    assert ("< M" in out) is guard
    assert "< 64" not in out
    if guard:
        check_golden(GOLDEN / "guard_rows.txt", out, update_golden)


def guarded_body(b: Builder, a: Buffer, i: Buffer, c: Buffer, bx: Var, tx: Var) -> None:
    n = a.shape[0]
    b.store(c, (tx,), a[i[tx]])
    with b.if_(logical_and(tx >= 1, tx <= n)):
        b.store(c, (tx - 1,), a[tx - 1])
    b.call("atomic_add", address_of(c, tx + 1), const(1.0))
    x = b.bind("x", tx * 4)
    b.emit(Assume(x < c.shape[0]))
    b.store(c, (x,), 0.0)
    b.emit(If(tx >= c.shape[0], Return()))
    b.store(c, (tx,), 1.0)


def test_guards_of_indices_atomics_and_user_conditions(update_golden: bool) -> None:
    n, m = Var("N"), Var("M")
    a, i, c = (
        Buffer("A", (n,), "float32"),
        Buffer("I", (64,), "int32"),
        Buffer("C", (m,), "float32"),
    )
    made = kernel(CUDA, [a, i, c], 1, 64, lambda b, bx, tx: guarded_body(b, a, i, c, bx, tx))
    check_golden(GOLDEN / "guard_kinds.txt", made.after("guard_bounds").script(), update_golden)


def test_the_safe_value_is_read_out_of_bounds() -> None:
    a, c = Buffer("A", (5,), "float32"), Buffer("C", (8,), "float32")
    made = kernel(CPU, [a, c], 1, 1, lambda b, bx, tx: None)
    b = Builder()
    with b.for_("v", 8, kind="vectorized") as v:
        b.store(c, (v,), a[v])
    bx, tx = Var("bx"), Var("tx")
    launch = Launch(
        (const(1),), (1, 1, 1), (bx,), (tx,), b.finish(), {"safe_values": {a: const(9.0)}}
    )
    made.func = PrimFunc("f", (a, c), launch)
    _, out = run_on(made.everything(), random((5,)), np.zeros(8, np.float32))
    np.testing.assert_array_equal(out, [*random((5,)), 9, 9, 9])


# ---------------------------------------------------------------------------------- golden texts


@pytest.mark.parametrize("name", ["vectorize_loops", "flatten_buffers", "split_host_device"])
@pytest.mark.parametrize("target", [CUDA, CPU])
def test_text_of_a_ragged_copy(name: str, target: str, update_golden: bool) -> None:
    made = ragged_copy(target, Var("M"), Var("N"))
    kind = "cuda" if target == CUDA else "cpu"
    check_golden(GOLDEN / f"ragged_{kind}_{name}.txt", text(made.until(name)), update_golden)


def test_a_divisible_stride_keeps_the_vector(update_golden: bool) -> None:
    """base + v < N is uniform where base and N are multiples of the width."""
    n = Var("N")
    made = ragged_copy(CUDA, Var("M"), n)
    made.ctx.assumptions = (n % 8 == 0,)
    out = text(made.until("vectorize_loops"))
    assert "Ramp(bx % 2 * 32 + tx % 4 * 8, 1, 8)" in out
    check_golden(GOLDEN / "ragged_cuda_assumed.txt", out, update_golden)


@pytest.mark.parametrize("n", [37, 64, 1000])
def test_only_the_edge_of_a_ragged_vector_is_scalar(n: int, update_golden: bool) -> None:
    """The interior keeps wide accesses whatever the length is."""
    size = Var("N")
    a, c = Buffer("A", (size,), "float32"), Buffer("C", (size,), "float32")

    def body(b: Builder, bx: Var, tx: Var) -> None:
        with b.for_("v", 4, kind="vectorized") as v:
            b.store(c, (bx * 128 + tx * 4 + v,), a[bx * 128 + tx * 4 + v] * 2.0)

    made = kernel(CUDA, [a, c], (size + 127) // 128, 32, body)
    check_golden(GOLDEN / "ragged_vector.txt", text(made.everything()), update_golden)
    x = random((n,))
    np.testing.assert_array_equal(run_on(made.everything(), x, np.zeros_like(x))[1], x * 2)


def test_width_shrinks_to_what_alignment_allows() -> None:
    made = ragged_copy(CUDA, 8, 36)  # rows of 36 halves: 8-byte steps
    out = text(made.until("vectorize_loops"))
    assert ", 1, 4)]" in out
    a, c = random((8, 36), np.float16), np.full((8, 36), -99, np.float32)
    np.testing.assert_array_equal(run_on(made.everything(), a, c)[1], a)


# ---------------------------------------------------------------------------------- unroll


@pytest.mark.parametrize("explicit", [False, True])
def test_unroll(explicit: bool) -> None:
    c = Buffer("C", (4,), "int32")

    def body(b: Builder, bx: Var, tx: Var) -> None:
        with b.for_("i", 4, kind="unroll", explicit=explicit) as i:
            b.store(c, (i,), b.bind("x", i * i))

    on_cuda = kernel(CUDA, [c], 1, 1, body).until("unroll_loops").script()
    on_cpu = kernel(CPU, [c], 1, 1, body).until("unroll_loops").script()
    assert ("unroll" in on_cuda) is not explicit
    assert "for" not in on_cpu
    (out,) = run_on(kernel(CPU, [c], 1, 1, body).everything(), np.zeros(4, np.int32))
    np.testing.assert_array_equal(out, [0, 1, 4, 9])


# ---------------------------------------------------------------------------------- flatten


def test_strided_and_large_tensors_have_64_bit_offsets() -> None:
    s = Var("s")
    a = Buffer("A", (4, 8), "int32", strides=(s, 1))
    c = Buffer("C", (1 << 20, 1 << 12), "int32")
    d = Buffer("D", (4, 8), "int32")

    def body(b: Builder, bx: Var, tx: Var) -> None:
        b.store(c, (bx, tx), a[bx, tx])
        b.store(d, (bx, tx), 0)

    out = kernel(CUDA, [a, c, d], 4, 8, body).after("flatten_buffers").script()
    assert "A[T.cast(bx, 'int64') * T.cast(s, 'int64') + T.cast(tx, 'int64')]" in out
    assert "C[T.cast(bx, 'int64') * T.int64(4096) + T.cast(tx, 'int64')]" in out
    assert "D[bx * 8 + tx]" in out


def test_views_share_the_storage() -> None:
    c = Buffer("C", (4, 2), "int32")

    def body(b: Builder, bx: Var, tx: Var) -> None:
        s = b.alloc("S", (2, 4), "float32", "local")
        same = Buffer("same", (4, 2), "float32", "local", view_of=s)
        bits = Buffer("bits", (8,), "int32", "local", view_of=s)

        b.emit(Alloc(same), Alloc(bits))
        with b.for_("i", 2) as i, b.for_("j", 4) as j:
            b.store(s, (i, j), cast(i * 4 + j, "float32"))
        with b.for_("i", 4) as i, b.for_("j", 2) as j:
            b.store(c, (i, j), cast(same[i, j], "int32") + bits[i * 2 + j] * 0)

    (out,) = run_on(kernel(CPU, [c], 1, 1, body).everything(), np.zeros((4, 2), np.int32))
    np.testing.assert_array_equal(out.ravel(), np.arange(8))


def test_a_view_of_a_strided_tensor() -> None:
    a = Buffer("A", (4, 6), "int32", strides=(8, 1))
    view = Buffer("V", (24,), "int32", view_of=a)
    c = Buffer("C", (24,), "int32")

    def body(b: Builder, bx: Var, tx: Var) -> None:
        b.emit(Alloc(view))
        with b.for_("v", 24, kind="vectorized") as v:
            b.store(c, (v,), view[v])

    x = random((4, 8), np.int32)
    for target in (CUDA, CPU):
        out = np.zeros(24, np.int32)
        thread.run(kernel(target, [a, c], 1, 1, body).everything(), x[:, :6], out)
        np.testing.assert_array_equal(out, x[:, :6].ravel())


@pytest.mark.parametrize("view_dtype", ["float16", "int16", "int32", "uint8"])
@pytest.mark.parametrize("width", [1, 4, 8, 16])
def test_views_of_a_swizzled_buffer(view_dtype: str, width: int) -> None:
    """Row-major in the view, wherever the layout of what it views puts the elements."""
    a = Buffer("A", (32, 64), "float16")
    bits = DType(view_dtype).bits
    n = 32 * 64 * 16 // bits
    c = Buffer("C", (n,), view_dtype)

    def body(b: Builder, bx: Var, tx: Var) -> None:
        s = Buffer("S", (32, 64), "float16", "shared.dyn")
        view = Buffer("view", (n,), view_dtype, "shared.dyn", view_of=s)
        b.emit(Alloc(s, {"layout": make_swizzled((32, 64), 16)}), Alloc(view))
        with b.for_("r", 4) as r, b.for_("v", 8, kind="vectorized") as v:
            row, column = r * 8 + tx // 8, tx % 8 * 8 + v
            b.store(s, (row, column), a[row, column])
        b.call("sync_threads")
        with b.for_("r", n // (64 * width)) as r, b.for_("v", width, kind="vectorized") as v:
            at = (r * 64 + tx) * width + v
            b.store(c, (at,), view[at])

    made = kernel(CUDA, [a, c], 1, 64, body)
    x = random((32, 64), np.float16)
    _, out = run_on(made.everything(), x, np.zeros(n, DType(view_dtype).as_numpy()))
    np.testing.assert_array_equal(out, x.ravel().view(out.dtype))
    if width > 1:
        assert "Ramp" in text(made.everything()).split("sync_threads")[1]


# ---------------------------------------------------------------------------------- shared memory


def two_phases(barrier: bool, size: int = 4096, **options: Any) -> Made:
    c = Buffer("C", (64,), "float32")

    def body(b: Builder, bx: Var, tx: Var) -> None:
        s = b.alloc("S", (size,), "float32", "shared.dyn")
        t = b.alloc("T", (size,), "float32", "shared.dyn")
        b.store(s, (tx,), 1.0)
        b.call("sync_threads")
        b.store(c, (tx,), s[63 - tx])
        if barrier:
            b.call("sync_threads")
        b.store(t, (tx,), 2.0)
        b.call("sync_threads")
        b.store(c, (tx,), c[tx] + t[63 - tx])

    return kernel(CUDA, [c], 1, 64, body, **options)


@pytest.mark.parametrize("barrier", [True, False])
def test_shared_buffers_share_an_address_across_a_barrier(barrier: bool) -> None:
    made = two_phases(barrier)
    program = made.everything()
    assert program.launches[0].dynamic_smem == 4096 * 4
    assert str(program.launches[0].body).count("sync_threads") == 3
    (out,) = run_on(program, np.zeros(64, np.float32))
    np.testing.assert_array_equal(out, np.full(64, 3))


def test_without_reuse_every_buffer_has_its_own_place() -> None:
    made = two_phases(True, shared_memory_reuse=False)
    assert made.everything().launches[0].dynamic_smem == 2 * 4096 * 4


def test_too_much_shared_memory_is_refused_with_the_numbers() -> None:
    made = two_phases(True, size=30000, shared_memory_reuse=False)
    with pytest.raises(ResourceError, match="240000 bytes") as e:
        made.everything()
    assert "S: float32, 120000 bytes" in str(e.value)
    assert two_phases(True, size=30000).everything().launches[0].dynamic_smem == 120000


# ---------------------------------------------------------------------------------- simplify, split


def test_dead_code_goes() -> None:
    c = Buffer("C", (4,), "int32")

    def body(b: Builder, bx: Var, tx: Var) -> None:
        dead = b.alloc("dead", (4,), "int32")
        x = b.bind("x", tx + 1)
        b.bind("y", x * 2)
        b.store(dead, (0,), tx)
        with b.if_(tx > 4):
            b.store(c, (0,), 1)
        with b.for_("i", tx - tx) as i:
            b.store(c, (i,), 1)
        b.store(c, (tx,), 7)

    out = str(kernel(CUDA, [c], 1, 4, body).everything().launches[0].body)
    assert out == "C[tx] = 7\n"


def test_plain_statements_become_a_kernel_of_one_thread() -> None:
    c = Buffer("C", (4,), "int32")
    b = Builder()
    with b.for_("i", 4) as i:
        b.store(c, (i,), i)
    made = Made(PrimFunc("f", (c,), b.finish()), PassContext(Target(CPU), Options()))
    (k,) = made.everything().launches
    assert k.name == "f_kernel"
    assert [type(g) is Const and g.value for g in k.grid] == [1, 1, 1]
    (out,) = run_on(made.everything(), np.zeros(4, np.int32))
    np.testing.assert_array_equal(out, np.arange(4))


def test_launches_become_kernels_with_the_arguments_they_use() -> None:
    m, s = Var("M"), Var("scale", DType("float32"))
    a, w, c = (
        Buffer("A", (m,), "float32"),
        Buffer("W", (m,), "float32"),
        Buffer("C", (m,), "float32"),
    )
    n = Var("n")

    def launch(dst: Buffer, src: Buffer, factor: Any) -> Launch:
        bx, tx = Var("bx"), Var("tx")
        b = Builder()
        b.store(dst, (bx,), src[bx] * factor)
        return Launch((n,), (1, 1, 1), (bx,), (tx,), b.finish())

    body = seq(Bind(n, m * 1), Alloc(w), launch(w, a, s), launch(c, w, 2.0))
    made = Made(PrimFunc("f", (a, s, c), body), PassContext(Target(CPU), Options()))
    program = made.everything()
    assert [k.name for k in program.launches] == ["f_kernel", "f_kernel_1"]
    assert [[x.name for x in k.args] for k in program.launches] == [
        ["A", "scale", "W", "M"],
        ["C", "W", "M"],
    ]
    assert program.temporaries == (w,)
    assert [b.name for b in program.launches[1].attrs["readonly"]] == ["W"]


def test_calls_with_effects_stay_in_a_vectorized_loop() -> None:
    c = Buffer("C", (8,), "int32")

    def body(b: Builder, bx: Var, tx: Var) -> None:
        with b.for_("v", 16, kind="vectorized") as v:
            b.call("atomic_add", address_of(c, v), const(1))

    for target in (CUDA, CPU):
        (out,) = run_on(kernel(target, [c], 1, 1, body).everything(), np.zeros(8, np.int32))
        np.testing.assert_array_equal(out, np.ones(8))


def test_the_manager_blames_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ragged_copy(CUDA, 8, 64)
    from tilelang.transform import Pass

    bad = Pass("lose_indices", lambda f, ctx: f, establishes="FLAT")
    with pytest.raises(InternalError, match="after lose_indices"):
        run_passes(made.func, made.ctx, [bad], stage="LOOP")


def test_math_is_vectorised_on_a_cpu() -> None:
    made = elementwise(CPU, 64, 64, lambda b, a, v: call("exp", [a[v]], "float32"))
    assert "T.call('exp', A[T.Ramp(" in text(made.everything())
