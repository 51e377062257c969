"""Two hosts on this one: network namespaces, joined by a link of limited rate."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

ADDRESSES = ("10.77.0.1", "10.77.0.2")
DEVICE = "veth0"
# The bucket of tokens is what a network card sends at once; packets wait 50 ms at most, then they
# are lost, which TCP takes as the sign to slow down.
LIMIT = ("burst", "256kbit", "latency", "50ms")


class LinkUnavailable(RuntimeError):
    """This process may not, or cannot, make namespaces here."""


@contextlib.contextmanager
def limited_link(rate: str) -> Iterator[tuple[str, str]]:
    """Make two namespaces with a link between them; they are removed at the end.

    Args:
        rate: Of each direction, as `tc` writes it: `1gbit`.

    Yields:
        Names of the namespaces; the addresses in them are `ADDRESSES`.

    Raises:
        LinkUnavailable: Says what is missing.
    """
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise LinkUnavailable(f"`{tool}` is not installed (Debian: apt install iproute2)")
    names = (f"tnt-bench-{os.getpid()}-0", f"tnt-bench-{os.getpid()}-1")
    with contextlib.ExitStack() as stack:
        for name in names:
            _run("ip", "netns", "add", name)
            stack.callback(_run, "ip", "netns", "delete", name)
        peer = ("peer", "name", DEVICE, "netns", names[1])
        _run("ip", "link", "add", DEVICE, "netns", names[0], "type", "veth", *peer)
        for name, address in zip(names, ADDRESSES, strict=True):
            _run("ip", "-n", name, "address", "add", f"{address}/24", "dev", DEVICE)
            for device in ("lo", DEVICE):
                _run("ip", "-n", name, "link", "set", device, "up")
            _run(
                "tc", "-n", name, "qdisc", "add", "dev", DEVICE, "root", "tbf", "rate", rate, *LIMIT
            )
        yield names


def _run(*command: str) -> None:
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        raise LinkUnavailable(
            f"`{' '.join(command)}` failed: {finished.stderr.strip()}. Network namespaces need "
            "root, and in a container the capabilities NET_ADMIN and SYS_ADMIN."
        )
