# SPDX-License-Identifier: Apache-2.0
"""What the packed entry says when an argument is wrong: one cold function per kind of mistake.

In: the names of the handlers that an entry calls. Out: their definitions through a `HostWriter`.
A message names the kernel, the parameter, the dimension, what was expected and what came.

In this process a message travels as the kind `TLxxxx` with the help line after a separator, and
`runtime.tvm_ffi` raises our class for it. An exported library names Python's own classes instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .host_writer import Externs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .host_writer import HostWriter, Value

__all__ = ["HELP_SEPARATOR", "declare_tvm_ffi", "emit_handlers"]

HELP_SEPARATOR = "\x1f"
_TEXT_BYTES = 1024

# DLDeviceType and DLDataTypeCode (dlpack.h), TVMFFITypeIndex (c_api.h).
_DEVICES = (
    "?", "cpu", "cuda", "cuda_host", "opencl", "?", "?", "vulkan", "metal", "vpi", "rocm",
    "rocm_host", "ext_dev", "cuda_managed", "oneapi", "webgpu", "hexagon", "maia", "trn", "?",
)  # fmt: skip
_DTYPES = (
    "int%lld", "uint%lld", "float%lld", "handle", "bfloat%lld", "complex%lld", "bool",
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn",
    "float4_e2m1fn", "?",
)  # fmt: skip
_PLAIN_TYPES = (
    "None", "int", "bool", "float", "a pointer", "a dtype", "a device", "a tensor", "a string",
    "bytes", "?", "a string", "bytes", "?",
)  # fmt: skip
_OBJECT_TYPES = (
    "an object", "a string", "bytes", "an error", "a function", "a shape", "a tensor",
    "a tuple or list", "a dict", "a module", "a Python object", "a list", "a dict", "an object",
)  # fmt: skip
_FIRST_OBJECT = 64


class _Failure(NamedTuple):
    """text: a printf format whose first %s is the kernel. params: types of the other values."""

    code: str
    text: str
    kind: str
    params: tuple[str, ...] = ()
    help: str = ""


_S, _I = "ptr", "i64"
_VALUE, _TYPE, _RUNTIME = "ValueError", "TypeError", "RuntimeError"
_FAILURES = {
    "tl_fail_count": _Failure(
        "TL0901", "kernel %s: expected %lld arguments (%s), got %lld", _VALUE, (_I, _S, _I)
    ),
    "tl_fail_ndim": _Failure(
        "TL0903", "kernel %s: parameter %s: expected %lld dimensions, got %lld", _VALUE,
        (_S, _I, _I),
    ),
    "tl_fail_shape": _Failure(
        "TL0905", "kernel %s: parameter %s: shape[%lld]: expected %lld%s, got %lld", _VALUE,
        (_S, _I, _I, _S, _I),
    ),
    "tl_fail_stride": _Failure(
        "TL0906", "kernel %s: parameter %s: stride[%lld]: expected %lld%s, got %lld", _VALUE,
        (_S, _I, _I, _S, _I),
    ),
    "tl_fail_align": _Failure(
        "TL0908",
        "kernel %s: parameter %s: data must be aligned to %lld bytes, got address 0x%llx", _VALUE,
        (_S, _I, _I), "slice the tensor at a multiple of this many bytes, or pass a copy",
    ),
    "tl_fail_scalar_range": _Failure(
        "TL0911", "kernel %s: parameter %s: expected a value of %s, got %lld", _VALUE,
        (_S, _S, _I),
    ),
    "tl_fail_dim_range": _Failure(
        "TL0912", "kernel %s: %s = %lld (from %s) does not fit %s", _VALUE, (_S, _I, _S, _S),
        'declare it as T.dynamic(name, "int64")',
    ),
    "tl_fail_device_id": _Failure(
        "TL0913",
        "kernel %s: parameter %s: expected a tensor on device %lld as the others, got device %lld",
        _VALUE, (_S, _I, _I),
    ),
    "tl_fail_assert": _Failure("TL0914", "kernel %s: %s", _VALUE, (_S,)),
}  # fmt: skip
# Those whose values are looked up or computed on the way.
_COMPUTED = {
    "tensor": _Failure("TL0902", "kernel %s: parameter %s: expected a tensor, got %s", _TYPE),
    "scalar": _Failure("TL0910", "kernel %s: parameter %s: expected %s, got %s", _TYPE),
    "dtype": _Failure("TL0904", "kernel %s: parameter %s: expected dtype %s, got %s%s", _TYPE),
    "device": _Failure(
        "TL0907", "kernel %s: parameter %s: expected a tensor on %s, got one on %s:%lld", _VALUE,
        help="compile for the tensor's device with target=, or move the tensor",
    ),
    "contiguous": _Failure(
        "TL0995",
        "kernel %s: parameter %s: stride[%lld]: expected %lld, got %lld: the tensor is not"
        " contiguous",
        _VALUE, help="pass x.contiguous() (numpy.ascontiguousarray), or declare T.StridedTensor",
    ),
    "null": _Failure("TL0909", "kernel %s: parameter %s: the data pointer is NULL", _VALUE),
    "launch": _Failure(
        "TL0815",
        "kernel %s: launching %s failed: CUDA error %lld (%s) with grid (%lld, %lld, %lld),"
        " block (%lld, %lld, %lld), %lld bytes of shared memory", _RUNTIME,
    ),
    "kernel": _Failure("TL0817", "kernel %s: %s", _RUNTIME),
    "encode": _Failure(
        "TL0916",
        "kernel %s: parameter %s: the tensor cannot be described to the TMA unit (CUDA error %lld)",
        _VALUE, help="its data and strides must be multiples of 16 bytes",
    ),
}  # fmt: skip


def declare_tvm_ffi(w: HostWriter) -> None:
    """The functions of tvm-ffi's stable C ABI and of libc that host code calls."""
    w.extern("snprintf", Externs("i32", ("ptr", "i64", "ptr"), variadic=3))
    w.extern("TVMFFIErrorSetRaisedFromCStr", Externs("void", ("ptr", "ptr")))
    w.extern("TVMFFIEnvTensorAlloc", Externs("i32", ("ptr", "ptr")))
    w.extern("TVMFFIEnvGetStream", Externs("ptr", ("i32", "i32")))
    w.extern("TVMFFIObjectDecRef", Externs("i32", ("ptr",)))


class _Handlers:
    def __init__(self, w: HostWriter, kernel: str, for_export: bool) -> None:
        self.w = w
        self.kernel = kernel
        self.for_export = for_export

    def raise_(self, row: _Failure, values: Iterable[Value]) -> None:
        """Formats the message, sets the error, returns -1."""
        w = self.w
        text = row.text
        if row.help:
            text += f"; {row.help}" if self.for_export else f"{HELP_SEPARATOR}{row.help}"
        buffer = w.stack(_TEXT_BYTES, hint="text")
        head = [buffer, w.number(_TEXT_BYTES), w.string(text), w.string(self.kernel)]
        w.call("snprintf", [*head, *values])
        kind = w.string(row.kind if self.for_export else row.code)
        w.call("TVMFFIErrorSetRaisedFromCStr", [kind, buffer])
        w.ret(w.number(-1, "i32"))

    def simple(self, name: str) -> None:
        row = _FAILURES[name]
        params = [(f"a{i}", t) for i, t in enumerate(row.params)]
        with self.w.function(name, params, cold=True) as values:
            self.raise_(row, values)

    def type_name(self, index: Value) -> Value:
        """The text for a TVMFFITypeIndex."""
        w = self.w
        plain = w.string_table("plain_types", _PLAIN_TYPES)
        objects = w.string_table("object_types", _OBJECT_TYPES)
        is_object = w.compare("ge", index, w.number(_FIRST_OBJECT))
        small = _clamp(w, index, len(_PLAIN_TYPES) - 1)
        large = w.op("sub", index, w.number(_FIRST_OBJECT))
        large = _clamp(w, large, len(_OBJECT_TYPES) - 1)
        return w.select(is_object, _entry(w, objects, large), _entry(w, plain, small))

    def not_a_tensor(self) -> None:
        with self.w.function("tl_fail_tensor", [("param", _S), ("type", _I)], cold=True) as (p, t):
            self.raise_(_COMPUTED["tensor"], [p, self.type_name(t)])

    def scalar(self) -> None:
        params = [("param", _S), ("expected", _S), ("type", _I)]
        with self.w.function("tl_fail_scalar", params, cold=True) as (p, expected, t):
            self.raise_(_COMPUTED["scalar"], [p, expected, self.type_name(t)])

    def dtype(self) -> None:
        w = self.w
        params = [("param", _S), ("expected", _S), ("got", _I)]
        with w.function("tl_fail_dtype", params, cold=True) as (p, expected, got):
            code = _clamp(w, w.op("and", got, w.number(255)), len(_DTYPES) - 1)
            width = w.op("and", w.op("lshr", got, w.number(8)), w.number(255))
            lanes = w.op("and", w.op("lshr", got, w.number(16)), w.number(65535))
            name = w.stack(64, hint="name")
            form = _entry(w, w.string_table("dtypes", _DTYPES), code)
            w.call("snprintf", [name, w.number(64), form, width])
            scalar = w.compare("eq", lanes, w.number(1))
            form = w.select(scalar, w.string(""), w.string("x%lld"))
            suffix = w.stack(32, hint="suffix")
            w.call("snprintf", [suffix, w.number(32), form, lanes])
            self.raise_(_COMPUTED["dtype"], [p, expected, name, suffix])

    def device(self) -> None:
        w = self.w
        params = [("param", _S), ("expected", _S), ("type", _I), ("id", _I)]
        with w.function("tl_fail_device", params, cold=True) as (p, expected, type_, id_):
            name = _entry(
                w, w.string_table("devices", _DEVICES), _clamp(w, type_, len(_DEVICES) - 1)
            )
            self.raise_(_COMPUTED["device"], [p, expected, name, id_])

    def contiguous(self) -> None:
        """Called when some stride is not the row-major one; a tensor without elements is fine."""
        w = self.w
        params = [("param", _S), ("shape", _S), ("strides", _S), ("ndim", _I)]
        with w.function("tl_check_contiguous", params, cold=True) as (p, shape, strides, ndim):
            self._return_if_empty(shape, ndim)
            expected = w.stack(8, hint="expected")
            w.store(w.number(1), expected)
            with w.loop(ndim) as i:
                d = w.op("sub", w.op("sub", ndim, w.number(1)), i, "d")
                at = w.op("mul", d, w.number(8))
                extent = w.load("i64", w.offset(shape, at))
                stride = w.load("i64", w.offset(strides, at))
                want = w.load("i64", expected)
                wrong = w.op(
                    "and", w.compare("ne", extent, w.number(1)), w.compare("ne", stride, want)
                )
                with w.if_(wrong):
                    self.raise_(_COMPUTED["contiguous"], [p, d, want, stride])
                w.store(w.op("mul", want, extent), expected)
            w.ret(w.number(0, "i32"))

    def _return_if_empty(self, shape: Value, ndim: Value) -> None:
        w = self.w
        with w.loop(ndim) as i:
            extent = w.load("i64", w.offset(shape, w.op("mul", i, w.number(8))))
            with w.if_(w.compare("eq", extent, w.number(0))):
                w.ret(w.number(0, "i32"))

    def null(self) -> None:
        w = self.w
        params = [("param", _S), ("shape", _S), ("ndim", _I)]
        with w.function("tl_check_null", params, cold=True) as (p, shape, ndim):
            self._return_if_empty(shape, ndim)
            self.raise_(_COMPUTED["null"], [p])

    def launch(self) -> None:
        """`strerror` is cuGetErrorString; the output allocated for this call is released."""
        w = self.w
        params = [("strerror", _S), ("name", _S), ("code", _I), ("config", _S), ("output", _S)]
        with w.function("tl_fail_launch", params, cold=True) as (strerror, name, code, cfg, out):
            with w.if_(w.convert(out, "i1")):
                w.call("TVMFFIObjectDecRef", [out])
            place = w.stack(8, hint="place")
            w.store(w.string("unknown error"), place)
            w.call(strerror, [w.convert(code, "i32"), place])
            grid = [w.convert(w.load("i32", cfg, 4 * i), "i64") for i in range(7)]
            self.raise_(_COMPUTED["launch"], [name, code, w.load("ptr", place), *grid])

    def kernel_message(self) -> None:
        """A CPU kernel gave up and says why."""
        w = self.w
        with w.function("tl_fail_kernel", [("output", _S), ("text", _S)], cold=True) as (out, text):
            with w.if_(w.convert(out, "i1")):
                w.call("TVMFFIObjectDecRef", [out])
            self.raise_(_COMPUTED["kernel"], [text])

    def encode(self) -> None:
        w = self.w
        with w.function("tl_fail_encode", [("param", _S), ("code", _I)], cold=True) as (p, code):
            self.raise_(_COMPUTED["encode"], [p, code])


_SPECIAL = {
    "tl_fail_tensor": _Handlers.not_a_tensor,
    "tl_fail_scalar": _Handlers.scalar,
    "tl_fail_dtype": _Handlers.dtype,
    "tl_fail_device": _Handlers.device,
    "tl_check_contiguous": _Handlers.contiguous,
    "tl_check_null": _Handlers.null,
    "tl_fail_launch": _Handlers.launch,
    "tl_fail_encode": _Handlers.encode,
    "tl_fail_kernel": _Handlers.kernel_message,
}


def _clamp(w: HostWriter, value: Value, top: int) -> Value:
    """`value` if it is in 0 .. top, else top."""
    low = w.select(w.compare("lt", value, w.number(0)), w.number(top), value)
    return w.select(w.compare("gt", low, w.number(top)), w.number(top), low)


def _entry(w: HostWriter, table: Value, index: Value) -> Value:
    return w.load("ptr", w.offset(table, w.op("mul", index, w.number(8))))


def emit_handlers(
    w: HostWriter, kernel: str, names: Iterable[str], for_export: bool = False
) -> None:
    """Defines the handlers of these names."""
    handlers = _Handlers(w, kernel, for_export)
    for name in sorted(set(names)):
        if name in _SPECIAL:
            _SPECIAL[name](handlers)
        else:
            handlers.simple(name)
