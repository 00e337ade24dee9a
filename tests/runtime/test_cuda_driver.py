# SPDX-License-Identifier: Apache-2.0
"""The driver interface, against a driver that records what it is told (`fakecuda.c`)."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilelang.errors import ToolchainError
from tilelang.runtime import cuda_driver
from tilelang.runtime.cuda_driver import (
    CudaKernel,
    Driver,
    LaunchAttributeStruct,
    LaunchConfig,
    TensorMapStruct,
)
from tilelang.target.cuda_abi import (
    DRIVER_SONAME,
    FUNCTIONS,
    DeviceAttribute,
    FunctionAttribute,
    LaunchAttribute,
    TensorMapDataType,
    TensorMapSwizzle,
    c_driver_table,
    tensor_map_dtype,
)

FAKE = Path(__file__).with_name("fakecuda.c")
CUBIN = b"\x7fELF and so on"


def build(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


FLAGS = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror"]


@pytest.fixture(scope="module")
def fake_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For this process: not under the driver's soname, by which NVRTC would find and call it."""
    path = tmp_path_factory.mktemp("fake") / "libfakecuda.so"
    build(["gcc", *FLAGS, str(FAKE), "-o", str(path)])
    return path


@pytest.fixture(scope="module")
def named_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For processes of their own: what a driver is called."""
    path = tmp_path_factory.mktemp("named") / DRIVER_SONAME
    build(["gcc", *FLAGS, f"-Wl,-soname,{DRIVER_SONAME}", str(FAKE), "-o", str(path)])
    return path


@pytest.fixture
def fake(fake_path: Path) -> Iterator[ctypes.CDLL]:
    library = ctypes.CDLL(str(fake_path))
    yield library
    ctypes.c_int.in_dll(library, "fake_fail_with").value = 0


@pytest.fixture
def driver(fake: ctypes.CDLL, fake_path: Path) -> Driver:
    return Driver(str(fake_path))


def number(library: ctypes.CDLL, name: str, kind: Any = ctypes.c_int) -> Any:
    return kind.in_dll(library, name).value


def numbers(library: ctypes.CDLL, name: str, count: int, kind: Any = ctypes.c_uint) -> list[int]:
    return list((kind * count).in_dll(library, name))


def test_questions(driver: Driver) -> None:
    assert driver.version == (13, 0)
    assert driver.device_count == 1
    assert driver.device_name(0) == "Fake H200 0"
    assert driver.compute_capability(0) == (9, 0)
    assert driver.attribute(0, DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) == 227 * 1024


def test_launch(driver: Driver, fake: ctypes.CDLL) -> None:
    driver.use_device(0)
    kernel = driver.load(CUBIN).kernel("f_3")
    assert kernel.attribute(FunctionAttribute.NUM_REGS) == 168
    kernel.allow_shared(200_000)
    memory = driver.upload(b"12345678")
    arguments = [ctypes.c_uint64(memory.address), ctypes.c_int64(-5), ctypes.c_double(2.5)]
    before = number(fake, "fake_launches")
    cluster = {LaunchAttribute.CLUSTER_DIMENSION: (2, 1, 1)}
    kernel.launch((4, 5), (128,), arguments, 199_999, driver.stream(), cluster)
    assert number(fake, "fake_launches") == before + 1
    assert numbers(fake, "fake_grid", 3) == [4, 5, 1]
    assert numbers(fake, "fake_block", 3) == [128, 1, 1]
    assert number(fake, "fake_shared", ctypes.c_uint) == 199_999
    assert number(fake, "fake_stream", ctypes.c_void_p) == 0x5001
    assert number(fake, "fake_attribute_count", ctypes.c_uint) == 1
    assert number(fake, "fake_attribute_id", ctypes.c_uint) == 4
    assert numbers(fake, "fake_attribute_dim", 3) == [2, 1, 1]
    assert (ctypes.c_char * 256).in_dll(fake, "fake_kernel").value == b"f_3"
    params = numbers(fake, "fake_params", 3, ctypes.c_uint64)
    assert params[:2] == [memory.address, 2**64 - 5]
    assert memory.download() == b"12345678"


def test_launch_without_attributes(driver: Driver, fake: ctypes.CDLL) -> None:
    driver.load(CUBIN).kernel("f").launch((1,), (32,), [])
    assert number(fake, "fake_attribute_count", ctypes.c_uint) == 0


def test_timing(driver: Driver) -> None:
    ran: list[int] = []
    assert driver.elapsed_ms(lambda: ran.append(1)) == pytest.approx(1.5)
    assert ran == [1]


class MapStruct(ctypes.Structure):
    _fields_ = (
        ("dtype", ctypes.c_int),
        ("swizzle", ctypes.c_int),
        ("rank", ctypes.c_uint),
        ("box", ctypes.c_uint * 5),
        ("address", ctypes.c_uint64),
        ("dims", ctypes.c_uint64 * 5),
        ("strides", ctypes.c_uint64 * 5),
    )


def test_tensor_map(driver: Driver, fake: ctypes.CDLL) -> None:
    made = driver.tensor_map(0x1000, "float16", 16, [512, 256], [1024], [64, 128], 128)
    assert ctypes.addressof(made) % 64 == 0
    assert bytes(made) == b"\xab" * 128
    told = MapStruct.in_dll(fake, "fake_map")
    assert (told.dtype, told.swizzle, told.rank) == (6, 3, 2)
    assert told.address == 0x1000
    assert list(told.dims)[:2] == [512, 256]
    assert list(told.strides)[:1] == [1024]
    assert list(told.box)[:2] == [64, 128]


@pytest.mark.parametrize(
    ("name", "bits", "expected"),
    [
        ("bfloat16", 16, TensorMapDataType.BFLOAT16),
        ("int8", 8, TensorMapDataType.UINT8),
        ("float8_e4m3fn", 8, TensorMapDataType.UINT8),
        ("uint32", 32, TensorMapDataType.UINT32),
        ("int64", 64, TensorMapDataType.INT64),
    ],
)
def test_tensor_map_dtypes(name: str, bits: int, expected: TensorMapDataType) -> None:
    assert tensor_map_dtype(name, bits) is expected


def test_swizzles() -> None:
    assert [int(TensorMapSwizzle.of_bytes(n)) for n in (0, 32, 64, 128)] == [0, 1, 2, 3]


def test_a_failed_call_says_why(driver: Driver, fake: ctypes.CDLL) -> None:
    with pytest.raises(ToolchainError, match=r"TL0812.*Data failed: CUDA_ERROR_INVALID_IMAGE"):
        driver.load(b"no cubin")
    ctypes.c_int.in_dll(fake, "fake_fail_with").value = 719
    kernel: CudaKernel = driver.load(CUBIN).kernel("f")
    with pytest.raises(ToolchainError, match=r"cuLaunchKernelEx failed: .*told to fail \(719\)"):
        kernel.launch((1,), (32,), [])


def test_no_driver() -> None:
    with pytest.raises(ToolchainError, match=r"TL0810\] there is no CUDA driver") as caught:
        Driver("libcuda-that-is-not-there.so.1")
    assert "llvm" in str(caught.value.help)


def test_old_driver(tmp_path: Path) -> None:
    source, path = tmp_path / "old.c", tmp_path / "libold.so"
    source.write_text("int cuInit(unsigned f) { return f; }\n")
    build(["gcc", "-shared", "-fPIC", str(source), "-o", str(path)])
    with pytest.raises(ToolchainError, match=r"TL0811.* no cuLibraryLoadData: it is too old"):
        Driver(str(path)).load(CUBIN)


def test_layouts_are_the_driver_s() -> None:
    """Sizes and offsets of cuda.h."""
    assert ctypes.sizeof(LaunchConfig) == 56
    assert LaunchConfig.stream.offset == 32
    assert ctypes.sizeof(LaunchAttributeStruct) == 72
    assert LaunchAttributeStruct.value.offset == 8
    assert ctypes.sizeof(TensorMapStruct) == 128


PROGRAM = """
int main(void) {{
  _Static_assert(sizeof(tl_launch_config) == {config}, "");
  _Static_assert(sizeof(tl_launch_attribute) == {attribute}, "");
  _Static_assert(sizeof(tl_tensor_map) == 128 && _Alignof(tl_tensor_map) == 64, "");
  char why[256] = "";
  int code = tl_open_driver(why, sizeof why);
  printf("%d %s\\n", code, why);
  return code ? 0 : tl_cu.cuInit(0) + tl_open_driver(why, sizeof why);
}}
"""


def test_c_text(tmp_path: Path, named_path: Path) -> None:
    """The C side: compiles without any header, finds a driver by name, says when there is none."""
    config, attribute = ctypes.sizeof(LaunchConfig), ctypes.sizeof(LaunchAttributeStruct)
    main = PROGRAM.format(config=config, attribute=attribute)
    source, program = tmp_path / "host.c", tmp_path / "host"
    source.write_text(c_driver_table() + "int printf(const char *, ...);" + main)
    build(["gcc", "-O1", "-Wall", "-Werror", str(source), "-o", str(program), "-ldl"])

    def run(**environment: str) -> str:
        done = subprocess.run(
            [str(program)], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert run(LD_LIBRARY_PATH=str(named_path.parent)) == "0"
    assert {f.name for f in FUNCTIONS} <= set(dir_of(named_path))
    if cuda_driver.driver_version() is None:
        assert run().startswith("-1 cannot load the CUDA driver")


def dir_of(library: Path) -> list[str]:
    done = subprocess.run(["nm", "-D", str(library)], capture_output=True, text=True, check=True)
    return [line.split()[-1] for line in done.stdout.splitlines()]


def test_found_by_name(named_path: Path) -> None:
    """The public functions open the driver by its soname, in a process that has one."""
    code = (
        f"import ctypes; ctypes.CDLL({str(named_path)!r}, mode=ctypes.RTLD_GLOBAL)\n"
        "from tilelang.runtime.cuda_driver import *\n"
        "print(device_count(), driver_version(), driver().device_name(0))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert done.stdout.strip() == "1 (13, 0) Fake H200 0"
