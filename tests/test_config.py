# SPDX-License-Identifier: Apache-2.0
"""Options, the keys of the original, and the environment: each is honoured or refused."""

from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilelang import config
from tilelang.config import PASS_CONFIGS, Env, NoEffect, Options, PassConfigKey, Sets
from tilelang.errors import CompatWarning, OptionError


@pytest.fixture(autouse=True)
def forget_warnings() -> Iterator[None]:
    """Warnings are given once per process; each test starts as a new process does."""
    config._warn_once.cache_clear()
    yield
    config._warn_once.cache_clear()


@pytest.fixture
def env() -> Env:
    return Env()


# --- options ----------------------------------------------------------------------------------


def test_options_are_immutable_and_hashable() -> None:
    assert hash(Options()) == hash(Options())
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().tma = False  # type: ignore[misc]


def test_every_field_reaches_the_cache_key() -> None:
    others = {"index_bits": 64, "compile_flags": ("-G",), "ptxas_register_usage_level": 3}
    for row in dataclasses.fields(Options):
        other = others.get(row.name, not row.default)
        changed = dataclasses.replace(Options(), **{row.name: other})
        assert changed.key_text() != Options().key_text(), row.name


def test_the_cache_key_is_the_same_in_another_process() -> None:
    program = "from tilelang.config import Options; print(Options().key_text())"
    root = Path(config.__file__).parents[1]
    command = [sys.executable, "-c", program]
    output = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    assert output.strip() == Options().key_text()


def test_equal_options_have_one_spelling() -> None:
    spelled = Options(compile_flags="-a '-b c'", tma=0)  # type: ignore[arg-type]
    assert spelled == Options(compile_flags=("-a", "-b c"), tma=False)
    assert spelled.key_text() == Options(compile_flags=("-a", "-b c"), tma=False).key_text()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tma", "yes"),
        ("tma", None),
        ("tma", 2),
        ("index_bits", 16),
        ("ptxas_register_usage_level", 11),
        ("ptxas_register_usage_level", True),
        ("compile_flags", [1]),
    ],
)
def test_a_wrong_value_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(
        OptionError, match=f"option {field} expects .*{value!r}".replace("[", r"\[")
    ):
        Options(**{field: value})  # type: ignore[arg-type]


# --- pass_configs -----------------------------------------------------------------------------


def test_no_pass_configs_are_the_defaults() -> None:
    assert Options.from_pass_configs() == Options.from_pass_configs({}) == Options()


def test_every_key_is_in_the_table_and_every_row_names_a_field() -> None:
    assert set(PASS_CONFIGS) == set(PassConfigKey)
    names = {row.name for row in dataclasses.fields(Options)}
    assert {row.option for row in PASS_CONFIGS.values() if isinstance(row, Sets)} == names


@pytest.mark.parametrize("key", [k for k, row in PASS_CONFIGS.items() if isinstance(row, Sets)])
def test_every_effective_key_changes_its_field(key: PassConfigKey) -> None:
    row = PASS_CONFIGS[key]
    assert isinstance(row, Sets)
    default = getattr(Options(), row.option)
    other = {"index_bits": 64, "compile_flags": "-G", "ptxas_register_usage_level": 3}
    value = other.get(row.option, default if row.negated else not default)
    assert getattr(Options.from_pass_configs({key: value}), row.option) != default


@pytest.mark.parametrize("key", [k for k, r in PASS_CONFIGS.items() if isinstance(r, NoEffect)])
def test_every_other_key_warns_once(key: PassConfigKey) -> None:
    with pytest.warns(CompatWarning, match=key.value):
        assert Options.from_pass_configs({key: object()}) == Options()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Options.from_pass_configs({key.value: True})


def test_negative_keys_set_positive_fields() -> None:
    configs = {PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True, "tl.disable_data_race_check": 0}
    options = Options.from_pass_configs(configs)
    assert not options.warp_specialize
    assert options.race_check


def test_both_spellings_of_the_tvm_prefix() -> None:
    for prefix in ("tir", "tirx"):
        assert not Options.from_pass_configs({f"{prefix}.noalias": False}).noalias


def test_the_sub_keys_of_the_simplifier_are_accepted() -> None:
    with pytest.warns(CompatWarning, match=r"tl\.Simplify"):
        Options.from_pass_configs({"tl.Simplify.propagate_knowns_to_prove_conditional": True})


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"did you mean 'tl\.disable_wgmma'"):
        Options.from_pass_configs({"tl.disable_wgma": True})
    with pytest.raises(ValueError, match="PassConfigKey lists"):
        Options.from_pass_configs({"zzz": True})


def test_a_wrong_type_names_the_key() -> None:
    with pytest.raises(OptionError, match=r"'tl\.disable_wgmma' expects True or False, got 'no'"):
        Options.from_pass_configs({"tl.disable_wgmma": "no"})


def test_contradicting_keys_are_refused() -> None:
    both = {"tl.enable_fast_math": True, "tl.disable_fast_math": True}
    with pytest.raises(OptionError, match="contradict each other: both set fast_math"):
        Options.from_pass_configs(both)
    agreeing = {"tl.enable_fast_math": True, "tl.disable_fast_math": False}
    assert Options.from_pass_configs(agreeing).fast_math


def test_the_race_check_takes_its_default_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TILELANG_ENABLE_DATA_RACE_CHECK", "1")
    assert Options.from_pass_configs().race_check
    assert not Options.from_pass_configs({"tl.disable_data_race_check": True}).race_check


# --- environment ------------------------------------------------------------------------------


def test_variables_are_read_when_asked_for(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILELANG_VERBOSE", raising=False)
    assert env.TILELANG_VERBOSE is False
    monkeypatch.setenv("TILELANG_VERBOSE", "on")
    assert env.TILELANG_VERBOSE is True
    monkeypatch.setenv("TILELANG_VERBOSE", "")
    assert env.TILELANG_VERBOSE is False


def test_variables_are_typed(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_CPU_THREADS", "3")
    monkeypatch.setenv("TILELANG_DUMP", "after:lower_tile_ops, ptx")
    monkeypatch.setenv("TILELANG_AUTO_TUNING_CPU_UTILITIES", "0.5")
    monkeypatch.setenv("TILELANG_CACHE_DIR", "~/kernels")
    assert env.TILELANG_CPU_THREADS == 3
    assert env.TILELANG_DUMP == ("after:lower_tile_ops", "ptx")
    assert env.TILELANG_AUTO_TUNING_CPU_UTILITIES == 0.5
    assert Path.home() / "kernels" == env.TILELANG_CACHE_DIR


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TILELANG_VERBOSE", "maybe"),
        ("TILELANG_CPU_THREADS", "0"),
        ("TILELANG_AUTO_TUNING_CPU_COUNTS", "many"),
        ("TILELANG_COMPILE_TIMEOUT_SECONDS", "soon"),
        ("TILELANG_PASS_DIFF", "pdf"),
    ],
)
def test_a_wrong_text_is_refused_by_name(
    env: Env, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(OptionError, match=f"{name} expects .*{text!r}"):
        getattr(env, name)


def test_defaults_that_depend_on_other_variables(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_HOME", "TILELANG_DEFAULT_TARGET", "TILELANG_TMP_DIR", "TILELANG_TIME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_PATH", "cuda")
    monkeypatch.setenv("TILELANG_TARGET", "c")
    monkeypatch.setenv("TILELANG_CACHE_DIR", "cache")
    monkeypatch.setenv("TILELANG_PASS_PROFILE", "1")
    assert Path("cuda") == env.CUDA_HOME
    assert env.TILELANG_DEFAULT_TARGET == "c"
    assert Path("cache", "tmp") == env.TILELANG_TMP_DIR
    assert env.TILELANG_TIME


def test_an_assignment_overrides_without_touching_the_environment(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_VERBOSE", "0")
    env.TILELANG_VERBOSE = True
    assert env.TILELANG_VERBOSE
    assert not Env().TILELANG_VERBOSE
    del env.TILELANG_VERBOSE
    assert not env.TILELANG_VERBOSE


def test_ignored_variables_warn_once(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TL_CUTLASS_PATH", "ROCM_PATH"):
        monkeypatch.setenv(name, "somewhere")
    with pytest.warns(CompatWarning) as record:
        env.warn_ignored()
    assert ["TL_CUTLASS_PATH" in str(warning.message) for warning in record] == [True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.warn_ignored()


def test_every_knob_is_documented() -> None:
    for row in config.option_rows() + config.pass_config_rows() + config.env_rows():
        assert row.name
        assert row.doc.endswith("."), row
    assert ("CUDA_HOME", "CUDA_PATH") in [(r.name, r.default) for r in config.env_rows()]
    defaults = {row.name: row.default for row in config.pass_config_rows()}
    assert defaults["tl.disable_wgmma"] == "False"


# --- readers ----------------------------------------------------------------------------------


def read_attributes(*owners: str) -> set[str]:
    """The attributes that the package reads of objects of these names, as in
    `ctx.options.tma`."""
    found: set[str] = set()
    for path in Path(config.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                owner = node.value
                name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
                found |= {node.attr} if name in owners else set()
    return found


def test_an_option_has_a_reader_or_says_that_it_has_no_effect() -> None:
    names = {row.name for row in dataclasses.fields(Options)}
    read = names & read_attributes("options")
    assert read | (names & set(config._NOT_YET)) == names
    assert not read & set(config._NOT_YET), "said to have no effect, but read"


def test_a_variable_has_a_reader_or_says_that_it_has_no_effect() -> None:
    variables = {v.name for v in config._variables() if not isinstance(v, config._Ignored)}
    silent = variables - read_attributes("env") - set(config._NOT_YET)
    assert not silent
    known = variables | {row.name for row in dataclasses.fields(Options)}
    assert set(config._NOT_YET) <= known


def test_a_key_sets_an_option_that_there_is() -> None:
    names = {row.name for row in dataclasses.fields(Options)}
    assert {row.option for row in PASS_CONFIGS.values() if isinstance(row, Sets)} <= names


def test_variables_without_an_effect_yet_warn_once(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_PASS_DIFF", "1")
    with pytest.warns(CompatWarning, match="TILELANG_PASS_DIFF .*TILELANG_DUMP"):
        env.warn_ignored()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.warn_ignored()


def test_options_without_an_effect_yet_warn_once() -> None:
    with pytest.warns(CompatWarning, match=r"tl\.disable_vectorize_256"):
        Options.from_pass_configs({"tl.disable_vectorize_256": True})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Options.from_pass_configs({"tl.disable_vectorize_256": True})
        Options.from_pass_configs({"tl.disable_data_race_check": True})  # as it is
