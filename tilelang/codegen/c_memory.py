# SPDX-License-Identifier: Apache-2.0
"""Memory in generated C: addresses, vectors, packed elements, lane masks, atomics.

In: loads and stores at DEVICE stage. Out: C text, and the helper functions that it calls. A
contiguous vector is read through a pointer to a vector type (whose alignment is that of an
element); anything else lane by lane in a helper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError
from tilelang.ir import Add, Broadcast, Buffer, Const, DType, Expr, Load, Max, Min, Ramp, Store, Var

from .c_lanes import CModule, short_name
from .cfamily import ASSIGN, ATOM, UNARY, CFamily
from .llvm.streaming import whole_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_INT32 = DType("int32")


class CMemory(CFamily):
    """Loads and stores. `mask`: a variable with one byte per lane, of which only the lanes that are
    set may touch memory; None: all."""

    module: CModule
    mask: str | None = None
    mask_lanes = 0
    streamed: Mapping[Buffer, str]  # tensor -> a variable: does it start at a cache line?

    # ------------------------------------------------------------------------------ addresses

    def flat(self, buffer: Buffer, indices: Sequence[Expr]) -> Expr:
        """One index in elements. A single one is flat already: `flatten_buffers` made it."""
        if len(indices) == 1:
            return indices[0]
        total: Any = 0
        for i, stride in zip(indices, buffer.effective_strides(), strict=True):
            lanes = i.dtype.lanes
            total = i * (stride if lanes == 1 else Broadcast(stride, lanes)) + total
        return total if isinstance(total, Expr) else Const(0, _INT32)

    def address(self, buffer: Buffer, index: Expr) -> str:
        """Of an element (of the byte that holds a packed one)."""
        if buffer.dtype.bits < 8:
            per = 8 // buffer.dtype.bits
            index = index // per
        base = self.variable_address(buffer)
        return (
            base
            if type(index) is Const and index.value == 0
            else f"{base} + {self.expr(index, 11)}"
        )

    def variable_address(self, buffer: Buffer) -> str:
        """An expression that points to element 0."""
        text = self.pointer(buffer)
        return f"&{text}" if buffer.root().scope == "local.var" and buffer.view_of is None else text

    def is_packed(self, buffer: Buffer) -> bool:
        if buffer.dtype.bits < 8 and buffer.dtype.lanes > 1:
            raise InternalError(f"{buffer.name}: vectors of packed elements have no C type")
        return buffer.dtype.bits < 8 and buffer.root().scope != "local.var"

    # ------------------------------------------------------------------------------ scalars

    def e_Load(self, e: Load) -> tuple[str, int]:
        index = self.flat(e.buffer, e.indices)
        if index.dtype.lanes > 1:
            return self.load_vector(e)
        text, prec = self._load_scalar(e.buffer, index)
        if self.mask is None:
            return text, prec
        zero = "0" if e.dtype.lanes == 1 else f"({self.module.dtype(e.dtype)}){{0}}"
        return f"({self.any_lane()} ? {text} : {zero})", ATOM

    def any_lane(self) -> str:
        """Is any lane of the mask set?"""
        own, name = self.module.type("i8", self.mask_lanes), f"tl_any_{self.mask_lanes}"
        body = (
            f"static inline int {name}({own} mask) {{\n  int any = 0;\n"
            f"  for (int k = 0; k < {self.mask_lanes}; ++k) any |= mask[k];\n  return any;\n}}\n"
        )
        self.module.define(name, lambda: body)
        return f"{name}({self.mask})"

    def _load_scalar(self, buffer: Buffer, index: Expr) -> tuple[str, int]:
        if self.is_packed(buffer):
            name = self.unpack(buffer.dtype)
            return f"{name}({self.pointer(buffer)}, {self.expr(index)})", ATOM
        text, prec = super().e_Load(Load(buffer, (index,)))
        return (f"{text} != 0", 8) if buffer.dtype.is_bool and buffer.is_global else (text, prec)

    def s_Store(self, s: Store) -> None:
        index = self.flat(s.buffer, s.indices)
        if index.dtype.lanes > 1:
            self.store_vector(s)
        elif self.is_packed(s.buffer):
            name = self.pack(s.buffer.dtype)
            args = [self.pointer(s.buffer), self.expr(index), self.expr(s.value)]
            self.line(f"{name}({', '.join(args)});")
        else:
            place, _ = super().e_Load(Load(s.buffer, (index,)))
            self.line(f"{place} = {self.expr(s.value, ASSIGN)};")

    def unpack(self, dtype: DType) -> str:
        """Reads one packed element."""
        own, name = self.module.dtype(dtype), f"tl_get_{short_name(dtype)}"
        bits = dtype.bits
        per = 8 // bits
        body = f"  const uint8_t v = (p[i / {per}] >> (i % {per} * {bits})) & {(1 << bits) - 1};\n"
        if dtype.kind == "int":
            body += f"  return (int8_t)(v << {8 - bits}) >> {8 - bits};"
        else:
            body += "  return v;"
        head = f"static inline {own} {name}(const {own}* q, int64_t i)"
        self.module.define(
            name, lambda: f"{head} {{\n  const uint8_t* p = (const uint8_t*)q;\n{body}\n}}\n"
        )
        return name

    def pack(self, dtype: DType) -> str:
        """Writes one packed element."""
        own, name = self.module.dtype(dtype), f"tl_put_{short_name(dtype)}"
        bits = dtype.bits
        per, ones = 8 // bits, (1 << bits) - 1
        body = (
            f"static inline void {name}({own}* q, int64_t i, {own} v) {{\n"
            f"  uint8_t* p = (uint8_t*)q + i / {per};\n"
            f"  const int at = i % {per} * {bits};\n"
            f"  *p = (*p & ~({ones} << at)) | ((uint8_t)(v & {ones}) << at);\n}}\n"
        )
        self.module.define(name, lambda: body)
        return name

    # ------------------------------------------------------------------------------ vectors

    def _contiguous(self, buffer: Buffer, index: Expr) -> bool:
        if type(index) is not Ramp or type(index.stride) is not Const or index.stride.value != 1:
            return False
        if index.lanes & (index.lanes - 1):
            return False  # C's vector types have a power of two of lanes
        return not self.is_packed(buffer)

    def load_vector(self, e: Load) -> tuple[str, int]:
        buffer, index = e.buffer, self.flat(e.buffer, e.indices)
        dtype = e.dtype
        if type(index) is Broadcast and self.mask is None:
            scalar = Load(buffer, (index.a,))
            return self.expr(Broadcast(scalar, index.lanes), UNARY), UNARY
        if self._contiguous(buffer, index) and self.mask is None:
            base: Any = index
            own = self.module.dtype(dtype)
            text = f"*(const {own}*)({self.address(buffer, base.base)})"
            return (f"(({text}) != 0) & 1", 7) if dtype.is_bool else (text, UNARY)
        return self._gather(buffer, index), ATOM

    def _gather(self, buffer: Buffer, index: Expr) -> str:
        """A call of a helper that reads lane by lane, under the mask if there is one."""
        dtype = buffer.dtype
        own, result = (
            self.module.dtype(dtype),
            self.module.dtype(dtype.with_lanes(index.dtype.lanes)),
        )
        args, at, params, suffix = self._lanes_of(index)
        name = f"tl_load_{short_name(dtype.with_lanes(index.dtype.lanes))}{suffix}"
        read = f"{self.unpack(dtype)}(p, {at})" if self.is_packed(buffer) else f"p[{at}]"
        if dtype.is_bool:
            read = f"({read} != 0)"
        body = (
            f"static inline {result} {name}(const {own}* p, {params}) {{\n"
            f"  {result} r = {{0}};\n"
            f"  for (int k = 0; k < {index.dtype.lanes}; ++k)\n"
            f"    {'if (mask[k]) ' if self.mask else ''}r[k] = {read};\n"
            f"  return r;\n}}\n"
        )
        self.module.define(name, lambda: body)
        return f"{name}({', '.join([self.variable_address(buffer), *args])})"

    def _lanes_of(self, index: Any) -> tuple[list[str], str, str, str]:
        """Of a vector index: arguments, the index of lane k, parameters, a part of the name."""
        if type(index) is Ramp:
            args = [self.expr(index.base), self.expr(index.stride)]
            at, params, suffix = "base + k * stride", "int64_t base, int64_t stride", ""
        else:
            own = self.module.dtype(index.dtype)
            args, at, params = [self.expr(index)], "i[k]", f"{own} i"
            suffix = f"_at_{short_name(index.dtype)}"
        if self.mask is not None:
            args.append(self.mask)
            params += f", {self.module.type('i8', index.dtype.lanes)} mask"
            suffix += "_masked"
        return args, at, params, suffix

    def store_vector(self, s: Store) -> None:
        buffer, index = s.buffer, self.flat(s.buffer, s.indices)
        value = self.expr(s.value, ASSIGN)
        if self._contiguous(buffer, index) and self.mask is None:
            base: Any = index
            own, place = self.module.dtype(s.value.dtype), self.address(buffer, base.base)
            if buffer in self.streamed and whole_line(buffer, base.base, base.lanes):
                write = self.stream(own)
                self.line(f"{write}({place}, {value}, {self.streamed[buffer]});")
            else:
                self.line(f"*({own}*)({place}) = {value};")
            return
        dtype = buffer.dtype
        own, vector = self.module.dtype(dtype), self.module.dtype(s.value.dtype)
        args, at, params, suffix = self._lanes_of(index)
        name = f"tl_store_{short_name(s.value.dtype)}{suffix}"
        write = (
            f"{self.pack(dtype)}(p, {at}, v[k])" if self.is_packed(buffer) else f"p[{at}] = v[k]"
        )
        body = (
            f"static inline void {name}({own}* p, {params}, {vector} v) {{\n"
            f"  for (int k = 0; k < {index.dtype.lanes}; ++k)\n"
            f"    {'if (mask[k]) ' if self.mask else ''}{write};\n}}\n"
        )
        self.module.define(name, lambda: body)
        self.line(f"{name}({', '.join([self.variable_address(buffer), *args, value])});")

    def stream(self, own: str) -> str:
        """A function that stores a cache line, past the caches if the tensor starts at one."""
        name = f"tl_stream_{own}"
        body = (
            f"static inline void {name}(void* p, {own} v, int past) {{\n"
            f"  if (!past) {{\n    *({own}*)p = v;\n    return;\n  }}\n"
            "#ifdef __clang__\n"
            f"  __builtin_nontemporal_store(v, ({own}*)p);\n"
            "#else\n"
            "  typedef long long line __attribute__((vector_size(64)));\n"
            "  __builtin_ia32_movntdq512((line*)p, (line)v);\n"
            "#endif\n}\n"
        )
        self.module.define(name, lambda: body)
        return name

    # ------------------------------------------------------------------------------ atomics

    def atomic(self, e: Any) -> str:
        """A call of a helper: relaxed, lane by lane; returns the old value."""
        dtype, kind = e.args[1].dtype, e.op[7:]
        name = f"tl_{e.op}_{short_name(dtype)}"
        one = self._atomic_one(dtype.element, kind, f"tl_{e.op}_{short_name(dtype.element)}")
        if dtype.lanes > 1:
            own, scalar = self.module.dtype(dtype), self.module.dtype(dtype.element)
            body = (
                f"static inline {own} {name}(void* p, {own} v) {{\n  {own} r;\n"
                f"  for (int k = 0; k < {dtype.lanes}; ++k) r[k] = {one}(({scalar}*)p + k, v[k]);\n"
                f"  return r;\n}}\n"
            )
            self.module.define(name, lambda: body)
        return f"{name}({self.expr(e.args[0])}, {self.expr(e.args[1])})"

    def atomic_access(self, pointer: Expr, dtype: DType, value: Expr | None) -> str:
        """A relaxed load, or store of `value`: one machine word."""
        own, word = self.module.dtype(dtype), self.module.scalar_type(f"i{max(8, dtype.bits)}")
        name = f"tl_atomic_{'load' if value is None else 'store'}_{short_name(dtype)}"
        if value is None:
            body = (
                f"static inline {own} {name}(const void* p) {{\n  {own} v;\n  {word} w = "
                f"__atomic_load_n((const {word}*)p, __ATOMIC_RELAXED);\n"
                "  __builtin_memcpy(&v, &w, sizeof(v));\n  return v;\n}\n"
            )
        else:
            body = (
                f"static inline void {name}(void* p, {own} v) {{\n  {word} w;\n"
                "  __builtin_memcpy(&w, &v, sizeof(v));\n"
                f"  __atomic_store_n(({word}*)p, w, __ATOMIC_RELAXED);\n}}\n"
            )
        self.module.define(name, lambda: body)
        return f"{name}({', '.join(self.expr(a) for a in (pointer, value) if a is not None)})"

    def _atomic_one(self, dtype: DType, kind: str, name: str) -> str:
        """Compare and swap until nobody was faster; integers are added at once."""
        own = self.module.dtype(dtype)
        word = self.module.scalar_type(f"i{dtype.bits}")
        x, y = Var("x", dtype), Var("y", dtype)
        if kind in ("add", "or") and dtype.is_int:
            swap = f"  return __atomic_fetch_{kind}(({own}*)p, v, __ATOMIC_RELAXED);\n"
        else:
            node = {"add": Add, "min": Min, "max": Max}[kind](x, y)
            plain = kind == "add" and not dtype.is_narrow
            new = "old + v" if plain else f"{self.module.helper(node)}(old, v)"
            swap = (
                f"  {word} seen = __atomic_load_n(({word}*)p, __ATOMIC_RELAXED), wanted;\n"
                f"  {own} old, now;\n  do {{\n    __builtin_memcpy(&old, &seen, sizeof(old));\n"
                f"    now = {new};\n    __builtin_memcpy(&wanted, &now, sizeof(now));\n"
                f"  }} while (!__atomic_compare_exchange_n(({word}*)p, &seen, wanted, 1, \n"
                f"                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));\n"
                f"  return old;\n"
            )
        self.module.define(
            name, lambda: f"static inline {own} {name}(void* p, {own} v) {{\n{swap}}}\n"
        )
        return name
