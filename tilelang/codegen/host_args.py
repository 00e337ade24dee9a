# SPDX-License-Identifier: Apache-2.0
"""Reads and checks the arguments of a packed call.

In: the parameters of a `HostProgram` and the `TVMFFIAny` array of a call. Out: per tensor its
shape, strides and data pointer, per scalar its value, and the value of every shape symbol. Order
of the checks: count, kind, rank, dtype, shape, strides, device, alignment, NULL; first the inputs,
then the outputs that the caller gives.

A symbol is bound by the first tensor in which it stands alone as a dimension (or a stride of a
strided tensor); everything else is compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilelang.ir import Buffer, Const, DType, Expr, Var, const_int, free_vars

from .host_expr import HostExprs
from .host_writer import NULL, Value

if TYPE_CHECKING:
    from .host_writer import HostWriter

__all__ = ["Arguments", "Tensor"]

# TVMFFITypeIndex and offsets of TVMFFIAny and DLTensor (c_api.h, dlpack.h).
_NONE, _INT, _BOOL, _FLOAT, _POINTER, _DLTENSOR, _TENSOR = 0, 1, 2, 3, 4, 7, 70
_ANY_SIZE, _ANY_VALUE = 16, 8
_OBJECT_HEADER = 24
_DATA, _DEVICE_TYPE, _DEVICE_ID, _NDIM, _DTYPE, _SHAPE, _STRIDES, _OFFSET = (
    0,
    8,
    12,
    16,
    20,
    24,
    32,
    40,
)

_FLOAT8_ALIKE = (
    frozenset({"float8_e4m3fn", "float8_e4m3fnuz"}), frozenset({"float8_e5m2", "float8_e5m2fnuz"}),
    frozenset({"bool", "int8", "uint8"}), frozenset({"float4_e2m1_unpacked", "uint8", "int8"}),
)  # fmt: skip
_BYTES = ("int8", "uint8")


@dataclass
class Tensor:
    """One tensor of the call. shape and strides are in elements of the parameter's dtype."""

    buffer: Buffer
    is_output: bool
    address: Value
    shape_ptr: Value
    strides_ptr: Value
    shape: list[Value]
    strides: list[Value] = field(default_factory=list)


class Arguments:
    """Emits the checks in `check_inputs`; afterwards `values`, `data` and `exprs` hold the results.

    on_cuda: the tensors must be on a CUDA device (all on one), else on the CPU.
    align: bytes to which the data of a buffer must be aligned, where more than its elements.
    failures: collects the names of the handlers that the entry calls.
    """

    def __init__(
        self,
        w: HostWriter,
        name: str,
        params: tuple[Buffer | Var, ...],
        outputs: tuple[int, ...],
        *,
        on_cuda: bool,
        align: dict[Buffer, int],
        failures: set[str],
    ) -> None:
        self.w = w
        self.name = name
        self.params = params
        self.outputs = tuple(o % len(params) for o in outputs)
        self.on_cuda = on_cuda
        self.align = align
        self.failures = failures
        self.values: dict[Var, Value] = {}
        self.origin: dict[Var, str] = {}
        self.data: dict[Buffer, Value] = {}
        self.exprs = HostExprs(w, name, self.values)
        self.device_id: Value | None = None
        self.first: Tensor | None = None
        inputs = [p for i, p in enumerate(params) if i not in self.outputs]
        # A lone output is allocated beside the first input: on its device, by its framework.
        self.may_allocate = len(self.outputs) == 1 and any(isinstance(p, Buffer) for p in inputs)

    @property
    def num_inputs(self) -> int:
        return len(self.params) - len(self.outputs)

    # -------------------------------------------------------------------------------- count

    def count(self, given: Value) -> Value | None:
        """Checks the number of arguments. The result says whether the outputs are among them
        (None: they must be)."""
        w = self.w
        all_given = w.compare("eq", given, w.number(len(self.params), "i32"))
        wrong = w.op("xor", all_given, w.number(1, "i1"))
        expected, names = len(self.params), [p.name for p in self.params]
        if self.may_allocate:
            inputs_only = w.compare("ne", given, w.number(self.num_inputs, "i32"))
            wrong = w.op("and", wrong, inputs_only)
            expected = self.num_inputs
            names = [p.name for i, p in enumerate(self.params) if i not in self.outputs]
        args = [w.number(expected), w.string(", ".join(names)), w.convert(given, "i64")]
        self.fail_if(wrong, "tl_fail_count", args)
        return all_given if self.may_allocate else None

    # -------------------------------------------------------------------------------- inputs

    def check_inputs(self, args: Value, all_given: Value | None) -> None:
        """Everything about the parameters that the caller always gives."""
        w = self.w
        tensors = []
        position = 0
        for index, param in enumerate(self.params):
            if index in self.outputs:
                continue
            place = self._place(args, position, index, all_given)
            position += 1
            if isinstance(param, Var):
                self._scalar(param, place)
            else:
                tensors.append(self._tensor(param, place, is_output=False))
        for t in tensors:
            self._bind(t)
        w.comment("shapes, strides, devices, data")
        for t in tensors:
            self.check_tensor(t)

    def _place(self, args: Value, short: int, full: int, all_given: Value | None) -> Value:
        """Where the argument is: position `short` if the outputs are left out, else `full`."""
        w = self.w
        if all_given is None or short == full:
            return w.offset(args, _ANY_SIZE * full, "arg")
        at = w.select(all_given, w.number(_ANY_SIZE * full), w.number(_ANY_SIZE * short))
        return w.offset(args, at, "arg")

    def output(self, args: Value, index: int) -> Tensor:
        """The output that the caller gives, after `check_inputs`."""
        place = self.w.offset(args, _ANY_SIZE * index, "arg")
        buffer = self.params[index]
        assert isinstance(buffer, Buffer)
        return self._tensor(buffer, place, is_output=True)

    # -------------------------------------------------------------------------------- scalars

    def _scalar(self, param: Var, place: Value) -> None:
        w = self.w
        kind = w.load("i32", place, 0, f"{param.name}_type")
        raw = w.load("i64", place, _ANY_VALUE, f"{param.name}_raw")
        dtype = param.dtype
        if dtype.is_handle:
            self.values[param] = self._pointer(param, kind, raw)
            return
        is_int = w.compare("eq", kind, w.number(_INT, "i32"))
        is_int = w.op("or", is_int, w.compare("eq", kind, w.number(_BOOL, "i32")))
        if dtype.is_float:
            is_float = w.compare("eq", kind, w.number(_FLOAT, "i32"))
            self._require(w.op("or", is_int, is_float), param, "a float", kind)
            value = w.select(is_int, w.convert(raw, "f64"), w.bits(raw, "f64"))
            self.values[param] = w.convert(value, "f32") if dtype.bits == 32 else value
            return
        self._require(is_int, param, "a bool" if dtype.is_bool else "an int", kind)
        if dtype.is_bool:
            self.values[param] = w.compare("ne", raw, w.number(0))
            return
        self._range(param, raw)
        self.values[param] = raw

    def _pointer(self, param: Var, kind: Value, raw: Value) -> Value:
        """An address: an int, a pointer, None, or the data of a tensor."""
        w = self.w
        tensor = w.compare("eq", kind, w.number(_TENSOR, "i32"))
        plain = w.compare("eq", kind, w.number(_INT, "i32"))
        for other in (_POINTER, _NONE):
            plain = w.op("or", plain, w.compare("eq", kind, w.number(other, "i32")))
        self._require(w.op("or", plain, tensor), param, "an address (x.data_ptr())", kind)

        def of_tensor() -> Value:
            object_ = w.offset(w.convert(raw, "ptr"), _OBJECT_HEADER)
            return self._address(object_, param.name)

        return w.choose(tensor, of_tensor, lambda: w.convert(raw, "ptr"), param.name)

    def _require(self, cond: Value, param: Var, expected: str, kind: Value) -> None:
        w = self.w
        args = [w.string(param.name), w.string(expected), w.convert(kind, "i64")]
        self.fail_if(w.op("xor", cond, w.number(1, "i1")), "tl_fail_scalar", args)

    def _range(self, param: Var, raw: Value) -> None:
        dtype, w = param.dtype, self.w
        if dtype.bits == 64:
            return
        low = -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0
        high = low + 2**dtype.bits - 1
        below = w.compare("lt", raw, w.number(low))
        above = w.compare("gt", raw, w.number(high))
        args = [w.string(param.name), w.string(f"{dtype} ({low} to {high})"), raw]
        self.fail_if(w.op("or", below, above), "tl_fail_scalar_range", args)

    # -------------------------------------------------------------------------------- tensors

    def _tensor(self, buffer: Buffer, place: Value, is_output: bool) -> Tensor:
        """Kind, rank, dtype; reads the shape."""
        w, name = self.w, buffer.name
        w.comment(f"{name}: {buffer.dtype}[{', '.join(map(str, buffer.shape))}]")
        kind = w.load("i32", place, 0, f"{name}_type")
        object_ = w.load("ptr", place, _ANY_VALUE, f"{name}_object")
        plain = w.compare("eq", kind, w.number(_DLTENSOR, "i32"))
        known = w.op("or", plain, w.compare("eq", kind, w.number(_TENSOR, "i32")))
        self.fail_if(
            w.op("xor", known, w.number(1, "i1")),
            "tl_fail_tensor", [w.string(name), w.convert(kind, "i64")],
        )  # fmt: skip
        address = w.select(plain, object_, w.offset(object_, _OBJECT_HEADER), name)
        ndim = w.load("i32", address, _NDIM, f"{name}_ndim")
        self.fail_if(
            w.compare("ne", ndim, w.number(buffer.ndim, "i32")),
            "tl_fail_ndim", [w.string(name), w.number(buffer.ndim), w.convert(ndim, "i64")],
        )  # fmt: skip
        got = w.load("i32", address, _DTYPE, f"{name}_dtype")
        self._dtype(buffer, got)
        shape = w.load("ptr", address, _SHAPE, f"{name}_shape")
        dims = [w.load("i64", shape, 8 * d, f"{name}_{d}") for d in range(buffer.ndim)]
        self._widen_last(buffer, got, dims)
        strides = w.load("ptr", address, _STRIDES, f"{name}_strides")
        tensor = Tensor(buffer, is_output, address, shape, strides, dims)
        if buffer.strides is not None:
            tensor.strides = self._strides(tensor)
        return tensor

    def _dtype(self, buffer: Buffer, got: Value) -> None:
        w = self.w
        ok: Value | None = None
        for code in accepted_dtypes(buffer.dtype):
            same = w.compare("eq", got, w.number(code, "i32"))
            ok = same if ok is None else w.op("or", ok, same)
        assert ok is not None
        args = [w.string(buffer.name), w.string(str(buffer.dtype)), w.convert(got, "i64")]
        self.fail_if(w.op("xor", ok, w.number(1, "i1")), "tl_fail_dtype", args)

    def _widen_last(self, buffer: Buffer, got: Value, dims: list[Value]) -> None:
        """A sub-byte tensor may come as bytes (or pairs): its last dimension counts elements."""
        bits = buffer.dtype.bits * buffer.dtype.lanes
        if bits >= 8 or not dims:
            return
        w = self.w
        width = w.op("and", w.op("lshr", got, w.number(8, "i32")), w.number(255, "i32"))
        lanes = w.op("lshr", got, w.number(16, "i32"))
        total = w.convert(w.op("mul", width, lanes), "i64")
        dims[-1] = w.op("sdiv", w.op("mul", dims[-1], total), w.number(bits), f"{buffer.name}_last")

    def _strides(self, t: Tensor) -> list[Value]:
        """The strides of a strided tensor; a NULL pointer means row-major (DLPack)."""
        w, name = self.w, t.buffer.name
        missing = w.compare("eq", t.strides_ptr, NULL)
        row_major = [w.number(1)]
        for extent in reversed(t.shape[1:]):
            row_major.insert(0, w.op("mul", row_major[0], extent))
        place = w.stack(8 * len(t.shape), hint=f"{name}_rowmajor")
        for d, v in enumerate(row_major):
            w.store(v, place, 8 * d)
        source = w.select(missing, place, t.strides_ptr)
        return [w.load("i64", source, 8 * d, f"{name}_stride{d}") for d in range(len(t.shape))]

    # -------------------------------------------------------------------------------- symbols

    def _bind(self, t: Tensor) -> None:
        """Symbols that stand alone in this tensor and are not bound yet."""
        positions = [(e, v, f"{t.buffer.name}.shape[{d}]") for d, (e, v) in enumerate(
            zip(t.buffer.shape, t.shape, strict=True)
        )]  # fmt: skip
        if t.buffer.strides is not None:
            positions += [
                (e, v, f"{t.buffer.name}.stride[{d}]")
                for d, (e, v) in enumerate(zip(t.buffer.strides, t.strides, strict=True))
            ]
        for e, value, origin in positions:
            if type(e) is Var and e not in self.values:
                self.values[e] = value
                self.origin[e] = origin
                if e.dtype.bits < 64:
                    w = self.w
                    args = [w.string(e.name), value, w.string(origin), w.string(str(e.dtype))]
                    limit = w.number(2 ** (e.dtype.bits - e.dtype.is_signed) - 1)
                    self.fail_if(w.compare("gt", value, limit), "tl_fail_dim_range", args)

    def check_tensor(self, t: Tensor) -> None:
        """Shape, strides, device, alignment, NULL; then its data pointer is known."""
        for d, (e, got) in enumerate(zip(t.buffer.shape, t.shape, strict=True)):
            if type(e) is not Var or self.origin.get(e) != f"{t.buffer.name}.shape[{d}]":
                self._compare("tl_fail_shape", t, d, e, got)
        if t.buffer.strides is None:
            self._contiguous(t)
        else:
            self._given_strides(t)
        self._device(t)
        self._data(t)

    def _compare(self, handler: str, t: Tensor, d: int, e: Expr, got: Value) -> None:
        w = self.w
        want = self.exprs(e)
        args = [w.string(t.buffer.name), w.number(d), want, w.string(self._because(e)), got]
        self.fail_if(w.compare("ne", got, want), handler, args)

    def _because(self, e: Expr) -> str:
        """Where the expected number comes from: ` (M, from A.shape[0])`."""
        if type(e) is Const:
            return ""
        origins = [f"{v.name} from {self.origin[v]}" for v in free_vars(e) if v in self.origin]
        if type(e) is Var:
            return f" ({origins[0].replace(' from', ', from')})" if origins else f" ({e.name})"
        return f" ({e}{'; ' if origins else ''}{', '.join(origins)})"

    def _contiguous(self, t: Tensor) -> None:
        """Row-major strides; those of dimensions of extent 1 mean nothing."""
        w, ndim = self.w, t.buffer.ndim
        if ndim == 0:
            return
        name = t.buffer.name
        with w.if_(w.convert(t.strides_ptr, "i1")):
            wrong: Value | None = None
            expected = w.number(1)
            for d in reversed(range(ndim)):
                extent = const_int(t.buffer.shape[d])
                if extent != 1:
                    stride = w.load("i64", t.strides_ptr, 8 * d, f"{name}_stride{d}")
                    bad = w.compare("ne", stride, expected)
                    if extent is None:
                        bad = w.op("and", bad, w.compare("ne", t.shape[d], w.number(1)))
                    wrong = bad if wrong is None else w.op("or", wrong, bad)
                if d:
                    expected = self._times(t, d, expected)
            if wrong is not None:
                args = [w.string(name), t.shape_ptr, t.strides_ptr, w.number(ndim)]
                self.fail_if(wrong, "tl_check_contiguous", args, recoverable=True)

    def _times(self, t: Tensor, d: int, expected: Value) -> Value:
        extent = const_int(t.buffer.shape[d])
        known = expected.text.rstrip("L")
        if extent is not None and known.isdigit() and t.buffer.dtype.bits >= 8:
            return self.w.number(extent * int(known))
        sub_byte = d == t.buffer.ndim - 1 and t.buffer.dtype.bits < 8
        actual = self.w.load("i64", t.shape_ptr, 8 * d) if sub_byte else t.shape[d]
        return self.w.op("mul", expected, actual)

    def _given_strides(self, t: Tensor) -> None:
        """Strides of T.StridedTensor: compared where they are not bound here."""
        w = self.w
        assert t.buffer.strides is not None
        for d, (e, got) in enumerate(zip(t.buffer.strides, t.strides, strict=True)):
            if type(e) is Var and self.origin.get(e) == f"{t.buffer.name}.stride[{d}]":
                continue
            want = self.exprs(e)
            wrong = w.compare("ne", got, want)
            wrong = w.op("and", wrong, w.compare("gt", t.shape[d], w.number(1)))
            args = [w.string(t.buffer.name), w.number(d), want, w.string(self._because(e)), got]
            self.fail_if(wrong, "tl_fail_stride", args)

    def _device(self, t: Tensor) -> None:
        w, name = self.w, self.w.string(t.buffer.name)
        type_ = w.load("i32", t.address, _DEVICE_TYPE, "device")
        id_ = w.load("i32", t.address, _DEVICE_ID, "device_id")
        # CUDA and managed memory; CPU and pinned memory.
        kinds = (2, 13) if self.on_cuda else (1, 3)
        ok = w.compare("eq", type_, w.number(kinds[0], "i32"))
        ok = w.op("or", ok, w.compare("eq", type_, w.number(kinds[1], "i32")))
        expected = w.string("a CUDA device" if self.on_cuda else "the CPU")
        args = [name, expected, w.convert(type_, "i64"), w.convert(id_, "i64")]
        self.fail_if(w.op("xor", ok, w.number(1, "i1")), "tl_fail_device", args)
        if self.first is None:
            self.first, self.device_id = t, id_
        elif self.on_cuda:
            assert self.device_id is not None
            args = [name, w.convert(self.device_id, "i64"), w.convert(id_, "i64")]
            self.fail_if(w.compare("ne", id_, self.device_id), "tl_fail_device_id", args)

    def _data(self, t: Tensor) -> None:
        w, name = self.w, t.buffer.name
        address = self._address(t.address, f"{name}_data")
        alignment = self.align.get(t.buffer, 1)
        if alignment > 1:
            bits = w.convert(address, "i64")
            low = w.op("and", bits, w.number(alignment - 1))
            args = [w.string(name), w.number(alignment), bits]
            self.fail_if(w.compare("ne", low, w.number(0)), "tl_fail_align", args)
        null = w.compare("eq", address, NULL)
        args = [w.string(name), t.shape_ptr, w.number(t.buffer.ndim)]
        self.fail_if(null, "tl_check_null", args, recoverable=True)
        self.data[t.buffer] = address

    def _address(self, tensor: Value, hint: str) -> Value:
        w = self.w
        base = w.load("ptr", tensor, _DATA, f"{hint}_base")
        return w.offset(base, w.load("i64", tensor, _OFFSET, "byte_offset"), hint)

    def fail_if(
        self, cond: Value, handler: str, args: list[Value], recoverable: bool = False
    ) -> None:
        self.failures.add(handler)
        self.w.fail_if(cond, handler, args, recoverable)


def accepted_dtypes(dtype: DType) -> list[int]:
    """DLDataType values (code, bits, lanes packed as in memory) that a parameter of `dtype` takes.

    Bit patterns are never converted; what is alike here differs only in what it is called.
    """
    code, bits = dtype.row.dlpack
    out = [code | bits << 8 | dtype.lanes << 16]
    names = {n for alike in _FLOAT8_ALIKE if dtype.row.name in alike for n in alike}
    if bits < 8:  # packed: passed as bytes
        names.update(_BYTES)
        if dtype.row.name == "float4_e2m1fn":
            out.append(code | bits << 8 | 2 << 16)
    for name in sorted(names):
        other_code, other_bits = DType(name).row.dlpack
        packed = other_code | other_bits << 8 | (1 if bits < 8 else dtype.lanes) << 16
        if packed not in out:
            out.append(packed)
    return out
