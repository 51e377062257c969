"""The ranks of one library, which measure what they are asked for."""

from __future__ import annotations

from pathlib import Path

from benchmarks.allreduce.libraries import LibrarySpec
from benchmarks.process_set import ProcessSet, Start

START_S = 120
REQUEST_S = 300


class LibraryRanks(ProcessSet):
    """All ranks of one library."""

    def __init__(self, spec: LibrarySpec, num_ranks: int, peers_folder: Path) -> None:
        self.spec = spec

        def starts_of(socket: Path) -> list[Start]:
            commands = spec.commands(num_ranks, peers_folder, socket)
            return [
                Start(command, spec.environment(index, num_ranks, socket))
                for index, command in enumerate(commands)
            ]

        super().__init__(
            spec.name,
            num_ranks,
            starts_of,
            start_s=START_S,
            request_s=REQUEST_S,
            is_busy_when_idle=spec.is_busy_when_idle,
        )
        self.versions: dict[str, str] = self.hello[0]["versions"]
        self.variants: list[str] = self.hello[0]["variants"]

    def measure(self, variant: str, workload: str, block: int, num_blocks: int) -> list[float]:
        """Do what `rank.measure` says on all ranks; return the slowest's seconds, by block."""
        request = {
            "variant": variant,
            "workload": workload,
            "block": block,
            "num_blocks": num_blocks,
        }
        times = [answer["times"] for answer in self.ask(request)]
        return [max(of_ranks) for of_ranks in zip(*times, strict=True)]
