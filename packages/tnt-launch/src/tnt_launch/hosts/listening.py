"""The socket at which node 0 waits for the other launchers: on one address of this host."""

from __future__ import annotations

import socket

from tnt_launch.errors import LaunchError
from tnt_launch.planning.addresses import HostAddresses, choose_addresses, own_addresses
from tnt_launch.planning.spec import Meeting


def listen(meeting: Meeting, interface: str = "") -> socket.socket:
    """Listen where the launchers of a job meet."""
    # An interface is given if the host of the meeting is known here by an address of another one.
    address = _own_address(meeting.host, interface)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, meeting.port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise LaunchError(
            f"node 0 cannot listen at {address}, port {meeting.port}: {error.strerror}. Another "
            f"job may use it: give another port with --rendezvous on all hosts."
        ) from error
    listener.setblocking(False)
    return listener


def _own_address(host: str, interface: str) -> str:
    """Return the address of this host at which the others look for it."""
    own = own_addresses()
    if interface:
        return choose_addresses([host], [HostAddresses(own)], interface)[0]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LaunchError(f"--rendezvous: {host}: {error.strerror}.") from error
    addresses = [str(entry[4][0]) for entry in found]
    mine = {entry.address for entry in own}
    for address in addresses:
        if address in mine:
            return address
    others = [address for address in dict.fromkeys(addresses) if address != host]
    meaning = f" ({', '.join(others)})" if others else ""
    raise LaunchError(
        f"--rendezvous names {host}{meaning}, which is no address of this host, where "
        f"--node-rank 0 runs. Name this host, or give --interface."
    )
