# SPDX-License-Identifier: Apache-2.0
"""`tilelang.contrib.nvcc`: questions about CUDA architectures."""

from __future__ import annotations

from typing import Any

from tilelang.target import Target, determine_target


def _target(target: Any) -> Target:
    return Target(target) if target is not None else determine_target("auto", return_object=True)


def get_target_compute_version(target: Any = None) -> str:
    """The compute capability of a target, as text: "9.0"."""
    arch = _target(target).arch
    return f"{arch // 10}.{arch % 10}"


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """ "9.0" -> (9, 0)."""
    major, _, minor = compute_version.partition(".")
    return int(major), int(minor or 0)


def get_target_arch(compute_version: str) -> str:
    """ "9.0" -> "90a": the name that the compiler wants."""
    major, minor = parse_compute_version(compute_version)
    return f"{major}{minor}" + ("a" if major >= 9 else "")


def have_tma(target: Any = None) -> bool:
    """Does the target have the tensor memory accelerator?"""
    return _target(target).has_tma


def have_bf16(compute_version: str) -> bool:
    return parse_compute_version(compute_version)[0] >= 8


def have_fp8(compute_version: str) -> bool:
    return parse_compute_version(compute_version) >= (8, 9)


__all__ = [
    "get_target_arch",
    "get_target_compute_version",
    "have_bf16",
    "have_fp8",
    "have_tma",
    "parse_compute_version",
]
