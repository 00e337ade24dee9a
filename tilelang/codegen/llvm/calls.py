# SPDX-License-Identifier: Apache-2.0
"""Intrinsic calls -> instructions: what each row of the intrinsic table means on one CPU thread.

A block has one thread, so barriers do nothing; what lanes exchange has gone through memory before
(`transform/lane_exchange.py`). What only makes sense on a GPU (mma, TMA, mbarriers) is absent: no
CPU lowering emits it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError
from tilelang.ir import DType, StringImm

from .convert import cast, narrow, resize, widen
from .math import FAST, FLOAT_FUNCTIONS, define
from .types import bits_of, elem_of, memory_elem
from .writer import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from .expr import Expressions

# The kernels' own copies of what LLVM has as instructions of the target.
_LLVM_UNARY = {
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "nearbyint": "roundeven",
    "round": "round", "abs": "fabs",
}  # fmt: skip


def _unary(em: Expressions, e: Any) -> Value:
    """A mathematical function of one argument, in the argument's dtype."""
    v, dtype = em.value(e.args[0]), e.args[0].dtype
    if not dtype.is_float:
        if e.op == "abs":
            return (
                v
                if dtype.kind == "uint"
                else v.fn.intrinsic("abs", v, Value(v.fn, "false", "i1"), overload=[v])
            )
        if e.op in ("floor", "ceil", "trunc", "round", "nearbyint"):
            return v
        raise InternalError(f"{e.op} of {dtype}: the front end should have cast it to a float")
    name = FAST.get(e.op, e.op)
    return em.in_float(dtype, lambda x: unary(name, x), v)


def unary(name: str, x: Value) -> Value:
    """`name(x)` of float or double lanes."""
    direct = _LLVM_UNARY.get(name)
    if direct is not None:
        return x.fn.intrinsic(direct, x)
    return _call_vector(name, x)


def _call_vector(name: str, *args: Value) -> Value:
    """A call of our own function of that many lanes, defined at its first use."""
    fn = args[0].fn
    return fn.math(define(fn.module, name, args[0].elem, args[0].lanes), args)


def remainder(x: Value, y: Value) -> Value:
    """C's fmod; of single numbers the library's own."""
    return x.fn.binary("frem", x, y) if x.lanes == 1 else _call_vector("fmod", x, y)


def _binary(em: Expressions, e: Any) -> Value:
    a, b = em.value(e.args[0]), em.value(e.args[1])
    dtype = e.args[0].dtype
    if not dtype.is_float:
        raise InternalError(f"{e.op} of {dtype}: the front end should have cast it to a float")

    def compute(x: Value, y: Value) -> Value:
        if e.op == "copysign":
            return x.fn.intrinsic("copysign", x, y)
        if e.op == "fmod":
            return remainder(x, y)
        return _call_vector(e.op, x, y)

    return em.in_float(dtype, compute, a, b)


def _nan_min_max(em: Expressions, e: Any) -> Value:
    a, b = em.value(e.args[0]), em.value(e.args[1])
    name, dtype = e.op[:3], e.args[0].dtype
    if dtype.is_float:
        return em.in_float(dtype, lambda x, y: x.fn.intrinsic(f"{name}imum", x, y), a, b)
    return a.fn.intrinsic(("s" if dtype.kind == "int" else "u") + name, a, b)


def _fma(em: Expressions, e: Any) -> Value:
    args = [em.value(x) for x in e.args]
    if not e.dtype.is_float:
        return args[0] * args[1] + args[2]
    return em.in_float(e.dtype, lambda a, b, c: a.fn.intrinsic("fma", a, b, c), *args)


def _predicate(em: Expressions, e: Any) -> Value:
    v, dtype = em.value(e.args[0]), e.args[0].dtype
    if not dtype.is_float:
        return v.fn.const(e.op == "isfinite", "i1", v.lanes)
    if dtype.is_narrow:
        v = widen(v, dtype, em.half)
    if e.op == "isnan":
        return v.cmp("uno", v)
    size = v.fn.intrinsic("fabs", v)
    return size.cmp("oeq" if e.op == "isinf" else "one", float("inf"))


def _count_bits(em: Expressions, e: Any) -> Value:
    v = em.value(e.args[0])
    if e.op == "popcount":
        out = v.fn.intrinsic("ctpop", v)
    else:
        out = v.fn.intrinsic("ctlz", v, Value(v.fn, "false", "i1"), overload=[v])
    return resize(out, e.dtype.bits, False)


# ---------------------------------------------------------------------------------- lanes and bits


def _reinterpret(em: Expressions, e: Any) -> Value:
    """The same bits; the lane count may change if the total does not."""
    v = em.value(e.args[0])
    elem, lanes = elem_of(e.dtype), e.dtype.lanes
    if v.elem == "ptr" or elem == "ptr":
        return cast(v, e.args[0].dtype, e.dtype)
    if v.elem == "i1" and e.args[0].dtype.is_bool:
        v = v.convert("zext", "i8")
    if e.dtype.is_bool:
        return v.fn.reshape(v, "i8", lanes).cmp("ne", 0)
    if bits_of(v.elem) * v.lanes != bits_of(elem) * lanes:
        raise InternalError(f"reinterpret of {e.args[0].dtype} as {e.dtype}: the sizes differ")
    if (v.elem, v.lanes) == (elem, lanes):
        return v
    return v.fn.reshape(v, elem, lanes)


def _make_vector(em: Expressions, e: Any) -> Value:
    return em.fn.build_vector([em.value(a) for a in e.args])


def _extract_lane(em: Expressions, e: Any) -> Value:
    v, at = em.value(e.args[0]), em.value(e.args[1])
    if at.const is not None:
        return v.lane(at.const)
    return v.fn.extract(v, at)


def _reduce_lanes(em: Expressions, e: Any) -> Value:
    """By halves: log2(lanes) vector operations."""
    v, dtype = em.value(e.args[0]), e.args[0].dtype
    add = e.op == "reduce_lanes_add"

    def combine(x: Value, y: Value) -> Value:
        if not dtype.is_float:
            return x + y if add else x.fn.intrinsic("smax" if dtype.kind == "int" else "umax", x, y)
        return em.in_float(
            dtype, lambda p, q: p + q if add else p.fn.intrinsic("maxnum", p, q), x, y
        )

    while v.lanes > 1:
        half = v.lanes // 2
        rest = v.lanes - 2 * half
        tail = v.lane(v.lanes - 1) if rest else None
        v = combine(v.fn.slice(v, 0, half), v.fn.slice(v, half, half))
        if tail is not None and v.lanes == 1:
            v = combine(v, tail)
        elif tail is not None:
            v = v.fn.build_vector(
                [combine(v.lane(0), tail), *(v.lane(k) for k in range(1, v.lanes))]
            )
    return v


# ---------------------------------------------------------------------------------- memory


def _address_of(em: Expressions, e: Any) -> Value:
    load = e.args[0]
    index: Any = em.flat_index(load.buffer, load.indices)
    if index.dtype.lanes > 1:
        index = index.base
    return em.address(load.buffer, index)


def _atomic(em: Expressions, e: Any) -> Value:
    """Relaxed; a vector lane by lane. Returns the old value."""
    at, v = em.value(e.args[0]), em.value(e.args[1])
    dtype, kind = e.args[1].dtype, e.op[7:]
    size = max(1, dtype.bits // 8)
    old = []
    for k in range(v.lanes):
        place = at if k == 0 else em.fn.gep(at, em.fn.i64(k * size), "i8")
        old.append(_atomic_one(em, place, v.lane(k), dtype.element, kind))
    return em.fn.build_vector(old)


def _atomic_one(em: Expressions, at: Value, v: Value, dtype: DType, kind: str) -> Value:
    if dtype.bits < 8 or dtype.is_bool:
        raise InternalError(f"atomic_{kind} of {dtype}")
    if dtype.is_narrow:
        return _atomic_narrow(em, at, v, dtype, kind)
    if kind == "add":
        op = "fadd" if dtype.is_float else "add"
    elif dtype.is_float:
        op = "f" + kind
    elif kind == "or":
        op = kind
    else:
        op = kind if dtype.kind == "int" else "u" + kind
    return em.fn.emit(f"atomicrmw {op} {at.typed}, {v.typed} monotonic", v.elem)


def _atomic_narrow(em: Expressions, at: Value, v: Value, dtype: DType, kind: str) -> Value:
    """Compare and swap until nobody was faster: the arithmetic is ours."""
    fn = em.fn
    wide = widen(v, dtype, em.half)
    first = fn.emit(f"load atomic {v.elem}, {at.typed} monotonic, align {dtype.bits // 8}", v.elem)
    loop, done = fn.label("swap"), fn.label("swapped")
    entry = fn.block
    at_line = len(fn.lines) + 2
    fn.start(loop)
    old = Value(fn, "%" + fn.name("old"), v.elem)
    x = widen(old, dtype, em.half)
    new = narrow(x + wide if kind == "add" else fn.intrinsic(f"{kind}num", x, wide), dtype, em.half)
    pair = fn.name("pair")
    fn.line(f"%{pair} = cmpxchg weak {at.typed}, {old.typed}, {new.typed} monotonic monotonic")
    seen = fn.emit(f"extractvalue {{ {v.elem}, i1 }} %{pair}, 0", v.elem)
    won = fn.emit(f"extractvalue {{ {v.elem}, i1 }} %{pair}, 1", "i1")
    fn.lines.insert(
        at_line,
        f"  {old.text} = phi {v.elem} [ {first.text}, %{entry} ], [ {seen.text}, %{fn.block} ]",
    )
    fn.branch(won, done, loop)
    fn.start(done)
    return old


_ORDERINGS = ("acquire", "release", "acq_rel", "seq_cst")


def _atomic_load(em: Expressions, e: Any) -> Value:
    at, elem = em.value(e.args[0]), memory_elem(e.dtype)
    out = em.fn.emit(f"load atomic {elem}, {at.typed} monotonic, align {e.dtype.bytes}", elem)
    return out.cmp("ne", 0) if e.dtype.is_bool else out


def _atomic_store(em: Expressions, e: Any) -> Value:
    at, v, dtype = em.value(e.args[0]), em.value(e.args[1]), e.args[1].dtype
    if dtype.is_bool:
        v = v.convert("zext", memory_elem(dtype))
    em.fn.line(f"store atomic {v.typed}, {at.typed} monotonic, align {dtype.bytes}")
    return _nothing(em, e)


def _memory_fence(em: Expressions, e: Any) -> Value:
    em.fn.line(f"fence {_ORDERINGS[int(e.args[0].value)]}")
    return _nothing(em, e)


def _copy_bytes(em: Expressions, e: Any) -> Value:
    """cp_async<bytes>(dst, src, pred): done at once; zeros if pred is false."""
    count = em.value(e.args[0]).const
    dst, src = em.value(e.args[1]), em.value(e.args[2])
    fn = em.fn
    pred = em.value(e.args[3]) if len(e.args) > 3 else fn.const(True, "i1")
    yes, no, after = fn.label("copy"), fn.label("zero"), fn.label("copied")
    fn.branch(pred, yes, no)
    fn.start(yes)
    v = fn.emit(f"load <{count} x i8>, {src.typed}, align 1", "i8", count)
    fn.line(f"store {v.typed}, {dst.typed}, align 1")
    fn.jump(after)
    fn.start(no)
    fn.line(f"store <{count} x i8> zeroinitializer, {dst.typed}, align 1")
    fn.start(after)
    return _nothing(em, e)


# ---------------------------------------------------------------------------------- the outside


def _nothing(em: Expressions, e: Any) -> Value:
    """A barrier of one thread."""
    return em.fn.const(0, "ptr")


def _text(e: Any) -> str:
    if not isinstance(e, StringImm):
        raise InternalError(f"expected a literal text, got {e}")
    return e.value


def _call_extern(em: Expressions, e: Any) -> Value:
    """A user's C function; narrow floats are passed as their bits, a bool as a byte."""
    args = [_as_c(em, a) for a in e.args[1:]]
    name = _text(e.args[0])
    if e.dtype.is_handle:
        em.fn.call_void(name, args)
        return _nothing(em, e)
    out = em.fn.call(name, "i8" if e.dtype.is_bool else elem_of(e.dtype), e.dtype.lanes, args)
    return out.cmp("ne", 0) if e.dtype.is_bool else out


def _as_c(em: Expressions, a: Any) -> Value:
    if isinstance(a, StringImm):
        return Value(em.fn, em.module.string(a.value), "ptr")
    v = em.value(a)
    return v.convert("zext", memory_elem(a.dtype)) if v.elem in ("i1", "i2", "i4") else v


def _print(em: Expressions, e: Any) -> Value:
    """printf, flushed so that the text comes in order with what Python prints."""
    fn = em.fn
    args = [Value(fn, em.module.string(_text(e.args[0])), "ptr")]
    for a in e.args[1:]:
        args += _printable(em, a)
    em.module.declarations.setdefault("printf", "declare i32 @printf(ptr, ...)")
    fn.emit(f"call i32 (ptr, ...) @printf({', '.join(a.typed for a in args)})", "i32")
    fn.call("fflush", "i32", 1, [fn.const(0, "ptr")])
    return _nothing(em, e)


def _printable(em: Expressions, a: Any) -> list[Value]:
    """As C promotes the arguments of printf."""
    if isinstance(a, StringImm):
        return [Value(em.fn, em.module.string(a.value), "ptr")]
    v, dtype = em.value(a), a.dtype
    out = []
    for k in range(v.lanes):
        x = v.lane(k)
        if dtype.is_float:
            x = cast(x, dtype.element, DType("float64"), em.half)
        elif bits_of(x.elem) < 32:
            x = resize(x, 32, dtype.kind == "int")
        out.append(x)
    return out


def _trap(em: Expressions, e: Any) -> Value:
    em.fail_unless(em.fn.const(False, "i1"), "the kernel stopped itself (trap)")
    return _nothing(em, e)


def _group(names: str, handler: Callable[[Any, Any], Value]) -> dict[str, Any]:
    return dict.fromkeys(names.split(), handler)


CALLS: dict[str, Callable[[Any, Any], Value]] = {
    **dict.fromkeys([*_LLVM_UNARY, *FLOAT_FUNCTIONS, *FAST], _unary),
    **_group("pow fmod copysign atan2", _binary),
    **_group("max_nan min_nan", _nan_min_max),
    **_group("isnan isinf isfinite", _predicate),
    **_group("popcount clz", _count_bits),
    **_group("atomic_add atomic_max atomic_min atomic_or", _atomic),
    "atomic_load": _atomic_load,
    "atomic_store": _atomic_store,
    "memory_fence": _memory_fence,
    **_group("reduce_lanes_add reduce_lanes_max", _reduce_lanes),
    **_group("sync_threads cp_async_commit cp_async_wait", _nothing),
    "fma": _fma,
    "reinterpret": _reinterpret,
    "make_vector": _make_vector,
    "extract_lane": _extract_lane,
    "address_of": _address_of,
    "cp_async": _copy_bytes,
    "call_extern": _call_extern,
    "print": _print,
    "trap": _trap,
}
