"""The table at the end of a run: what it counts, and what it leaves open."""

import pytest

from attentively_grader.course.course import Scores
from attentively_grader.reports.summary import table

MOST = {"one": 60.0, "a-long-name": 40.0}


def lines(**scores):
    return [line.split() for line in table("hw", scores)]


def test_means_are_of_the_totals_and_not_of_rounded_parts():
    third = {"ada": 100.0, "bo": 0.0, "cy": 0.0}
    rows = {
        name: Scores({"one": points, "a-long-name": points}, {"one": 100.0, "a-long-name": 100.0})
        for name, points in third.items()
    }
    *_, mean, hardest = lines(**rows)
    assert mean == ["mean", "33.3", "33.3", "66.7"]
    assert hardest[:5] == ["hardest", "part:", "one,", "mean", "33%"]


def test_a_single_student_has_no_mean():
    assert [line[0] for line in lines(ada=Scores(MOST, MOST))] == ["hw", "maximum", "ada"]


def test_coming_late_has_a_column_and_lowers_the_total():
    heading, _, ada, bo, mean, _ = lines(
        ada=Scores({"one": 60.0, "a-long-name": 10.0}, MOST, penalty=5.0),
        bo=Scores({"one": 2.0, "a-long-name": 0.0}, MOST, penalty=5.0),
    )
    assert heading == ["hw", "one", "a-long-name", "penalty", "total"]
    assert ada == ["ada", "60", "10", "-5", "65"]
    assert bo == ["bo", "2", "0", "-5", "0"]  # never below nothing
    assert mean == ["mean", "31", "5", "32.5"]


def test_what_waits_for_a_person_is_marked_and_not_called_hard():
    waits = frozenset({"a-long-name"})
    *_, ada, bo, mean, hardest, said = lines(
        ada=Scores({"one": 60.0, "a-long-name": 0.0}, MOST, by_hand=waits),
        bo=Scores({"one": 30.0, "a-long-name": 8.0}, MOST, by_hand=waits),
    )
    assert ada == ["ada", "60", "0?", "60"]
    assert bo == ["bo", "30", "8?", "38"]
    assert mean == ["mean", "45", "?", "49"]
    assert hardest[2] == "one,"
    assert said[-1] == "(2)"


def test_columns_stand_below_one_another():
    rows = [*table("hw", {"somebody": Scores(MOST, MOST), "bo": Scores(MOST, MOST)})]
    assert len({len(row) for row in rows[:-1]}) == 1


def test_a_long_title_continues_below_and_no_number_is_cut():
    titles = [f"Part {number} · The residual connection" for number in range(1, 9)]
    most = dict.fromkeys(titles, 1234.5)
    rows = [*table("14_multi_head_attention", {"a" * 40: Scores(most, most)})]
    assert rows[-1].split() == ["a" * 40, *["1234.5"] * 8, "9876"]
    assert rows[0].split()[:4] == ["14_multi_head_attention", "Part", "1", "·"]
    assert rows[1].split() == ["residual"] * 8
    assert rows[2].split() == ["connection"] * 8


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (Scores({"one": 3.0}, {"one": 4.0}), "3 of 4"),
        (Scores({"one": 3.0}, {"one": 4.0}, 5.0), "0 of 4, late penalty 5"),
        (
            Scores({"one": 3.0}, {"one": 4.0}, by_hand=frozenset({"one"})),
            "3 of 4, answers that wait for manual grading: 1",
        ),
    ],
)
def test_scores_say_what_they_are_made_of(scores, said):
    assert str(scores) == said
