"""From the command line to a plan: which ranks run where, with which variables and devices.

Nothing here starts a process of the job; `--dry-run` shows the result.
"""
