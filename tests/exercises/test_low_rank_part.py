"""The part on low-rank updates: its bank, and that each known mistake is named."""

import pytest
from examination import examine
from low_rank_answers_19 import RIGHT, WRONG

from attentively.checks import Part
from attentively.checks.heads_for_other_tasks import low_rank

pytestmark = pytest.mark.usefixtures("unchecked")
PART = Part(1, "a low-rank update", ("LowRankLinear", "merged_weight", "plan"), low_rank.low_rank)


def test_answers_get_what_they_should():
    found = examine(PART, RIGHT, WRONG)
    if found.faults:
        pytest.fail("\n".join(found.faults), pytrace=False)
    said = [" ".join(message.split()) for message in found.messages]
    known = [*low_rank._UPDATED_WAYS]
    known += [twin.diagnosis for twin in [*low_rank.MERGED_TWINS, *low_rank.PLAN_TWINS]]
    assert [each for each in known if not any(each in message for message in said)] == []
