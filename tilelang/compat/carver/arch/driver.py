# SPDX-License-Identifier: Apache-2.0
"""`tilelang.carver.arch.driver`: facts about the device, or the target without one."""

from __future__ import annotations

from tilelang.target import Target, determine_target
from tilelang.target.detect import cuda_devices


def get_num_sms(device_id: int = 0) -> int:
    """Multiprocessors of a device."""
    devices = cuda_devices()
    if device_id < len(devices):
        return devices[device_id].num_sms
    return int(determine_target("auto", return_object=True).num_sms)


def get_max_dynamic_shared_size_bytes(device_id: int = 0) -> int:
    """Shared memory that one block of a device can have."""
    devices = cuda_devices()
    if device_id < len(devices):
        return Target(f"cuda -arch=sm_{devices[device_id].arch}").max_smem
    return int(determine_target("auto", return_object=True).max_smem)


__all__ = ["get_max_dynamic_shared_size_bytes", "get_num_sms"]
