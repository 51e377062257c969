"""The table of `TNT_*` variables; `grammar.py` says how their values are written."""

# Written by tools/write_environment.py from environment.toml.
# fmt: off
# ruff: noqa: E501

from tnt_launch.planning.grammar import (
    Boolean,
    Integer,
    IntegerOrAuto,
    Path,
    Seconds,
    Variable,
    Word,
)
from tnt_launch.planning.kinds import Counts, HostAndPort, Option, Text

TRANSPORT = Variable("TNT_TRANSPORT", Word(("auto", "shm", "gpi2", "ucx")), "auto")
TIMEOUT_S = Variable("TNT_TIMEOUT_S", Seconds(), 600)
GRACE_S = Variable("TNT_GRACE_S", Seconds(), 20)
STALL_S = Variable("TNT_STALL_S", Seconds(), 5)
STALL_REPORT_S = Variable("TNT_STALL_REPORT_S", Seconds(), None)
ALLREDUCE_ALGORITHM = Variable("TNT_ALLREDUCE_ALGORITHM", Word(("auto", "one_shot", "two_shot", "recursive_doubling", "halving_doubling", "pipelined")), "auto")
SUM_TREE = Variable("TNT_SUM_TREE", Counts(), None)
GPI2_LIBRARY = Variable("TNT_GPI2_LIBRARY", Path(may_be_blank=True), None)
GPI2_PORT = Variable("TNT_GPI2_PORT", Integer(minimum=1024, maximum=64511), None)
UCX_LIBRARY = Variable("TNT_UCX_LIBRARY", Path(may_be_blank=True), None)
UCX_RDMA = Variable("TNT_UCX_RDMA", Word(("auto", "on", "off")), "auto")
CUDA_LIBRARY = Variable("TNT_CUDA_LIBRARY", Path(may_be_blank=True), None)
GPU_SUMS = Variable("TNT_GPU_SUMS", Word(("auto", "host", "ipc")), "auto")
RENDEZVOUS = Variable("TNT_RENDEZVOUS", HostAndPort(), None)
JOB_SECRET = Variable("TNT_JOB_SECRET", Text(16), None)
INTERFACE = Variable("TNT_INTERFACE", Text(), None)
FUSION_THRESHOLD_KB = Variable("TNT_FUSION_THRESHOLD_KB", IntegerOrAuto(), 32)
FUSION_THRESHOLD = Variable("TNT_FUSION_THRESHOLD", IntegerOrAuto(), None)
WIRE_DTYPE = Variable("TNT_WIRE_DTYPE", Word(("none", "bfloat16", "float16")), "none")
CHECK_STEPS = Variable("TNT_CHECK_STEPS", Boolean(), False)
EXPLAIN_STEPS = Variable("TNT_EXPLAIN_STEPS", Boolean(), False)
LANES = Variable("TNT_LANES", Integer(minimum=1), None)
STEP_HASHES = Variable("TNT_STEP_HASHES", Path(), None)
MOVE_WEIGHTS = Variable("TNT_MOVE_WEIGHTS", Boolean(), False)
TIMELINE = Variable("TNT_TIMELINE", Path(), None)
LOG_LEVEL = Variable("TNT_LOG_LEVEL", Word(("DEBUG", "INFO", "WARNING", "ERROR")), "WARNING")
LOG_ON_ALL_DEVICES = Variable("TNT_LOG_ON_ALL_DEVICES", Boolean(), False)
OUTPUT_ON_ALL_DEVICES = Variable("TNT_OUTPUT_ON_ALL_DEVICES", Boolean(), False)
TENSORBOARD_ON_ALL_DEVICES = Variable("TNT_TENSORBOARD_ON_ALL_DEVICES", Boolean(), None)
GPUS_PER_NODE = Variable("TNT_GPUS_PER_NODE", Integer(), None)
NUM_THREADS = Variable("TNT_NUM_THREADS", Integer(minimum=1), None)

# What describes a rank belongs to the launcher: what it finds there is replaced.
JOB_VARIABLES = ("TNT_RANK", "TNT_SIZE", "TNT_LOCAL_RANK", "TNT_LOCAL_SIZE", "TNT_NODE_RANK", "TNT_NUM_NODES", "TNT_JOB_ID", "TNT_RESTART_COUNT", "TNT_SCHEDULER_JOB", "TNT_RANK_PROCESS")
ALL_NAMES = (*JOB_VARIABLES, "TNT_TRANSPORT", "TNT_TIMEOUT_S", "TNT_GRACE_S", "TNT_STALL_S", "TNT_STALL_REPORT_S", "TNT_ALLREDUCE_ALGORITHM", "TNT_SUM_TREE", "TNT_GPI2_LIBRARY", "TNT_GPI2_PORT", "TNT_UCX_LIBRARY", "TNT_UCX_RDMA", "TNT_CUDA_LIBRARY", "TNT_GPU_SUMS", "TNT_RENDEZVOUS", "TNT_JOB_SECRET", "TNT_INTERFACE", "TNT_FUSION_THRESHOLD_KB", "TNT_FUSION_THRESHOLD", "TNT_WIRE_DTYPE", "TNT_CHECK_STEPS", "TNT_EXPLAIN_STEPS", "TNT_LANES", "TNT_STEP_HASHES", "TNT_MOVE_WEIGHTS", "TNT_TIMELINE", "TNT_LOG_LEVEL", "TNT_LOG_ON_ALL_DEVICES", "TNT_OUTPUT_ON_ALL_DEVICES", "TNT_TENSORBOARD_ON_ALL_DEVICES", "TNT_GPUS_PER_NODE", "TNT_NUM_THREADS")

USER_VARIABLES = (TRANSPORT, TIMEOUT_S, GRACE_S, STALL_S, STALL_REPORT_S, ALLREDUCE_ALGORITHM, SUM_TREE, GPI2_LIBRARY, GPI2_PORT, UCX_LIBRARY, UCX_RDMA, CUDA_LIBRARY, GPU_SUMS, RENDEZVOUS, JOB_SECRET, INTERFACE, FUSION_THRESHOLD_KB, FUSION_THRESHOLD, WIRE_DTYPE, CHECK_STEPS, EXPLAIN_STEPS, LANES, STEP_HASHES, MOVE_WEIGHTS, TIMELINE, LOG_LEVEL, LOG_ON_ALL_DEVICES, OUTPUT_ON_ALL_DEVICES, TENSORBOARD_ON_ALL_DEVICES, GPUS_PER_NODE, NUM_THREADS)
OPTIONS = {
    "TNT_TIMEOUT_S": Option("--timeout", "communication", "longest wait of a collective operation (default: 600)", "SECONDS"),
    "TNT_GRACE_S": Option("--grace", "signals and restarts", "time that ranks have to save and leave after SIGTERM, SIGUSR1 or SIGUSR2 before they are killed (default: 20)", "SECONDS"),
    "TNT_INTERFACE": Option("--interface", "hosts", "network interface, its address or its network, through which hosts exchange data (default: the one by which they are reached)", "NAME"),
    "TNT_FUSION_THRESHOLD_KB": Option("--fusion-threshold", "communication", "fuse gradients into buckets of at least this size; unit kB = 1024 bytes; 0 turns fusion off; auto: measure (default: 32)", "KB"),
    "TNT_WIRE_DTYPE": Option("--wire-dtype", "communication", "type that float32 gradients are rounded to while they travel (default: none)"),
    "TNT_CHECK_STEPS": Option("--check-steps", "exactness", "also run the first step of each kind serially, on a few rows, and compare"),
    "TNT_EXPLAIN_STEPS": Option("--explain-steps", "exactness", "show what ranks exchange in each kind of step, as a table"),
    "TNT_LANES": Option("--lanes", "exactness", "cut every batch into V lanes, which ranks share evenly: then weights, losses and metrics have the same bits on any number of ranks that can share them (default: one lane for each rank)", "V"),
    "TNT_LOG_LEVEL": Option("--log-level", "messages and output", "lowest level of messages that are shown (default: WARNING)"),
    "TNT_LOG_ON_ALL_DEVICES": Option("--log-on-all-devices", "messages and output", "show the messages of every rank, not only of rank 0"),
    "TNT_OUTPUT_ON_ALL_DEVICES": Option("--output-on-all-devices", "messages and output", "show the output of every rank, each line with its rank, not only of rank 0"),
}
