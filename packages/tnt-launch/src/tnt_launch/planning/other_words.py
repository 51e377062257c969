"""Words that other launchers or earlier versions take, and what is meant by them here."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_PYTHON = re.compile(r"python[0-9.]*")
_WITH_VALUE = ("-X", "-W")  # options of Python that have one, before -m, -c or the script

# What to type here, and the words for it that are common in scripts: of mpirun (Open MPI, MPICH),
# srun, torchrun, horovodrun, accelerate and deepspeed; `--probe` was one of ours. Words of several
# parts are written with dashes there, or with underscores.
_WORDS = {
    "-n N": "--ntasks-per-node --tasks-per-node -npernode -ppn -perhost --map-by -map-by "
    "--num-gpus --num-accelerators --slots-per-host",
    "-np N": "--ntasks",
    "-N N": "--nodes --num-nodes",
    "-H a:2,b:2": "--hosts -hosts -host --nodelist -w --include",
    "--hostfile PATH": "-hostfile --machinefile -machinefile -f",
    "--rendezvous HOST:PORT": "--master-addr --master-port --rdzv-endpoint --main-process-ip "
    "--main-process-port",
    "--node-rank K": "--machine-rank --node_rank",
    "--nnodes N, with --node-rank and --rendezvous": "--num-machines",
    "--max-restarts K": "--max_restarts --reset-limit",
    "--min-ranks M": "--min-np --min-num-proc",
    '--ssh "ssh -p PORT -i PATH"': "--ssh-port --ssh-identity-file",
    "tarantella [options] -- python -m MODULE": "-m --module",
    '--python-interpreter "" for a program that is no script of Python': "--no-python --run-path",
    'keras.mixed_precision.set_global_policy("mixed_float16") in the script': "--mixed-precision",
    "gradient_accumulation_steps=K in the optimizer of the script": "--gradient-accumulation-steps",
    "-x TNT_NUM_THREADS=N for the threads of a rank, -- -c CODE for code": "-c --cpus-per-task",
    "-x TNT_NUM_THREADS=N": "--num-cpu-threads-per-process",
    "-x NAME=VALUE": "-genv --genv -env --env --export -genvlist -envlist",
    "-x TNT_TIMELINE=PATH": "--timeline-filename",
    "-x CUDA_VISIBLE_DEVICES=0,1": "--gpu-ids",
    "--no-gpu": "--cpu --use-cpu",
    "--bind-to core": "-bind-to --cpu-bind --bind-cores-to-rank --enable-cpu-affinity",
    "--report-bindings": "--display-map --display",
    "--output-on-all-devices": "--tag-output --label -l -prepend-rank --local-ranks-filter",
    "--output-dir DIR": "--log-dir --output-filename --output --enable-each-rank-log",
    "cd DIR before the command": "--wdir -wdir --chdir -D",
    "it after sbatch or salloc, which give the job its hosts": "--partition --account -A --time "
    "--gres --gpus --gpus-per-node --gpus-per-task --mem --qos --job-name -J --exclusive",
    "the options that the file has": "--config-file -configfile",
    "--fusion-threshold KB": "--fusion-threshold-mb",
    "--interface NAME": "--network-interface --network-interfaces -iface",
    "--timeout SECONDS": "--start-timeout",
    "--log-level DEBUG": "--verbose -v",
}

# Why a word can be left out, and words of which that is true.
_NEEDLESS = {
    "every step gives the serial result": "--probe",
    "tarantella does not need it": "--rdzv-backend --rdzv-id --rdzv-conf --standalone --tee "
    "--redirects --monitor-interval --start-method --role --mpi --gloo --mca -mca --pmixmca "
    "--oversubscribe --allow-run-as-root -genvall -envall --multi-gpu --same-network "
    "--dynamo-backend --kill-on-bad-exit -K --unbuffered -u --launcher --force-multi "
    "--no-local-rank",
}


_ADVICE = {
    **{f"Type {instead}.": words.split() for instead, words in _WORDS.items()},
    **{f"Leave it out: {reason}.": words.split() for reason, words in _NEEDLESS.items()},
}


def advice_for_other_words(arguments: Sequence[str]) -> str:
    """Say what to type instead of the first word that is another launcher's, or nothing. Pure."""
    for argument in arguments:
        if argument.endswith(".py"):  # what follows is the script's
            break
        word = argument.partition("=")[0]
        spellings = {word, word.replace("_", "-")}
        for advice, words in _ADVICE.items():
            if not spellings.isdisjoint(words):
                return f"{word} is not an option of tarantella. {advice}"
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
