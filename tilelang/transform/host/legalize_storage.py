# SPDX-License-Identifier: Apache-2.0
"""FP8StorageLegalize and BF16StorageLegalize: memory holds these formats as unsigned integers.

A CPU has registers and memory of bytes and words, not of 8-bit floats or bfloat16. Whatever reads
or writes such a buffer does so through unsigned integers of its width, and the value is
reinterpreted in registers, where conversions are.

    B[i] = cast(A[i], "float8_e4m3fn")   →   B_u8[i] = reinterpret(cast(A[i], "float8_e4m3fn"))

A parameter keeps its dtype, which the entry checks, and gets a view; memory of the kernel's own is
allocated as integers. A buffer whose address is taken stays as it is: what is done with the address
(an atomic operation, an extern function) depends on the dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilelang.ir import Alloc, Buffer, Call, DType, Kernel, Load, Rewriter, Store, call, walk
from tilelang.target import Target


def run_fp8(func: Any, target_host: Target) -> Any:
    return _legalized(func, _is_fp8)


def run_bf16(func: Any, target_host: Target) -> Any:
    return _legalized(func, _is_bf16)


def _is_fp8(dtype: DType) -> bool:
    return dtype.kind == "float" and dtype.bits == 8


def _is_bf16(dtype: DType) -> bool:
    return dtype.row.name == "bfloat16"


def _legalized(func: Any, wanted: Callable[[DType], bool]) -> Any:
    if not isinstance(func, Kernel):
        return func
    used: dict[Buffer, None] = {}
    addressed: set[Buffer] = set()
    own: set[Buffer] = set()
    for n in walk(func.body):
        t = type(n)
        if t is Load or t is Store:
            used[n.buffer] = None  # type: ignore[attr-defined]
        elif t is Alloc and n.buffer.view_of is None and n.buffer.data is None:  # type: ignore[attr-defined]
            own.add(n.buffer)  # type: ignore[attr-defined]
        elif t is Call and n.op == "address_of":  # type: ignore[attr-defined]
            addressed.add(n.args[0].buffer.root())  # type: ignore[attr-defined]
    found = [b for b in used if wanted(b.dtype) and b.root() not in addressed]
    if not found:
        return func
    # A buffer that others are views of keeps its own allocation: they name it.
    viewed = {b.view_of for b in used if b.view_of is not None}
    words = {b: _as_words(b, b in own and b not in viewed) for b in found}
    return replace(func, body=_Words(words).visit(func.body))


def _as_words(b: Buffer, allocated: bool) -> Buffer:
    """The same elements as unsigned integers: the memory itself, or a view of it."""
    dtype = DType(f"uint{b.dtype.bits}" + (f"x{b.dtype.lanes}" if b.dtype.lanes > 1 else ""))
    view_of = None if allocated else b
    return Buffer(f"{b.name}_u{b.dtype.bits}", b.shape, dtype, b.scope, b.strides, view_of, b.span)


class _Words(Rewriter):
    pre = True

    def __init__(self, words: dict[Buffer, Buffer]) -> None:
        super().__init__()
        self.words = words

    def visit_Load(self, n: Load) -> Any:
        indices = tuple(self.visit(i) for i in n.indices)
        word = self.words.get(n.buffer)
        if word is None:
            return Load(n.buffer, indices)
        return call("reinterpret", [Load(word, indices)], n.dtype)

    def visit_Store(self, n: Store) -> Any:
        indices, value = tuple(self.visit(i) for i in n.indices), self.visit(n.value)
        word = self.words.get(n.buffer)
        if word is None:
            return Store(n.buffer, indices, value, n.span)
        lanes = value.dtype.lanes
        dtype = DType(word.dtype.row.name + (f"x{lanes}" if lanes > 1 else ""))
        return Store(word, indices, call("reinterpret", [value], dtype), n.span)

    def visit_Alloc(self, n: Alloc) -> Any:
        word = self.words.get(n.buffer)
        if word is None or word.view_of is not None:
            return n
        return Alloc(word, n.annotations, n.span)
