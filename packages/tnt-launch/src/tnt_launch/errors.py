"""What can be wrong before any rank runs."""


class LaunchError(Exception):
    """The job cannot be started as asked; the text says what to do. Exit code 2."""
