# SPDX-License-Identifier: Apache-2.0
"""HostProgram -> a CPython function (METH_FASTCALL | METH_KEYWORDS) in LLVM IR: the quick way for
torch tensors.

In: a `HostProgram` and its target. Out: a module with `tl_python_<name>`, which reads torch tensors
through torch's own C interface (the DLPack exchange API), checks them as the packed entry does, and
launches. It needs neither tvm-ffi nor a compiler.

Whatever is not as it should be (another framework's tensor, a wrong shape, a device on which
nothing is loaded yet) is not handled here: the call is handed to a Python function, which does it
or says what is wrong.

`PYTHON_STATE` is the memory that the runtime fills before the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.ir import Buffer, Var

from .host import check_outputs, defined_functions, needed_alignment, run_blocks
from .host_args import Arguments
from .host_cuda import CudaLaunches
from .host_llvm import LlvmWriter
from .host_values import argument_type
from .host_writer import NULL, Externs, Value

if TYPE_CHECKING:
    from tilelang.ir import HostProgram, Kernel
    from tilelang.target import Target

    from .host_writer import HostWriter

__all__ = ["PYTHON_STATE", "host_python", "python_entry"]

PYTHON_STATE = {
    "tensor_type": 0, "dltensor_from": 8, "current_stream": 16, "slow": 24, "long_type": 32,
    "float_type": 40, "bool_type": 48, "none": 56, "failed": 64,
}  # fmt: skip
_STATE_BYTES = 72
_DLTENSOR_BYTES, _ANY_BYTES = 48, 16
_INT, _BOOL, _FLOAT, _DLTENSOR = 1, 2, 3, 7
_TYPE_OFFSET = 8  # PyObject.ob_type
_CUDA = 2


def python_entry(program_name: str) -> str:
    return f"tl_python_{program_name}"


def host_python(program: HostProgram, target: Target, kernels: str = "") -> str:
    """LLVM IR; `kernels` is the module of CPU kernels."""
    w = LlvmWriter()
    w.declared.update(defined_functions(kernels))
    _Entry(w, program, target).emit()
    return f"{kernels}\n{w.finish()}"


class _SlowArguments(Arguments):
    """Arguments whose every failure hands the call to Python."""

    slow: tuple[Value, Value, Value]

    def fail_if(
        self, cond: Value, handler: str, args: list[Value], recoverable: bool = False
    ) -> None:
        self.w.fail_if(cond, "tl_slow", list(self.slow))


class _SlowLaunches(CudaLaunches):
    """Launches that leave what is unusual to Python."""

    def __init__(self, w: HostWriter, program: HostProgram, python_state: Value) -> None:
        super().__init__(w, program)
        self.python_state = python_state

    def launched(
        self, a: Arguments, kernel: Kernel, code: Value, config: Value, owned: Value
    ) -> None:
        a.fail_if(self.w.compare("ne", code, self.w.number(0, "i32")), "", [])

    def prepare(self, a: Arguments, missing: Value) -> None:
        a.fail_if(missing, "", [])

    def current_stream(self, a: Arguments) -> Value:
        w = self.w
        assert self.device is not None
        place = w.stack(8, hint="stream_place")
        get = w.load("ptr", self.python_state, PYTHON_STATE["current_stream"])
        code = w.call(get, [w.number(_CUDA, "i32"), self.device, place])
        a.fail_if(w.compare("ne", code, w.number(0, "i32")), "", [])
        return w.load("ptr", place, hint="stream")


class _Entry:
    def __init__(self, w: HostWriter, program: HostProgram, target: Target) -> None:
        self.w = w
        self.program = program
        self.target = target
        self.name = python_entry(program.name)
        self.state = w.memory("tl_python_state", _STATE_BYTES, 8)
        w.extern("PyLong_AsLongLong", Externs("i64", ("ptr",)))
        w.extern("PyFloat_AsDouble", Externs("f64", ("ptr",)))
        w.extern("PyObject_Vectorcall", Externs("ptr", ("ptr", "ptr", "i64", "ptr")))
        w.extern("PyObject_CallFunction", Externs("ptr", ("ptr", "ptr"), variadic=2))
        w.extern("PyErr_Clear", Externs("void", ()))
        w.extern("Py_IncRef", Externs("void", ("ptr",)))
        w.extern("PyEval_SaveThread", Externs("ptr", ()))
        w.extern("PyEval_RestoreThread", Externs("void", ("ptr",)))

    def emit(self) -> None:
        w = self.w
        on_cuda = self.target.is_cuda
        cuda = _SlowLaunches(w, self.program, self.state) if on_cuda else None
        if cuda is None:
            for kernel in self.program.launches:
                types = tuple(argument_type(a) for a in kernel.args)
                w.extern(kernel.name, Externs("ptr", (*types, "i64", "i64")))
        self._slow()
        params = [("self", "ptr"), ("objects", "ptr"), ("count", "i64"), ("names", "ptr")]
        with w.function(self.name, params, returns="ptr", export=True) as given:
            _, objects, count, names = given
            a = _SlowArguments(
                w, self.program.name, self.program.params, self.program.outputs, on_cuda=on_cuda,
                align=needed_alignment(self.program, self.target), failures=set(),
            )  # fmt: skip
            a.slow = (objects, count, names)
            wrong = w.compare("ne", count, w.number(len(self.program.params)))
            wrong = w.op("or", wrong, w.compare("ne", names, NULL))
            a.fail_if(wrong, "", [])
            values = self._convert(a, objects)
            a.may_allocate = False
            a.check_inputs(values, None)
            for cond, _message in self.program.attrs.get("asserts", ()):
                a.fail_if(w.op("xor", a.exprs(cond), w.number(1, "i1")), "", [])
            check_outputs(a, values)
            for n, kernel in enumerate(self.program.launches):
                if cuda is not None:
                    cuda.launch(a, n, kernel, NULL)
                else:
                    thread = w.call("PyEval_SaveThread", [], "thread")
                    message = run_blocks(a, kernel)
                    w.call("PyEval_RestoreThread", [thread])
                    with w.if_(w.compare("ne", message, NULL), unlikely=True):
                        failed = w.load("ptr", self.state, PYTHON_STATE["failed"])
                        w.ret(w.call("PyObject_CallFunction", [failed, w.string("s"), message]))
            none = w.load("ptr", self.state, PYTHON_STATE["none"])
            w.call("Py_IncRef", [none])
            w.ret(none)
        with w.function(f"{self.name}_python_state", [], returns="ptr", export=True):
            w.ret(self.state)
        if cuda is not None:
            cuda.emit_state(self.name)

    def _slow(self) -> None:
        w = self.w
        params = [("objects", "ptr"), ("count", "i64"), ("names", "ptr")]
        with w.function("tl_slow", params, returns="ptr", cold=True) as (objects, count, names):
            w.call("PyErr_Clear", [])
            slow = w.load("ptr", self.state, PYTHON_STATE["slow"])
            w.ret(w.call("PyObject_Vectorcall", [slow, objects, count, names]))

    def _convert(self, a: Arguments, objects: Value) -> Value:
        """The Python objects as the array of TVMFFIAny that the checks read."""
        w = self.w
        values = w.stack(_ANY_BYTES * max(len(self.program.params), 1), 16, hint="values")
        for i, param in enumerate(self.program.params):
            w.comment(param.name)
            object_ = w.load("ptr", objects, 8 * i, f"{param.name}_object")
            type_ = w.load("ptr", object_, _TYPE_OFFSET, f"{param.name}_class")
            place = w.offset(values, _ANY_BYTES * i, f"{param.name}_value")
            if isinstance(param, Buffer):
                self._tensor(a, object_, type_, place)
            else:
                self._scalar(a, param, object_, type_, place)
        return values

    def _is(self, type_: Value, name: str) -> Value:
        return self.w.compare("eq", type_, self.w.load("ptr", self.state, PYTHON_STATE[name]))

    def _tensor(self, a: Arguments, object_: Value, type_: Value, place: Value) -> None:
        w = self.w
        known = self._is(type_, "tensor_type")
        a.fail_if(w.op("xor", known, w.number(1, "i1")), "", [])
        tensor = w.stack(_DLTENSOR_BYTES, hint="tensor")
        convert = w.load("ptr", self.state, PYTHON_STATE["dltensor_from"])
        code = w.call(convert, [object_, tensor])
        a.fail_if(w.compare("ne", code, w.number(0, "i32")), "", [])
        w.store(w.number(_DLTENSOR, "i32"), place)
        w.store(tensor, place, 8)

    def _scalar(self, a: Arguments, param: Var, object_: Value, type_: Value, place: Value) -> None:
        """An int, a bool or a float of exactly that type; -1 is left to Python, because it is what
        a conversion that failed gives."""
        w = self.w
        is_int = self._is(type_, "long_type")
        if param.dtype.is_float:
            is_float = self._is(type_, "float_type")
            a.fail_if(w.op("xor", w.op("or", is_int, is_float), w.number(1, "i1")), "", [])

            def of_float() -> Value:
                return w.bits(w.call("PyFloat_AsDouble", [object_]), "i64")

            raw = w.choose(
                is_float, of_float, lambda: w.call("PyLong_AsLongLong", [object_]), "raw"
            )
            kind = w.select(is_float, w.number(_FLOAT, "i32"), w.number(_INT, "i32"))
            failed = w.op("and", is_int, w.compare("eq", raw, w.number(-1)))
        else:
            is_bool = self._is(type_, "bool_type")
            a.fail_if(w.op("xor", w.op("or", is_int, is_bool), w.number(1, "i1")), "", [])
            raw = w.call("PyLong_AsLongLong", [object_])
            kind = w.select(is_bool, w.number(_BOOL, "i32"), w.number(_INT, "i32"))
            failed = w.compare("eq", raw, w.number(-1))
        a.fail_if(failed, "", [])
        w.store(kind, place)
        w.store(raw, place, 8)
