"""The error of a job that cannot be started."""


class LaunchError(Exception):
    """The job cannot be started as asked; the text says what to do. Exit code 2."""
