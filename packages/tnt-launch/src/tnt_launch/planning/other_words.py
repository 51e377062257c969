"""Words that other launchers take, and what is meant by them here."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_PYTHON = re.compile(r"python[0-9.]*")
_WITH_VALUE = ("-X", "-W")  # options of Python that have one, before -m, -c or the script

# What to type here, and the words for it that are common in scripts: of mpirun (Open MPI, MPICH),
# srun, torchrun, horovodrun and accelerate.
_WORDS = {
    "-n N": "--ntasks-per-node --tasks-per-node -npernode -ppn --map-by -map-by",
    "-np N": "--ntasks",
    "-N N": "--nodes",
    "-H a:2,b:2": "--hosts -hosts -host --nodelist -w",
    "--hostfile PATH": "-hostfile --machinefile -machinefile -f",
    "--rendezvous HOST:PORT": "--master-addr --master-port --rdzv-endpoint --main-process-ip "
    "--main-process-port",
    "--node-rank K": "--machine-rank",
    "--nnodes N, with --node-rank and --rendezvous": "--num-machines",
    "-x TNT_NUM_THREADS=N for the threads of a rank, -- -c CODE for code": "-c --cpus-per-task",
    "-x NAME=VALUE": "-genv --genv -env --env",
    "-x TNT_TIMELINE=PATH": "--timeline-filename",
    "--output-dir DIR": "--log-dir --output-filename",
    "--fusion-threshold KB": "--fusion-threshold-mb",
    "--interface NAME": "--network-interface --network-interfaces",
    "--timeout SECONDS": "--start-timeout",
    "--log-level DEBUG": "--verbose -v",
    "nothing, it is not needed": "--rdzv-backend --rdzv-id --standalone --tee --redirects --mpi "
    "--gloo --mca -mca --oversubscribe --allow-run-as-root --multi-gpu --use-cpu",
}


def advice_for_other_words(arguments: Sequence[str]) -> str:
    """Say what to type instead of the first word that is another launcher's, or nothing. Pure."""
    for argument in arguments:
        word = argument.partition("=")[0]
        for instead, words in _WORDS.items():
            if word.replace("_", "-") in words.split():
                return f"{word} is not an option of tarantella. Type {instead}."
    return ""


def split_interpreter(program: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split `python -u train.py` into Python with its options, and the script. Local."""
    # Other launchers want the word; a script of that name is meant if there is one.
    first = program[0] if program else ""
    if not _PYTHON.fullmatch(os.path.basename(first)) or len(program) == 1:
        return (), tuple(program)
    if "/" not in first and os.path.isfile(first):
        return (), tuple(program)
    end = 1
    while end < len(program) and program[end].startswith("-") and program[end] not in ("-m", "-c"):
        end += 2 if program[end] in _WITH_VALUE else 1
    return tuple(program[:end]), tuple(program[end:])
