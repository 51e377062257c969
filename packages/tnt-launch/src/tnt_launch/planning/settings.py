"""What the user set, parsed once: the environment, then options, then `-x`; later ones win."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from tnt_launch.errors import LaunchError
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.variables import (
    ALL_NAMES,
    CHECK_STEPS,
    EXPLAIN_STEPS,
    FUSION_THRESHOLD,
    FUSION_THRESHOLD_KB,
    INTERFACE,
    LOG_LEVEL,
    LOG_ON_ALL_DEVICES,
    NAMES_OF_TUTORIALS,
    OUTPUT_ON_ALL_DEVICES,
    PREFIX,
    PROBE,
    TIMEOUT_S,
    USER_VARIABLES,
    WIRE_DTYPE,
    Variable,
)

_T = TypeVar("_T")


@dataclass(frozen=True)
class Settings:
    """The settings of a job, as values."""

    values: Mapping[str, object]  # of every `TNT_*` variable that is set, by its name
    exports: Mapping[str, str]  # those of `-x` that are not Tarantella's, exactly as given
    warnings: tuple[str, ...] = ()

    def get(self, variable: Variable[_T]) -> _T | None:
        """Return the value of a variable, `None` if it is not set. Pure."""
        return cast("_T | None", self.values.get(variable.name))

    def environment(self) -> dict[str, str]:
        """Return what every rank gets of these settings, in canonical form. Pure."""
        texts = {
            variable.name: variable.kind.write(self.values[variable.name])
            for variable in USER_VARIABLES
            if variable.name in self.values
        }
        return {**self.exports, **texts}


def read_settings(spec: LaunchSpec, environment: Mapping[str, str]) -> Settings:
    """Join and parse what the user set. Pure."""
    exports = dict(spec.exports)
    options = _from_options(spec, has_alias=FUSION_THRESHOLD.name in environment)
    values: dict[str, object] = {}
    for variable in USER_VARIABLES:
        name = variable.name
        if name in exports:
            values[name] = variable.read(exports.pop(name))
        elif name in options:
            values[name] = options[name]
        elif name in environment:
            values[name] = variable.read(environment[name])
    settings = Settings(values, exports, _unknown_names({**environment, **exports}))
    _check_fusion_threshold(settings)
    return settings


def _from_options(spec: LaunchSpec, has_alias: bool) -> dict[str, object]:
    options: dict[Variable[Any], object] = {
        LOG_LEVEL: spec.log_level,
        LOG_ON_ALL_DEVICES: spec.log_on_all_devices,
        OUTPUT_ON_ALL_DEVICES: spec.output_on_all_devices,
        FUSION_THRESHOLD_KB: spec.fusion_threshold_kb,
        # An inherited value under the other name would contradict the option.
        FUSION_THRESHOLD: spec.fusion_threshold_kb if has_alias else None,
        WIRE_DTYPE: spec.wire_dtype,
        PROBE: spec.probe,
        CHECK_STEPS: spec.check_steps,
        EXPLAIN_STEPS: spec.explain_steps,
        TIMEOUT_S: spec.timeout_s,
        INTERFACE: spec.interface,
    }
    return {variable.name: value for variable, value in options.items() if value is not None}


def _check_fusion_threshold(settings: Settings) -> None:
    threshold, alias = settings.get(FUSION_THRESHOLD_KB), settings.get(FUSION_THRESHOLD)
    if threshold is not None and alias is not None and threshold != alias:
        raise LaunchError(
            f"TNT_FUSION_THRESHOLD_KB={threshold} and TNT_FUSION_THRESHOLD={alias} are two names "
            f"of one setting and disagree. Remove one of them."
        )


def _unknown_names(names: Mapping[str, str]) -> tuple[str, ...]:
    known = (*ALL_NAMES, *NAMES_OF_TUTORIALS)
    unknown = sorted(name for name in names if name.startswith(PREFIX) and name not in known)
    return tuple(
        f"{name} is not a variable of Tarantella and has no effect on it.{_suggestion(name)}"
        for name in unknown
    )


def _suggestion(name: str) -> str:
    """Name the known variable that resembles `name`, if one does, as tnt-keras does."""
    import difflib  # rarely needed

    # All names resemble each other by their prefix, so it is left out of the comparison.
    known = [known.removeprefix(PREFIX) for known in ALL_NAMES]
    nearest = difflib.get_close_matches(name.removeprefix(PREFIX), known, n=1, cutoff=0.6)
    return f" Did you mean {PREFIX}{nearest[0]}?" if nearest else ""
