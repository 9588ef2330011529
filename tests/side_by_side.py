"""Which tests stay in one process when several run side by side."""

import re

from xdist.scheduler import LoadScopeScheduling

FIRST = ("tests/site", "tests/notebooks/test_grading.py")
"""What takes longest, and starts first: the built site, and the course in which all is graded."""
ALONE = (
    "tests/book/test_on_a_device.py",
    "tests/site/test_site.py::test_every_page_from_a_folder",
)
"""Long tests that may run in several processes, after the first ones: by then the site is built."""
OWN_PAGES = re.compile(
    "tests/site/test_(accessibility|attention_|live_models|live_recurrent|paper_|widgets)"
)
"""Tests in a browser that make their own pages; the others share the built site."""


def assignment_of(test):
    """Return the name of the assignment that the id of a test holds, or nothing."""
    found = re.search(r"[\[-](\d\d_[a-z]\w*?)(?=[\]-])", test)
    return found and found[1]


def shared(nodeid):
    """Return a name for what a test shares: the site, the course, an assignment, or its file.

    The answers of an assignment are examined once for all files of tests/exercises/.
    """
    path, _, test = nodeid.partition("::")
    if OWN_PAGES.match(path):
        return path
    if nodeid.startswith(ALONE):
        return nodeid
    for whole in FIRST:
        if path.startswith(whole):
            return whole
    assignment = assignment_of(test)
    if assignment and path.startswith("tests/exercises/"):
        path = "tests/exercises"
    return f"{path} {assignment}" if assignment else path


class Sharing(LoadScopeScheduling):
    """Hand out tests by what they share."""

    def _split_scope(self, nodeid):
        return shared(nodeid)

    def _assign_work_unit(self, node):
        first = [scope for scope in FIRST if scope in self.workqueue]
        first += [scope for scope in self.workqueue if OWN_PAGES.match(scope)]
        first += [scope for scope in self.workqueue if scope.startswith(ALONE)]
        for scope in reversed(first):
            self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)
