"""Which tests stay in one process when several run side by side."""

import re

from xdist.scheduler import LoadScopeScheduling


def shared(nodeid):
    """Return a name for what a test shares: the built site, an assignment, or its file.

    Where the parts of an assignment share nothing, a dot joins their names to the assignment's.
    """
    path, _, test = nodeid.partition("::")
    if path.startswith("tests/site/"):
        return "tests/site"
    assignment = re.search(r"[\[-](\d\d_[a-z][\w.]*?)(?=[\]-])", test)
    if assignment and path.startswith("tests/exercises/"):
        return f"tests/exercises {assignment[1]}"
    return f"{path} {assignment[1]}" if assignment else path


class Sharing(LoadScopeScheduling):
    """Hand out tests by what they share."""

    def _split_scope(self, nodeid):
        return shared(nodeid)
