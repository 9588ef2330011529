"""A pytest plugin for .ci/run: a test that is skipped there has failed.

Two kinds may be skipped: those marked `gpu`, and those marked `real_data` where ATTENTIVELY_DATA
names no folder.
"""

import os

import pytest


def allowed(markers: set[str]) -> bool:
    """Return whether a test of these markers may be skipped on this machine."""
    return "gpu" in markers or ("real_data" in markers and not os.environ.get("ATTENTIVELY_DATA"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Turn a skip into a failure."""
    report = yield
    markers = {mark.name for mark in item.iter_markers()}
    if report.skipped and not hasattr(report, "wasxfail") and not allowed(markers):
        report.outcome = "failed"
        report.longrepr = f"skipped, where nothing may be: {report.longrepr[2]}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Turn a module that is skipped whole into a failure."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped, where nothing may be: {report.longrepr[2]}"
    return report
