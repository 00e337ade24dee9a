# SPDX-License-Identifier: Apache-2.0
"""HostProgram -> the packed entry point `__tvm_ffi_<name>`, as C or as LLVM IR.

In: a `HostProgram` and the target of its kernels. Out: one module that checks a call's arguments,
binds shape symbols, allocates the output if there is exactly one and the caller left it out,
computes each grid and runs the kernels, all against the stable C ABI of tvm-ffi and no header.

    int __tvm_ffi_add(void* self, const TVMFFIAny* args, int n, TVMFFIAny* result)

With several outputs the caller passes them all. A grid with no blocks launches nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tilelang.ir import Buffer, Call, Kernel, Load, Node, Store, TensorMap, const_int, walk
from tilelang.ir.intrinsics import TABLE

from .host_args import Arguments, accepted_dtypes
from .host_c import CWriter
from .host_cuda import CudaLaunches
from .host_errors import declare_tvm_ffi, emit_handlers
from .host_llvm import LlvmWriter
from .host_values import argument_type, kernel_argument
from .host_writer import NULL, Externs, HostWriter, Value

if TYPE_CHECKING:
    from tilelang.ir import HostProgram
    from tilelang.target import Target

__all__ = [
    "check_outputs", "defined_functions", "entry_name", "host_c", "host_llvm", "needed_alignment",
    "run_blocks",
]  # fmt: skip

_RESULT_NONE, _RESULT_TENSOR = 0, 70
_DEFINED = re.compile(r"^(?:declare|define)\b[^@\n]*@([\w.$]+)\(", re.MULTILINE)
_MAX_VECTOR_BYTES = 16


def entry_name(program: HostProgram) -> str:
    return f"__tvm_ffi_{program.name}"


def host_llvm(program: HostProgram, target: Target, kernels: str = "") -> str:
    """LLVM IR. `kernels`: the module of the CPU kernels, which becomes the module's first part."""
    w = LlvmWriter()
    w.declared.update(defined_functions(kernels))
    _emit(w, program, target, for_export=False)
    return f"{kernels}\n{w.finish()}"


def defined_functions(module: str) -> set[str]:
    """Names that a module declares or defines: another part of it must not declare them again."""
    return set(_DEFINED.findall(module))


def host_c(program: HostProgram, target: Target, for_export: bool = False) -> str:
    """C. for_export: errors are of Python's own classes, for a library used without tilelang."""
    w = CWriter()
    _emit(w, program, target, for_export)
    return w.finish()


def needed_alignment(program: HostProgram, target: Target) -> dict[Buffer, int]:
    """Tensors whose data must be aligned to more than an element: those that CUDA code reads or
    writes by vectors, asynchronous copies or TMA. CPU code makes no such demand."""
    out: dict[Buffer, int] = {}
    if target.is_cpu:
        return out
    for kernel in program.launches:
        needs = [(m.buffer, _MAX_VECTOR_BYTES) for m in kernel.args if isinstance(m, TensorMap)]
        for x in walk(kernel.body):
            needs += _vector_accesses(x)
        for buffer, size in needs:
            root = buffer.root()
            if root.is_global:
                out[root] = max(out.get(root, 1), min(size, _MAX_VECTOR_BYTES))
    return out


def _vector_accesses(x: Node) -> list[tuple[Buffer, int]]:
    """Buffers that this node touches by more than an element, with the bytes at once."""
    if isinstance(x, (Load, Store)):
        lanes = x.indices[-1].dtype.lanes if x.indices else 1
        return [(x.buffer, _power_of_2(x.buffer.dtype.bits * lanes // 8))] if lanes > 1 else []
    if isinstance(x, Call) and x.op == "cp_async":
        size = const_int(x.args[0]) or _MAX_VECTOR_BYTES
        pointers = [x.args[i] for i in TABLE[x.op].pointers]
        return [
            (p.args[0].buffer, size)
            for p in pointers
            if isinstance(p, Call) and isinstance(p.args[0], Load)
        ]
    return []


def _power_of_2(n: int) -> int:
    return n & -n if n > 0 else 1


def _emit(w: HostWriter, program: HostProgram, target: Target, for_export: bool) -> None:
    declare_tvm_ffi(w)
    failures: set[str] = set()
    cuda = CudaLaunches(w, program) if target.is_cuda else None
    if cuda is None:
        for kernel in program.launches:
            types = tuple(argument_type(a) for a in kernel.args)
            w.extern(kernel.name, Externs("ptr", (*types, "i64", "i64")))
    params = [("self", "ptr"), ("args", "ptr"), ("num_args", "i32"), ("result", "ptr")]
    with w.function(entry_name(program), params, export=True) as (_, args, count, result):
        a = Arguments(
            w, program.name, program.params, program.outputs,
            on_cuda=target.is_cuda and not target.is_sim,
            align=needed_alignment(program, target), failures=failures,
        )  # fmt: skip
        all_given = a.count(count)
        a.check_inputs(args, all_given)
        _assertions(a, program)
        owned = _outputs(a, args, all_given, program)
        workspaces = _workspaces(a, program, on_cuda=cuda is not None)
        for n, kernel in enumerate(program.launches):
            if cuda is not None:
                cuda.launch(a, n, kernel, owned or NULL)
            else:
                message = run_blocks(a, kernel)
                failed = w.compare("ne", message, NULL)
                a.fail_if(failed, "tl_fail_kernel", [owned or NULL, message])
        for memory in workspaces:
            w.call("free" if cuda is None else "TVMFFIObjectDecRef", [memory])
        _result(w, result, owned)
    if cuda is not None:
        cuda.emit_state(entry_name(program))
    emit_handlers(w, program.name, failures, for_export)


def _assertions(a: Arguments, program: HostProgram) -> None:
    """Conditions on sizes that the program states (`assert` outside of any kernel)."""
    w = a.w
    for cond, message in program.attrs.get("asserts", ()):
        wrong = w.op("xor", a.exprs(cond), w.number(1, "i1"))
        a.fail_if(wrong, "tl_fail_assert", [w.string(f"assertion failed: {message or cond}")])


# ------------------------------------------------------------------------------------ outputs


def _outputs(
    a: Arguments, args: Value, all_given: Value | None, program: HostProgram
) -> Value | None:
    """Data pointers of the outputs; the result is the tensor allocated here, NULL if none was."""
    w = a.w
    if all_given is None:
        check_outputs(a, args)
        return None
    for index in a.outputs:  # evaluated before the branch, so that both sides may use them
        for e in _buffer_at(program, index).shape:
            a.exprs(e)
    (index,) = a.outputs
    buffer = _buffer_at(program, index)
    handle = w.stack(8, hint="output")

    def given() -> Value:
        t = a.output(args, index)
        a.check_tensor(t)
        w.store(NULL, handle)
        return a.data[buffer]

    a.data[buffer] = w.choose(all_given, given, lambda: _allocate(a, buffer, handle), buffer.name)
    return w.load("ptr", handle, hint="owned")


def check_outputs(a: Arguments, args: Value) -> None:
    """Checks the outputs that the caller gives."""
    for index in a.outputs:
        a.check_tensor(a.output(args, index))


def _buffer_at(program: HostProgram, index: int) -> Buffer:
    buffer = program.params[index]
    assert isinstance(buffer, Buffer)
    return buffer


def _allocate(a: Arguments, buffer: Buffer, handle: Value) -> Value:
    """A tensor from the allocator of the caller's framework, on the device of the first input."""
    w = a.w
    ndim = buffer.ndim
    prototype = w.stack(48, hint="prototype")
    shape = w.stack(8 * max(ndim, 1), hint="dims")
    for d, e in enumerate(buffer.shape):
        w.store(a.exprs(e), shape, 8 * d)
    assert a.first is not None
    device = w.load("i64", a.first.address, 8)
    w.store(NULL, prototype, 0)
    w.store(device, prototype, 8)
    w.store(w.number(ndim, "i32"), prototype, 16)
    w.store(w.number(accepted_dtypes(buffer.dtype)[0], "i32"), prototype, 20)
    w.store(shape, prototype, 24)
    w.store(NULL, prototype, 32)
    w.store(w.number(0), prototype, 40)
    code = w.call("TVMFFIEnvTensorAlloc", [prototype, handle])
    with w.if_(w.compare("ne", code, w.number(0, "i32")), unlikely=True):
        w.ret(w.number(-1, "i32"))
    tensor = w.offset(w.load("ptr", handle), 24)
    return w.load("ptr", tensor, 0, "data")


def _result(w: HostWriter, result: Value, owned: Value | None) -> None:
    """None, or the tensor that was allocated, whose reference goes to the caller."""
    none = w.number(_RESULT_NONE)
    if owned is None:
        w.store(none, result)
        w.store(none, result, 8)
    else:
        is_given = w.compare("eq", owned, NULL)
        w.store(w.select(is_given, none, w.number(_RESULT_TENSOR)), result)
        w.store(owned, result, 8)
    w.ret(w.number(0, "i32"))


# ------------------------------------------------------------------------------------ CPU kernels


def _workspaces(a: Arguments, program: HostProgram, on_cuda: bool) -> list[Value]:
    """Memory for T.alloc_global, one block each."""
    w = a.w
    out = []
    for buffer in program.temporaries:
        size = w.number((buffer.dtype.bits * buffer.dtype.lanes + 7) // 8)
        for e in buffer.shape:
            size = w.op("mul", size, a.exprs(e))
        if on_cuda:
            memory, data = _device_workspace(a, size)
        else:
            w.extern("malloc", Externs("ptr", ("i64",)))
            w.extern("free", Externs("void", ("ptr",)))
            memory = data = w.call("malloc", [w.op("add", size, w.number(1))], buffer.name)
            missing = w.compare("eq", memory, NULL)
            a.fail_if(missing, "tl_fail_kernel", [NULL, w.string("out of memory")])
        out.append(memory)
        a.data[buffer] = data
    return out


def _device_workspace(a: Arguments, size: Value) -> tuple[Value, Value]:
    """Bytes from the allocator of the caller's framework; freed in stream order by it."""
    w = a.w
    handle, place = w.stack(8, hint="workspace"), w.stack(8, hint="dims")
    prototype = w.stack(48, hint="prototype")
    w.store(size, place)
    device = w.load("i64", a.first.address, 8) if a.first is not None else w.number(2)
    for value, at in ((NULL, 0), (device, 8), (w.number(1, "i32"), 16), (place, 24), (NULL, 32)):
        w.store(value, prototype, at)
    w.store(w.number(1 | 8 << 8 | 1 << 16, "i32"), prototype, 20)  # uint8
    w.store(w.number(0), prototype, 40)
    code = w.call("TVMFFIEnvTensorAlloc", [prototype, handle])
    with w.if_(w.compare("ne", code, w.number(0, "i32")), unlikely=True):
        w.ret(w.number(-1, "i32"))
    memory = w.load("ptr", handle)
    return memory, w.load("ptr", w.offset(memory, 24))


def run_blocks(a: Arguments, kernel: Kernel) -> Value:
    """Calls the kernel for all blocks of its grid; it returns NULL or a message."""
    w = a.w
    w.comment(kernel.name)
    blocks: Value | None = None
    for e in kernel.grid:
        extent = a.exprs(e)
        extent = w.select(w.compare("lt", extent, w.number(0)), w.number(0), extent)
        blocks = extent if blocks is None else w.op("mul", blocks, extent)
    assert blocks is not None
    count = blocks
    values = [kernel_argument(a, arg) for arg in kernel.args]
    some = w.compare("gt", count, w.number(0))

    def run() -> Value:
        return w.call(kernel.name, [*values, w.number(0), count])

    return w.choose(some, run, lambda: NULL, "message")
