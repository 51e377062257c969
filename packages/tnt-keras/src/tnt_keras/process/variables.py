"""The table of `TNT_*` variables; `grammar.py` says how their values are written."""

# Written by tools/write_environment.py from environment.toml.
# fmt: off
# ruff: noqa: E501

from tnt_keras.process.grammar import Boolean, Integer, IntegerOrAuto, Variable, Word

FUSION_THRESHOLD_KB = Variable("TNT_FUSION_THRESHOLD_KB", IntegerOrAuto(), 32)
FUSION_THRESHOLD = Variable("TNT_FUSION_THRESHOLD", IntegerOrAuto(), None)
WIRE_DTYPE = Variable("TNT_WIRE_DTYPE", Word(("none", "bfloat16", "float16")), "none")
CHECK_STEPS = Variable("TNT_CHECK_STEPS", Boolean(), False)
EXPLAIN_STEPS = Variable("TNT_EXPLAIN_STEPS", Boolean(), False)
PROBE = Variable("TNT_PROBE", Word(("error", "warn", "off")), None)
LOG_LEVEL = Variable("TNT_LOG_LEVEL", Word(("DEBUG", "INFO", "WARNING", "ERROR")), "WARNING")
LOG_ON_ALL_DEVICES = Variable("TNT_LOG_ON_ALL_DEVICES", Boolean(), False)
OUTPUT_ON_ALL_DEVICES = Variable("TNT_OUTPUT_ON_ALL_DEVICES", Boolean(), False)
TENSORBOARD_ON_ALL_DEVICES = Variable("TNT_TENSORBOARD_ON_ALL_DEVICES", Boolean(), None)
GPUS_PER_NODE = Variable("TNT_GPUS_PER_NODE", Integer(), None)

# What describes a rank belongs to the launcher: what it finds there is replaced.
JOB_VARIABLES = ("TNT_RANK", "TNT_SIZE", "TNT_LOCAL_RANK", "TNT_LOCAL_SIZE", "TNT_NODE_RANK", "TNT_NUM_NODES", "TNT_JOB_ID")
ALL_NAMES = (*JOB_VARIABLES, "TNT_TRANSPORT", "TNT_TIMEOUT_S", "TNT_STALL_S", "TNT_STALL_REPORT_S", "TNT_ALLREDUCE_ALGORITHM", "TNT_GPI2_LIBRARY", "TNT_GPI2_PORT", "TNT_UCX_LIBRARY", "TNT_UCX_RDMA", "TNT_RENDEZVOUS", "TNT_JOB_SECRET", "TNT_INTERFACE", "TNT_FUSION_THRESHOLD_KB", "TNT_FUSION_THRESHOLD", "TNT_WIRE_DTYPE", "TNT_CHECK_STEPS", "TNT_EXPLAIN_STEPS", "TNT_PROBE", "TNT_TIMELINE", "TNT_LOG_LEVEL", "TNT_LOG_ON_ALL_DEVICES", "TNT_OUTPUT_ON_ALL_DEVICES", "TNT_TENSORBOARD_ON_ALL_DEVICES", "TNT_GPUS_PER_NODE", "TNT_NUM_THREADS")
