# SPDX-License-Identifier: Apache-2.0
"""What the front end refuses: the class, the user's line, the words, a way out.

Each case is the body of a kernel over `A: (16, 16) float32`, `I: (16,) int32`, `F: (16,) bool` and
`n: int32`; the line that the error must name ends in `#!`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

import tilelang.language as T
from tilelang.errors import (
    BoundsError,
    LanguageError,
    OptionError,
    ScopeError,
    ShapeError,
    TileError,
    TypeMismatchError,
)
from tilelang.language import remember_source
from tilelang.testing.golden import check_golden

GOLDEN = Path(__file__).parents[1] / "golden"

HEAD = """
import tilelang.language as T

@T.macro
def early(x):
    if x > 0:
        return x  # returns inside a branch
    return x

@T.macro
def endless(x):
    endless(x)

@T.macro
def by_reference(x: T.Ref):
    x = 1

@T.prim_func
def main(
    A: T.Tensor((16, 16), "float32"),
    I: T.Tensor((16,), "int32"),
    F: T.Tensor((16,), "bool"),
    n: T.int32,
):
    with T.Kernel(2, threads=32) as bx:
        tx = T.get_thread_binding()
"""


@dataclass(frozen=True)
class Case:
    name: str
    body: str
    error: type[TileError]
    text: str
    help: str = ""


CASES = [
    # ---- the traps of tracing once
    Case(
        "int_in_loop",
        "x = 0\nfor i in T.serial(4):\n    x += 1 #!\nA[0, 0] = x",
        LanguageError,
        "`x` is assigned inside a loop",
        "T.alloc_var('int32')",
    ),
    Case(
        "float_in_loop",
        "x = 0.0\nfor i in range(4):\n    x = x + A[i, 0] #!\nA[0, 0] = x",
        LanguageError,
        "read after it",
        "alloc_var('float32')",
    ),
    Case(
        "carried",
        "x = A[0, 0]\nfor i in T.serial(4):\n    I[i] = x\n    x = A[i, 1] #!",
        LanguageError,
        "in its next iteration",
    ),
    Case("in_branch", "x = 0\nif n > 1:\n    x = 1 #!\nI[0] = x", LanguageError, "inside a branch"),
    Case(
        "only_in_branch",
        "if n > 1:\n    x = 1 #!\nelse:\n    x = 2\nI[0] = x",
        LanguageError,
        "assigned only inside a branch",
    ),
    Case(
        "in_while",
        "x = 0\nv = T.alloc_var('int32', init=0)\nwhile v < 3:\n    x = x + 1 #!\n    v += "
        "1\nI[0] = x",
        LanguageError,
        "inside a loop",
    ),
    Case(
        "in_parallel",
        "s = 0.0\nfor i in T.Parallel(16):\n    s += A[i, 0] #!\nA[0, 0] = s",
        LanguageError,
        "parallel loop",
    ),
    Case(
        "loop_variable_after",
        "for i in T.serial(4): #!\n    I[i] = 0\nI[0] = i",
        LanguageError,
        "loop variable `i` is used after its loop",
    ),
    Case(
        "tuple",
        "x, y = 0, 1\nfor i in T.serial(4):\n    x, y = y, x #!\nI[0] = x",
        LanguageError,
        "`x` is assigned inside a loop",
    ),
    # ---- names and statements
    Case("unbound_augmented", "y += 1 #!", LanguageError, "`y` is used before it has a value"),
    Case("whole_buffer_augmented", "A += 1 #!", LanguageError, "`A` is a whole buffer"),
    Case(
        "slice_store",
        "A[0, 0:4] = 1 #!",
        LanguageError,
        "a slice of `A` cannot be assigned",
        "T.fill",
    ),
    Case("scalar_subscript", "x = n + 1\nx[0] = 2 #!", LanguageError, "is a scalar"),
    Case("unpack_scalar", "x, y = n #!", LanguageError, "a scalar cannot be unpacked"),
    Case("unpack_count", "x, y, z = A.shape #!", LanguageError, "2 value(s)"),
    Case(
        "return_in_branch",
        "if n > 1:\n    return #!",
        LanguageError,
        "`return` inside",
        "T.thread_return()",
    ),
    Case("yield", "yield 1 #!", LanguageError, "`yield`"),
    Case(
        "for_else",
        "for i in T.serial(4): #!\n    I[i] = 0\nelse:\n    I[0] = 1",
        LanguageError,
        "for … else",
    ),
    Case("for_buffer", "for x in A: #!\n    pass", LanguageError, "which is no loop"),
    Case("for_int", "for x in 5: #!\n    pass", LanguageError, "over a int"),
    Case(
        "wrong_target_count",
        "for i, j in T.serial(4): #!\n    I[i] = j",
        LanguageError,
        "1 extent(s) but 2 loop variable(s)",
    ),
    Case("endless", "while True: #!\n    I[0] = 1", LanguageError, "never ends"),
    Case(
        "break_unrolled",
        "for x in [1, 2]:\n    if n > x:\n        break #!",
        LanguageError,
        "unrolled while tracing",
    ),
    Case(
        "break_parallel",
        "for i in T.Parallel(16):\n    if n > i:\n        break #!",
        LanguageError,
        "T.Parallel",
    ),
    Case(
        "attribute",
        "class Box: pass\nb = Box()\nb.x = 0\nfor i in T.serial(4):\n    b.x = 1 #!",
        LanguageError,
        "attribute `x`",
    ),
    Case("static_assert", "assert 1 > 2, 'too small' #!", LanguageError, "too small"),
    # ---- expressions
    Case(
        "buffer_condition",
        "if A: #!\n    I[0] = 1",
        TypeMismatchError,
        "buffer `A` cannot be used as a condition",
    ),
    Case("int_division", "x = n / 2 #!", TypeMismatchError, "ambiguous"),
    Case(
        "python_and",
        "x = [1 for k in (1,) if n > 1] #!",
        TypeMismatchError,
        "known only when the kernel runs",
    ),
    Case("power", "x = n ** 2 #!", TypeMismatchError, "T.pow"),
    Case("list_index", "x = [1, 2][n] #!", TypeMismatchError, "enumerate"),
    Case("python_abs", "x = abs(n) #!", TypeMismatchError, "T.abs"),
    Case("python_max", "x = max(n, 1) #!", TypeMismatchError, "T.max"),
    Case("float_bits", "x = A[0, 0] & 1 #!", TypeMismatchError, "integers"),
    Case("store_buffer", "A[0, 0] = I #!", TypeMismatchError, "whole buffer `I`"),
    Case("store_object", "A[0, 0] = {} #!", TypeMismatchError, "the value stored to `A`"),
    Case("string_operand", "x = n + 'a' #!", TypeMismatchError, ""),
    Case(
        "select_dtypes", "x = T.Select(n > 1, A[0, 0], n) #!", TypeMismatchError, "different dtypes"
    ),
    Case("reinterpret", "x = T.reinterpret(n, 'float16') #!", TypeMismatchError, "32 bits"),
    Case("fast_exp_int", "x = T.__exp(n) #!", TypeMismatchError, "only supports floating-point"),
    Case(
        "macro_in_and", "x = n > 1 and T.shfl_sync(n, 0) > 1 #!", LanguageError, "would always run"
    ),
    Case("index_count", "x = A[0] #!", BoundsError, "2-dimensional", "one index per dimension"),
    Case("index_count_store", "I[0, 1] = 2 #!", BoundsError, "1-dimensional"),
    Case("slice_step", "T.clear(A[0:8:2, 0]) #!", LanguageError, "step"),
    Case("infinity_of_int", "x = T.infinity('int32') #!", TypeMismatchError, "T.infinity of int32"),
    # ---- allocation
    Case(
        "dynamic_shared",
        "S = T.alloc_shared((n,), 'float32') #!",
        ShapeError,
        "known only when the kernel runs",
    ),
    Case("negative_shape", "S = T.alloc_local((-1,), 'float32') #!", ShapeError, "negative"),
    Case("float_shape", "S = T.alloc_local((1.5,), 'float32') #!", ShapeError, "1.5"),
    Case("bad_dtype", "S = T.alloc_local((4,), 'float33') #!", TypeMismatchError, "float33"),
    Case(
        "bad_scope", "S = T.alloc_shared((4,), 'float32', scope='local') #!", ScopeError, "'local'"
    ),
    Case("barrier_count", "b = T.alloc_barrier(0) #!", OptionError, "arrival counts"),
    # ---- loops
    Case(
        "zero_step",
        "for i in T.serial(0, 4, 0): #!\n    I[i] = 0",
        OptionError,
        "step must be non-zero",
    ),
    Case(
        "float_bound",
        "for i in T.serial(A[0, 0]): #!\n    I[i] = 0",
        TypeMismatchError,
        "must be an integer",
    ),
    Case(
        "nested_parallel",
        "for i in T.Parallel(4):\n    for j in T.Parallel(4): #!\n        A[i, j] = 0",
        LanguageError,
        "T.Parallel inside T.Parallel",
    ),
    Case(
        "tile_in_parallel",
        "for i in T.Parallel(4):\n    T.clear(A) #!",
        LanguageError,
        "only elementwise statements",
    ),
    Case(
        "pipelined_in_parallel",
        "for i in T.Parallel(4):\n    for j in T.Pipelined(4, num_stages=2): #!\n        A[i, j] "
        "= 0",
        LanguageError,
        "T.Pipelined inside T.Parallel",
    ),
    Case(
        "order_without_stage",
        "for i in T.Pipelined(4, order=[0]): #!\n    I[i] = 0",
        OptionError,
        "belong together",
    ),
    Case(
        "negative_stages",
        "for i in T.Pipelined(4, num_stages=-1): #!\n    I[i] = 0",
        OptionError,
        "num_stages",
    ),
    Case(
        "unroll_both",
        "for i in T.unroll(4, explicit=True, unroll_factor=2): #!\n    I[i] = 0",
        OptionError,
        "contradict",
    ),
    # ---- tile operations
    Case("copy_number", "T.copy(A, 3) #!", TypeMismatchError, "T.copy: dst"),
    Case(
        "copy_shapes",
        "S = T.alloc_shared((8, 8), 'float32')\nT.copy(A, S) #!",
        ShapeError,
        "do not match",
    ),
    Case(
        "copy_option",
        "T.copy(A, A, prefer_instruction='dma') #!",
        OptionError,
        "prefer_instruction",
    ),
    Case(
        "gemm_k",
        "X = T.alloc_shared((16, 8), 'float16')\nY = T.alloc_shared((16, 16), 'float16')\nZ = "
        "T.alloc_fragment((16, 16), 'float32')\nT.gemm(X, Y, Z) #!",
        ShapeError,
        "K",
    ),
    Case("gemm_policy", "T.gemm(A, A, A, policy=7) #!", OptionError, "policy"),
    Case(
        "reduce_shape",
        "X = T.alloc_fragment((16, 8), 'float32')\nY = T.alloc_fragment((8,), "
        "'float32')\nT.reduce_sum(X, Y, dim=1) #!",
        ShapeError,
        "",
    ),
    Case(
        "reduce_dim",
        "X = T.alloc_fragment((16, 8), 'float32')\nY = T.alloc_fragment((8,), "
        "'float32')\nT.reduce_sum(X, Y, dim=2) #!",
        ShapeError,
        "dim",
    ),
    Case("atomic_number", "T.atomic_add(n, 1) #!", TypeMismatchError, "destination"),
    Case(
        "atomic_order",
        "T.atomic_add(I[0], 1, memory_order='strong') #!",
        OptionError,
        "memory order",
    ),
    Case(
        "unsupported",
        "T.sync_global() #!",
        LanguageError,
        "T.sync_global is not supported",
        "T.sync_grid",
    ),
    Case(
        "typo", "T.aloc_local((4,), 'int8') #!", LanguageError, "has no `aloc_local`", "alloc_local"
    ),
    Case(
        "keyword_typo",
        "T.copy(A, A, coalesce_width=4) #!",
        TypeMismatchError,
        "T.copy() got an unexpected keyword argument",
        "did you mean 'coalesced_width'?",
    ),
    Case("too_few", "T.copy(A) #!", TypeMismatchError, "missing 1 required", "T.copy(src"),
    Case("attribute_typo", "x = A.shap #!", LanguageError, "has no attribute `shap`", "shape"),
    Case("view_size", "V = T.view(A, (5, 5)) #!", ShapeError, "bits"),
    # ---- kernels and macros
    Case(
        "nested_kernel", "with T.Kernel(1): #!\n    pass", LanguageError, "inside another T.Kernel"
    ),
    Case("macro_return", "early(n) #!!", LanguageError, "`return` inside"),
    Case("macro_recursion", "endless(n) #!!", LanguageError, "calls itself without an end"),
    Case("macro_reference", "by_reference(n + 1) #!", LanguageError, "pass as reference"),
    Case("macro_arguments", "endless() #!", TypeMismatchError, "missing a required argument"),
    Case("const_in_lazy", "M = T.const('M') #!", LanguageError, "eager"),
    Case("empty_in_lazy", "M = T.empty((4,), 'float32') #!", LanguageError, "eager"),
    Case("swizzle_order", "T.use_swizzle(4, order='diagonal') #!", OptionError, "diagonal"),
    Case("layout_key", "T.annotate_layout({1: None}) #!", TypeMismatchError, "not a buffer"),
    Case("assume_false", "T.assume(1 > 2) #!", LanguageError, "false"),
    Case(
        "caught",
        "try:\n    for i in T.serial(4):\n        raise ValueError('x')\nexcept ValueError:\n    "
        "pass\nI[0] = 1 #!!",
        LanguageError,
        "caught",
    ),
]


def refuse(case: Case) -> tuple[str, str, TileError]:
    """The program, the name of its file, and the error."""
    body = "".join(f"        {line}\n" for line in case.body.split("\n"))
    text = HEAD + body
    file = f"{case.name}.py"
    remember_source(text, file)
    with pytest.raises(case.error) as caught:
        exec(compile(text, file, "exec"), {"__name__": "user"})
    return text, file, caught.value


def test_texts(update_golden: bool) -> None:
    texts = [f"{refuse(c)[2].code} {refuse(c)[2].render()}" for c in CASES]
    text = "\n\n".join(texts).replace(" #!!", "").replace(" #!", "")
    check_golden(GOLDEN / "language" / "refusals.txt", text, update_golden)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_refused(case: Case) -> None:
    text, file, error = refuse(case)
    marked = next(
        n for n, line in enumerate(text.split("\n"), 1) if line.rstrip().endswith(("#!", "#!!"))
    )
    assert case.text in str(error)
    assert error.span is not None, str(error)
    assert error.help, str(error)
    assert case.help in error.help
    if not text.split("\n")[marked - 1].rstrip().endswith("#!!"):
        assert (error.span.file, error.span.line) == (file, marked), str(error)


def test_outside_of_a_kernel() -> None:
    for use in (
        lambda: T.alloc_shared((4,), "float32"),
        lambda: T.serial(4),
        lambda: T.copy(None, None),
    ):
        with pytest.raises(LanguageError, match="outside of a kernel"):
            use()


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="did you mean 'alloc_shared'"):
        T.aloc_shared
    assert not hasattr(T, "nothing_like_it")


def test_every_unsupported_name_says_what_to_do() -> None:
    from tilelang.language.unsupported import UNSUPPORTED

    for name in UNSUPPORTED:
        with pytest.raises(LanguageError) as caught:
            getattr(T, name)(1, 2)
        assert f"T.{name}" in str(caught.value)
        assert caught.value.help
