"""The libraries whose ranks are each on a host of its own, and how they are started there."""

from __future__ import annotations

import ctypes
import hashlib
import os
from pathlib import Path

from benchmarks.allreduce.libraries import OURS, OVER_GPI2, LibrarySpec
from benchmarks.linked_hosts import DEVICE, Hosts, address_of

# Each namespace gets a host name of its own: otherwise an MPI takes both for one host, and uses
# shared memory.
REMOTE_SHELL = """#!/bin/sh
# Instead of ssh: [options] address command...
while [ "${{1#-}}" != "$1" ]; do shift; done
address=$1; shift
if [ "$address" = {addresses[0]} ]; then name={names[0]}; else name={names[1]}; fi
exec ip netns exec $name unshare --uts sh -c "hostname $name; $*"
"""


def libraries_across(hosts: Hosts) -> tuple[LibrarySpec, ...]:
    """Ours over both engines, and what others would use: TCP."""
    shell = hosts.folder / "remote_shell"
    addresses = tuple(address_of(host) for host in range(len(hosts.names)))
    shell.write_text(REMOTE_SHELL.format(addresses=addresses, names=hosts.names))
    shell.chmod(0o755)
    places = ",".join(f"{address}:1" for address in addresses)
    openmpi = (
        "{bin}/mpiexec", "--allow-run-as-root", "--host", places, "--bind-to", "none",
        "--prtemca", "plm_ssh_agent", str(shell), "--mca", "pml", "ob1",
        "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", DEVICE, "-n", "{n}",
    )  # fmt: skip
    mpich = (
        "{bin}/mpiexec", "-hosts", ",".join(addresses), "-ppn", "1", "-iface", DEVICE,
        "-launcher", "ssh", "-launcher-exec", str(shell), "-n", "{n}",
    )  # fmt: skip
    from_first = (str(shell), addresses[0])
    # MPICH is built with UCX, which would take both for one host whatever their names are.
    only_tcp = {"UCX_TLS": "tcp,self"}
    return (
        ours(OURS, "ucx", hosts),
        *([ours(OVER_GPI2, "gpi2", hosts)] if has_gpi2() else []),
        LibrarySpec("Open MPI", "openmpi", "with_mpi", (*from_first, *openmpi)),
        LibrarySpec("MPICH", "mpich", "with_mpi", (*from_first, *mpich), variables=only_tcp),
    )


def has_gpi2() -> bool:
    """Whether there is one; says so if not."""
    try:
        ctypes.CDLL(os.environ.get("TNT_GPI2_LIBRARY", "libGPI2.so"))
    except OSError as missing:
        print(f"{OVER_GPI2}: left out ({missing})")
        return False
    return True


def ours(name: str, transport: str, hosts: Hosts) -> LibrarySpec:
    """Of our library, over one of its engines."""

    def variables_of(rank: int, _: int, path: Path) -> dict[str, str]:
        job_id = hashlib.sha256(bytes(path)).hexdigest()[:16]
        return {**hosts.rank_variables(rank, job_id), "TNT_TRANSPORT": transport}

    prefixes = tuple(hosts.prefix(rank) for rank in range(len(hosts.names)))
    return LibrarySpec(name, "", "with_tnt", variables_of=variables_of, prefixes=prefixes)
