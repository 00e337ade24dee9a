# SPDX-License-Identifier: Apache-2.0
"""Buffers: where they live, addresses, loads and stores of scalars and vectors.

In: a flat index (scalar, `Ramp`, or any vector) and a buffer. Out: instructions. Contiguous vectors
become vector loads (aligned to an element, as nothing more is known of a user's tensor), other
vectors gathers. Under a lane mask (`self.mask`) only the chosen lanes touch memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError
from tilelang.ir import Broadcast, Buffer, Const, Expr, Load, Ramp, Store, mentions

from .state import State
from .streaming import known_multiple, whole_line
from .types import bits_of, elem_of, memory_elem
from .writer import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

ALIGNMENT = 64
STACK_LIMIT = 64 << 10  # threads of a pool have small stacks
SMALL = 4 << 10  # a register array: it can become SSA only on the stack, so it has more room there
STACK_LIMIT_SMALL = 4 * STACK_LIMIT


class Memory(State):
    """Allocation and access."""

    # ------------------------------------------------------------------------------ allocation

    def allocate(self, buffer: Buffer, annotations: Any) -> None:
        """Gives a buffer its storage: the stack, or the function's scratch memory if it is
        large."""
        shape = buffer.static_shape
        if shape is None:
            raise InternalError(f"{buffer.name} is allocated with a size that is not constant")
        count = 1
        for n in shape:
            count *= n
        size = max(1, (count * buffer.dtype.bits * buffer.dtype.lanes + 7) // 8)
        if "offset" in annotations:
            self.arena = max(self.arena, annotations["offset"] + size)
            pointer = self.scratch_pointer("%arena", annotations["offset"])
        elif self.stack + size <= (STACK_LIMIT_SMALL if size <= SMALL else STACK_LIMIT):
            self.stack += size
            name = "%" + self.fn.name("a.")
            self.fn.prologue.append(f"  {name} = alloca [{size} x i8], align {ALIGNMENT}")
            pointer = Value(self.fn, name, "ptr")
        else:
            pointer = self.scratch_pointer("%scratch", self.scratch)
            self.scratch += -(-size // ALIGNMENT) * ALIGNMENT
        self.buffers[buffer] = pointer

    def scratch_pointer(self, base: str, offset: int) -> Value:
        """An address in a block of memory that the kernel's entry sets up."""
        return self.fn.gep(Value(self.fn, base, "ptr"), self.fn.i64(offset), "i8")

    def pointer(self, buffer: Buffer) -> Value:
        """The address of element 0."""
        hit = self.buffers.get(buffer)
        if hit is not None:
            return hit
        if buffer.data is not None:
            address = self.value(buffer.data)
            is_pointer = buffer.data.dtype.is_handle
            return address if is_pointer else address.convert("inttoptr", "ptr")
        if buffer.view_of is not None:
            return self.pointer(buffer.view_of)
        raise InternalError(f"buffer {buffer.name} is used but neither a parameter nor allocated")

    # ------------------------------------------------------------------------------ addresses

    def flat_index(self, buffer: Buffer, indices: Sequence[Expr]) -> Expr:
        """One index in elements. A single one is flat already: `flatten_buffers` made it."""
        if len(indices) == 1:
            return indices[0]
        total: Any = 0
        for i, stride in zip(indices, buffer.effective_strides(), strict=True):
            lanes = i.dtype.lanes
            total = i * (stride if lanes == 1 else Broadcast(stride, lanes)) + total
        return (
            total
            if isinstance(total, Expr)
            else Const(0, indices[0].dtype if indices else self.int32)
        )

    def address(self, buffer: Buffer, index: Expr) -> Value:
        """Of one element (for packed types: of the byte that holds it)."""
        base, at = self.pointer(buffer), self.index64(index)
        if buffer.dtype.bits < 8:
            at = at.lshr({4: 1, 2: 2, 1: 3}[buffer.dtype.bits])
            return self.fn.gep(base, at, "i8")
        if buffer.dtype.lanes > 1:
            at = at * buffer.dtype.lanes
        return self.fn.gep(base, at, memory_elem(buffer.dtype))

    def packed_shift(self, dtype: Any, at: Value) -> Value:
        """Bit position within its byte of packed element `at` (i64), as i8."""
        return ((at & (8 // dtype.bits - 1)) * dtype.bits).convert("trunc", "i8")

    # ------------------------------------------------------------------------------ loads

    def load(self, buffer: Buffer, indices: Sequence[Expr]) -> Value:
        index = self.flat_index(buffer, indices)
        lanes = index.dtype.lanes
        if lanes == 1 or buffer.dtype.lanes > 1:
            if lanes > 1:
                raise InternalError(
                    f"a vector index into {buffer.name}, whose elements are vectors"
                )
            return self._load_scalar(buffer, index)
        if type(index) is Broadcast and self.mask is None:
            return self._load_at(buffer, index.a, 1).splat(lanes)
        if type(index) is Ramp and type(index.stride) is Const:
            stride = index.stride.value
            if stride == 1 and (buffer.dtype.bits >= 8 or self._whole_bytes(buffer, index)):
                return self._load_contiguous(buffer, index.base, lanes)
        return self._gather(buffer, index)

    def _load_scalar(self, buffer: Buffer, index: Expr) -> Value:
        """One element; under a lane mask only if any lane wants it."""
        lanes = buffer.dtype.lanes
        if self.mask is None:
            return self._load_at(buffer, index, lanes)
        mask, self.mask = self.mask, None
        zero = self.fn.const(0, elem_of(buffer.dtype), lanes)
        with self.scope():
            (out,) = self.fn.unless(
                self.fn.any_lane(mask).invert(),
                [zero],
                lambda: [self._load_at(buffer, index, lanes)],
            )
        self.mask = mask
        return out

    def _whole_bytes(self, buffer: Buffer, ramp: Any) -> bool:
        """Does the packed vector start at a byte and end with one?"""
        per = 8 // buffer.dtype.bits
        return ramp.lanes % per == 0 and known_multiple(ramp.base) % per == 0

    def _load_at(self, buffer: Buffer, index: Expr, lanes: int) -> Value:
        if buffer.dtype.bits < 8:
            if lanes > 1 and lanes * buffer.dtype.bits % 8 == 0:
                return self._load_contiguous(buffer, index * lanes, lanes)
            shift = self.packed_shift(buffer.dtype, self.index64(index))
            byte = self._read(self.address(buffer, index), "i8", 1)
            return byte.lshr(shift).convert("trunc", elem_of(buffer.dtype))
        raw = self._read(self.address(buffer, index), memory_elem(buffer.dtype), lanes)
        return raw.cmp("ne", 0) if buffer.dtype.is_bool else raw

    def _load_contiguous(self, buffer: Buffer, base: Expr, lanes: int) -> Value:
        at, dtype = self.address(buffer, base), buffer.dtype
        if dtype.bits >= 8:
            raw = self._read(at, memory_elem(dtype), lanes)
            return raw.cmp("ne", 0) if dtype.is_bool else raw
        per = 8 // dtype.bits
        packed = self._read(at, "i8", lanes // per)
        parts = [packed.lshr(k * dtype.bits).convert("trunc", elem_of(dtype)) for k in range(per)]
        return self._interleave(parts)

    def _interleave(self, parts: list[Value]) -> Value:
        """a0 b0 c0 d0 a1 b1 …; the number of parts is a power of two."""
        while len(parts) > 1:
            half, n = len(parts) // 2, parts[0].lanes
            mask = [k // 2 + (k % 2) * n for k in range(2 * n)]
            parts = [
                self.fn.shuffle(parts[k], parts[k + half], mask)
                if n > 1
                else self.fn.build_vector([parts[k], parts[k + half]])
                for k in range(half)
            ]
        return parts[0]

    def _read(self, at: Value, elem: str, lanes: int) -> Value:
        """A load; with a lane mask of that width, of the chosen lanes (0 in the others)."""
        align = max(1, bits_of(elem) // 8)
        kind = elem if lanes == 1 else f"<{lanes} x {elem}>"
        if self.mask is None or lanes == 1:
            return self.fn.emit(f"load {kind}, {at.typed}, align {align}", elem, lanes)
        args = [at, self._mask_for(lanes), self.fn.const(0, elem, lanes)]
        return self.masked_access("load", f"v{lanes}{_short(elem)}.p0", kind, args, align)

    def masked_access(
        self, what: str, suffix: str, result: str, args: list[Value], align: int, at: int = 0
    ) -> Value:
        """A call of `llvm.masked.<what>`; its alignment follows the pointer, argument `at` (the
        form that all versions of LLVM read)."""
        name, n = f"llvm.masked.{what}.{suffix}", args[-1].lanes
        types = [a.type for a in args]
        self.fn.module.declare(name, result, [*types[: at + 1], "i32 immarg", *types[at + 1 :]])
        spelled = [a.typed for a in args]
        spelled.insert(at + 1, f"i32 {align}")
        call = f"call {result} @{name}({', '.join(spelled)})"
        if result == "void":
            self.fn.line(call)
            return args[0]
        return self.fn.emit(call, args[-1].elem, n)

    def _mask_for(self, lanes: int) -> Value:
        """The lane mask; for packed bytes, a byte is touched if any of its elements is."""
        mask = self.mask
        assert mask is not None
        if mask.lanes == lanes:
            return mask
        per = mask.lanes // lanes
        spread = [
            self.fn.shuffle(mask, mask, [k * per + j for k in range(lanes)]) for j in range(per)
        ]
        out = spread[0]
        for m in spread[1:]:
            out = out | m
        return out

    def _gather(self, buffer: Buffer, index: Expr) -> Value:
        """Lane by lane."""
        at, fn, dtype = self.vector_index64(index), self.fn, buffer.dtype
        if dtype.bits >= 8:
            elem = memory_elem(dtype)
            if self.mask is not None or (bits_of(elem) >= 32 and type(index) is not Ramp):
                raw = self._masked_gather(self.pointer(buffer), at, elem)
            else:
                raw = fn.build_vector(
                    [self._read(fn.gep(self.pointer(buffer), i, elem), elem, 1) for i in at]
                )
            return raw.cmp("ne", 0) if dtype.is_bool else raw
        shift_of = {4: 1, 2: 2, 1: 3}[dtype.bits]
        bytes_at = [i.lshr(shift_of) for i in at]
        if self.mask is not None:
            raw = self._masked_gather(self.pointer(buffer), bytes_at, "i8")
        else:
            raw = fn.build_vector(
                [self._read(fn.gep(self.pointer(buffer), i, "i8"), "i8", 1) for i in bytes_at]
            )
        shifts = fn.build_vector([self.packed_shift(dtype, i) for i in at])
        return raw.lshr(shifts).convert("trunc", elem_of(dtype))

    def _masked_gather(self, base: Value, at: list[Value], elem: str) -> Value:
        n = len(at)
        pointers = self.fn.emit(
            f"getelementptr {elem}, {base.typed}, {self.fn.build_vector(at).typed}", "ptr", n
        )
        mask = self.mask if self.mask is not None else self.fn.const(True, "i1", n)
        kind = f"<{n} x {elem}>"
        args = [pointers, mask, self.fn.const(0, elem, n)]
        align = max(1, bits_of(elem) // 8)
        return self.masked_access("gather", f"v{n}{_short(elem)}.v{n}p0", kind, args, align)

    # ------------------------------------------------------------------------------ stores

    def store(self, s: Store) -> None:
        buffer = s.buffer
        value = self.value(s.value)
        index = self.flat_index(buffer, s.indices)
        lanes = index.dtype.lanes
        self.invalidate(buffer)
        self._put(buffer, index, value, lanes)
        load = Load(buffer, s.indices)
        distinct = lanes == 1 or (
            type(index) is Ramp and type(index.stride) is Const and index.stride.value != 0
        )
        if self.mask is None and distinct and load.dtype is s.value.dtype:
            # A read of it is this value.
            inside = {x for i in s.indices for x in mentions(i) if type(x) is Buffer}
            self.remember(load, value)
            self.from_memory[load] = {self.storage(b) for b in (buffer, *inside)}

    def _put(self, buffer: Buffer, index: Any, value: Value, lanes: int) -> None:
        if buffer.dtype.lanes > 1:
            self._store_contiguous(buffer, index, value, buffer.dtype.lanes)
        elif lanes == 1:
            self._store_one(buffer, self.index64(index), value)
        elif (
            type(index) is Ramp
            and type(index.stride) is Const
            and index.stride.value == 1
            and (buffer.dtype.bits >= 8 or (self.mask is None and self._whole_bytes(buffer, index)))
        ):
            self._store_contiguous(buffer, index.base, value, lanes)
        else:
            for k, at in enumerate(self.vector_index64(index)):
                self._store_lane(buffer, at, value.lane(k), k)

    def _in_memory(self, buffer: Buffer, value: Value) -> Value:
        return value.convert("zext", "i8") if buffer.dtype.is_bool else value

    def _store_contiguous(self, buffer: Buffer, base: Expr, value: Value, lanes: int) -> None:
        at, dtype = self.address(buffer, base), buffer.dtype
        if dtype.bits >= 8:
            value, past = self._in_memory(buffer, value), self.streamed.get(buffer)
            if past is None or self.mask is not None or not whole_line(buffer, base, lanes):
                self._write(at, value)
            else:
                self._stream(at, value, past)
            return
        per = 8 // dtype.bits
        wide = value.convert("zext", "i8")
        out = None
        for k in range(per):
            part = (
                self.fn.shuffle(wide, wide, range(k, lanes, per)) if lanes > per else wide.lane(k)
            )
            part = part << (k * dtype.bits)
            out = part if out is None else out | part
        assert out is not None
        self._write(at, out)

    def _stream(self, at: Value, value: Value, past: Value) -> None:
        """A line, past the caches if the tensor starts at one."""
        fn = self.fn
        aligned, usual, done = fn.label("past"), fn.label("usual"), fn.label("stored")
        fn.branch(past, aligned, usual)
        fn.start(aligned)
        fn.stream(value, at)
        fn.jump(done)
        fn.start(usual)
        self._write(at, value)
        fn.start(done)

    def _write(self, at: Value, value: Value) -> None:
        align = max(1, bits_of(value.elem) // 8)
        if self.mask is None or value.lanes == 1:
            self.fn.line(f"store {value.typed}, {at.typed}, align {align}")
            return
        n = value.lanes
        args = [value, at, self._mask_for(n)]
        self.masked_access("store", f"v{n}{_short(value.elem)}.p0", "void", args, align, at=1)

    def _store_one(self, buffer: Buffer, at: Value, value: Value) -> None:
        dtype, base = buffer.dtype, self.pointer(buffer)
        if dtype.bits >= 8:
            self._write(self.fn.gep(base, at, memory_elem(dtype)), self._in_memory(buffer, value))
            return
        place = self.fn.gep(base, at.lshr({4: 1, 2: 2, 1: 3}[dtype.bits]), "i8")
        shift = self.packed_shift(dtype, at)
        hole = (self.fn.const((1 << dtype.bits) - 1, "i8") << shift).invert()
        kept = self.fn.emit(f"load i8, {place.typed}, align 1", "i8") & hole
        self._write(place, kept | (value.convert("zext", "i8") << shift))

    def _store_lane(self, buffer: Buffer, at: Value, value: Value, lane: int) -> None:
        """One lane of a scattered store, if it is chosen."""
        if self.mask is None:
            self._store_one(buffer, at, value)
            return
        chosen, after = self.fn.label("lane"), self.fn.label("next")
        self.fn.branch(self.mask.lane(lane), chosen, after)
        self.fn.start(chosen)
        self._store_one(buffer, at, value)
        self.fn.start(after)


def _short(elem: str) -> str:
    return {"float": "f32", "double": "f64", "ptr": "p0"}.get(elem, elem)
