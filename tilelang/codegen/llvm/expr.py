# SPDX-License-Identifier: Apache-2.0
"""Expressions -> values.

In: an `Expr` at DEVICE stage. Out: a `Value` in the current block. Equal expressions are computed
once where one dominates the other. Arithmetic on f16, bf16 and fp8 is done in float32 and rounded
once per operation. Integer division never traps: by zero it gives 0, and a lane that is not chosen
divides by 1. What a condition guards is evaluated behind a branch, or under a lane mask if the
condition is a vector, unless it is cheap and cannot fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError
from tilelang.ir import (
    EQ,
    GE,
    GT,
    INTRINSICS,
    LE,
    LT,
    NE,
    Add,
    And,
    BitAnd,
    BitNot,
    BitOr,
    BitXor,
    Broadcast,
    Call,
    Cast,
    Const,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Load,
    Max,
    Min,
    Mul,
    Neg,
    Not,
    Or,
    Ramp,
    Select,
    Shl,
    Shr,
    StringImm,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)  # fmt: skip

from .calls import CALLS, remainder
from .convert import FORMATS, cast, narrow, resize, widen
from .memory import Memory
from .types import elem_of, pattern
from .writer import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilelang.ir import DType

CHEAP = 12  # nodes on a lazy side that are evaluated rather than branched around
_ARITH = {Add: "add", Sub: "sub", Mul: "mul"}
_BITS = {BitAnd: "and", BitOr: "or", BitXor: "xor"}
_COMPARE = {EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge"}
_DIVISIONS = (FloorDiv, FloorMod, TruncDiv, TruncMod)


class Expressions(Memory):
    """Evaluation."""

    def value(self, e: Any) -> Value:
        t = type(e)
        if t is Const:
            return self.constant(e)
        if t is Var:
            hit = self.env.get(e)
            if hit is None:
                raise InternalError(f"variable {e.name} is used but not bound")
            return hit
        hit = self.remembered(e)
        if hit is not None:
            return hit
        handler = _HANDLERS.get(t)
        if handler is None:
            raise InternalError(f"{t.__name__} cannot reach the code generator: {e}")
        return self.computed(e, lambda: handler(self, e))

    def constant(self, e: Any) -> Value:
        dtype = e.dtype
        value = pattern(e.value, dtype) if dtype.is_narrow else e.value
        return self.fn.const(value, elem_of(dtype))

    # ------------------------------------------------------------------------------ indices

    def index64(self, e: Any) -> Value:
        """An index as i64. Index arithmetic does not overflow (all of the compiler assumes it), so
        the widening moves to the leaves: sums of 64-bit terms share and fold into addresses."""
        key = (e, "index")
        hit: Value | None = self.remembered(key)
        if hit is not None:
            return hit
        if type(e) in _ARITH and str(e.dtype) == "int32":
            op = _ARITH[type(e)]
            return self.computed(
                key, lambda: self.fn.binary(op, self.index64(e.a), self.index64(e.b))
            )
        return self.computed(key, lambda: resize(self.value(e), 64, e.dtype.kind == "int"))

    def vector_index64(self, e: Any) -> list[Value]:
        """The lanes of a vector index, as i64 each."""
        if type(e) is Ramp:
            base, stride = self.index64(e.base), self.index64(e.stride)
            return [base + stride * k for k in range(e.lanes)]
        if type(e) is Broadcast:
            return [self.index64(e.a)] * e.lanes
        v = self.value(e)
        return [resize(v.lane(k), 64, e.dtype.kind == "int") for k in range(v.lanes)]

    # ------------------------------------------------------------------------------ arithmetic

    def in_float(self, dtype: DType, compute: Callable[..., Value], *args: Value) -> Value:
        """`compute` on floats; narrow ones are widened, and the result rounded."""
        if not dtype.is_narrow:
            return compute(*args)
        wide = [widen(a, dtype, self.half) for a in args]
        return narrow(compute(*wide), dtype, self.half)

    def arith(self, e: Any) -> Value:
        a, b, op = self.value(e.a), self.value(e.b), _ARITH[type(e)]
        if e.dtype.is_float:
            return self.in_float(e.dtype, lambda x, y: self.fn.binary("f" + op, x, y), a, b)
        return self.fn.binary(op, a, b)

    def divide(self, e: Any) -> Value:
        return self.in_float(e.dtype, lambda x, y: x / y, self.value(e.a), self.value(e.b))

    def bit_operation(self, e: Any) -> Value:
        return self.fn.binary(_BITS[type(e)], self.value(e.a), self.value(e.b))

    def shift(self, e: Any) -> Value:
        a, b = self.value(e.a), self.value(e.b)
        bits = e.dtype.bits
        op = "shl" if type(e) is Shl else "ashr" if e.dtype.kind == "int" else "lshr"
        if b.const is not None and 0 <= b.const < bits:
            return self.fn.binary(op, a, b)
        # A count beyond the width is poison in LLVM: shift everything out instead.
        inside = b.cmp("ult", bits)
        if op == "ashr":
            return self.fn.binary(op, a, inside.select(b, bits - 1))
        return inside.select(self.fn.binary(op, a, inside.select(b, 0)), 0)

    def min_max(self, e: Any) -> Value:
        a, b = self.value(e.a), self.value(e.b)
        name = "min" if type(e) is Min else "max"
        if e.dtype.is_float:
            return self.in_float(e.dtype, lambda x, y: self.fn.intrinsic(f"{name}num", x, y), a, b)
        if e.dtype.is_bool:
            return a & b if type(e) is Min else a | b
        out = self.fn.intrinsic(("s" if e.dtype.kind == "int" else "u") + name, a, b)
        if a.range and b.range:
            pick = min if name == "min" else max
            out.range = (pick(a.range[0], b.range[0]), pick(a.range[1], b.range[1]))
        return out

    # ------------------------------------------------------------------------------ integer
    # division

    def division(self, e: Any) -> Value:
        a, b = self.value(e.a), self.value(e.b)
        floor, modulo = type(e) in (FloorDiv, FloorMod), type(e) in (FloorMod, TruncMod)
        if e.dtype.is_float:
            return self.in_float(
                e.dtype, lambda x, y: self._float_division(x, y, floor, modulo), a, b
            )
        non_negative = (
            a.range is not None and a.range[0] >= 0 and b.range is not None and b.range[0] > 0
        )
        if e.dtype.kind != "int" or non_negative:
            return self._unsigned_division(a, b, modulo)
        if floor and b.const is not None and b.const > 0 and b.const & (b.const - 1) == 0:
            return a & (b.const - 1) if modulo else a.ashr(b.const.bit_length() - 1)
        return self._signed_division(a, b, floor, modulo)

    def _unsigned_division(self, a: Value, b: Value, modulo: bool) -> Value:
        if b.const and b.const > 0 and b.const & (b.const - 1) == 0:
            out = a & (b.const - 1) if modulo else a.lshr(b.const.bit_length() - 1)
            if not modulo and a.range is not None and a.range[0] >= 0:
                out.range = (a.range[0] // b.const, a.range[1] // b.const)
            return out
        op = "urem" if modulo else "udiv"
        if b.const or (b.range is not None and b.range[0] > 0):
            return self.fn.binary(op, a, b)
        zero = b.cmp("eq", 0)
        return zero.select(0, self.fn.binary(op, a, zero.select(1, b)))

    def _signed_division(self, a: Value, b: Value, floor: bool, modulo: bool) -> Value:
        safe, zero, negate = b, None, None
        if b.const is None or b.const in (0, -1):  # by 0, and the least number by -1, the CPU traps
            zero, negate = b.cmp("eq", 0), b.cmp("eq", -1)
            safe = (zero | negate).select(1, b)
        if modulo:
            out = self.fn.binary("srem", a, safe)
            if floor:
                wrong = out.cmp("ne", 0) & (out ^ safe).cmp("slt", 0)
                out = wrong.select(out + safe, out)
            return out
        quotient = self.fn.binary("sdiv", a, safe)
        if floor:
            rest = a - quotient * safe
            wrong = rest.cmp("ne", 0) & (rest ^ safe).cmp("slt", 0)
            quotient = wrong.select(quotient - 1, quotient)
        if zero is not None and negate is not None:
            quotient = zero.select(0, negate.select(-a, quotient))
        return quotient

    def _float_division(self, a: Value, b: Value, floor: bool, modulo: bool) -> Value:
        fn = self.fn
        if not modulo:
            return fn.intrinsic("floor" if floor else "trunc", a / b)
        rest = remainder(a, b)
        if not floor:
            return rest
        wrong = rest.cmp("one", 0.0) & (rest.cmp("olt", 0.0) ^ b.cmp("olt", 0.0))
        return wrong.select(rest + b, rest)

    # ------------------------------------------------------------------------------ logic

    def compare(self, e: Any) -> Value:
        a, b, name = self.value(e.a), self.value(e.b), _COMPARE[type(e)]
        dtype = e.a.dtype
        if dtype.is_float:
            if dtype.is_narrow:
                a, b = widen(a, dtype, self.half), widen(b, dtype, self.half)
            return a.cmp("une" if name == "ne" else "o" + name, b)
        if name in ("eq", "ne"):
            return a.cmp(name, b)
        return a.cmp(("s" if dtype.kind == "int" else "u") + name, b)

    def logic(self, e: Any) -> Value:
        """Short-circuiting where the right side could fail or costs something."""
        a, is_and = self.value(e.a), type(e) is And
        if a.lanes > 1 or self.is_cheap(e.b):
            if a.lanes > 1 and not self.is_cheap(e.b):
                with self.masked(a if is_and else a.invert()):
                    b = self.value(e.b)
            else:
                b = self.value(e.b)
            other = self.fn.const(not is_and, "i1", a.lanes)
            return a.select(b, other) if is_and else a.select(other, b)
        short = self.fn.const(not is_and, "i1")
        return self._branch(a, e.b if is_and else short, short if is_and else e.b)

    def negate(self, e: Any) -> Value:
        a, dtype = self.value(e.a), e.dtype
        if dtype.is_narrow:
            form = FORMATS.get(dtype.row.name)
            if (form is None and dtype.row.name != "bfloat16") or (
                form is not None and form.unsigned_zero
            ):
                return self.in_float(dtype, lambda x: -x, a)
            return a ^ (1 << ((form.bits if form else 16) - 1))
        return -a

    def invert(self, e: Any) -> Value:
        return self.value(e.a).invert()

    # ------------------------------------------------------------------------------ choice

    def choose(self, e: Any) -> Value:
        return (
            self.value(e.cond)
            .splat(e.dtype.lanes if e.cond.dtype.lanes > 1 else 1)
            .select(self.value(e.a), self.value(e.b))
        )

    def lazy(self, e: Any) -> Value:
        cond = self.value(e.cond)
        if cond.const is not None and cond.lanes == 1:
            return self.value(e.a if cond.const else e.b)
        if cond.lanes > 1:
            return self._masked_choice(cond, e)
        if self.is_cheap(e.a) and self.is_cheap(e.b):
            return cond.select(self.value(e.a), self.value(e.b))
        return self._branch(cond, e.a, e.b)

    def _masked_choice(self, cond: Value, e: Any) -> Value:
        if self.is_cheap(e.a):
            a = self.value(e.a)
        else:
            with self.masked(cond):
                a = self.value(e.a)
        if self.is_cheap(e.b):
            b = self.value(e.b)
        else:
            with self.masked(cond.invert()):
                b = self.value(e.b)
        return cond.select(a, b)

    def _branch(self, cond: Value, a: Expr | Value, b: Expr | Value) -> Value:
        fn = self.fn
        then, other, join = fn.label("then"), fn.label("else"), fn.label("join")
        fn.branch(cond, then, other)
        incoming = []
        for label, side in ((then, a), (other, b)):
            fn.start(label)
            with self.scope():
                v = side if isinstance(side, Value) else self.value(side)
            incoming.append((v, fn.block))
            fn.jump(join)
        fn.start(join)
        v = incoming[0][0]
        return fn.phi(v.elem, v.lanes, [(x.text, label) for x, label in incoming])

    def is_cheap(self, e: Any) -> bool:
        """May `e` be evaluated although it is not needed? (No memory access, no trap, few
        nodes.)"""
        return self._cost(e) <= CHEAP

    def _cost(self, e: Any) -> int:
        t = type(e)
        if t in (Const, Var, StringImm) or e in self.memo:
            return 0
        if t is Call and INTRINSICS[e.op].effect != "pure":
            return CHEAP + 1
        if t is Load:
            return 1 if self._is_register(e) else CHEAP + 1
        is_free = t is Call and e.op == "reinterpret"
        cost = 1 + (8 if (t is Call and not is_free) or t in _DIVISIONS else 0)
        for c in e.children:
            cost += self._cost(c)
            if cost > CHEAP:
                break
        return cost

    def _is_register(self, e: Any) -> bool:
        """A constant index into a thread's own array: always safe to read, and mostly no access
        at all."""
        shape = e.buffer.static_shape
        if not e.buffer.is_local or shape is None or len(shape) != len(e.indices):
            return False
        return all(
            type(i) is Const and 0 <= i.value < n for i, n in zip(e.indices, shape, strict=True)
        )

    # ------------------------------------------------------------------------------ the rest

    def convert(self, e: Any) -> Value:
        v = self.value(e.a)
        out = cast(v, e.a.dtype, e.to, self.half)
        if v.range is not None and out.elem[0] == "i" and e.to.is_int and out.range is None:
            low, high = v.range
            signed = e.to.kind == "int"
            if -(1 << (e.to.bits - 1)) * signed <= low and high < 1 << (e.to.bits - signed):
                out.range = v.range
        return out

    def read(self, e: Any) -> Value:
        self.reads.add(self.storage(e.buffer))
        return self.load(e.buffer, e.indices)

    def ramp(self, e: Any) -> Value:
        base, stride = self.value(e.base), self.value(e.stride)
        steps = self.fn.vector_const(base.elem, range(e.lanes))
        if stride.const != 1:
            steps = stride.splat(e.lanes) * steps
        return base.splat(e.lanes) + steps

    def broadcast(self, e: Any) -> Value:
        v = self.value(e.a)
        if v.lanes > 1:  # a vector repeated
            return self.fn.shuffle(v, v, [k % v.lanes for k in range(v.lanes * e.lanes)])
        return v.splat(e.lanes)

    def call(self, e: Any) -> Value:
        handler = CALLS.get(e.op)
        if handler is None:
            raise InternalError(f"intrinsic {e.op} has no meaning on a CPU")
        out: Value = handler(self, e)
        if INTRINSICS[e.op].effect != "pure":
            self.effects += 1
            self.invalidate()
        return out

    def fail_unless(self, cond: Value, message: str) -> None:
        if cond.const:
            return
        fn = self.fn
        bad, good = fn.label("fail"), fn.label("ok")
        fn.branch(cond, good, bad)
        fn.start(bad)
        fn.line(f"store ptr {self.module.string(message)}, ptr %status, align 8")
        fn.jump("exit")
        fn.start(good)


_X = Expressions
_HANDLERS: dict[type, Callable[[Any, Any], Value]] = {
    **dict.fromkeys(_ARITH, _X.arith), **dict.fromkeys(_BITS, _X.bit_operation),
    **dict.fromkeys(_COMPARE, _X.compare), **dict.fromkeys(_DIVISIONS, _X.division), Div: _X.divide,
    Shl: _X.shift, Shr: _X.shift, Min: _X.min_max, Max: _X.min_max, And: _X.logic, Or: _X.logic,
    Neg: _X.negate, Not: _X.invert, BitNot: _X.invert, Cast: _X.convert, Select: _X.choose,
    IfThenElse: _X.lazy, Load: _X.read, Ramp: _X.ramp, Broadcast: _X.broadcast, Call: _X.call,
}  # fmt: skip
