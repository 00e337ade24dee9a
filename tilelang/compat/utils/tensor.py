# SPDX-License-Identifier: Apache-2.0
"""`tilelang.utils.tensor`: comparisons of torch tensors, and inputs for a kernel's parameters."""

from __future__ import annotations

from typing import Any

from tilelang.ir import DType

_FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")


def is_float8_dtype(dtype: Any) -> bool:
    """Is it one of torch's 8-bit floats?"""
    return str(dtype).removeprefix("torch.") in _FLOAT8


def map_torch_type(name: str) -> Any:
    """torch's dtype of this name."""
    return DType(name).as_torch()


def torch_assert_close(
    actual: Any,
    expected: Any,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 0.001,
    verbose: bool = False,
    equal_nan: bool = True,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    base_name: str = "actual",
    ref_name: str = "expected",
) -> None:
    """All but a share of `max_mismatched_ratio` of the elements are close."""
    import torch

    if actual.shape != expected.shape:
        raise AssertionError(
            f"{base_name} has shape {tuple(actual.shape)}, {ref_name} {tuple(expected.shape)}"
        )
    for checked, name in (
        (check_dtype, "dtype"),
        (check_device, "device"),
        (check_layout, "layout"),
    ):
        a, b = getattr(actual, name), getattr(expected, name)
        if checked and a != b:
            raise AssertionError(f"{base_name} has {name} {a}, {ref_name} {b}")
    if check_stride and actual.stride() != expected.stride():
        raise AssertionError(f"{base_name} and {ref_name} have different strides")
    x, y = actual.double().cpu(), expected.double().cpu()
    far = ~torch.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
    count, allowed = int(far.sum()), max_mismatched_ratio * max(far.numel(), 1)
    if verbose:
        print(f"{count} of {far.numel()} elements differ")
    if count > allowed:
        at = tuple(int(i) for i in far.nonzero()[0]) if far.dim() else ()
        raise AssertionError(
            f"{count} of {far.numel()} elements differ (allowed: {int(allowed)}); "
            f"the first at {at}: "
            f"{base_name} {x[at].item()}, {ref_name} {y[at].item()}"
        )


__all__ = ["is_float8_dtype", "map_torch_type", "torch_assert_close"]
