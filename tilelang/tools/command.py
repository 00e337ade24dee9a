# SPDX-License-Identifier: Apache-2.0
"""The command line. In: arguments. Out: text on standard output, and an exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tilelang.errors import OptionError, TileError

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """0: done. 1: it did not work. 2: the command was not understood (by argparse)."""
    args = _parser().parse_args(arguments)
    try:
        return int(args.run(args))
    except TileError as error:
        print(error.render(), file=sys.stderr)
        return 1
    except BrokenPipeError:  # `| head` has seen enough
        sys.stderr.close()  # the interpreter would complain there when it flushes
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tilelang", description="Tools around the compiler.")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: object, text: str) -> argparse.ArgumentParser:
        verb = verbs.add_parser(name, help=text, description=text)
        verb.set_defaults(run=run)
        return verb

    add("env", _env, "Versions, compilers, devices, targets and where kernels are cached.")
    add("passes", _passes, "The passes in order, and what each one does.")
    time = add("time", _time, "Time of each pass for every kernel that a program compiles.")
    time.add_argument("file", type=Path, help="a Python program; it is run as a script")
    time.add_argument("rest", nargs=argparse.REMAINDER, help="its arguments")
    _add_simulate(add("simulate", _simulate, "A program with its CUDA kernels on a simulated GPU."))
    _add_fuzz(add("fuzz", _fuzz, "Random programs, run everywhere, until two results differ."))
    cache = add("cache", _cache, "List, explain or remove the kernels on disk.")
    cache.add_argument("action", choices=("ls", "explain", "clear"))
    cache.add_argument(
        "keys", nargs="*", help="explain: the beginning of a key, or of two to compare"
    )
    docs = add("docs", _docs, "Write the generated tables of the documentation.")
    docs.add_argument("folder", nargs="?", type=Path, default=Path("docs/generated"))
    docs.add_argument("--check", action="store_true", help="only say whether they are current")
    return parser


def _add_simulate(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("file", type=Path, help="a Python program; it is run as a script")
    verb.add_argument("rest", nargs=argparse.REMAINDER, help="its arguments")
    verb.add_argument("--arch", default="sm_90a", help="of kernels that name none (%(default)s)")
    verb.add_argument(
        "--json", metavar="OUT", nargs="?", const="-", help="the report as JSON; - or none: stdout"
    )
    verb.add_argument("--jobs", type=int, default=0, help="host threads (all cores)")
    verb.add_argument("--time-limit", type=float, default=300.0, help="seconds for a kernel; 0: no")
    verb.add_argument("--no-check", action="store_true", help="do not look for faults")
    verb.add_argument("--no-traffic", action="store_true", help="count no wavefronts and sectors")


def _add_fuzz(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--seconds", type=float, default=60.0, help="for how long (%(default)s)")
    verb.add_argument("--seed", type=int, default=0, help="of the first program (%(default)s)")
    verb.add_argument("--programs", type=int, help="at most so many")
    verb.add_argument("--targets", help="separated by commas; llvm,c and the simulated GPUs")
    verb.add_argument("--out", type=Path, help="where the program that fails is written")


def _fuzz(args: argparse.Namespace) -> int:
    from .fuzz import fuzz_programs

    targets = args.targets.split(",") if args.targets else None
    return fuzz_programs(args.seconds, args.seed, args.programs, targets, args.out)


def _simulate(args: argparse.Namespace) -> int:
    from .simulate import Settings, simulate_program

    settings = Settings(
        args.arch, args.json, args.jobs, args.time_limit, not args.no_check, not args.no_traffic
    )
    return simulate_program(args.file, args.rest, settings)


def _env(args: argparse.Namespace) -> int:
    from .environment import environment

    for name, value in environment():
        print(f"{name:<18} {value}")
    return 0


def _passes(args: argparse.Namespace) -> int:
    from .tables import pass_rows

    for row in pass_rows():
        print(f"{row[0]:<20} {row[1]:<8} {row[2]}")
    return 0


def _time(args: argparse.Namespace) -> int:
    from .timing import time_program

    return time_program(args.file, args.rest)


def _cache(args: argparse.Namespace) -> int:
    from .disk import clear_disk, entries, explain

    if (args.action == "explain") != (len(args.keys) in (1, 2)):
        raise OptionError(
            f"cache {args.action} takes {'one or two keys' if args.action == 'explain' else 'none'}"
            f", got {len(args.keys)}",
            code="TL0516",
            help="python -m tilelang cache explain KEY [KEY]",
        )
    if args.action == "clear":
        print(f"removed {clear_disk()} kernels")
        return 0
    for line in explain(args.keys) if args.action == "explain" else entries():
        print(line)
    return 0


def _docs(args: argparse.Namespace) -> int:
    from .tables import pages

    stale = []
    for name, text in pages().items():
        path = args.folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
        if not args.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if args.check and stale:
        print(f"not current: {', '.join(stale)}; run `python -m tilelang docs`", file=sys.stderr)
        return 1
    return 0
