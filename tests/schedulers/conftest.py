"""Fixtures of all tests of schedulers, and their logs in the report of a test that fails."""

import pytest
from slurm_cluster import slurm_cluster

LINES_OF_LOG = 60


@pytest.fixture(scope="session")
def slurm_of_session(tmp_path_factory):
    """SLURM, started when a test asks for it first."""
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as made:
        yield made


@pytest.fixture
def slurm(slurm_of_session):
    """SLURM with two idle nodes, n1 and n2; what a test leaves there is ended after it."""
    yield slurm_of_session
    slurm_of_session.tidy_up()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Add the logs of the scheduler to the report of a failure."""
    report = yield
    if report.failed:
        for scheduler in {item.funcargs.get(name) for name in ("slurm",)} - {None}:
            for name, text in scheduler.logs():
                report.sections.append((name, "\n".join(text.splitlines()[-LINES_OF_LOG:])))
    return report
