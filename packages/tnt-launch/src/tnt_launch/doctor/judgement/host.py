"""All facts of a host become findings, in the order in which they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tnt_launch.doctor.facts import Fact, Finding
from tnt_launch.doctor.judgement.engines import judge_engine, judge_failed_engine
from tnt_launch.doctor.judgement.machine import (
    judge_cores,
    judge_gpus,
    judge_limits,
    judge_networks,
    judge_shared_memory,
)
from tnt_launch.doctor.judgement.software import (
    judge_keras,
    judge_operations,
    judge_packages,
    judge_python,
    judge_tensorflow,
)

_ENGINE = "engine "
_REMEDIES = {
    "TensorFlow": 'Install it anew with `pip install --force-reinstall "tnt-keras[tensorflow]"`; '
    "an illegal instruction (SIGILL) means that it was built for newer processors.",
    "Keras": "Install it anew with `pip install --force-reinstall keras`.",
    "operations": "Install tnt-comm and tnt-keras anew, from one release, and a TensorFlow that it "
    "supports.",
    "hardware": "Correct the variable or the driver that the message names.",
}

_JUDGES: dict[str, Callable[[Mapping[str, Any]], Finding]] = {
    "python": judge_python,
    "packages": judge_packages,
    "shared_memory": judge_shared_memory,
    "engine": judge_engine,
    "operations": judge_operations,
}


class HostJudge:
    """Makes findings of the facts of one host, some of which need several facts."""

    def __init__(self, asked: int | None, num_hosts: int, interface: str) -> None:
        self.known: dict[str, Mapping[str, Any]] = {}  # values of the last fact about each thing
        self.checking = ""  # the check that has begun last
        self._asked, self._num_hosts, self._interface = asked, num_hosts, interface

    def take(self, fact: Fact) -> Iterable[Finding]:
        """Return what follows from one more fact."""
        if fact.about == "begin":
            self.checking = fact.values["check"]
            return ()
        self.known[fact.about] = fact.values
        if fact.about in _JUDGES:
            return [_JUDGES[fact.about](fact.values)]
        judge = getattr(self, f"_take_{fact.about}", None)
        return () if judge is None else judge(fact.values)

    def fail(self, why: str) -> Iterable[Finding]:
        """Return what follows if the process that tells the facts has failed."""
        return self._take_failure({"check": self.checking or "start", "why": why})

    def _take_networks(self, values: Mapping[str, Any]) -> Iterable[Finding]:
        yield judge_networks(values, self._interface)

    def _take_cores(self, values: Mapping[str, Any]) -> Iterable[Finding]:
        num_ranks = self._asked or 1
        yield from judge_cores(values, num_ranks)
        if "limits" in self.known:
            has_infiniband = bool(self.known.get("networks", {}).get("infiniband"))
            size = num_ranks * self._num_hosts
            limits = self.known["limits"]
            yield judge_limits(limits, values["cpus"], num_ranks, size, has_infiniband)

    def _take_tensorflow(self, values: Mapping[str, Any]) -> Iterable[Finding]:
        yield judge_tensorflow(values, self.known["packages"])
        yield from self._gpus(values)

    def _take_keras(self, values: Mapping[str, Any]) -> Iterable[Finding]:
        yield judge_keras(values, self.known["packages"])

    def _take_failure(self, values: Mapping[str, Any]) -> Iterable[Finding]:
        check, why = values["check"], values["why"]
        if check.startswith(_ENGINE):
            yield judge_failed_engine(check.removeprefix(_ENGINE), why)
            return
        remedy = _REMEDIES.get(check, "Look at the message, and report it if it says nothing.")
        yield Finding("problem", check, why, remedy)
        if check == "TensorFlow":
            yield from self._gpus(None)

    def _gpus(self, tensorflow: Mapping[str, Any] | None) -> Iterable[Finding]:
        if "gpus" in self.known:
            yield judge_gpus(self.known["gpus"], tensorflow, self._asked)
