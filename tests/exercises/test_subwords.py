"""The checks of 02_subwords, beyond what its bank of answers proves."""

from collections import Counter

import pytest
from assignments import Assignment
from notebook_tools import ROOT

from attentively.checks import CheckFailed, NotImplementedYet
from attentively.checks import subwords as checks
from attentively.checks.recordings import load_questions
from attentively.models.checkpoints import load_pretrained
from attentively.tokens import byte_pair
from attentively.tokens.vocabulary import BPETokenizer
from attentively_grader.course import notebooks

right = load_questions(Assignment("02_subwords").questions)


def test_answers_are_the_packages_in_all_cases():
    for cases, ours, packages in (
        (right.merge_cases, right.merge_pair, byte_pair.join),
        (right.learning_cases, right.learn_merges, byte_pair.learn_merges),
        (right.encoding_cases, right.encode_word, byte_pair.merge_word),
    ):
        for case in cases(thorough=True):
            inputs = case.inputs.values()
            assert ours(*inputs) == packages(*inputs), case.inputs


def test_pieces_prepared_for_a_student_are_the_librarys():
    library = load_pretrained(checks.MODEL).translator().src_tokenizer
    assert isinstance(library, BPETokenizer)
    prepared = checks._Pieces(right.piece_ids)
    for sentence in [*checks.SENTENCES, "  Don’t  go, it’s 3 < 4!  ", "L'été à <end> 猫.", ""]:
        assert prepared.encode(sentence) == library.encode(sentence)


def test_the_number_of_merges_that_a_message_names_is_right():
    assert len(checks._Pieces(None).merges) == 4881


def test_merges_of_bytes_name_each_piece_once():
    assert len(right.TEXT_MERGES) >= 50
    table = [bytes([byte]) for byte in range(256)]
    for one, other in right.TEXT_MERGES:
        table.append(table[one] + table[other])
    assert len(set(table)) == len(table)
    cut = [each for each in table[256:] if "�" in each.decode(errors="replace")]
    assert cut  # or no subword would hold half a character


# What only some mistakes meet


def test_an_unwritten_part_1_is_named_in_part_2():
    def count_pairs(words):
        raise NotImplementedError

    def learn_merges(word_counts, num_merges):
        return count_pairs([(list(word), n) for word, n in word_counts.items()])

    with pytest.raises(NotImplementedYet, match="count_pairs is not written"):
        checks.merges(learn_merges)


def test_a_half_written_tokenizer_is_not_written():
    class Half(right.CorrectedTokenizer):
        def encode(self, text):
            raise NotImplementedError

    with pytest.raises(NotImplementedYet, match="encode is not written"):
        checks.bug_hunt(Half)


def faulty_tokenizer(capsys):
    """Return the class that the notebook gives to mend."""
    cells = notebooks.read(ROOT / "solutions" / "02_subwords" / "02_subwords.ipynb").cells
    sources = {cell.id: cell.source for cell in cells}
    space = {}
    exec(sources["set-up-code"].replace("checks.ready()", ""), space)
    exec(sources["bug-hunt-faulty"], space)
    capsys.readouterr()
    return space["FaultyTokenizer"]


def test_the_faulty_tokenizer_is_led_from_fault_to_fault(capsys):
    faulty = faulty_tokenizer(capsys)
    with pytest.raises(CheckFailed, match="missing in training and in encoding"):
        checks.bug_hunt(faulty)

    class Marked(faulty):
        def __init__(self, sentences, num_merges):
            super().__init__([f"▁{s}".replace(" ", " ▁") for s in sentences], num_merges)

        def encode(self, text):
            return super().encode(f"▁{text}".replace(" ", " ▁"))

        decode = right.CorrectedTokenizer.decode

    with pytest.raises(CheckFailed, match="not applied in the order"):
        checks.bug_hunt(Marked)

    class InOrder(Marked):
        __init__ = right.CorrectedTokenizer.__init__

    with pytest.raises(CheckFailed, match="“the” and “The” have the same ids"):
        checks.bug_hunt(InOrder)


# What the notebook shows


def test_documentation_is_text_in_three_parts_that_share_no_line_number():
    train, validation, test = checks.documentation()
    assert len(train) > 5 * len(validation) > 0
    assert len(test) > 100
    words = Counter(" ".join(train).split())
    assert words["the"] > 100
    assert all(word.isalpha() for word in words)


def test_the_translator_is_fed_by_the_students_pieces():
    model, pieces = checks.translator(right.piece_ids)
    assert pieces("The cat") == ["▁The", "▁cat"]
    assert checks.translate(model, checks.SENTENCES[:1], beam_size=1)[0].text.startswith("Le chat")
    model, pieces = checks.translator(lambda words, merges, ids, unknown_id: [ids["▁The"]])
    assert pieces("The cat") == ["▁The"]


def test_ready_translates(capsys):
    checks.ready()
    assert "Le chat a bu le lait" in capsys.readouterr().out
