"""The widgets of chapters 02, 03, 05 and 06 compute what the package computes."""

import itertools
import math
import random

import pytest
import sacrebleu
import torch
from widget_pages import broken, call, static_rows, status

from attentively.analysis.beam_trace import trace_beam
from attentively.checks.decoding import TableModel
from attentively.layers.recurrent_cells import GRUCell
from attentively.scoring.metrics import corpus_bleu
from attentively.tokens.byte_pair import learn_merges, merge_word
from attentively.tokens.vocabulary import END_ID


def minus(value: float, digits: int = 2) -> str:
    """Return a number as the book writes it, with a minus sign and without a negative zero."""
    text = f"{value:.{digits}f}"
    return text.replace("-", "" if float(text) == 0 else "−")


# merges

TEXTS = [
    "the:4 cat:2 at:2 hat:1 that:1",
    "low:5 lower:2 newest:6 widest:3",
    "aaaa:3 aaa baab ab:2",
    "été:2 ÉTÉ naïve:3 été 🍎🍎:2 \ufb01n",  # an accent in two characters, beyond 16 bits
]


def counted(text: str) -> dict[str, int]:
    """Return words with their counts."""
    counts: dict[str, int] = {}
    for item in text.split():
        word, _, count = item.partition(":")
        counts[word] = counts.get(word, 0) + int(count or 1)
    return counts


def compare_merges(page):
    """The merges, in their order, and the segmentation are those of the package."""
    for text in TEXTS:
        steps = page.evaluate(
            "(text) => { const { learn, count } = Attentively.widgets.merges;"
            " return learn(count(text)); }",
            text,
        )
        merges = learn_merges(counted(text), 1000)
        assert [tuple(step["pairs"][0]["pair"]) for step in steps[:-1]] == merges
        for done, step in enumerate(steps):
            segmented = [merge_word(word, merges[:done]) for word in counted(text)]
            assert [word["pieces"] for word in step["words"]] == segmented
            for word in ("chat", "lowest", "baaaaab", "étés🍎"):
                expected = merge_word(word, merges[:done])
                assert call(page, "merges", "segment", word, merges[:done]) == expected
    corpus = "the:4 cat:2 at:2 hat:1 that:1 a:b low:0"
    assert dict(page.evaluate(f"() => [...Attentively.widgets.merges.count('{corpus}')]")) == {
        **counted(TEXTS[0]),
        "a:b": 1,
        "low:0": 1,
    }


def test_merges(show):
    page = show("merges")
    compare_merges(page)
    merge = page.get_by_role("button", name="Merge", exact=True)
    for _ in range(4):
        merge.press("Enter")
    assert status(page) == (
        "4 of 6 merges. The vocabulary has 5 characters and 4 merged subwords. The next merge is "
        "h + at, which occurs 1 time, chosen by the rule for equal counts. "
        "chat is segmented as c h at."
    )
    page.get_by_label("Words and their counts").fill("the:4 cat:2 at:2 hat:3 that:1")
    assert status(page).endswith(
        "The next merge is c + at, which occurs 2 times. chat is segmented as c hat."
    )
    page.get_by_role("button", name="Undo").press("Space")
    assert status(page).startswith("3 of 6 merges.")
    page.get_by_role("button", name="All merges").press("Enter")
    assert "Each word is a single subword." in status(page)
    page.get_by_label("Word to segment").fill("")
    page.get_by_label("Words and their counts").fill("")
    assert status(page).startswith("The corpus is empty")


def test_the_static_merges_are_those_of_the_package():
    columns = [
        learn_merges(counted(text), 6) for text in (TEXTS[0], TEXTS[0].replace("hat:1", "hat:3", 1))
    ]
    expected = [
        [str(n), *(" ".join(pair) for pair in pairs)]
        for n, pairs in enumerate(zip(*columns, strict=True), 1)
    ]
    assert static_rows("02_subwords", "merges") == expected


@broken(
    "merges",
    ("b.count - a.count", "a.count - b.count"),
    ("rank(a.pair[0]) - rank(b.pair[0]) ||", ""),
    ("before + count", "before + 1"),
    ("b[0] < a[0]", "b[0] <= a[0]"),
    ("a.codePointAt(0) - b.codePointAt(0)", "(a < b) - (a > b)"),
)
def test_wrong_merges_are_seen(show, replaced):
    with pytest.raises(AssertionError):
        compare_merges(show("merges", replaced=replaced))


# bleu

REFERENCE = "le chat a bu tout le lait"
HYPOTHESES = [
    "le le chat a bu le",
    "le le le le le le le",
    "le chat a bu",
    "le chat a bu tout le",
    "le chat a tout bu le lait",
    "le chat",
    "un chien",
    "",
    REFERENCE + " " + REFERENCE,
]


def unsmoothed(hypothesis: str) -> float:
    """Return BLEU without smoothing."""
    scorer = sacrebleu.BLEU(tokenize="none", smooth_method="none")
    return scorer.corpus_score([hypothesis], [[REFERENCE]]).score


def compare_bleu(page):
    """Score, precisions, penalty and lengths are those of the package, or of sacreBLEU."""
    for hypothesis in HYPOTHESES:
        expected = corpus_bleu([hypothesis], [REFERENCE], str.split)
        got = call(page, "bleu", "score", hypothesis, REFERENCE)
        assert got["score"] == pytest.approx(expected.score)
        assert got["smoothed"] == pytest.approx(expected.precisions)
        assert got["brevityPenalty"] == pytest.approx(expected.brevity_penalty)
        assert (got["c"], got["r"]) == (expected.hypothesis_length, expected.reference_length)
        assert got["unsmoothedScore"] == pytest.approx(unsmoothed(hypothesis), abs=1e-9)


def test_bleu(show):
    page = show("bleu")
    compare_bleu(page)
    marked = page.locator(".widget-hit")
    assert " ".join(marked.all_inner_texts()) == "le le chat a bu le chat a bu le"
    assert page.locator(".widget-clipped").all_inner_texts() == ["le"]
    assert status(page) == (
        "BLEU is 45.5, with or without smoothing. The hypothesis has 6 words and the reference 7, "
        "so the brevity penalty is 0.846. Clipped, because the reference has fewer: le."
    )
    page.get_by_label("Show").select_option("4-grams")
    assert marked.all_inner_texts() == ["le chat a bu"] * 2
    page.get_by_label("Hypothesis").fill("le chat a tout bu le lait")
    assert status(page).startswith("BLEU is 33.4 (0.0 without smoothing).")
    label = page.locator(".widget svg").get_attribute
    assert "p₄ = 0/4 → 1/8: 12.5" in label("aria-label")
    page.get_by_label("Smoothing").press("Space")
    assert label("aria-label").endswith("p₄ = 0/4: 0.0, BP: 1.000, BLEU: 0.0")
    page.get_by_label("Hypothesis").fill("")
    assert status(page).startswith("BLEU is 0.0, with or without smoothing.")


def test_the_static_scores_are_those_of_the_package():
    for hypothesis, *cells in static_rows("06_scoring_and_the_bottleneck", "bleu"):
        found = corpus_bleu([hypothesis], [REFERENCE], str.split)
        assert cells[4:] == [
            minus(found.brevity_penalty, 3),
            minus(found.score, 1),
            minus(unsmoothed(hypothesis), 1),
        ]
        for cell, precision in zip(cells[:4], found.precisions, strict=True):
            matches, total = map(int, cell.split("/"))
            assert precision == pytest.approx(100 * (matches or 1 / 2) / total)


@broken(
    "bleu",
    ("left.set(gram, rest - 1);", ""),
    ("credit /= 2;", ""),
    ("1 - r / c", "1 - c / r"),
    ("|| !plain[0]", ""),
)
def test_a_wrong_bleu_is_seen(show, replaced):
    with pytest.raises(AssertionError):
        compare_bleu(show("bleu", replaced=replaced))


# beam


def random_language(seed: int) -> dict[str, dict[str, float]]:
    """Return random probabilities of the words after each prefix of at most three words."""
    generator = random.Random(seed)
    prefixes = [" ".join(each) for n in range(4) for each in itertools.product("ab", repeat=n)]
    table = {}
    for prefix in prefixes:
        chances = [generator.random() for _ in range(3)]
        table[prefix] = {
            word: chance / sum(chances)
            for word, chance in zip(("a", "b", "<end>"), chances, strict=True)
        }
    return table


def searched(language, beam_size: int, alpha: float):
    """Return the trace of the package's search in a language of the script."""
    table = {
        prefix: {word.replace("<end>", "END"): p for word, p in row.items()}
        for prefix, row in language.items()
    }
    return trace_beam(TableModel(table), torch.tensor([[END_ID]]), 9, beam_size, alpha)


def words(ids: list[int]) -> str:
    return " ".join({4: "a", 5: "b"}[index] for index in ids)


def compare_beams(page):
    """Each step keeps the prefixes that the package keeps, and the results are equal."""
    own = page.evaluate("() => Attentively.widgets.beam.languages").values()
    for table in [*own, *map(random_language, range(5))]:
        for beam_size in (1, 2, 3, 4):
            for alpha in (0.0, 0.2, 1.0, 2.0):
                finished, steps = searched(table, beam_size, alpha)
                got = call(page, "beam", "search", table, beam_size, alpha)
                kept = [
                    {
                        words(each.ids): pytest.approx(each.log_probability, abs=1e-5)
                        for each in step
                        if each.log_probability > -math.inf
                    }
                    for step in steps[1:]
                ]
                assert [
                    {each["text"]: each["logProbability"] for each in step["beam"]}
                    for step in got[:-1]
                ] == kept
                assert [step["stopped"] for step in got] == [False] * len(kept) + [True]
                assert [each["text"] for each in got[-1]["finished"]] == [
                    words(each.ids) for each in finished
                ]
                assert [each["score"] for each in got[-1]["finished"]] == pytest.approx(
                    [each.score for each in finished], abs=1e-5
                )


def test_beam(show):
    page = show("beam")
    compare_beams(page)
    following = page.get_by_role("button", name="Next step")
    following.press("Enter")
    following.press("Enter")
    assert status(page) == "Step 2 of 3, k = 2: kept b b, a a; finished none; removed a b, b a."
    states = ("kept", "removed", "finished", "unseen")
    counts = [page.locator(f"circle.widget-{state}").count() for state in states]
    assert counts == [5, 2, 0, 4]
    page.get_by_role("button", name="Back").press("Space")
    assert status(page).startswith("Step 1 of 3, k = 2: kept a, b;")
    page.get_by_role("button", name="Whole search").press("Enter")
    assert status(page).endswith("the output is b b, with the probability 0.36.")
    assert page.locator(".widget-output").count() == 3
    page.get_by_role("slider", name="Beam size").press("ArrowLeft")
    assert status(page).endswith("the output is a a, with the probability 0.33.")
    page.get_by_label("Language").select_option("sentences of one to three words")
    page.get_by_role("slider", name="Beam size").press("ArrowRight")
    assert status(page).endswith("the output is a, with the probability 0.30.")
    for _ in range(10):
        page.get_by_role("slider", name="Length penalty").press("ArrowRight")
    assert status(page).endswith("the output is b b b, with the probability 0.24.")


def test_the_static_outputs_are_those_of_the_package(show):
    languages = show("beam").evaluate("() => Attentively.widgets.beam.languages")
    names = {"two words": "two", "one to three words": "varied"}
    for language, k, alpha, output, probability in static_rows("05_decoding", "beam"):
        best = searched(languages[names[language]], int(k), float(alpha)).finished[0]
        expected = words(best.ids), minus(math.exp(best.log_probability))
        assert (output, probability) == expected


@broken(
    "beam",
    ("length ** alpha", "length * alpha"),
    (
        "extensions.slice(0, beamSize).filter((each) => each.ended)",
        "extensions.filter((each) => each.ended)",
    ),
    ("!each.ended).slice(0, beamSize)", "!each.ended)"),
    ("finished.length === beamSize", "finished.length"),
)
def test_a_wrong_beam_is_seen(show, replaced):
    with pytest.raises(AssertionError):
        compare_beams(show("beam", replaced=replaced))


# gates

SENTENCES = ["the", "dog", "sees", "the", "cat", ".", "the", "bird", "hears", "the", "mouse"]


def gru_steps(page, sentence, entry=0, **forced):
    """Return gates and states of the package's cell; a forced gate is a large bias alone."""
    parameters = page.evaluate("() => Attentively.widgets.gates.parameters")
    inputs = page.evaluate("() => Attentively.widgets.gates.words")
    cell = GRUCell(3, 3).double()
    cell.load_state_dict(
        {name: torch.tensor(value, dtype=torch.float64) for name, value in parameters.items()}
    )
    for gate, value in forced.items():
        row = {"r": 0, "z": 3}[gate] + entry
        for name, parameter in cell.named_parameters():
            parameter.data[row] = (2 * value - 1) * 1e4 if name == "bias_ih" else 0
    hidden, steps = torch.zeros(1, 3).double(), []
    for word in sentence:
        x = torch.tensor([inputs[word]], dtype=torch.float64)
        gates = sum(cell.project(x, hidden))[0].sigmoid()
        hidden = cell(x, hidden)
        steps.append({"r": gates[:3].tolist(), "z": gates[3:6].tolist(), "h": hidden[0].tolist()})
    return steps


def compare_gates(page):
    """Gates and hidden states are those of the package's cell, also with a forced gate."""
    for entry in range(3):
        for forced in ({}, {"z": 0}, {"z": 1}, {"r": 0}, {"r": 1}, {"z": 0, "r": 1}):
            for sentence in (SENTENCES, ["cat", ".", "cat", "sees", ".", "hears", "dog", "bird"]):
                got = call(page, "gates", "run", sentence, {"entry": entry, **forced})
                expected = gru_steps(page, sentence, entry, **forced)
                for ours, theirs in zip(got, expected, strict=True):
                    for name, values in theirs.items():
                        assert ours[name] == pytest.approx(values, abs=1e-9)


def test_gates(show):
    page = show("gates")
    compare_gates(page)
    cells = page.locator(".widget-table tbody tr")
    assert cells.nth(4).inner_text().split() == ["cat", "0.50", "1.00", "−0.87", "0.87"]
    assert status(page) == "The last hidden state is (0.53, −0.46, 1.00)."
    entry, update, reset = (
        page.get_by_label(name)
        for name in ("Entry of the hidden state", "Update gate", "Reset gate")
    )
    update.select_option("1 everywhere")
    assert status(page).startswith("The last hidden state is (0.00, −0.46, 1.00). As computed,")
    update.select_option("0 everywhere")
    assert cells.nth(3).inner_text().split() == ["the", "0.50", "0.00", "0.00", "0.00", "0.87"]
    update.select_option("as computed")
    reset.select_option("0 everywhere")
    assert "This gate does not change entry 1 noticeably." in status(page)
    entry.select_option(index=1)
    reset.select_option("1 everywhere")
    assert cells.nth(5).inner_text().split()[4] == "−0.30"
    reset.select_option("as computed")
    entry.select_option(index=2)
    update.select_option("1 everywhere")
    assert status(page) == (
        "The last hidden state is (−0.53, −0.46, 0.00). As computed, it is (0.53, −0.46, 1.00). "
        "The change also reaches another entry: the subject."
    )
    page.get_by_label("Sentences").fill("the wolf sees")
    assert status(page).startswith("“wolf” is not a word of this example")


def test_the_static_gates_are_those_of_the_package(show):
    steps = gru_steps(show("gates"), SENTENCES)
    assert static_rows("03_recurrent_networks", "gates") == [
        [word, *map(minus, (step["z"][0], step["h"][0], step["r"][1], step["h"][1]))]
        for word, step in zip(SENTENCES, steps, strict=True)
    ]


@broken(
    "gates",
    ("(1 - z[i]) * candidate + z[i] * hidden[i]", "z[i] * candidate + (1 - z[i]) * hidden[i]"),
    ("reset * fromState[2 * SIZE + i]", "fromState[2 * SIZE + i]"),
    ("i === forced.entry", "true"),
    ("fromInput[first + i] + fromState[first + i]", "fromInput[first + i]"),
)
def test_a_wrong_gru_is_seen(show, replaced):
    with pytest.raises(AssertionError):
        compare_gates(show("gates", replaced=replaced))
