"""What the user set, parsed once: the environment, then options, then `-x`; later ones win."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from tnt_launch.errors import LaunchError
from tnt_launch.log import configure_logging
from tnt_launch.planning.grammar import Variable, warnings_of_unknown
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.variables import (
    ALL_NAMES,
    FUSION_THRESHOLD,
    FUSION_THRESHOLD_KB,
    LOG_LEVEL,
    USER_VARIABLES,
)

_T = TypeVar("_T")


@dataclass(frozen=True)
class Settings:
    """The settings of a job, as values."""

    values: Mapping[str, Any]  # of every `TNT_*` variable that is set, by its name
    exports: Mapping[str, str]  # those of `-x` that are not Tarantella's, exactly as given
    warnings: tuple[str, ...] = ()

    def get(self, variable: Variable[_T, Any]) -> _T | None:
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
    options = dict(spec.settings)
    if FUSION_THRESHOLD_KB.name in options and FUSION_THRESHOLD.name in environment:
        # An inherited value under the other name would contradict the option.
        options[FUSION_THRESHOLD.name] = options[FUSION_THRESHOLD_KB.name]
    values: dict[str, object] = {}
    for variable in USER_VARIABLES:
        name = variable.name
        if name in exports:
            values[name] = _read(variable, exports.pop(name))
        elif name in options:
            values[name] = options[name]
        elif name in environment:
            values[name] = _read(variable, environment[name])
    names = {**environment, **exports}
    settings = Settings(values, exports, tuple(warnings_of_unknown(names, ALL_NAMES)))
    _check_fusion_threshold(settings)
    return settings


def settings_and_log(spec: LaunchSpec) -> Settings:
    """Read the settings with this process's environment, and set the log up by them."""
    settings = read_settings(spec, os.environ)
    log = configure_logging(settings.get(LOG_LEVEL) or "WARNING")
    for remark in spec.remarks:
        log.debug(remark)
    for warning in spec.warnings:
        log.warning(warning)
    for note in spec.notes:
        log.info(note)
    return settings


def _read(variable: Variable[Any, Any], text: str) -> object:
    try:
        return variable.read(text)
    except ValueError as error:
        raise LaunchError(str(error)) from None


def _check_fusion_threshold(settings: Settings) -> None:
    threshold, alias = settings.get(FUSION_THRESHOLD_KB), settings.get(FUSION_THRESHOLD)
    if threshold is not None and alias is not None and threshold != alias:
        raise LaunchError(
            f"TNT_FUSION_THRESHOLD_KB={threshold} and TNT_FUSION_THRESHOLD={alias} are two names "
            f"of one setting and disagree. Remove one of them."
        )
