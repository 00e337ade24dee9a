# SPDX-License-Identifier: Apache-2.0
"""What generated CUDA computes, against numpy: conversions, arithmetic, mathematics, exchange
between threads, and whole matmuls. Each in the simulator, and on a GPU where there is one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.codegen.cuda_kernels import indices, matmul_mma, matmul_wgmma
from tests.codegen.cuda_run import Array, GpuRunner, SimRunner
from tilelang import ir
from tilelang.ir import (
    Add,
    BitAnd,
    Buffer,
    Builder,
    DType,
    Expr,
    FloorDiv,
    FloorMod,
    Kernel,
    Load,
    Max,
    Min,
    Mul,
    Ramp,
    Shl,
    Shr,
    Sub,
    TruncDiv,
    TruncMod,
    address_of,
    call,
    cast,
    const,
    session,
)

COUNT = 4096
FLOATS = (
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu",
)  # fmt: skip
INTS = ("int8", "uint8", "int16", "int32", "uint32", "int64")
# Zeros, infinities, and around the largest values of e4m3fn, e5m2 and float16.
EDGES = (
    *(0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.5, 448.0, 464.0, 465.0, 57344.0, 61440.0),
    *(65504.0, 65520.0, 2.0**-9, 2.0**-10, 2.0**-16, 2.0**-17, 6e-8, 3e-8),
)
Runner = type[SimRunner] | type[GpuRunner]

RUNNERS = [
    pytest.param(SimRunner, id="sim"),
    pytest.param(GpuRunner, id="gpu", marks=pytest.mark.gpu),
]
on_both = pytest.mark.parametrize("runner", RUNNERS)


def numpy_dtype(name: str) -> np.dtype[Any]:
    return DType(name).as_numpy()


def samples(name: str) -> Array:
    """Values of a dtype that include its awkward ones, in a fixed order."""
    rng = np.random.default_rng(7)
    dtype = numpy_dtype(name)
    if name in INTS:
        info = np.iinfo(dtype)
        edges = [info.min, info.max, 0, 1, info.max - 1, info.min + 1, 127, 100]
        some = rng.integers(info.min, info.max, COUNT, dtype=dtype, endpoint=True)
        small = rng.integers(max(info.min, -100), 100, COUNT, dtype=dtype)
        mixed = np.where(rng.random(COUNT) < 0.5, some, small)
        mixed[: len(edges)] = edges
        return mixed
    bits = rng.integers(0, 256, COUNT * dtype.itemsize, dtype=np.uint8).view(dtype)
    with np.errstate(all="ignore"):
        # Quiet NaNs only: what a signalling one does is not said.
        bits = np.where(np.isnan(bits.astype(np.float64)), dtype.type(np.nan), bits)
        scale = np.exp2(rng.integers(-20, 20, COUNT).astype(np.float64))
        usual = (rng.standard_normal(COUNT) * scale).astype(np.float32).astype(dtype)
        mixed = np.where(rng.random(COUNT) < 0.3, bits, usual)
        mixed[: len(EDGES)] = np.array(EDGES, np.float32).astype(dtype)
    return mixed


def per_element(
    name: str, inputs: dict[str, str], out: str, value: Callable[..., Expr], lanes: int = 1
) -> Kernel:
    """out[i] = value(inputs[i]…), `lanes` elements a thread."""
    buffers = {n: Buffer(n, [COUNT], t) for n, t in inputs.items()}
    result = Buffer("out", [COUNT], out)
    blocks, threads = indices()
    k = Builder()
    i: Expr = k.bind("i", (blocks[0] * 128 + threads[0]) * lanes)
    at = Ramp(i, const(1), lanes) if lanes > 1 else i
    k.store(result, (at,), value(*[Load(b, (at,)) for b in buffers.values()]))
    one = const(1)
    grid = (const(COUNT // 128 // lanes), one, one)
    return Kernel(name, (*buffers.values(), result), k.finish(), grid, (128, 1, 1), blocks, threads)


def converted(x: Array, to: str) -> Array:
    """The conversion that the IR means: nearest even, truncation and saturation to integers,
    NaN to 0; narrow floats from float32."""
    dtype = numpy_dtype(to)
    with np.errstate(all="ignore"):
        floating = x.dtype.kind == "f" or x.dtype.kind == "V" or x.dtype in map(numpy_dtype, FLOATS)
        if to in INTS and floating:
            info = np.iinfo(dtype)
            wide = np.trunc(x.astype(np.float64))
            low, high = float(info.min), float(info.max)
            inside = np.clip(np.nan_to_num(wide, nan=0.0, posinf=high, neginf=low), low, high)
            exact = np.where(inside >= 2.0**63, 0.0, inside).astype(np.int64)
            return np.where(inside >= 2.0**63, np.int64(2**63 - 1), exact).astype(dtype)
        if to in FLOATS and dtype.itemsize < 4:
            return x.astype(np.float32).astype(dtype)
        return x.astype(dtype)


def same(actual: Array, expected: Array) -> None:
    """Equal bit for bit, except that every NaN is as good as another."""
    if expected.dtype.kind in "iu":
        ok = actual == expected
    else:
        with np.errstate(invalid="ignore"):
            a, b = actual.astype(np.float64), expected.astype(np.float64)
        ok = (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))
    wrong = np.flatnonzero(~ok)
    assert wrong.size == 0, [(int(i), actual[i], expected[i]) for i in wrong[:5]]


@on_both
def test_conversions(runner: Runner) -> None:
    pairs = [(a, b) for a, b in itertools.product((*FLOATS, *INTS), repeat=2) if a != b]
    with session():
        kernels = [
            per_element(f"to_{lanes}_{a}_{b}", {"x": a}, b, lambda x, b=b: cast(x, b), lanes)
            for a, b in pairs
            for lanes in (1, 4)
        ]
        run = runner(kernels)
    for a, b in pairs:
        x = samples(a)
        expected = converted(x, b)
        for lanes in (1, 4):
            out = np.zeros(COUNT, numpy_dtype(b))
            run(f"to_{lanes}_{a}_{b}", {"x": x.copy(), "out": out}, {})
            try:
                same(out, expected)
            except AssertionError as error:
                raise AssertionError(f"{a} to {b}, {lanes} lanes: {error}") from None


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Min": np.fmin,
    "Max": np.fmax,
}


@on_both
def test_arithmetic_of_floats_is_rounded_once(runner: Runner) -> None:
    names = ("float16", "bfloat16", "float32", "float64")
    with session():
        kernels = [
            per_element(
                f"{op}_{t}_{lanes}",
                {"x": t, "y": t},
                t,
                lambda x, y, op=op: getattr(ir, op)(x, y),
                lanes,
            )
            for op in ARITHMETIC
            for t in names
            for lanes in (1, 8)
        ]
        run = runner(kernels)
    for (op, f), t, lanes in itertools.product(ARITHMETIC.items(), names, (1, 8)):
        x, y = samples(t), np.roll(samples(t), 1000)
        wide = np.float64 if t == "float64" else np.float32
        with np.errstate(all="ignore"):
            expected = f(x.astype(wide), y.astype(wide)).astype(x.dtype)
        out = np.zeros_like(x)
        run(f"{op}_{t}_{lanes}", {"x": x.copy(), "y": y.copy(), "out": out}, {})
        if op in ("Min", "Max"):  # which zero is the smaller one is not said
            out, expected = out + out.dtype.type(0), expected + expected.dtype.type(0)
        same(out, expected)


def floor_div(a: Array, b: Array) -> Array:
    return a // b


def trunc_div(a: Array, b: Array) -> Array:
    q = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return np.where((a < 0) == (b < 0), q, -q).astype(a.dtype)


INTEGER: dict[str, tuple[Any, Callable[[Array, Array], Array]]] = {
    "floordiv": (FloorDiv, floor_div),
    "floormod": (FloorMod, lambda a, b: a - b * floor_div(a, b)),
    "truncdiv": (TruncDiv, trunc_div),
    "truncmod": (TruncMod, lambda a, b: a - b * trunc_div(a, b)),
    "add": (Add, np.add),
    "sub": (Sub, np.subtract),
    "mul": (Mul, np.multiply),
    "min": (Min, np.minimum),
    "max": (Max, np.maximum),
    "and": (BitAnd, np.bitwise_and),
    "shr": (Shr, lambda a, b: a >> (b & 7)),
    "shl": (Shl, lambda a, b: a << (b & 7)),
}


@on_both
def test_arithmetic_of_integers(runner: Runner) -> None:
    def value(op: str, cls: Any) -> Callable[[Expr, Expr], Expr]:
        if op in ("shr", "shl"):
            return lambda x, y: cls(x, BitAnd(y, cast(const(7, y.dtype.element), y.dtype)))
        return lambda x, y: cls(x, y)

    cases = [
        (op, t, n) for op in INTEGER for t in ("int8", "int32", "uint32", "int64") for n in (1, 4)
    ]
    with session():
        kernels = [
            per_element(f"{op}_{t}_{n}", {"x": t, "y": t}, t, value(op, INTEGER[op][0]), n)
            for op, t, n in cases
        ]
        run = runner(kernels)
    for op, t, n in cases:
        x, y = samples(t), np.roll(samples(t), 1000)
        y[y == 0] = 3
        x[(x == np.iinfo(x.dtype).min) & (y.astype(np.int64) == -1)] = 5  # overflows
        out = np.zeros_like(x)
        run(f"{op}_{t}_{n}", {"x": x.copy(), "y": y.copy(), "out": out}, {})
        same(out, INTEGER[op][1](x, y))


@on_both
def test_integers_wrap(runner: Runner) -> None:
    """What compilers fold when they may assume that nothing overflows."""
    values: dict[str, Callable[[Any], Any]] = {
        "grows": lambda x: ir.select(x + 1 > x, const(1, x.dtype), const(0, x.dtype)),
        "shrinks": lambda x: ir.truncdiv(x * 3, 3),
        "squares": lambda x: ir.select(x * x < 0, x, x - 1),
        "hash": lambda x: (x * 1103515245 + 12345) % 2147483647,
    }
    with np.errstate(all="ignore"):
        one, three = np.int32(1), np.int32(3)
        x = samples("int32")
        hashed = (x * np.int32(1103515245) + np.int32(12345)) % np.int32(2147483647)
        expected = {
            "grows": (x + one > x).astype(np.int32),
            "shrinks": trunc_div(x * three, np.full_like(x, 3)),
            "squares": np.where(x * x < 0, x, x - one),
            "hash": hashed,
        }
    with session():
        run = runner([per_element(n, {"x": "int32"}, "int32", v) for n, v in values.items()])
    for name in values:
        out = np.zeros(COUNT, np.int32)
        run(name, {"x": x.copy(), "out": out}, {})
        same(out, expected[name])


@on_both
def test_division_by_constants(runner: Runner) -> None:
    """The forms that become shifts and masks, with negative operands too."""
    divisors = (1, 2, 3, 7, 8, 64, -3, -8)
    with session():
        kernels = []
        for d in divisors:
            name = f"n{-d}" if d < 0 else str(d)
            kernels.append(
                per_element(f"div_{name}", {"x": "int32"}, "int32", lambda x, d=d: x // d)
            )
            kernels.append(
                per_element(f"mod_{name}", {"x": "int32"}, "int32", lambda x, d=d: x % d)
            )
        run = runner(kernels)
    for d in divisors:
        name = f"n{-d}" if d < 0 else str(d)
        x, out = samples("int32"), np.zeros(COUNT, np.int32)
        run(f"div_{name}", {"x": x.copy(), "out": out}, {})
        same(out, x // np.int32(d))
        run(f"mod_{name}", {"x": x.copy(), "out": out}, {})
        same(out, x % np.int32(d))


# name -> (numpy function in float64, interval of arguments, units in the last place of float32)
MATHEMATICS: dict[str, tuple[Callable[[Any], Any], tuple[float, float], float]] = {
    "exp": (np.exp, (-80, 80), 4),
    "exp2": (np.exp2, (-100, 100), 4),
    "log": (np.log, (1e-6, 1e6), 4),
    "log2": (np.log2, (1e-6, 1e6), 4),
    "log1p": (np.log1p, (-0.9, 1e6), 4),
    "sqrt": (np.sqrt, (0, 1e6), 1),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (1e-6, 1e6), 4),
    "tanh": (np.tanh, (-10, 10), 4),
    "sin": (np.sin, (-100, 100), 4),
    "cos": (np.cos, (-100, 100), 4),
    "floor": (np.floor, (-9, 9), 0),
    "ceil": (np.ceil, (-9, 9), 0),
    "trunc": (np.trunc, (-9, 9), 0),
    "nearbyint": (np.rint, (-9, 9), 0),
    "abs": (np.abs, (-9, 9), 0),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), (-20, 20), 8),
    "fast_exp2": (np.exp2, (-100, 100), 8),
    "fast_rcp": (lambda x: 1 / x, (1e-6, 1e6), 4),
}


@on_both
def test_mathematics(runner: Runner) -> None:
    names = [(m, t) for m in MATHEMATICS for t in ("float32", "float16", "float64")]
    names = [(m, t) for m, t in names if not (m.startswith("fast") and t == "float64")]
    with session():
        run = runner(
            [
                per_element(f"{m}_{t}", {"x": t}, t, lambda x, m=m: call(m, [x], x.dtype))
                for m, t in names
            ]
        )
    rng = np.random.default_rng(3)
    for m, t in names:
        f, (low, high), ulps = MATHEMATICS[m]
        if t == "float16":
            low, high = max(low, -10.0), min(high, 10.0)
        x = rng.uniform(low, high, COUNT).astype(numpy_dtype(t))
        out = np.zeros_like(x)
        run(f"{m}_{t}", {"x": x.copy(), "out": out}, {})
        with np.errstate(all="ignore"):
            expected = f(x.astype(np.float64))
        epsilon = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}[t]
        bound = max(ulps, 1.0 if t == "float16" else 0.5) * epsilon
        small = np.finfo(x.dtype).tiny
        error = np.abs(out.astype(np.float64) - expected) / np.maximum(np.abs(expected), small)
        assert np.nanmax(error) <= bound, (m, t, float(np.nanmax(error) / epsilon))


@on_both
def test_predicates(runner: Runner) -> None:
    names = ("float16", "bfloat16", "float32", "float64")
    checks: dict[str, Callable[[Any], Any]] = {
        "isnan": np.isnan,
        "isinf": np.isinf,
        "isfinite": np.isfinite,
    }
    with session():
        run = runner(
            [
                per_element(f"{p}_{t}", {"x": t}, "bool", lambda x, p=p: call(p, [x], "bool"))
                for p in checks
                for t in names
            ]
        )
    for p, t in itertools.product(checks, names):
        x, out = samples(t), np.zeros(COUNT, np.bool_)
        run(f"{p}_{t}", {"x": x.copy(), "out": out}, {})
        with np.errstate(invalid="ignore"):
            assert (out == checks[p](x.astype(np.float64))).all()


def exchange_kernel(name: str, op: str, argument: int, width: int, dtype: str) -> Kernel:
    def value(x: Expr) -> Expr:
        return call(op, [x, const(argument), const(width)], x.dtype)

    return per_element(name, {"x": dtype}, dtype, value)


@on_both
def test_shuffles(runner: Runner) -> None:
    lane = np.arange(32)
    sources = {
        ("shfl_idx", 5, 32): np.full(32, 5),
        ("shfl_idx", 2, 8): lane // 8 * 8 + 2,
        ("shfl_xor", 3, 32): lane ^ 3,
        ("shfl_up", 2, 32): np.where(lane >= 2, lane - 2, lane),
        ("shfl_down", 4, 16): np.where(lane % 16 < 12, lane + 4, lane),
    }
    dtypes = ("float16", "float32", "int64")
    with session():
        run = runner(
            [
                exchange_kernel(f"{op}_{arg}_{width}_{t}", op, arg, width, t)
                for op, arg, width in sources
                for t in dtypes
            ]
        )
    for ((op, arg, width), source), t in itertools.product(sources.items(), dtypes):
        x = np.arange(COUNT).astype(numpy_dtype(t))
        out = np.zeros_like(x)
        run(f"{op}_{arg}_{width}_{t}", {"x": x.copy(), "out": out}, {})
        same(out.reshape(-1, 32), x.reshape(-1, 32)[:, source])


@on_both
def test_atomics(runner: Runner) -> None:
    """4096 threads update eight places."""
    dtypes = ("int32", "uint32", "int64", "float32", "float64", "float16", "bfloat16")
    kernels = []
    with session():
        for op, t in itertools.product(("add", "max", "min"), dtypes):
            x, out = Buffer("x", [COUNT], t), Buffer("out", [8], t)
            blocks, threads = indices()
            k = Builder()
            i = k.bind("i", blocks[0] * 128 + threads[0])
            k.call(f"atomic_{op}", address_of(out, i % 8), x[i])
            one = const(1)
            grid = (const(COUNT // 128), one, one)
            kernels.append(
                Kernel(f"{op}_{t}", (x, out), k.finish(), grid, (128, 1, 1), blocks, threads)
            )
        run = runner(kernels)
    for op, t in itertools.product(("add", "max", "min"), dtypes):
        rng = np.random.default_rng(1)
        dtype = numpy_dtype(t)
        limit = 1 if t in ("float16", "bfloat16") and op == "add" else 100
        x = rng.integers(0, limit + 1, COUNT).astype(dtype)
        if limit == 1:
            x[np.arange(COUNT) // 8 % 4 != 0] = 0  # sums up to 128: exact in 8 bits
        out = np.zeros(8, dtype)
        run(f"{op}_{t}", {"x": x.copy(), "out": out}, {})
        table = x.astype(np.float64).reshape(-1, 8)
        expected = {"add": table.sum, "max": table.max, "min": lambda axis: np.zeros(8)}[op](axis=0)
        same(out, expected.astype(dtype))


SHAPES = [(128, 128, 64), (200, 136, 72), (256, 384, 520), (8, 8, 8)]


@on_both
@pytest.mark.parametrize("make", [matmul_mma, matmul_wgmma])
def test_matmul(runner: Runner, make: Callable[[], Kernel]) -> None:
    with session():
        run = runner([make()], 80 if make is matmul_mma else 90)
        for m, n, k in SHAPES:
            rng = np.random.default_rng(0)
            a = rng.standard_normal((m, k)).astype(np.float16)
            b = rng.standard_normal((k, n)).astype(np.float16)
            c = np.full((m, n), np.nan, np.float16)
            run("matmul_kernel", {"A": a, "B": b, "C": c}, {"M": m, "N": n, "K": k})
            expected = a.astype(np.float64) @ b.astype(np.float64)
            np.testing.assert_allclose(c.astype(np.float64), expected, rtol=2e-3, atol=2e-2)
