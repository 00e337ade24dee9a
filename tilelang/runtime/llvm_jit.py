# SPDX-License-Identifier: Apache-2.0
"""LLVM IR -> object code -> callable addresses, through llvmlite.

In: textual IR. Out: `compile_module` gives the bytes of a relocatable object file (plain data:
cached on disk by the caller, under `cpu_key()`), `load` a `JitModule` that owns the code. llvmlite
is imported at the first use and all of it is safe to call from several threads.

Wrong IR would abort the process inside LLVM, so it is verified first; symbols that nobody defines
are found before linking, which would only print them.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import platform
import re
import struct
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from tilelang.errors import InternalError, ToolchainError

from .pool import STATE, attach
from .tvm_ffi import preload

__all__ = ["JitModule", "assembly", "compile_module", "cpu_key", "load", "optimized_ir"]

_lock = threading.RLock()
_serial = itertools.count()
_SHT_SYMTAB = 2
_IMPORTED = re.compile(rb"\x01tl\.c_source\x01([^\x01]*)\x01")  # see codegen/llvm/__init__.py
# Known to every LLVM for x86: no need to ask.
_COMMON = (
    ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4") if platform.machine() == "x86_64" else ()
)


@functools.cache
def _binding() -> Any:
    """llvmlite.binding, initialised once."""
    with _lock:
        try:
            import llvmlite.binding as llvm
        except ImportError as error:
            raise ToolchainError(
                "the LLVM target needs llvmlite, which cannot be imported",
                code="TL0850", notes=[str(error)], help="pip install llvmlite, or use target='c'",
            ) from error  # fmt: skip
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        return llvm


@functools.cache
def _host() -> tuple[str, str]:
    """This CPU's name and features, as LLVM spells them."""
    llvm = _binding()
    return str(llvm.get_host_cpu_name()), str(llvm.get_host_cpu_features().flatten())


def cpu_key(cpu: str = "", features: str = "") -> str:
    """All of the CPU and of LLVM that object code depends on."""
    llvm = _binding()
    name, attributes = _cpu(cpu, features)
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"llvm {version}\n{llvm.get_default_triple()}\n{name}\n{attributes}"


def _cpu(cpu: str, features: str) -> tuple[str, str]:
    """Name and features to compile for; a cpu that is not named is this one."""
    if cpu in ("", "native"):
        name, host = _host()
        return name, f"{host},{features}" if features else host
    return cpu, features


def _target_machine(cpu: str, features: str, opt: int) -> Any:
    llvm = _binding()
    if cpu not in ("", "native", *_COMMON) or features:
        from .llvm_cpu import check_cpu  # few targets name a CPU

        check_cpu("" if cpu == "native" else cpu, features)
    name, attributes = _cpu(cpu, features)
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=attributes, opt=opt, reloc="pic", codemodel="small"
    )


def compile_module(ir_text: str, cpu: str = "", features: str = "", opt: int = 2) -> bytes:
    """Object code of a module.

    cpu, features: as LLVM names them; empty means this machine. opt: 0 to 3.
    """
    module, machine = _optimized(ir_text, cpu, features, opt)
    # Now, before the longest call: each of the short ones would wait for Python's lock meanwhile.
    preload()
    return bytes(machine.emit_object(module))


def optimized_ir(ir_text: str, cpu: str = "", features: str = "") -> str:
    """The module after our passes, for people."""
    return str(_optimized(ir_text, cpu, features, 2)[0])


def assembly(ir_text: str, cpu: str = "", features: str = "") -> str:
    """The machine code as text, for people."""
    module, machine = _optimized(ir_text, cpu, features, 2)
    return str(machine.emit_assembly(module))


def _optimized(ir_text: str, cpu: str, features: str, opt: int) -> tuple[Any, Any]:
    """The parsed, verified and optimised module, and its target machine."""
    llvm = _binding()
    try:
        module = llvm.parse_assembly(ir_text, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise InternalError(
            f"the generated LLVM IR is wrong: {_excerpt(ir_text, str(error))}"
        ) from error
    machine = _target_machine(cpu, features, opt)
    if opt:
        _run_passes(module, machine)
    return module, machine


def _excerpt(ir_text: str, message: str) -> str:
    """LLVM's message and the line of our text that it is about."""
    found = re.search(r"<string>:(\d+)", message)
    if not found:
        return message
    lines = ir_text.splitlines()
    at = int(found[1]) - 1
    return message + "\n" + "\n".join(lines[max(0, at - 3) : at + 3])


def _run_passes(module: Any, machine: Any) -> None:
    """Only what our IR needs: it is vectorised, unrolled and scheduled already.

    Milliseconds for passes and code, and the GFLOP/s of the fp32 gemm kernel (12 x 32 registers,
    AVX-512, one thread, where OpenBLAS reaches 150): none 0.0 + 8.5, 66; inline and sroa 1.1 + 7.0,
    161; these 3.4 + 6.7, 163; with GVN, loop rotation or loop strength reduction no faster; O1
    9.2 + 6.4, 150; O2 10.3 + 6.5, 145. sroa makes register arrays SSA; instcombine pays in narrow
    dtypes and in division. LLVM's own vectoriser gains on scalar loops only (2.2 -> 3.2).
    """
    llvm = _binding()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)


class JitModule:
    """Loaded code. `address(name)` of a function; the code lives as long as this object."""

    def __init__(self, library: Any, names: Sequence[str]) -> None:
        self._library = library
        self.names = tuple(names)

    def address(self, name: str) -> int:
        """The function's address."""
        try:
            return int(self._library[name])
        except KeyError:
            raise InternalError(
                f"the module exports no {name!r}, only {', '.join(self.names)}"
            ) from None


@functools.cache
def _linker() -> Any:
    """One linker for the process; each module is a library of its own in it.

    It is JITLink, which lays an object out in one piece. The older linker maps code, data and the
    offset table one by one, and aborts the process where they come to lie more than 2 GB apart:
    that happens beside a CUDA driver, which takes whole ranges of addresses.
    """
    return _binding().create_lljit_compiler(_target_machine("", "", 2), use_jit_link=True)


def load(
    code: bytes | str, names: Iterable[str], symbols: dict[str, int] | None = None
) -> JitModule:
    """Links object code (or IR text) into the process.

    names: the functions to look up later. symbols: addresses of externals that the process does not
    export by itself; all others (libc, libm, what was loaded globally) are found by name.
    """
    llvm = _binding()
    data = compile_module(code) if isinstance(code, str) else code
    wanted = list(names)
    shared = b"\0" + STATE.encode() + b"\0" in data  # in its table of names
    if shared:
        wanted.append(STATE)
    extra = dict(symbols or {})
    _find_symbols(data, extra)
    builder = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
    for name, address in extra.items():
        builder.import_symbol(name, address)
    for name in wanted:
        builder.export_symbol(name)
    with _lock:
        try:
            library = builder.link(_linker(), f"tilelang.{next(_serial)}")
        except RuntimeError as error:
            raise ToolchainError(
                f"cannot link the compiled kernel: {error}",
                code="TL0851",
                help="if the kernel calls no functions of your own, please report it",
            ) from error
    module = JitModule(library, wanted)
    if shared:
        attach(module.address(STATE))
    return module


def _find_symbols(data: bytes, known: dict[str, int]) -> None:
    """Adds functions of the C source that the user imported, and refuses code that uses a function
    which is nowhere."""
    wanted = [n for n in _undefined(data) if n not in known]
    imported = _IMPORTED.search(data)
    source = "" if imported is None else imported[1].decode()
    own = [n for n in wanted if re.search(rf"\b{re.escape(n)}\b", source)]
    if own:
        from .cc import compile_library, load_library  # few kernels have C of their own

        library = load_library(compile_library([source], None, None))
        found = {n: getattr(library, n, None) for n in own}
        known |= {n: ctypes.cast(f, ctypes.c_void_p).value or 0 for n, f in found.items() if f}
    missing = [n for n in wanted if n not in known and not _exported(n)]
    if missing:
        raise ToolchainError(
            f"the kernel calls {', '.join(missing)}, which this process does not define",
            code="TL0852",
            help="define it with T.import_source (as a C function that is not static), or first "
            "load the library that does: ctypes.CDLL(path, ctypes.RTLD_GLOBAL)",
        )


def _exported(name: str) -> bool:
    """Does the process, or a library that it loaded globally, define this function?"""
    return hasattr(ctypes.CDLL(None), name) or bool(_binding().address_of_symbol(name))


def _undefined(data: bytes) -> list[str]:
    """Names of the functions that an ELF64 object takes from elsewhere (System V ABI, chapter 4);
    of other formats nothing is known here, and the linker reports."""
    if data[:6] != b"\x7fELF\x02\x01":
        return []
    at, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, at + n * size) for n in range(count)]
    names = []
    for kind, offset, length, link in ((s[1], s[4], s[5], s[6]) for s in sections):
        if kind != _SHT_SYMTAB:
            continue
        strings = sections[link][4]
        for entry in range(offset + 24, offset + length, 24):
            name, _, _, section = struct.unpack_from("<IBBH", data, entry)
            if section == 0 and name:
                end = data.index(b"\0", strings + name)
                names.append(data[strings + name : end].decode())
    return [n for n in names if n != "_GLOBAL_OFFSET_TABLE_"]
