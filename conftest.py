"""Fixtures of all suites, and how many examples hypothesis tries."""

pytest_plugins = ["process_of_tests", "rank_pools"]
