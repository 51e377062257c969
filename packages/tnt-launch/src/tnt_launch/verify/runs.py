"""Which runs there are, each as a command of the launcher. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tnt_launch.planning.options import make_verify_parser
from tnt_launch.planning.variables import LANES, MOVE_WEIGHTS, STEP_HASHES


@dataclass(frozen=True)
class Run:
    """A run of the script."""

    number: int  # from 1
    num_ranks: int  # on each host
    arguments: tuple[str, ...]  # of the launcher
    variables: Mapping[str, str] = field(default_factory=dict)  # on top of those of this process
    without: tuple[str, ...] = ()  # variables that it must not have
    role: str = ""  # in words, where it is another than its number of ranks tells

    def environment(self, inherited: Mapping[str, str], hashes: str) -> dict[str, str]:
        """Return the environment of its launcher, which writes hashes to a file."""
        kept = {name: text for name, text in inherited.items() if name not in self.without}
        return {**kept, **self.variables, STEP_HASHES.name: hashes}

    def command(self, hashes: str) -> str:
        """Return what a shell would run."""
        removed = [word for name in self.without for word in ("-u", name)]
        variables = {**self.variables, STEP_HASHES.name: hashes}
        words = [f"{name}={text}" for name, text in variables.items()]
        return shlex.join(["env", *removed, *words, "tarantella", *self.arguments])


@dataclass(frozen=True)
class VerifyOptions:
    """The command line of `tarantella verify`."""

    numbers: tuple[int, ...]  # of ranks on each host
    lanes: int | None
    is_within_serial: bool
    folder: str | None  # that keeps all files
    is_dry_run: bool
    of_job: tuple[str, ...]  # other options of the launcher
    script: tuple[str, ...]  # and its arguments


def read_verify_options(arguments: Sequence[str]) -> VerifyOptions:
    """Turn the arguments of `tarantella verify` into options."""
    parser = make_verify_parser()
    position = arguments.index("--") if "--" in arguments else len(arguments)
    options, of_job = parser.parse_known(arguments[:position])
    script = tuple(arguments[position + 1 :])
    if not script:
        parser.error("it needs -- and a script behind its options")
    if options.numbers is None:
        parser.error("-n says on how many ranks the script is to run, such as -n 1,2,4")
    return VerifyOptions(
        options.numbers,
        vars(options)[LANES.name],
        options.within == "serial",
        options.keep,
        options.dry_run,
        tuple(of_job),
        script,
    )


def runs_of(options: VerifyOptions) -> list[Run]:
    """Return the runs in their order; the first is that to which all others are compared."""
    numbers = _smallest_first(options.numbers)
    lanes = () if options.lanes is None else ("--lanes", str(options.lanes))
    if not options.is_within_serial:
        return [
            Run(number, count, _arguments(count, lanes, options))
            for number, count in enumerate([numbers[0], *numbers], start=1)
        ]
    of_serial = _arguments(1, (), options)
    moved = {MOVE_WEIGHTS.name: "1"}
    return [
        Run(1, 1, of_serial, without=(LANES.name, MOVE_WEIGHTS.name), role="serial"),
        Run(2, 1, of_serial, moved, without=(LANES.name,), role="serial, weights moved"),
        *(
            Run(number, count, _arguments(count, lanes, options), without=(MOVE_WEIGHTS.name,))
            for number, count in enumerate(numbers, start=3)
        ),
    ]


def _smallest_first(numbers: Sequence[int]) -> list[int]:
    first = min(numbers)
    return [first, *(number for number in numbers if number != first)]


def _arguments(count: int, lanes: Sequence[str], options: VerifyOptions) -> tuple[str, ...]:
    return ("-n", str(count), *lanes, *options.of_job, "--", *options.script)
