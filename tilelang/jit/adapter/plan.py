# SPDX-License-Identifier: Apache-2.0
"""A call as the tables that runtime/csrc/launcher.c reads.

In: a `CallSpec`. Out: a `Plan`: bytes whose words follow the structures of that file one by one,
and which own everything that the words point to.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.codegen.host_slots import slots_name
from tilelang.ir import DType
from tilelang.runtime.cuda_driver import LaunchAttributeStruct
from tilelang.runtime.dlpack import CPU, CUDA
from tilelang.runtime.launch import CallSpec, KernelSpec, MapSpec, ParamSpec, Size, alike
from tilelang.runtime.python_launch import launch_attributes
from tilelang.target.cuda_abi import TensorMapSwizzle, tensor_map_dtype

__all__ = ["Plan", "Unplannable", "make_plan"]

# The limits of launcher.c.
_MAX_PARAMS, _MAX_SYMBOLS, _MAX_NDIM, _MAX_ARGS, _MAX_DTYPES, _MAX_STACK = 64, 64, 16, 128, 4, 32
_MAP_WAYS, _MAP_SLOT, _MAX_RANK = 8, 256, 5
_L2_PROMOTION_256B = 3  # CUtensorMapL2promotion
_TENSOR, _INT, _BOOL, _FLOAT32, _FLOAT64, _POINTER = range(6)
_ARG_PARAM, _ARG_SYMBOL, _ARG_MAP = range(3)
_SIZE_CONST, _SIZE_SYMBOL, _SIZE_CODE = range(3)
_BINARY = (
    "+", "-", "*", "//", "%", ":tdiv", ":tmod", ":min", ":max", "&", "|", "^", "<<", ">>", "==",
    "!=", "<", "<=", ">", ">=", ":and", ":or",
)  # fmt: skip
_OPERATIONS = {name: n for n, name in enumerate(_BINARY)} | {":not": 102, ":neg": 103, ":if": 104}
_OP_CONST, _OP_SYMBOL = 100, 101
_HEADER_WORDS = 13
_INT64 = 2**63


class Unplannable(Exception):
    """The launcher has no room, or no code, for this program: Python calls it."""


class Plan(bytes):
    """The words; attributes keep alive what they point to."""

    owned: list[Any]


def make_plan(
    spec: CallSpec,
    on_cuda: bool,
    address: Callable[[str], int],
    state: int,
    slow: Callable[..., Any],
    named: Callable[..., Any],
    failed: Callable[..., Any],
) -> Plan:
    """address: of a function of the CPU module. state: memory of `codegen.host_cuda.STATE`. slow,
    named: what does a call that the launcher does not, without and with keywords. failed: raises
    the error of a kernel."""
    tables = _Tables(spec, address)
    device = CUDA if on_cuda else CPU
    plan = Plan(tables.words(device, state, slow, named, failed))
    plan.owned = [*tables.owned, slow, named, failed]
    return plan


class _Tables:
    """Words behind a header of fixed size; an offset is in bytes from the start."""

    def __init__(self, spec: CallSpec, address: Callable[[str], int]) -> None:
        self.spec = spec
        self.address = address
        self.body: list[int] = []
        self.owned: list[Any] = []
        self.symbols: dict[str, int] = {}

    def words(self, device: int, state: int, *callables: Any) -> bytes:
        spec = self.spec
        if spec.workspaces or len(spec.params) > _MAX_PARAMS:
            raise Unplannable
        self._name_symbols()
        params = self.put(w for i, p in enumerate(spec.params) for w in self._param(i, p))
        binds = list(self._binds())
        bound = self.put(w for row in binds for w in row)
        kernels = self.put(w for k in spec.kernels for w in self._kernel(k, device))
        asserts = self.sizes([cond for cond, _ in spec.asserts])
        header = [
            len(spec.params), params, len(binds), bound, len(spec.kernels), kernels,
            len(spec.asserts), asserts, device, state, *map(id, callables),
        ]  # fmt: skip
        assert len(header) == _HEADER_WORDS
        return b"".join((w % 2**64).to_bytes(8, "little") for w in (*header, *self.body))

    def put(self, words: Any) -> int:
        """Appends a table; its offset. (Its words may append others before it.)"""
        row = list(words)
        offset = 8 * (_HEADER_WORDS + len(self.body))
        self.body += row
        return offset

    # -------------------------------------------------------------------------------- sizes

    def _name_symbols(self) -> None:
        for p in self.spec.params:
            if p.kind != "tensor":
                self.symbols.setdefault(p.symbol, len(self.symbols))
        for name in self.spec.symbol_sources:
            self.symbols.setdefault(name, len(self.symbols))
        if len(self.symbols) > _MAX_SYMBOLS:
            raise Unplannable

    def symbol(self, name: str) -> int:
        if name not in self.symbols:
            raise Unplannable
        return self.symbols[name]

    def sizes(self, sizes: Sequence[Size]) -> int:
        return self.put([w for s in sizes for w in self._size(s)])

    def _size(self, s: Size) -> tuple[int, int]:
        if isinstance(s, int):
            return _SIZE_CONST, int(s)
        if isinstance(s, str):
            return _SIZE_SYMBOL, self.symbol(s)
        code: list[int] = []
        if self._code(s, code) > _MAX_STACK:
            raise Unplannable
        return _SIZE_CODE, self.put([len(code) // 2, *code])

    def _code(self, s: Size, out: list[int]) -> int:
        """Postfix pairs; how deep a stack they need."""
        if isinstance(s, int):
            out += [_OP_CONST, int(s)]
            return 1
        if isinstance(s, str):
            out += [_OP_SYMBOL, self.symbol(s)]
            return 1
        depth = max(n + self._code(operand, out) for n, operand in enumerate(s[1:]))
        out += [_OPERATIONS[s[0]], 0]
        return depth

    # -------------------------------------------------------------------------------- arguments

    def _param(self, index: int, p: ParamSpec) -> list[int]:
        dtype = DType(p.dtype)
        if p.kind == "tensor":
            return self._tensor(index, p, dtype)
        kind, low, high = _INT, 0, 0
        if p.kind == "pointer" or (dtype.is_float and dtype.bits < 32):
            raise Unplannable
        if dtype.is_float:
            kind = _FLOAT64 if dtype.bits == 64 else _FLOAT32
        elif dtype.is_bool:
            kind, high = _BOOL, 1
        else:
            low = -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0
            high = min(low + 2**dtype.bits - 1, _INT64 - 1)
        return [kind, self.symbol(p.symbol), low, high, *[0] * 6, *[0] * _MAX_DTYPES]

    def _tensor(self, index: int, p: ParamSpec, dtype: DType) -> list[int]:
        if dtype.bits < 8 or dtype.row.name == "float4_e2m1_unpacked" or len(p.shape) > _MAX_NDIM:
            raise Unplannable
        names = sorted(alike(dtype.row.name))
        codes = [code | bits << 8 | 1 << 16 for code, bits in (DType(n).row.dlpack for n in names)]
        if len(codes) > _MAX_DTYPES:
            raise Unplannable
        dims = self.sizes(p.shape)
        strides = 0 if p.strides is None else self.sizes(p.strides)
        return [
            _TENSOR, 0, 0, 0, len(p.shape), dims, strides, max(p.align, 1),
            int(index in self.spec.written), len(codes), *codes, *[0] * (_MAX_DTYPES - len(codes)),
        ]  # fmt: skip

    def _binds(self) -> Any:
        for symbol, (_, at, kind, d) in self.spec.symbol_sources.items():
            limit = 2 ** (self.spec.bits.get(symbol, 64) - 1) - 1
            param = self.spec.inputs[at]
            yield param, int(kind == "stride"), d, self.symbol(symbol), limit

    # -------------------------------------------------------------------------------- kernels

    def _kernel(self, k: KernelSpec, device: int) -> list[int]:
        if len(k.args) > _MAX_ARGS or len(k.maps) > _MAX_NDIM or len(k.grid) > 3:
            raise Unplannable
        args = self.put([w for a in k.args for w in self._arg(a)])
        maps = self.put([w for m in k.maps for w in self._map(m)])
        attributes, count = self._attributes(k)
        run = self.address(slots_name(k.name)) if device == CPU else 0
        grid = self.sizes(k.grid)
        return [
            len(k.args), args, len(k.grid), grid, maps, *k.block, k.dynamic_smem, attributes, count,
            run,
        ]  # fmt: skip

    def _arg(self, arg: tuple[Any, ...]) -> tuple[int, int]:
        kind = arg[0]
        if kind == "param":
            return _ARG_PARAM, arg[1]
        if kind == "symbol":
            return _ARG_SYMBOL, self.symbol(arg[1])
        if kind == "map":
            return _ARG_MAP, arg[1]
        raise Unplannable

    def _attributes(self, k: KernelSpec) -> tuple[int, int]:
        rows = launch_attributes(k)
        if not rows:
            return 0, 0
        structs = (LaunchAttributeStruct * len(rows))()
        for struct, (key, values) in zip(structs, rows.items(), strict=True):
            struct.id = key
            struct.value.dim[:] = [*values, 0, 0][:3]
        return self._own(structs), len(rows)

    def _map(self, m: MapSpec) -> list[int]:
        kind, index = m.source
        dtype = DType(m.dtype)
        rank = len(m.dims)
        if kind != "param" or dtype.bits % 8 or rank > _MAX_RANK:
            raise Unplannable
        box, ones = (ctypes.c_uint * rank)(*m.box), (ctypes.c_uint * rank)(*[1] * rank)
        cache = (ctypes.c_char * (_MAP_WAYS * _MAP_SLOT + 64))()
        place = self._own(cache)
        return [
            index, int(tensor_map_dtype(dtype.row.name, dtype.bits)), dtype.bits // 8, rank,
            self.sizes(m.dims), self.sizes(m.strides), int(TensorMapSwizzle.of_bytes(m.swizzle)),
            _L2_PROMOTION_256B, self._own(box), self._own(ones), place + -place % 64,
        ]  # fmt: skip

    def _own(self, memory: Any) -> int:
        self.owned.append(memory)
        return ctypes.addressof(memory)
