"""Figures of pages that no benchmark measures: quotes, by reason and page."""

TIME_LIMITS = "a time limit or a default, which the code or the scheduler sets"
CONSTANTS = "a constant of the code, of which the sentence says what it does"
ASSUMPTIONS = "an input of the model or a bound, not its result"
GOALS = "a goal"
EXAMPLES = "output of an example, whose numbers are those of the reader's machine"
OTHERS = "a number of others, named in the sentence"
FORMULAS = "a formula: the s is not that of seconds"

EXEMPT = {
    TIME_LIMITS: {
        "docs/explanation/security.md": ["at most 60 s"],
        "docs/howto/debug_a_failing_rank.md": [
            "only after 30 s",
            "0.2 s to report",
            "SIGKILL 1.5 s later",
            "up to 10 s to end",
        ],
        "docs/howto/run_on_several_hosts.md": ["gone after 6 s"],
        "docs/howto/start_by_hand.md": ["wait 600 s"],
        "docs/howto/start_with_mpi.md": ["end within 10 s", "(600 s)", "after 30 s"],
        "docs/howto/survive_time_limits.md": ["after 20 s", "kills 30 s", "After 30 s"],
        "docs/howto/use_gpi2.md": ["at least 3 s"],
    },
    CONSTANTS: {
        "benchmarks/allreduce/README.md": ["takes 1.5 times as long"],
        "benchmarks/kernels/README.md": ["calls of 50 µs"],
        "docs/explanation/algorithms.md": ["70 us", "20 us", "1.4 GB/s", "0.15 ns"],
        "docs/explanation/input.md": ["after 10 ms, 20 ms"],
    },
    ASSUMPTIONS: {
        "benchmarks/simulate/README.md": [
            "update 3 %",
            "up to 8 s",
            "2 % of their time, 1 % with",
            "(5 s)",
            "are ready | 5 % | 10 % | 25 % | 50 % | 75 % | 90 % | 99 %",
            "10 Gbit/s and 20 us",
        ],
    },
    GOALS: {
        "benchmarks/allreduce/README.md": ["goals are 1.2 times", "8 bytes in 20 us"],
        "docs/explanation/performance.md": [
            "65 % of memcpy",
            "The goal is 85 %",
            "goal is at most 5 %",
        ],
    },
    EXAMPLES: {
        "docs/howto/run_on_more_ranks.md": ["latency 9 us, bandwidth 9.8 GB/s"],
        "docs/howto/see_the_timeline.md": ["communication 8.1 % of step, 92 % hidden"],
        "docs/howto/train_on_imagenet.md": [
            "161.2 s, 7958.1 samples/s, communication 8.1 % of steps, 92 % hidden"
        ],
    },
    OTHERS: {
        "docs/howto/train_on_imagenet.md": ["23.60 %", "23.74 %"],
    },
    FORMULAS: {"docs/explanation/performance.md": ["| 3 s | 2.5 s |"]},
}
