"""Fixtures of all suites."""

pytest_plugins = ["rank_pools"]
