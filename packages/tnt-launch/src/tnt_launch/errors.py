"""The errors of jobs: one that cannot be started, and one of which a rank has ended by itself."""


class LaunchError(Exception):
    """The job cannot be started as asked; the text says what to do. Exit code 2."""


class RankFailedError(RuntimeError):
    """A rank on which a function was launched has failed; the text is the launcher's report."""
