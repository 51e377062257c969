"""Fixtures of all tests of schedulers, and their logs in the report of a test that fails."""

import pytest
from grid_engine_cluster import grid_engine_cluster
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


@pytest.fixture(scope="session")
def grid_engine_of_session(tmp_path_factory):
    """Grid Engine, started when a test asks for it first."""
    with grid_engine_cluster(tmp_path_factory.mktemp("grid-engine")) as made:
        yield made


@pytest.fixture
def grid_engine(grid_engine_of_session):
    """Grid Engine with two idle nodes, n1 and n2; what a test leaves there is ended after it."""
    yield grid_engine_of_session
    grid_engine_of_session.tidy_up()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Add the logs of the scheduler to the report of a failure."""
    report = yield
    if report.failed:
        asked_for = (item.funcargs.get(name) for name in ("slurm", "grid_engine"))
        for scheduler in filter(None, asked_for):
            for name, text in scheduler.logs():
                report.sections.append((name, "\n".join(text.splitlines()[-LINES_OF_LOG:])))
    return report
