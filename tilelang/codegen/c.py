# SPDX-License-Identifier: Apache-2.0
"""DEVICE IR -> C, with GCC's vector extensions (Clang has them too); no header is needed.

In: kernels, the target, options. Out: one translation unit with a function per kernel,

    const char* <name>(arguments…, int64_t block_begin, int64_t block_end)

which runs blocks [block_begin, block_end) of the grid (linear, x fastest) and returns NULL, or the
message of the assertion that failed.

    const char* add(const float* restrict a, float* restrict b, int64_t block_begin, int64_t
    block_end) {
      for (int64_t block = block_begin; block < block_end; ++block) {
        const int32_t bx = (int32_t)block;
        *(f32x8*)(b + bx * 8) = *(const f32x8*)(a + bx * 8) + (f32x8){1.0f, …};
      next_block:;
      }
      return 0;
    }
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError
from tilelang.ir import (
    Add,
    Alloc,
    Assert,
    Bind,
    BitAnd,
    BitOr,
    BitXor,
    Break,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Continue,
    Div,
    DType,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Mul,
    Ramp,
    Return,
    Scope,
    Select,
    Store,
    StringImm,
    Sub,
    Var,
    cast,
    const_int,
    session,
    walk,
)
from tilelang.utils import align_up, prod

from .c_lanes import CModule, c_float
from .c_memory import CMemory
from .cfamily import ATOM, TERNARY, UNARY, safe_divisor, string_literal
from .llvm.calls import CALLS
from .llvm.memory import SMALL, STACK_LIMIT, STACK_LIMIT_SMALL
from .llvm.streaming import LINE, streamed
from .llvm.types import pattern
from .names import C_RESERVED, words
from .work import Split, split
from .wrapping import Wrapping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilelang.config import Options
    from tilelang.target import Target

__all__ = ["c_source"]

_TYPES = """\
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
"""
# What `runtime.pool` fills in; null where nobody does.
_POOL = """\
typedef const char* (*tl_task)(void*, int64_t, int64_t);
struct { const char* (**parallel)(tl_task, void*, int64_t, int64_t, int64_t, int64_t);
  int64_t threads; } tl_pool;
"""
# Names that the generated file uses itself.
_VECTOR_NAMES = frozenset(
    f"{k}{b}x{n}" for k in "fiu" for b in (8, 16, 32, 64) for n in range(2, 129)
)
_OWN_NAMES = _VECTOR_NAMES | words(
    """
    block block_begin block_end next_block finish scratch scratch_memory arena_size error
    restrict printf fflush malloc free exp exp2 exp10 log log2 log10 log1p tanh sin cos
    tan sinh cosh asin acos atan erf pow atan2 int8_t uint8_t int16_t uint16_t int32_t
    uint32_t int64_t uint64_t fiu tl_pool tl_task args own
    """
)
FENCE_LINES = 200
_NOTHING = frozenset({"sync_threads", "cp_async_commit", "cp_async_wait"})
_FENCES = ("__ATOMIC_ACQUIRE", "__ATOMIC_RELEASE", "__ATOMIC_ACQ_REL", "__ATOMIC_SEQ_CST")
_ELEMENTWISE = (Add, Sub, Mul, Div, BitAnd, BitOr, BitXor)


def c_source(kernels: Sequence[Kernel], target: Target, options: Options) -> str:
    """The kernels as one C file."""
    module = CModule(target.cpu_features)
    with session():
        bodies = [CPrinter(module, k, options.line_directives).kernel() for k in kernels]
    texts = dict.fromkeys(str(k.attrs["prelude"]) for k in kernels if k.attrs.get("prelude"))
    return "\n".join([_TYPES, *texts, *module.parts(), *bodies])


class _Defined(Wrapping):
    """The file is compiled with -fwrapv: signed arithmetic needs no detour."""

    def may_wrap(self, e: Expr) -> bool:
        return False


class CPrinter(CMemory):
    """Prints one kernel."""

    reserved = C_RESERVED | _OWN_NAMES

    def __init__(self, module: CModule, kernel: Kernel, line_directives: bool = False) -> None:
        super().__init__(line_directives=line_directives)
        self.module = module
        self._kernel = kernel
        self._stack = self._scratch = self._arena = 0
        self._masks = self._fence = 0
        self._wrapping = _Defined()
        self.streamed = {
            b: self.names.fresh(f"past_{b.name}") for b in streamed(kernel, module.features)
        }

    # ------------------------------------------------------------------------------ types, literals

    def ctype(self, dtype: DType) -> str:
        return self.module.dtype(dtype)

    def literal(self, e: Const) -> tuple[str, int]:
        dtype, value = e.dtype, e.value
        if dtype.is_narrow:
            return f"0x{pattern(value, dtype):x} /* {value!r} */", ATOM
        if dtype.is_handle:
            return f"(void*){int(value)}", UNARY
        if dtype.is_bool:
            return str(int(value)), ATOM
        if dtype.is_float:
            text = c_float(value, "double" if dtype.bits == 64 else "float")
        else:
            suffix = ("u" if dtype.kind == "uint" else "") + ("ll" if dtype.bits == 64 else "")
            if value == -(1 << (dtype.bits - 1)) and dtype.bits >= 32:
                return f"(-{-value - 1}{suffix} - 1)", ATOM  # C has no literal for the least number
            text = f"{value}{suffix}"
        return text, UNARY if text[0] == "-" else ATOM

    # ------------------------------------------------------------------------------ operators

    def is_plain(self, dtype: DType) -> bool:
        """Does C compute in this type as the IR does?"""
        return not dtype.is_narrow and dtype.bits >= 8

    def _call_helper(self, e: Any) -> tuple[str, int]:
        operands = [
            a for a in (e.args if isinstance(e, Call) else e.children) if type(a) is not StringImm
        ]
        return f"{self.module.helper(e)}({', '.join(self.expr(a) for a in operands)})", ATOM

    def _infix(self, e: Any) -> tuple[str, int]:
        kind, dtype = type(e).__name__, e.a.dtype
        if not self.is_plain(dtype):
            return self._call_helper(e)
        if dtype.lanes > 1:
            if dtype.is_bool and kind in ("And", "Or"):
                return self._mask_logic(e, "&" if kind == "And" else "|")
            if type(e) in _ELEMENTWISE and not dtype.is_bool:
                return super()._infix(e)
            return self._call_helper(e)
        if kind in ("Shl", "Shr") and not (type(e.b) is Const and 0 <= e.b.value < dtype.bits):
            return self._call_helper(e)  # a count beyond the width is undefined in C
        if kind in ("TruncDiv", "TruncMod") and not safe_divisor(e.b):
            return self._call_helper(e)
        return super()._infix(e)

    def _mask_logic(self, e: Any, op: str) -> tuple[str, int]:
        return f"({self.expr(e.a, UNARY)} {op} {self.expr(e.b, UNARY)})", ATOM

    def e_Mul(self, e: Any) -> tuple[str, int]:
        return super().e_Mul(e) if e.dtype.lanes == 1 else self._infix(e)

    e_TruncDiv = _infix
    e_TruncMod = _infix

    def e_FloorDiv(self, e: Any) -> tuple[str, int]:
        return super().e_FloorDiv(e) if self._simple_division(e) else self._call_helper(e)

    def e_FloorMod(self, e: Any) -> tuple[str, int]:
        return super().e_FloorMod(e) if self._simple_division(e) else self._call_helper(e)

    def _simple_division(self, e: Any) -> bool:
        """By a constant: C's operators, or a shift."""
        plain = e.dtype.lanes == 1 and e.dtype.is_int and self.is_plain(e.dtype)
        if not plain or not safe_divisor(e.b):
            return False
        power = e.b.value > 0 and e.b.value & (e.b.value - 1) == 0
        return power or self._truncates_alike(e)

    def e_Min(self, e: Any) -> tuple[str, int]:
        return self._call_helper(e)

    e_Max = e_Min

    def _unary(self, e: Any, op: str) -> tuple[str, int]:
        return super()._unary(e, op) if self.is_plain(e.dtype) else self._call_helper(e)

    def e_Not(self, e: Any) -> tuple[str, int]:
        return super().e_Not(e) if e.dtype.lanes == 1 else (f"{self.expr(e.a, UNARY)} ^ 1", 6)

    def function(self, name: str, args: Sequence[str], dtype: DType) -> str:
        raise InternalError(f"{name} of {dtype} should have become a helper")

    def e_Select(self, e: Any) -> tuple[str, int]:
        return self._conditional(e) if e.cond.dtype.lanes == 1 else self._call_helper(e)

    def _conditional(self, e: Any) -> tuple[str, int]:
        """C's own, by a scalar. To gcc, a vector and a product of vectors differ in type."""
        if e.dtype.lanes == 1:
            return super().e_Select(e)
        a, b = (f"({self.ctype(e.dtype)}){self.expr(x, UNARY)}" for x in (e.a, e.b))
        return f"{self.expr(e.cond, 3)} ? {a} : {b}", TERNARY

    def e_IfThenElse(self, e: Any) -> tuple[str, int]:
        """A scalar condition is C's own; of a vector, each side is evaluated under its lanes."""
        if e.cond.dtype.lanes == 1:
            return self._conditional(e)
        cond = self._name_mask(self.expr(e.cond), e.cond.dtype)
        self.mask_lanes = e.cond.dtype.lanes
        a = self._under(cond, e.a)
        b = self._under(f"({cond} ^ 1)", e.b)
        cond_var = Var("cond", e.cond.dtype)
        node = Select(cond_var, Var("a", e.a.dtype), Var("b", e.b.dtype))
        return f"{self.module.helper(node)}({cond}, {a}, {b})", ATOM

    def _name_mask(self, text: str, dtype: DType) -> str:
        """A variable for a lane mask: it is used more than once."""
        self._masks += 1
        name = self.names.fresh(f"mask{self._masks}")
        self.line(f"const {self.ctype(dtype)} {name} = {text};")
        return name

    def _under(self, mask: str, e: Expr) -> str:
        """The text of `e` where only the lanes of the mask may touch memory."""
        outer, memos = self.mask, self._memos
        self.mask = mask if outer is None else f"({outer} & {mask})"
        self._memos = ({}, {})
        text = self.expr(e)
        self.mask, self._memos = outer, memos
        return text

    def cast(self, e: Cast) -> tuple[str, int]:
        src, dst = e.a.dtype, e.to
        if self.ctype(src) == self.ctype(dst) == "float":
            return self.expr(e.a, UNARY), UNARY
        plain = (
            self.is_plain(src) and self.is_plain(dst) and not (src.is_float and not dst.is_float)
        )
        if not plain or (dst.is_bool and src.lanes > 1):
            return self._call_helper(e)
        if dst.is_bool:
            return f"{self.expr(e.a, 9)} != 0", 8
        if src.lanes > 1:
            return f"__builtin_convertvector({self.expr(e.a)}, {self.ctype(dst)})", ATOM
        through = "(int64_t)" if src.is_handle != dst.is_handle else ""
        return f"({self.ctype(dst)}){through}{self.expr(e.a, UNARY)}", UNARY

    def vector(self, e: Ramp | Broadcast) -> tuple[str, int]:
        return self._call_helper(e)

    # ------------------------------------------------------------------------------ intrinsics

    def intrinsic(self, e: Call) -> tuple[str, int]:
        if e.op in _NOTHING:
            return "(void)0", ATOM
        special = getattr(self, f"_i_{e.op}", None)
        if special is not None:
            text: str = special(e)
            return text, ATOM
        if e.op in ("atomic_add", "atomic_max", "atomic_min", "atomic_or"):
            return self.atomic(e), ATOM
        if e.op not in CALLS:
            raise InternalError(f"intrinsic {e.op} has no meaning on a CPU")
        return self._call_helper(e)

    def _i_address_of(self, e: Call) -> str:
        load: Any = e.args[0]
        index: Any = self.flat(load.buffer, load.indices)
        return f"(void*)({self.address(load.buffer, index.base if type(index) is Ramp else index)})"

    def _i_cp_async(self, e: Call) -> str:
        """Done at once; zeros if the predicate is false."""
        body = (
            "static inline void tl_cp_async(int n, void* dst, const void* src, int pred) {\n"
            "  if (pred) __builtin_memcpy(dst, src, n); else __builtin_memset(dst, 0, n);\n}\n"
        )
        self.module.define("tl_cp_async", lambda: body)
        args = [self.expr(a) for a in e.args]
        return f"tl_cp_async({', '.join([*args, '1'][:4])})"

    def _i_atomic_load(self, e: Call) -> str:
        return self.atomic_access(e.args[0], e.dtype, None)

    def _i_atomic_store(self, e: Call) -> str:
        return self.atomic_access(e.args[0], e.args[1].dtype, e.args[1])

    def _i_memory_fence(self, e: Call) -> str:
        return f"__atomic_thread_fence({_FENCES[const_int(e.args[0]) or 0]})"

    def _i_call_extern(self, e: Call) -> str:
        name = e.args[0]
        if type(name) is not StringImm:
            raise InternalError(f"call_extern of {name}")
        if not re.search(rf"\b{name.value}\b", self._kernel.attrs.get("prelude") or ""):
            types = [
                "const char*" if type(a) is StringImm else self.ctype(a.dtype) for a in e.args[1:]
            ]
            result = "void" if e.dtype.is_handle else self.ctype(e.dtype)
            self.module.declare(name.value, result, types or ["void"])
        return f"{name.value}({', '.join(self.expr(a) for a in e.args[1:])})"

    def _i_print(self, e: Call) -> str:
        """printf, flushed so that the text comes in order with what Python prints."""
        self.module.declarations.setdefault("printf", "extern int printf(const char*, ...);")
        self.module.declarations.setdefault("fflush", "extern int fflush(void*);")
        return f"(printf({', '.join(self._printable(a) for a in e.args)}), fflush(0))"

    def _printable(self, e: Expr) -> str:
        if type(e) is StringImm:
            return self.expr(e)
        return self.expr(cast(e, DType("float64")) if e.dtype.is_float else e)

    def _i_trap(self, e: Call) -> str:
        return self._failure("the kernel stopped itself (trap)")

    # ------------------------------------------------------------------------------ statements

    def declare(self, s: Alloc) -> None:
        buffer: Buffer = s.buffer
        if buffer.view_of is not None or buffer.data is not None:
            return
        shape = buffer.static_shape
        if shape is None:
            raise InternalError(f"{buffer.name} is allocated with a size that is not constant")
        own, name = self.ctype(buffer.dtype), self.names.of(buffer)
        count = prod(shape)
        size = max(1, (count * buffer.dtype.bits * buffer.dtype.lanes + 7) // 8)
        if buffer.scope == Scope.VAR and count == 1:
            self.line(f"{own} {name};")
        elif "offset" in s.annotations:
            self._arena = max(self._arena, s.annotations["offset"] + size)
            self.line(f"{own}* const {name} = ({own}*)(scratch + {s.annotations['offset']});")
        elif self._stack + size <= (STACK_LIMIT_SMALL if size <= SMALL else STACK_LIMIT):
            self._stack += size
            items = size if buffer.dtype.bits < 8 else count
            self.line(f"{own} {name}[{max(1, items)}] __attribute__((aligned(64)));")
        else:
            self.line(f"{own}* const {name} = ({own}*)(scratch + arena_size + {self._scratch});")
            self._scratch += align_up(size, 64)
        init = s.annotations.get("init")
        if init is not None:
            self.stmt(Store(buffer, tuple(Const(0, DType("int32")) for _ in shape), init))

    def s_Seq(self, s: Any) -> None:
        """A fence in long straight-line code: several of GCC's passes walk back over all accesses
        since the last one (2000 stores: 10 s without fences, 0.9 s with them)."""
        for x in s.stmts:
            self.stmt(x)
            jumps = type(x) in (Break, Continue, Return)
            if len(self.lines) - self._fence > FENCE_LINES and not jumps:
                self.line('__asm__ volatile("" ::: "memory");')
                self._fence = len(self.lines)

    def s_Bind(self, s: Any) -> None:
        if not s.var.dtype.is_handle:
            super().s_Bind(s)
            return
        value = self.expr(s.value)
        self.line(f"void* const {self.names.of(s.var)} = (void*)({value});")

    def s_For(self, s: Any) -> None:
        """The bounds are evaluated once: what reads memory gets a name first."""
        start, extent = (self._held(e, n) for e, n in ((s.start, "start"), (s.extent, "extent")))
        super().s_For(For(s.var, start, extent, s.body, s.kind, s.annotations, s.span))

    def _held(self, e: Expr, name: str) -> Expr:
        if not any(type(x) in (Load, Call) for x in walk(e)):
            return e
        var = Var(name, e.dtype)
        self.stmt(Bind(var, e))
        return var

    def unroll_pragma(self, s: For) -> str | None:
        extent = const_int(s.extent)
        if s.kind not in ("unroll", "vectorized") or extent is None or extent < 2:
            return None
        return f"#pragma GCC unroll {min(extent, 1024)}"

    def s_While(self, s: Any) -> None:
        """A condition that needs masks needs statements in front of it."""
        self.line("for (;;) {")
        self.depth += 1
        self.line(f"if (!({self.expr(s.cond)})) break;")
        self.depth -= 1
        self.block(s.body)
        self.line("}")

    def s_If(self, s: If) -> None:
        if s.cond.dtype.lanes == 1:
            super().s_If(s)
            return
        cond = self._name_mask(self.expr(s.cond), s.cond.dtype)
        self.mask_lanes = s.cond.dtype.lanes
        outer, memos = self.mask, self._memos
        for mask, side in ((cond, s.then), (f"({cond} ^ 1)", s.orelse)):
            self.mask, self._memos = mask if outer is None else f"({outer} & {mask})", ({}, {})
            self.stmt(side)
        self.mask, self._memos = outer, memos

    def s_Return(self, _: Any) -> None:
        self.line("goto next_block;")

    def _failure(self, message: str) -> str:
        return f"({{ error = {string_literal(message)}; goto finish; }})"

    def fail(self, s: Assert) -> list[str]:
        place = f" ({s.span.place})" if s.span is not None else ""
        text = string_literal(f"assertion failed: {s.message}{place}")
        return [f"error = {text};", "goto finish;"]

    # ------------------------------------------------------------------------------ the kernel

    def kernel(self) -> str:
        k = self._kernel
        if k.block != (1, 1, 1):
            raise InternalError(
                f"kernel {k.name} has {k.block} threads per block; on a CPU it must have one"
            )
        params = [self._parameter(a) for a in k.args]
        params += ["int64_t block_begin", "int64_t block_end"]
        self.depth = 1
        grid = [self.expr(e, UNARY) for e in k.grid]
        used = {n for n in walk(k.body) if type(n) is Var}
        for b, past in self.streamed.items():
            self.line(f"const int {past} = ((uint64_t){self.names.of(b)} & {LINE - 1}) == 0;")
        self.line("for (int64_t block = block_begin; block < block_end; ++block) {")
        self.depth = 2
        self._bind_blocks(grid, used)
        for v in k.thread_vars:
            if v in used:
                self.line(f"const {self.ctype(v.dtype)} {self.names.of(v)} = 0;")
        self.stmt(k.body)
        self.lines += ["  next_block:;", "  }"]
        return self._whole(k.name, params)

    def _parameter(self, arg: Any) -> str:
        if isinstance(arg, Buffer):
            const = "" if arg in self._written else "const "
            alone = "restrict " if arg in self._alone else ""
            return f"{const}{self.ctype(arg.dtype)}* {alone}{self.names.of(arg)}"
        if isinstance(arg, Var):
            return f"{self.ctype(arg.dtype)} {self.names.of(arg)}"
        raise InternalError(f"{type(arg).__name__} is no kernel argument on a CPU")

    @functools.cached_property
    def _alone(self) -> frozenset[Buffer]:
        """Tensors that overlap no other argument."""
        k = self._kernel
        return frozenset(b for b in k.attrs.get("restrict", k.args) if isinstance(b, Buffer))

    @functools.cached_property
    def _written(self) -> frozenset[Buffer]:
        """Buffers that the body may write."""
        found = set()
        for n in walk(self._kernel.body):
            if type(n) is Store:
                found.add(n.buffer.root())
            elif type(n) is Call and n.op == "address_of":
                load: Any = n.args[0]
                found.add(load.buffer.root())
        return frozenset(found)

    def _bind_blocks(self, grid: list[str], used: set[Any]) -> None:
        """x = block % gx, y = block / gx % gy, z = block / gx / gy."""
        done: list[str] = []
        for n, (var, extent) in enumerate(zip(self._kernel.block_vars, grid, strict=True)):
            rest = " / ".join(["block", *done])
            last = all(g == "1" for g in grid[n + 1 :])
            value = "0" if extent == "1" else rest if last else f"{rest} % {extent}"
            self.nonnegative.add(var)
            own = self.ctype(var.dtype)
            if var in used:
                self.line(f"const {own} {self.names.of(var)} = ({own})({value});")
            if extent != "1":
                done.append(f"(int64_t){extent}")

    def _whole(self, name: str, params: list[str]) -> str:
        arena = align_up(self._arena, 64)
        total = arena + self._scratch
        parts = split(self._kernel)
        entry = f"const char* {name}({', '.join(params)})"
        if parts is not None:
            entry = f"static __attribute__((noinline)) {entry.replace(name, f'{name}_blocks', 1)}"
        head = [f"{entry} {{", "  const char* error = 0;"]
        tail = ["finish:;"]
        if self.streamed:  # other cores see these stores before what tells them that we are done
            tail.append("  __atomic_thread_fence(__ATOMIC_SEQ_CST);")
        if total:
            self.module.declarations.setdefault("malloc", "extern void* malloc(__SIZE_TYPE__);")
            self.module.declarations.setdefault("free", "extern void free(void*);")
            message = string_literal(
                f"out of memory: a kernel needs {total} bytes of scratch memory"
            )
            head += [
                f"  enum {{ arena_size = {arena} }};",
                f"  char* const scratch_memory = malloc({total + 64});",
                f"  if (!scratch_memory) return {message};",
                "  char* const scratch = (char*)(((uint64_t)scratch_memory + 63) & ~(uint64_t)63);",
            ]
            tail.append("  free(scratch_memory);")
        shared = [] if parts is None else self._shared(name, params, parts)
        return "\n".join([*head, *self.lines, *tail, "  return error;", "}", *shared, ""])

    def _shared(self, name: str, params: list[str], parts: Split) -> list[str]:
        """The kernel's entry where threads may share its blocks (`runtime.pool`), and what a thread
        calls."""
        self.module.declarations.setdefault("tl_pool", _POOL)
        own = [self.names.of(a) for a in self._kernel.args]
        span = "block_begin, block_end"
        return [
            f"struct {name}_args {{ {' '.join(f'{p};' for p in params[:-2])} }};",
            f"static const char* {name}_task(void* args, {', '.join(params[-2:])}) {{",
            f"  struct {name}_args* const own = args;",
            f"  return {name}_blocks({', '.join([*(f'own->{a}' for a in own), span])});",
            "}",
            f"const char* {name}({', '.join(params)}) {{",
            f"  if (block_end - block_begin >= {parts.many} && tl_pool.parallel) {{",
            f"    struct {name}_args args = {{{', '.join(own)}}};",
            f"    return (*tl_pool.parallel)({name}_task, &args, {span}, {parts.work},"
            " tl_pool.threads);",
            "  }",
            f"  return {name}_blocks({', '.join([*own, span])});",
            "}",
        ]
