# SPDX-License-Identifier: Apache-2.0
"""Inputs for a kernel that is timed or compared: `TensorSupplyType` -> tensors.

numpy arrays for a CPU target (torch tensors if the program uses torch), torch tensors on CUDA.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import Enum
from typing import Any

from tilelang.ir import DType

__all__ = ["TensorSupplyType", "make_tensor"]


class TensorSupplyType(Enum):
    """What values a tensor gets. Auto: integers for integer dtypes, normal ones for floats."""

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


def make_tensor(
    shape: Sequence[int],
    dtype: DType,
    supply: TensorSupplyType = TensorSupplyType.Auto,
    cuda: bool = False,
) -> Any:
    """A tensor of these values; the same in every run."""
    import numpy

    shape = tuple(shape)
    if dtype.bits < 8 and shape:  # packed along the last dimension
        shape = (*shape[:-1], (shape[-1] * dtype.bits + 7) // 8)
    generator = numpy.random.default_rng(sum((i + 1) * s for i, s in enumerate(shape)))
    values = _values(generator, shape, dtype, supply)
    array = values.astype(numpy.int8 if dtype.bits < 8 else dtype.as_numpy())
    if not cuda and "torch" not in sys.modules:
        return array
    return _as_torch(array, dtype, "cuda" if cuda else "cpu")


def _values(generator: Any, shape: tuple[int, ...], dtype: DType, supply: TensorSupplyType) -> Any:
    import numpy

    if supply is TensorSupplyType.Zero:
        return numpy.zeros(shape)
    if supply is TensorSupplyType.One:
        return numpy.ones(shape)
    if dtype.is_bool:
        return generator.integers(0, 2, shape)
    if not dtype.is_float or supply is TensorSupplyType.Integer:
        low = 0 if dtype.kind == "uint" else -2
        return generator.integers(low, 3, shape)
    if supply is TensorSupplyType.Uniform:
        return generator.uniform(-1.0, 1.0, shape)
    return generator.standard_normal(shape)


def _as_torch(array: Any, dtype: DType, device: str) -> Any:
    """torch takes no ml_dtypes arrays: their bits are passed."""
    import torch

    to = dtype.as_torch()
    if array.dtype.kind != "V" and array.dtype.name in ("uint16", "uint32", "uint64"):
        return torch.from_numpy(array.view(f"int{8 * array.itemsize}")).view(to).to(device)
    if (dtype.is_float and dtype.row.name in ("bfloat16",)) or dtype.row.name.startswith("float8"):
        bits = array.view(f"int{8 * array.itemsize}")
        return torch.from_numpy(bits).view(to).to(device)
    return torch.from_numpy(array).to(device)
