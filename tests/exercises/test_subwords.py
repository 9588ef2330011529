"""The checks of 02_subwords, beyond what its bank of answers proves."""

import builtins
from collections import Counter

import pytest
import right_answers_02 as right
import wrong_answers_02 as wrong
from notebook_tools import ROOT

from attentively.checks import CheckFailed, NotImplementedYet
from attentively.checks import subwords as checks
from attentively.models.checkpoints import load_pretrained
from attentively.tokens import byte_pair
from attentively.tokens.vocabulary import BPETokenizer
from attentively_grader.course import notebooks


def test_each_part_has_ten_wrong_answers_or_more():
    assert min(len(answers) for answers in wrong.WRONG.values()) >= 10


# What the checks compare with


def test_the_package_passes_where_it_is_compared_with():
    def merge_pair(pieces, pair):
        return byte_pair.join(pieces, pair)

    def learn_merges(word_counts, num_merges):
        return byte_pair.learn_merges(word_counts, num_merges)

    def encode_word(word, merges):
        return byte_pair.merge_word(word, merges)

    def piece_ids(words, merges, ids, unknown_id):
        return [ids.get(piece, unknown_id) for word in words for piece in encode_word(word, merges)]

    checks.pairs.check(right.count_pairs, merge_pair, thorough=True)
    checks.merges.check(learn_merges, thorough=True)
    checks.encoding.check(encode_word, piece_ids, thorough=True)


def test_pieces_prepared_for_a_student_are_the_librarys():
    library = load_pretrained(checks.MODEL).translator().src_tokenizer
    assert isinstance(library, BPETokenizer)
    prepared = checks._Pieces(library, right.piece_ids)
    for sentence in [*checks.SENTENCES, "  Don’t  go, it’s 3 < 4!  ", "L'été à <end> 猫.", ""]:
        assert prepared.encode(sentence) == library.encode(sentence)


def test_pieces_that_differ_only_in_the_trained_model_are_caught():
    def piece_ids(words, merges, ids, unknown_id):
        known = merges[:1000]
        return [ids.get(p, unknown_id) for word in words for p in right.encode_word(word, known)]

    with pytest.raises(CheckFailed, match="4,881 merges"):
        checks.encoding(right.encode_word, piece_ids)


def test_the_number_of_merges_that_a_message_names_is_right():
    library = load_pretrained(checks.MODEL).translator().src_tokenizer
    assert len(checks._Pieces(library, None).merges) == 4881


def test_merges_of_bytes_name_each_piece_once():
    merges = checks._byte_merges([*checks._TEXTS, *checks.SENTENCES], 60)
    assert len(merges) >= 50
    symbols = checks._symbols(merges)
    assert len(set(symbols)) == len(symbols)
    cut = [s for s in symbols[256:] if "�" in byte_pair.from_bytes(s)]
    assert cut  # or no piece would hold half a character


# The answers that the checks take for known, worked out again


def test_the_planted_shares_are_those_of_another_method():
    for words, merges, fewest, expected, mistakes in [*checks._SHARES, *checks._MORE_SHARES]:
        assert right.rare_share_by_sets(words, merges, fewest) == pytest.approx(expected)
        assert len({expected, *mistakes.values()}) == 1 + len(mistakes)
        assert set(mistakes) <= set(checks._SHARE_MISTAKES)


def test_the_planted_sizes_are_those_of_another_method():
    for inputs, expected, mistakes in [*checks._CHOICES, *checks._MORE_CHOICES]:
        size, pieces = right.choose_size_by_prefixes(**inputs)
        assert (size, pytest.approx(pieces, abs=1e-4)) == expected
        assert expected not in mistakes
        assert set(mistakes.values()) <= set(checks._CHOICE_MISTAKES)
    named = {name for _, _, mistakes in checks._CHOICES for name in mistakes.values()}
    assert named == set(checks._CHOICE_MISTAKES)


# What only some mistakes meet


def test_a_tie_told_otherwise_is_named_with_both_pairs():
    said = checks._why_this_pair([("c", "b")], [("a", "b")], {"ba": 3, "cb": 3, "ab": 3})
    assert "At step 1, the pairs ('c', 'b') and ('a', 'b') have equal counts" in said


def test_a_pair_that_occurs_less_often_is_named_with_both_counts():
    said = checks._why_this_pair([("c", "d")], [("a", "b")], {"ab": 4, "cd": 1})
    assert "the pair ('c', 'd') has the count 1, and ('a', 'b') has 4" in said


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


def test_ids_that_are_no_ids_are_refused_whatever_is_raised():
    def decode_ids(ids, merges):
        if any(i not in range(256 + len(merges)) for i in ids):
            raise builtins.KeyError(ids)
        return right.decode_ids(ids, merges)

    with pytest.raises(CheckFailed, match="must raise ValueError") as caught:
        checks.round_trip(right.encode_text, decode_ids)
    assert "but it raises KeyError" in str(caught.value)


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
