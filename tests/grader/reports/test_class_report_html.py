"""The class report: its numbers, and that text of students stays text."""

import re
from xml.etree import ElementTree

import pytest

from attentively_grader.course.course import Scores
from attentively_grader.reports.class_report_html import counts, histogram, render
from attentively_grader.reports.similarity import Alike

MOST = {"one": 60.0, "two": 40.0}
SCORES = {
    "ada": Scores({"one": 60.0, "two": 40.0}, MOST),
    "bo": Scores({"one": 0.0, "two": 10.0}, MOST),
    "cy": Scores({"one": 59.0, "two": 0.0}, MOST),
}


@pytest.mark.parametrize(
    ("share", "place"),
    [(0, 0), (0.01, 1), (0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (0.99, 4), (1.0, 5), (1.2, 5)],
)
def test_a_share_of_the_points_falls_into_one_bin(share, place):
    assert counts([share]) == [int(i == place) for i in range(6)]


def test_the_drawing_has_a_bar_for_each_bin_as_tall_as_its_count():
    found = histogram([0, 0, 1, 0.3])
    assert [bar["height"] for bar in found["bars"]] == [66.0, 0.0, 33.0, 0.0, 0.0, 33.0]
    assert found["said"] == ("0% of the points: 2, ≤ 50% of the points: 1, 100% of the points: 1")
    page = render("08", {"ada": Scores({"part <1>": 3.0}, {"part <1>": 4.0})})
    drawing = ElementTree.fromstring(re.search(r"<svg.*?</svg>", page, re.DOTALL)[0])
    bars = [(float(bar.get("y")), float(bar.get("height"))) for bar in drawing.iter("rect")]
    assert bars == [(80, 0), (80, 0), (80, 0), (14, 66), (80, 0), (80, 0)]
    assert drawing.find("title").text == ("part <1>, number of students: ≤ 75% of the points: 1")


def test_the_page_says_points_needs_and_hints():
    text = render("08", SCORES, [("di", "no notebook")], [Alike(("ada", "bo"), 0.93)])
    assert "Submissions graded: 3. Mean: 56.3 of 100 points." in text
    assert '<th scope="row">ada</th><td>60</td><td>40</td><td>100</td>' in text
    assert "<strong>one</strong> mean 39.7 of 60 points (66%)" in text
    assert "<strong>di</strong>: no notebook" in text
    assert "<strong>ada, bo</strong>: 93% in common" in text
    assert "None." not in text


def test_the_page_shows_who_was_late_and_what_waits_for_a_person():
    waits = frozenset({"two"})
    text = render("08", SCORES | {"di": Scores({"one": 9.0, "two": 0.0}, MOST, 4.0, waits)})
    assert 'two</th><th scope="col">late penalty</th><th scope="col">total</th></tr>' in text
    assert "maximum</th><td>60</td><td>40</td><td></td><td>100</td>" in text
    assert '<th scope="row">di</th><td>9</td><td>0?</td><td>-4</td><td>5</td>' in text
    assert '<th scope="row">ada</th><td>60</td><td>40</td><td></td><td>100</td>' in text
    assert "mean 16.7 of 40 points (42%)" in text  # of the three that are graded
    assert "waits for manual grading" in text
    nobody = {"di": Scores({"one": 9.0, "two": 0.0}, MOST, by_hand=waits)}
    assert "<strong>two</strong>" not in render("08", nobody)


def test_an_empty_class_has_a_page_too():
    text = render("08", {})
    assert "Submissions graded: 0." in text
    assert text.count("<p>None.</p>") == 2


def test_what_students_chose_is_text():
    evil = "<script>alert(1)</script>"
    scores = {evil: Scores({evil: 1.0}, {evil: 1.0})}
    text = render(evil, scores, [(evil, evil)], [Alike((evil,), 1.0)])
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 6
    assert not re.search(r"https?://", text)  # it needs no network
