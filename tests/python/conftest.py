"""What holds for all tests.

Nothing is reported to anybody ([offline]), and a failing test shows beside its own output the end of the log of each
app that still runs.
"""

from collections.abc import Generator

import pytest

import offline  # First: programs read their environment when they are imported.
from gui import logs


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the logs to the report; the apps of fixtures are still there."""
    report = yield
    if report.failed:
        report.sections.extend(logs.tails())
    return report
