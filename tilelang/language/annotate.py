# SPDX-License-Identifier: Apache-2.0
"""Annotations of a kernel: layouts, rasterisation, safe values, register budgets, compiler
settings.

Inside a kernel they go to its `Launch.annotations`; before it, to the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.errors import OptionError, TypeMismatchError
from tilelang.ir import Buffer, cast, const_int

from .trace import Trace, current, kernel_trace
from .values import plain, scalar


def _annotations(t: Trace) -> dict[str, Any]:
    return t.launch.annotations if t.launch is not None else t.next_launch


def _buffers(t: Trace, what: str, items: Any) -> dict[Buffer, Any]:
    if not isinstance(items, Mapping):
        raise t.error(
            f"{what} needs a dictionary, got {items!r}",
            "TL0236",
            f"e.g. {what}({{buffer: value}})",
            TypeMismatchError,
        )
    for b in items:
        if not isinstance(b, Buffer):
            raise t.error(
                f"{what}: {b!r} is not a buffer", "TL0227", "keys are buffers", TypeMismatchError
            )
    return dict(items)


def annotate_layout(layouts: Mapping[Buffer, Any], allow_reannotation: bool = False) -> None:
    """Fixes layouts: {buffer: Layout | Fragment | callable of the coordinates}."""
    from .layouts import resolved  # the layout package is needed by few kernels

    t, launch = kernel_trace("T.annotate_layout")
    items = _buffers(t, "T.annotate_layout", layouts)
    new = {b: resolved(t, b, layout) for b, layout in items.items()}
    launch.annotations.setdefault("layouts", {}).update(new)


def annotate_safe_value(values: Mapping[Buffer, Any]) -> None:
    """What a read outside of a global buffer gives (default 0)."""
    t = current("T.annotate_safe_value")
    new = {
        b: cast(scalar(t, plain(v), "T.annotate_safe_value", b.dtype), b.dtype)
        for b, v in _buffers(t, "T.annotate_safe_value", values).items()
    }
    _annotations(t).setdefault("safe_values", {}).update(new)


def annotate_l2_hit_ratio(ratios: Mapping[Buffer, float]) -> None:
    """Which share of accesses to a global buffer is expected to hit a persisting part of the L2."""
    t = current("T.annotate_l2_hit_ratio")
    _annotations(t).setdefault("l2_hit_ratio", {}).update(
        _buffers(t, "T.annotate_l2_hit_ratio", ratios)
    )


def annotate_restrict_buffers(*buffers: Buffer) -> None:
    """These buffers may overlap others."""
    t = current("T.annotate_restrict_buffers")
    old = _annotations(t).get("no_restrict", ())
    _annotations(t)["no_restrict"] = (
        *old,
        *_buffers(t, "T.annotate_restrict_buffers", dict.fromkeys(buffers)),
    )


def annotate_min_blocks_per_sm(n: int) -> None:
    """Limits registers so that so many blocks fit a multiprocessor."""
    t = current("T.annotate_min_blocks_per_sm")
    _annotations(t)["min_blocks"] = _count(t, "T.annotate_min_blocks_per_sm", n)


def _count(t: Trace, what: str, n: Any) -> int:
    value = const_int(plain(n))
    if value is None or value < 0:
        raise t.error(
            f"{what}: needs a constant >= 0, got {n}", "TL0560", "use a Python number", OptionError
        )
    return value


def use_swizzle(panel_size: int, order: str = "row", enable: bool = True) -> None:
    """Walks the grid in panels of `panel_size` blocks, so that neighbours share operands in the
    L2.
    """
    t, launch = kernel_trace("T.use_swizzle")
    if order not in ("row", "column"):
        raise t.error(
            f"T.use_swizzle: unsupported swizzle order {order!r}",
            "TL0561",
            "'row' or 'column'",
            OptionError,
        )
    if enable:
        launch.annotations["swizzle"] = (_count(t, "T.use_swizzle: panel_size", panel_size), order)


def _register_hint(name: str, *values: Any) -> None:
    t = current(f"T.{name}")
    _annotations(t).setdefault("register_hints", {})[name] = tuple(plain(v) for v in values)


def set_max_nreg(reg_count: int, is_inc: int | bool) -> None:
    """A register budget for the calling warps; the automatic roles choose their own."""
    _register_hint("set_max_nreg", reg_count, is_inc)


def inc_max_nreg(reg_count: int) -> None:
    _register_hint("set_max_nreg", reg_count, 1)


def dec_max_nreg(reg_count: int) -> None:
    _register_hint("set_max_nreg", reg_count, 0)


def no_set_max_nreg() -> None:
    """No register reallocation between warp roles."""
    _register_hint("no_set_max_nreg")


def disable_warp_group_reg_alloc() -> None:
    """No register reallocation between warp roles."""
    _register_hint("no_set_max_nreg")


def annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    """Registers that producer warps keep."""
    _register_hint("producer", reg_count)


def annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    """Registers that consumer warps get."""
    _register_hint("consumer", reg_count)


def annotate_compile_flags(flags: Any) -> None:
    """Further flags for the device compiler."""
    t = current("T.annotate_compile_flags")
    new = [flags] if isinstance(flags, str) else flags
    if not isinstance(new, (list, tuple)) or not all(isinstance(f, str) for f in new):
        raise t.error(
            f"T.annotate_compile_flags needs text or a list of texts, got {flags!r}",
            "TL0237",
            "e.g. ['--use_fast_math']",
            TypeMismatchError,
        )
    t.attrs["compile_flags"] = (*t.attrs.get("compile_flags", ()), *new)


def annotate_pass_configs(configs: Mapping[str, Any]) -> None:
    """Pass configs for this function, merged with those of the decorator."""
    t = current("T.annotate_pass_configs")
    if not isinstance(configs, Mapping):
        raise t.error(
            f"T.annotate_pass_configs needs a dictionary, got {configs!r}",
            "TL0238",
            "{'tl.enable_fast_math': True}",
            TypeMismatchError,
        )
    new = {str(k): v for k, v in configs.items()}
    t.attrs["pass_configs"] = {**t.attrs.get("pass_configs", {}), **new}


def import_source(source: str) -> None:
    """Source text put before the kernel: functions for T.call_extern."""
    t = current("T.import_source")
    if not isinstance(source, str):
        raise t.error(
            "T.import_source needs text", "TL0228", "pass the source as a string", TypeMismatchError
        )
    t.attrs["import_source"] = t.attrs.get("import_source", "") + source + "\n"


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Attributes of the function."""
    t = current("T.func_attr")
    if not isinstance(attrs, Mapping):
        raise t.error(f"T.func_attr needs a dictionary, got {attrs!r}", "TL0168", "{'name': value}")
    t.attrs.update({str(k): v for k, v in attrs.items()})


def pdl_sync() -> None:
    """Waits for the kernel before this one. Kernels are launched one after the other, so there is
    nothing to wait for."""
    _annotations(current("T.pdl_sync"))["pdl"] = True


def pdl_trigger() -> None:
    """Lets the next kernel start early: a hint."""
    _annotations(current("T.pdl_trigger"))["pdl"] = True


__all__ = [
    n
    for n, v in list(globals().items())
    if not n.startswith("_") and getattr(v, "__module__", "") == __name__
]
