# SPDX-License-Identifier: Apache-2.0
"""The text of generated CUDA: whole small kernels as golden files, and the rules one by one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codegen.cuda_kernels import add_kernel, indices, matmul_mma, matmul_wgmma, vector_kernel
from tilelang.codegen.cuda import cuda_source
from tilelang.codegen.headers import device_headers
from tilelang.codegen.names import Names, legal_name
from tilelang.config import Options
from tilelang.errors import InternalError, Span, TargetError, ToolchainError
from tilelang.ir import (
    Alloc,
    And,
    Assert,
    Assume,
    Bind,
    BitNot,
    Break,
    Broadcast,
    Buffer,
    Builder,
    Const,
    Continue,
    DType,
    Evaluate,
    Expr,
    FloorDiv,
    FloorMod,
    For,
    If,
    Kernel,
    Load,
    Neg,
    Not,
    Or,
    Ramp,
    Return,
    Select,
    Stmt,
    Store,
    StringImm,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    While,
    address_of,
    call,
    cast,
    const,
    if_then_else,
    maximum,
    minimum,
    seq,
    session,
)
from tilelang.runtime.nvrtc import compile_cubin

GOLDEN = Path(__file__).parents[1] / "golden" / "codegen"
SPAN = Span("user.py", 7)


@pytest.mark.parametrize(
    ("name", "make", "arch"),
    [
        ("add", add_kernel, 80),
        ("scale", vector_kernel, 80),
        ("matmul_mma", matmul_mma, 80),
        ("matmul_wgmma", matmul_wgmma, 90),
    ],
)
def test_golden(name: str, make: Callable[[], Kernel], arch: int, update_golden: bool) -> None:
    with session():
        text = cuda_source([make()], arch, Options())
    path = GOLDEN / f"cuda_{name}.cu"
    if update_golden:
        path.write_text(text)
    assert text == path.read_text()


def kernel_of(body: Stmt, *args: Any, **attrs: Any) -> Kernel:
    blocks, threads = indices()
    one = const(1)
    smem = attrs.pop("dynamic_smem", 0)
    return Kernel("k", args, body, (one, one, one), (64, 1, 1), blocks, threads, smem, attrs)


def body_text(body: Stmt, *args: Any, options: Options | None = None) -> str:
    """What is printed for a body, without the function around it."""
    text = cuda_source([kernel_of(body, *args)], 90, options or Options())
    inner = text[text.index(") {") + 3 : text.rindex("}")]
    return "\n".join(line.removeprefix("  ") for line in inner.strip("\n").splitlines())


class Vars:
    """Variables of every kind that the expression tests need; all are arguments."""

    def __init__(self) -> None:
        self.i, self.j, self.n = Var("i"), Var("j"), Var("n")
        self.x, self.y = Var("x", DType("float32")), Var("y", DType("float32"))
        self.h = Var("h", DType("float16"))
        self.d = Var("d", DType("float64"))
        self.w, self.u = Var("w", DType("int64")), Var("u", DType("uint32"))
        self.b, self.s = Var("b", DType("int8")), Var("s", DType("uint16"))
        self.p, self.q = Var("p", DType("bool")), Var("q", DType("bool"))
        self.a, self.c = Buffer("a", [64], "int32"), Buffer("c", [64], "int8")

    def text(self, e: Expr) -> str:
        printed = body_text(Bind(Var("r", e.dtype), e), *vars(self).values())
        match = re.fullmatch(r"const [^=]+? r = (.*);", printed)
        assert match is not None, printed
        return match[1]


EXPRESSIONS: list[tuple[Callable[[Vars], Expr], str]] = [
    # precedence: no parentheses that C does not need, except around bit operators
    (lambda v: (v.i + v.j) * v.n, "(i + j) * n"),
    (lambda v: v.i + v.j * v.n, "i + j * n"),
    (lambda v: Sub(v.i, Sub(v.j, v.n)), "i - (j - n)"),
    (lambda v: Sub(Sub(v.i, v.j), v.n), "i - j - n"),
    (lambda v: v.i & (v.j + 1), "i & (j + 1)"),
    (lambda v: (v.i & v.j) == v.n, "(i & j) == n"),
    (lambda v: v.i | v.j | v.n, "i | j | n"),
    (lambda v: (v.i ^ v.j) & v.n, "(i ^ j) & n"),
    (lambda v: (v.i << 2) + v.j, "(i << 2) + j"),
    (lambda v: Or(And(v.p, v.q), Not(v.p)), "(p && q) || !p"),
    (lambda v: And(v.p, Or(v.q, v.p)), "p && (q || p)"),
    (lambda v: And(v.i < v.j, v.i + 1 <= v.n), "i < j && i + 1 <= n"),
    (lambda v: Neg(Neg(v.i)), "-(-i)"),
    (lambda v: Neg(const(-3)), "-(-3)"),
    (lambda v: BitNot(v.i + v.j), "~(i + j)"),
    (lambda v: if_then_else(v.p, v.i, v.j) + 1, "(p ? i : j) + 1"),
    (lambda v: Select(v.p, v.i, Select(v.q, v.j, v.n)), "p ? i : q ? j : n"),
    # division
    (lambda v: v.i // 8, "i >> 3"),
    (lambda v: v.i % 8, "i & 7"),
    (lambda v: v.i // 3, "tl::floordiv(i, 3)"),
    (lambda v: v.i % 3, "tl::floormod(i, 3)"),
    (lambda v: v.u // const(3, "uint32"), "u / 3u"),
    (lambda v: FloorMod(v.u, const(3, "uint32")), "u % 3u"),
    (lambda v: (v.i % 12) // 3, "tl::floormod(i, 12) / 3"),
    (lambda v: TruncDiv(v.i, v.j), "tl::truncdiv(i, j)"),
    (lambda v: TruncMod(v.i, const(7, "int32")), "i % 7"),
    (lambda v: FloorDiv(v.x, v.y), "tl::floordiv(x, y)"),
    (lambda v: v.w // 16, "w >> 4"),
    (lambda v: minimum(v.i, maximum(v.j, 0)), "tl::min(i, tl::max(j, 0))"),
    # narrow integers wrap at their own width, not at int's
    (lambda v: v.b + v.b, "(signed char)(b + b)"),
    (lambda v: v.s * v.s, "(unsigned short)((unsigned int)s * s)"),
    (lambda v: Neg(v.b), "(signed char)(-b)"),
    # signed data may overflow, indices do not
    (lambda v: v.a[v.i] + 1, "(int)((unsigned int)a[i] + 1u)"),
    (lambda v: (v.a[v.i] - v.j) * 31, "(int)(((unsigned int)a[i] - (unsigned int)j) * 31u)"),
    (lambda v: v.a[v.i] * -3 > v.j, "(int)((unsigned int)a[i] * 4294967293u) > j"),
    (lambda v: v.a[v.a[v.i] * 64 + v.j], "a[a[i] * 64 + j]"),
    (lambda v: cast(v.a[v.i], "int64") * 8, "(long long)a[i] * 8LL"),
    (lambda v: cast(v.x, "int32") + v.i, "(int)((unsigned int)tl::cast<int>(x) + (unsigned int)i)"),
    (lambda v: cast(v.c[v.i], "int32") * cast(v.c[v.j], "int32"), "(int)c[i] * (int)c[j]"),
    (lambda v: v.a[v.i] % 128 * 7 + 5, "(a[i] & 127) * 7 + 5"),
    # literals
    (lambda v: v.x * 0.1, "x * 0.1f"),
    (lambda v: v.x + 1e-30, "x + 1e-30f"),
    (lambda v: v.x + 3.0, "x + 3.0f"),
    (lambda v: v.x * -0.0, "x * -0.0f"),
    (lambda v: v.x - float("inf"), "x - tl::inf()"),
    (lambda v: maximum(v.x, float("-inf")), "tl::max(x, -tl::inf())"),
    (lambda v: maximum(v.x, float("nan")), "tl::max(x, tl::nan())"),
    (lambda v: v.d + const(0.1, "float64"), "d + 0.1"),
    (lambda v: v.h * const(2.0, "float16"), "h * half_t(2.0f)"),
    (lambda v: v.w + 5, "w + 5LL"),
    (lambda v: v.u + const(7, "uint32"), "u + 7u"),
    (lambda v: v.i + (-(2**31)), "i + (-2147483647 - 1)"),
    (lambda v: v.b & const(3, "int8"), "(signed char)(b & (signed char)3)"),
    (lambda v: v.p == Const(True, v.p.dtype), "p == true"),
    # casts
    (lambda v: cast(v.i, "float32") * v.x, "(float)i * x"),
    (lambda v: cast(v.i + v.j, "int64"), "(long long)(i + j)"),
    (lambda v: cast(v.x, "int32"), "tl::cast<int>(x)"),
    (lambda v: cast(v.x, "float16"), "tl::cast<half_t>(x)"),
    (lambda v: cast(v.h, "float32"), "(float)h"),
    (lambda v: cast(v.h, "bfloat16"), "tl::cast<bfloat16_t>(h)"),
    (lambda v: cast(v.h, "int8"), "tl::cast<signed char>(h)"),
    (lambda v: cast(v.x, "float64"), "(double)x"),
    (lambda v: cast(v.h, "bool"), "tl::cast<bool>(h)"),
    (lambda v: cast(v.p, "int32") + v.i, "(int)p + i"),
    # vectors
    (
        lambda v: Ramp(v.i, const(1), 4) + Broadcast(v.j, 4),
        "tl::ramp<4>(i, 1) + tl::broadcast<4>(j)",
    ),
    (
        lambda v: Select(
            Broadcast(v.x, 2) < Broadcast(v.y, 2), Broadcast(v.x, 2), Broadcast(v.y, 2)
        ),
        "tl::select(tl::broadcast<2>(x) < tl::broadcast<2>(y), "
        "tl::broadcast<2>(x), tl::broadcast<2>(y))",
    ),
    (
        lambda v: cast(Broadcast(v.x, 2) + Broadcast(v.y, 2), "float16"),
        "tl::cast<half_t>(tl::broadcast<2>(x) + tl::broadcast<2>(y))",
    ),
    # intrinsics
    (lambda v: call("exp2", [v.x * v.y], "float32"), "tl::exp2(x * y)"),
    (lambda v: call("reinterpret", [v.x], "int32"), "tl::reinterpret<int>(x)"),
    (lambda v: call("make_vector", [v.x, v.y], "float32x2"), "tl::make_vector(x, y)"),
    (lambda v: call("call_extern", [StringImm("mine"), v.x], "float32"), "mine(x)"),
]


@pytest.mark.parametrize(("make", "expected"), EXPRESSIONS)
def test_expression(make: Callable[[Vars], Expr], expected: str) -> None:
    with session():
        v = Vars()
        text = v.text(make(v))
    assert text == expected


def test_all_expressions_compile_and_keep_their_type() -> None:
    """`const T r = …` with the IR's type: a value of another type would convert silently, so each
    is also passed to a template that takes that type only."""
    with session():
        v = Vars()
        stmts = [Bind(Var("r", e.dtype), e) for e in (make(v) for make, _ in EXPRESSIONS)]
        source = cuda_source([kernel_of(seq(stmts), *vars(v).values())], 90, Options())
    exact = re.sub(
        r"const ([\w:<> ,]+?) (r(?:_\d+)?) = (.*);", r"const \1 \2 = exactly<\1>(\3);", source
    )
    assert exact.count("exactly<") == len(EXPRESSIONS)
    helpers = (
        "template <class T, class U> __device__ T exactly(U x) {\n"
        '  static_assert(tl::same<T, U>, "the value has another type");\n'
        "  return x;\n}\n"
        "__device__ float mine(float x) { return x; }\n"
    )
    source = exact.replace('extern "C"', helpers + 'extern "C"', 1)
    compile_cubin(source, "sm_90a", Options(fast_compile=True), device_headers(source))


def test_statements() -> None:
    with session():
        n, i, j = Var("n"), Var("i"), Var("j", DType("int64"))
        a = Buffer("A", [64], "int32")
        acc = Buffer("count", [1], "int32", "local.var")
        zero = const(0)
        body = seq(
            Alloc(acc, {"init": zero}),
            For(
                i,
                n,
                const(4),
                If(i > 3, Break(), If(i > 2, Continue(), Store(a, (i,), acc[0]))),
                "unroll",
            ),
            For(
                j,
                const(0, "int64"),
                const(8, "int64"),
                Store(a, (j,), zero),
                annotations={"unroll_factor": 2},
            ),
            While(acc[0] < n, Store(acc, (zero,), acc[0] + 1)),
            If(n < 0, Return()),
            Assume(n > 0),
            Evaluate(const(0)),
            Assert(Not(n < 0), "n is 100% positive", SPAN),
            Assert(n < 8, "small"),
        )
        text = body_text(body, a, n)
    assert text == (
        """\
int count = 0;
#pragma unroll
for (int i = n; i < n + 4; ++i) {
  if (i > 3) {
    break;
  } else if (i > 2) {
    continue;
  } else {
    A[i] = count;
  }
}
#pragma unroll 2
for (long long j = 0LL; j < 8LL; ++j) {
  A[j] = 0;
}
while (count < n) {
  count = count + 1;
}
if (n < 0) {
  return;
}
if (!(!(n < 0))) {
  tl::print("k: assertion failed at user.py:7: n is 100%% positive\\n");
  tl::trap();
}
if (!(n < 8)) {
  tl::print("k: assertion failed: small\\n");
  tl::trap();
}"""
    )


def test_memory() -> None:
    with session():
        n, p = Var("n"), Var("p", DType("handle"))
        a = Buffer("A", [n], "float16")
        shared = Buffer("A_shared", [128], "float16", "shared.dyn")
        plain = Buffer("row", [8], "float32", "shared")
        bars = Buffer("bars", [2], "uint64", "shared.barrier")
        local = Buffer("r", [8], "float16", "local")
        view = Buffer("words", [4], "uint32", "local", view_of=local)
        raw = Buffer("R", [4], "int32", data=p)
        pairs = Buffer("P", [4], "float16x2", "local")
        body = seq(
            Alloc(shared, {"offset": 2048}),
            Alloc(plain),
            Alloc(bars, {"offset": const(0)}),
            Alloc(local),
            Alloc(view),
            Alloc(pairs),
            Store(local, (Ramp(const(0), const(1), 8),), Load(a, (Ramp(n, const(1), 8),))),
            Store(local, (Ramp(const(0), const(2), 4),), Load(a, (Ramp(n, n, 4),))),
            Store(local, (const(1),), Load(a, (n,))),
            Store(shared, (Ramp(n, const(1), 2) + Broadcast(n, 2),), Broadcast(local[0], 2)),
            Store(view, (const(1),), cast(raw[n], "uint32")),
            Store(pairs, (const(0),), Load(a, (Broadcast(n, 2),))),
            Store(pairs, (Ramp(const(0), const(1), 2),), Load(a, (Ramp(n, const(1), 4),))),
            Evaluate(call("ldmatrix", [4, False, address_of(local, 0), address_of(shared, n)])),
        )
        text = cuda_source([kernel_of(body, a, n, p)], 90, Options())
    assert text == (
        """\
#include <tl/core.h>
#include <tl/ldmatrix.h>

extern "C" __global__ void __launch_bounds__(64, 1) k(
    const half_t* __restrict__ A,
    int n,
    void* p) {
  extern __shared__ __align__(1024) unsigned char buf_dyn_shmem[];
  half_t* A_shared = (half_t*)(buf_dyn_shmem + 2048);
  __shared__ __align__(16) float row[8];
  unsigned long long* bars = (unsigned long long*)buf_dyn_shmem;
  __align__(16) half_t r[8];
  unsigned int* words = (unsigned int*)r;
  __align__(16) tl::vec<half_t, 2> P[4];
  tl::store_vec(r, tl::load_vec<half_t, 8>(&A[n]));
  tl::store_strided(r, 2, tl::load_strided<half_t, 4>(&A[n], n));
  r[1] = A[n];
  tl::store_indexed(A_shared, tl::ramp<2>(n, 1) + tl::broadcast<2>(n), tl::broadcast<2>(r[0]));
  words[1] = (unsigned int)((int*)p)[n];
  P[0] = tl::broadcast<2>(A[n]);
  tl::store_vec((half_t*)P, tl::load_vec<half_t, 4>(&A[n]));
  tl::ldmatrix<4, false>(r, &A_shared[n]);
}
"""
    )
    compile_cubin(text, "sm_90a", Options(fast_compile=True), device_headers(text))


def test_signature_says_what_is_written() -> None:
    with session():
        a, b, c = (Buffer(name, [64], "float32") for name in "abc")
        k = Builder()
        k.store(b, (const(0),), a[0])
        k.call("atomic_add", address_of(c, 0), const(1.0))
        kernel = kernel_of(k.finish(), a, b, c, min_blocks=2, prelude="// mine")
        text = cuda_source([kernel, kernel], 80, Options(noalias=False))
    assert "__launch_bounds__(64, 2) k(const float* a, float* b, float* c) {" in text
    assert text.count("// mine") == 1
    assert text.count("#include <tl/core.h>") == 1


def test_line_directives() -> None:
    with session():
        a = Buffer("A", [64], "int32")
        body = seq(Store(a, (const(0),), const(1), SPAN), Store(a, (const(1),), const(1), SPAN))
        text = body_text(body, a, options=Options(line_directives=True))
    assert text == '#line 7 "user.py"\nA[0] = 1;\nA[1] = 1;'


def test_same_text_in_another_session() -> None:
    texts = []
    for _ in range(2):
        with session():
            texts.append(cuda_source([matmul_wgmma()], 90, Options()))
    assert texts[0] == texts[1]


def test_shared_expressions_are_printed_once() -> None:
    """Thirty levels of sharing are a billion nodes as a tree."""
    with session():
        e: Expr = Var("x")
        names = [e]
        for _ in range(30):
            e = e * e
        printer_input = kernel_of(Bind(Var("r"), names[0]), names[0])
        assert cuda_source([printer_input], 80, Options())


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("k.outer", "k_outer"),
        ("", "v"),
        ("3d", "v3d"),
        ("__x", "x"),
        ("a__b", "a_b"),
        ("café", "caf_"),
    ],
)
def test_legal_names(name: str, legal: str) -> None:
    assert legal_name(name) == legal


def test_names_are_unique_and_not_reserved() -> None:
    names = Names({"int", "x_1"})
    assert [names.fresh(n) for n in ("x", "x", "int", "x")] == ["x", "x_2", "int_1", "x_3"]


def test_errors() -> None:
    with session():
        n = Var("n")
        a = Buffer("A", [4], "int4")
        with pytest.raises(TargetError, match="narrower than a byte"):
            cuda_source([kernel_of(seq(), a)], 80, Options())
        with pytest.raises(InternalError, match="nothing binds"):
            cuda_source([kernel_of(Bind(Var("r"), n))], 80, Options())
        with pytest.raises(InternalError, match="nothing allocates"):
            cuda_source([kernel_of(Bind(Var("r"), Buffer("B", [4], "int32")[0]))], 80, Options())
        body = Evaluate(call("cp_async_wait", [n]))
        with pytest.raises(InternalError, match="needs a constant"):
            cuda_source([kernel_of(body, n)], 80, Options())


def test_unknown_header() -> None:
    with pytest.raises(ToolchainError, match="nothing"):
        device_headers("#include <tl/nothing.h>\n")


@pytest.mark.parametrize(
    ("make", "arch", "spelling"), [(matmul_mma, 80, "sm_80"), (matmul_wgmma, 90, "sm_90a")]
)
def test_matmuls_compile_without_spills(
    make: Callable[[], Kernel], arch: int, spelling: str
) -> None:
    with session():
        source = cuda_source([make()], arch, Options())
    compiled = compile_cubin(source, spelling, Options(), device_headers(source))
    usage = compiled.usage["matmul_kernel"]
    assert usage.spills == 0
    assert usage.stack == 0
    assert not compiled.serialized_wgmma
