"""Whether a name means the host of this process."""

from __future__ import annotations

import os
import socket

from tnt_launch.hosts.host_report import own_addresses


def is_this_host(name: str) -> bool:
    """Return whether a name means this host, so that no ssh is needed; may ask a name server."""
    # A name with a user, and one that only ssh knows, do not.
    own_name = os.uname().nodename.lower()
    if name.lower() in ("localhost", own_name, own_name.partition(".")[0]):
        return True
    if "@" in name:
        return False
    try:
        found = socket.getaddrinfo(name.strip("[]"), None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    own = {entry.address for entry in own_addresses()}
    return bool(found) and all(str(entry[4][0]).partition("%")[0] in own for entry in found)
