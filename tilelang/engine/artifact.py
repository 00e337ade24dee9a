# SPDX-License-Identifier: Apache-2.0
"""What a compilation gives: modules (text and binary), parameters, and all of it in one artifact.

Everything here is plain data: the cache writes it to files and reads it back without running
anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilelang.ir import Buffer, DType, PrimFunc, Var, const_int

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tilelang.runtime.launch import CallSpec
    from tilelang.target import Target

__all__ = ["CompiledArtifact", "DeviceModule", "HostModule", "KernelParam", "params_of"]


@dataclass(frozen=True)
class KernelParam:
    """A parameter of the compiled function. shape: ints, and the names or texts of dynamic
    dimensions; empty for a scalar."""

    dtype: DType
    shape: tuple[int | str, ...] = ()
    name: str = ""
    is_scalar: bool = False

    @property
    def is_unsigned(self) -> bool:
        return self.dtype.kind == "uint"

    @property
    def is_float8(self) -> bool:
        return self.dtype.row.name.startswith("float8")

    @property
    def is_float4(self) -> bool:
        return self.dtype.row.name.startswith("float4")

    @property
    def is_boolean(self) -> bool:
        return self.dtype.is_bool

    def torch_dtype(self) -> Any:
        return self.dtype.as_torch()

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name, "dtype": str(self.dtype), "shape": list(self.shape),
            "is_scalar": self.is_scalar,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KernelParam:
        shape = tuple(s if isinstance(s, int) else str(s) for s in data["shape"])
        return cls(DType(str(data["dtype"])), shape, str(data["name"]), bool(data["is_scalar"]))


def params_of(func: PrimFunc) -> tuple[KernelParam, ...]:
    """The parameters in call order, outputs included."""
    return tuple(_param(p) for p in func.params)


def _param(p: Buffer | Var) -> KernelParam:
    if isinstance(p, Var):
        return KernelParam(p.dtype, (), p.name, True)
    dims = tuple(str(s) if const_int(s) is None else int(const_int(s) or 0) for s in p.shape)
    return KernelParam(p.dtype, dims, p.name)


@dataclass
class DeviceModule:
    """Code of the kernels. kind: cuda, cuda-sim, llvm or c. binary: a cubin or a library, if
    compiled (on `llvm` and `c` the host module's binary holds the kernels too). log: of the
    compiler. call: how the program that they belong to is called."""

    kind: str
    source: str
    arch: str = ""
    binary: bytes | None = None
    log: str = ""
    call: CallSpec | None = None

    def inspect_source(self) -> str:
        return self.source


@dataclass
class HostModule:
    """The packed entry. form: llvm or c. binary: a relocatable object (llvm) or a shared library
    (c). imported_modules: the kernels that it launches."""

    form: str
    source: str
    entry: str
    binary: bytes | None = None
    imported_modules: list[DeviceModule] = field(default_factory=list)

    def import_module(self, module: DeviceModule) -> None:
        self.imported_modules.append(module)

    def inspect_source(self) -> str:
        return self.source


@dataclass
class CompiledArtifact:
    """The result of `lower`. host_mod, device_mod: before code generation, IR; after it, modules.
    rt_mod: what can be loaded, if host code was generated. call: the call as data, for launchers
    that use no generated host code. notes, timings: of the passes."""

    host_mod: Any
    device_mod: Any
    params: tuple[KernelParam, ...] | None
    kernel_source: str
    rt_mod: HostModule | None = None
    target: Target | None = None
    target_host: Target | None = None
    call: CallSpec | None = None
    codegen_mod: DeviceModule | None = None
    notes: Sequence[str] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
