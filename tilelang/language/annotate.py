# SPDX-License-Identifier: Apache-2.0
"""Annotations of a kernel: layouts, rasterisation, safe values, register budgets, compiler
settings.

Inside a kernel they go to its `Launch.annotations`; before it, to the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.errors import LayoutError, OptionError, TypeMismatchError
from tilelang.ir import Buffer, cast, const_int

from .hints import no_effect
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
    """Fixes layouts: {buffer: Layout | Fragment | callable of the coordinates}.

    allow_reannotation: a buffer may have another layout already, which this one replaces.
    """
    # on first use: the layout package is needed by few kernels
    from .layouts import layout_of_threads, resolved

    t, launch = kernel_trace("T.annotate_layout")
    items = _buffers(t, "T.annotate_layout", layouts)
    for b in [b for b, layout in items.items() if b.is_local and layout_of_threads(layout)]:
        del items[b]
        no_effect(
            "T.annotate_layout: a T.Fragment of a T.alloc_local buffer",
            "each thread has all of it for itself",
        )
    new = {b: resolved(t, b, layout) for b, layout in items.items()}
    known = launch.annotations.setdefault("layouts", {})
    for b, layout in new.items():
        if not allow_reannotation and known.get(b, layout) != layout:
            raise t.error(
                f"T.annotate_layout: `{b.name}` has another layout already",
                "TL1126",
                "annotate it once, or pass allow_reannotation=True to replace the layout",
                LayoutError,
            )
    known.update(new)


def annotate_safe_value(values: Mapping[Buffer, Any]) -> None:
    """What a read outside of a global buffer gives (default 0)."""
    t = current("T.annotate_safe_value")
    new = {
        b: cast(scalar(t, plain(v), "T.annotate_safe_value", b.dtype), b.dtype)
        for b, v in _buffers(t, "T.annotate_safe_value", values).items()
    }
    _annotations(t).setdefault("safe_values", {}).update(new)


def annotate_l2_hit_ratio(ratios: Mapping[Buffer, float]) -> None:
    """Which share of accesses to a global buffer is expected to hit a persisting part of the L2.
    Accepted, without an effect."""
    _buffers(current("T.annotate_l2_hit_ratio"), "T.annotate_l2_hit_ratio", ratios)
    no_effect("T.annotate_l2_hit_ratio", "no part of the L2 is set aside for persisting data")


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


def _registers(what: str, n: Any) -> int:
    """A number of registers per thread (PTX ISA, setmaxnreg: the legal ones)."""
    value = const_int(plain(n))
    if value is None or value % 8 or not 24 <= value <= 256:
        raise current(what).error(
            f"{what}: registers per thread are a multiple of 8 from 24 to 256, got {n}",
            "TL0565",
            "e.g. 24 for a producer, 240 for a consumer",
            OptionError,
        )
    return value


def set_max_nreg(reg_count: int, is_inc: int | bool) -> None:
    """A register budget for the warpgroups of the enclosing `T.ws`, on sm_90 and later. Roles that
    the compiler makes choose their own (see `annotate_consumer_reg_alloc`)."""
    _role_registers("T.set_max_nreg", reg_count, bool(plain(is_inc)))


def inc_max_nreg(reg_count: int) -> None:
    """`set_max_nreg` to more registers than the kernel starts with."""
    _role_registers("T.inc_max_nreg", reg_count, True)


def dec_max_nreg(reg_count: int) -> None:
    """`set_max_nreg` to fewer registers than the kernel starts with."""
    _role_registers("T.dec_max_nreg", reg_count, False)


def _role_registers(what: str, reg_count: Any, more: bool) -> None:
    t = current(what)
    n = _registers(what, reg_count)
    place = next((r for r in reversed(t.regions) if r.kind != "macro"), None)
    if place is None or place.role is None:
        no_effect(f"{what} outside of T.ws", "roles that the compiler makes choose their own")
        return
    if place.role.setdefault("registers", n if more else -n) != (n if more else -n):
        raise t.error(
            f"{what}: this T.ws has another register budget already",
            "TL0566",
            "give one per T.ws",
            OptionError,
        )


def no_set_max_nreg() -> None:
    """No register reallocation between the warp roles that the compiler makes."""
    _annotations(current("T.no_set_max_nreg"))["reallocate_registers"] = False


def disable_warp_group_reg_alloc() -> None:
    """The same as `no_set_max_nreg`."""
    _annotations(current("T.disable_warp_group_reg_alloc"))["reallocate_registers"] = False


def annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    """Registers that a thread of the producer keeps, where the compiler makes warp roles."""
    what = "T.annotate_producer_reg_dealloc"
    _annotations(current(what))["producer_registers"] = _registers(what, reg_count)


def annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    """Registers that a thread of the consumers gets, where the compiler makes warp roles."""
    what = "T.annotate_consumer_reg_alloc"
    _annotations(current(what))["consumer_registers"] = _registers(what, reg_count)


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
