"""Start a script as several ranks, watch them and end them together: the command `tarantella`.

The way from a command line to running processes is a chain of values:

    argv -> LaunchSpec (what the user asked for, validated)
         -> LaunchPlan (per rank: host, argument list, environment)
         -> execute    (processes, output, exit code)

Only `execute` has effects, and `--dry-run` prints the very plan that it consumes.
"""
