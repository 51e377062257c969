"""Fixtures of all suites, and how many examples hypothesis tries."""

from hypothesis import settings

pytest_plugins = ["rank_pools"]

# A slow machine is no failure: no profile has a deadline per example.
settings.register_profile("usual", deadline=None)
settings.register_profile("short", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("usual")
