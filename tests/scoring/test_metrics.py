"""Scores agree with sacreBLEU, with paper and pencil, and with what they claim to measure."""

import functools
import math
import random
from collections import Counter

import pytest
import sacrebleu
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from attentively.data import tatoeba
from attentively.scoring import metrics
from attentively.scoring.metrics import (
    alignment_error_rate,
    chrf,
    corpus_bleu,
    count_ngrams,
    edit_distance,
    exact_match,
    perplexity,
    strongest_links,
    tokenize_13a,
    word_error_rate,
)

FRENCH = [
    "Je n'aime pas le lait.",
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "« Qu'est-ce que c'est ? » demanda-t-elle.",
    "Aujourd'hui, 3,14 millions d'euros ; hier, 1 000,50 €…",
    "Il est 10h30 — c'est-à-dire trop tard !",
    "Ça coûte 5-6 euros, n'est-ce pas ?",
    "Où étais-tu en 1999-2000 ?",
    "L’Œuvre d’Émile Zola (1886).",
    "de rien",
    "Elle a dit : « Oui », puis «non».",
]
NASTY = [
    "",
    " ",
    "   leading and trailing   ",
    "...",
    "a.b,c;d",
    "1,000.50",
    "1.,2",
    ".5 and 5. and ,5 and 5,",
    "3-4 a-b 3-a a-3 --",
    "-\n",
    "hy-\nphen",
    "trailing-\n",
    "line\nbreak\r\nand\ttab",
    "<skipped> segment<skipped>",
    "&quot;quoted&quot; &amp; &lt;b&gt;",
    "&amp;lt; &amp;amp;",
    "&&&",
    '{|}~[\\]^_` !"#$%&()*+:;<=>?@/',
    "it's 'quoted' o'clock",
    "price: $5.00/kg (50% off!)",
    "e-mail@example.org http://example.org/a?b=c&d=e",
    "٣.١٤ ½.5 ².",
    "emoji 🙂. 日本語。",
    "no\u00a0break\u202fspaces\u2009here",
    "\u0301a\u0301 combining",
    "\x1c\x1d\x85\u2028",
]
WORDS = ["le", "lait", "l'animal", "chat", "n'aime", "pas", ".", ",", "3,5", "«oui»", "est-ce"]


def nasty_text():
    alphabet = st.sampled_from(
        list("ab1É'’-.,;:&!\"<>()/ \n\t\u00a0…«»") + ["&lt;", "&amp;", "-\n"]
    )
    return st.lists(alphabet, max_size=20).map("".join)


def sentences(words=WORDS, **sizes):
    return st.lists(st.sampled_from(words), **sizes).map(" ".join)


def corpora(**sizes):
    """Hypotheses, and one reference for each."""
    pairs = st.lists(st.tuples(sentences(max_size=9), sentences(max_size=9)), min_size=1, **sizes)
    return pairs.map(lambda given: ([h for h, _ in given], [r for _, r in given]))


def assert_equals_sacrebleu(hypotheses, references, score=corpus_bleu):
    """`references` holds a string, or several, for each hypothesis."""
    alternatives = [[r] if isinstance(r, str) else r for r in references]
    ours = score(hypotheses, references)
    theirs = sacrebleu.corpus_bleu(hypotheses, list(zip(*alternatives, strict=True)))
    assert ours.score == pytest.approx(theirs.score, abs=1e-9)
    assert ours.precisions == pytest.approx(theirs.precisions, abs=1e-9)
    assert ours.brevity_penalty == pytest.approx(theirs.bp, abs=1e-9)
    assert ours.hypothesis_length == theirs.sys_len
    assert ours.reference_length == theirs.ref_len


# --- 13a ---


@pytest.mark.parametrize("text", FRENCH + NASTY)
def test_13a_equals_sacrebleu(text):
    assert tokenize_13a(text) == Tokenizer13a()(text.rstrip()).split()


@given(nasty_text() | st.text(max_size=30))
def test_13a_equals_sacrebleu_on_anything(text):
    assert tokenize_13a(text) == Tokenizer13a()(text.rstrip()).split()


def test_13a_by_hand():
    assert tokenize_13a("L'animal (fatigué) dort, 3,5-4 h.") == [
        *["L'animal", "(", "fatigué", ")", "dort", ",", "3,5", "-", "4", "h", "."]
    ]


# --- BLEU ---


def test_bleu_by_hand():
    # hypothesis: le le chat dort bien   reference: le chat dort très bien ici
    # 1-grams: "le" counts once: 4 of 5; 2-grams: le chat, chat dort: 2 of 4;
    # 3-grams: le chat dort: 1 of 3; 4-grams: 0 of 2, smoothed to half a match: 1/4.
    bleu = corpus_bleu(["le le chat dort bien"], ["le chat dort très bien ici"])
    assert bleu.precisions == pytest.approx([80, 50, 100 / 3, 25])
    assert bleu.brevity_penalty == pytest.approx(math.exp(1 - 6 / 5))
    mean = (4 / 5 * 2 / 4 * 1 / 3 * 1 / 4) ** (1 / 4)
    assert bleu.score == pytest.approx(100 * math.exp(-1 / 5) * mean)
    assert (bleu.hypothesis_length, bleu.reference_length) == (5, 6)


def test_count_ngrams():
    assert count_ngrams(["a", "b", "a", "b"], 2) == {("a", "b"): 2, ("b", "a"): 1}
    assert count_ngrams(["a"], 2) == Counter()


@given(corpora(max_size=5))
@example((["le chat"], ["le chat"]))  # no 3-gram at all
@example(([""], [""]))
@example((["le"], [""]))
@example(([""], ["le"]))
def test_bleu_equals_sacrebleu(corpus):
    assert_equals_sacrebleu(*corpus)


@given(st.lists(st.tuples(nasty_text(), nasty_text()), min_size=1, max_size=4))
def test_bleu_equals_sacrebleu_on_nasty_strings(pairs):
    hypotheses, references = map(list, zip(*pairs, strict=True))
    assert_equals_sacrebleu(hypotheses, references)


@given(st.lists(st.tuples(sentences(max_size=9), *[sentences(max_size=9)] * 3), min_size=1))
def test_bleu_equals_sacrebleu_with_three_references(rows):
    assert_equals_sacrebleu([row[0] for row in rows], [list(row[1:]) for row in rows])


def test_sentences_may_have_more_and_fewer_references():
    hypotheses = ["le chat dort bien ici", "il dort", "le lait est froid ce matin"]
    references = [["le chat dort ici", "un chat dort bien"], ["il dort bien"], "le lait est froid"]
    padded = [[*references[0]], [*references[1], None], [references[2], None]]
    ours = corpus_bleu(hypotheses, references)
    theirs = sacrebleu.corpus_bleu(hypotheses, list(zip(*padded, strict=True)))
    assert ours.score == pytest.approx(theirs.score, abs=1e-9)
    assert ours.reference_length == theirs.ref_len


def spoiled(sentence, rng):
    """Drop, repeat and swap words, as a bad translator would."""
    words = [w for w in sentence.split() for _ in range(rng.choice([0, 1, 1, 1, 1, 2]))]
    for i in range(len(words) - 1):
        if rng.random() < 0.1:
            words[i], words[i + 1] = words[i + 1], words[i]
    return " ".join(words)


@pytest.mark.parametrize("seed", range(5))
def test_bleu_equals_sacrebleu_on_spoiled_translations(seed):
    rng = random.Random(seed)
    references = rng.choices(FRENCH, k=97)
    hypotheses = [spoiled(reference, rng) for reference in references]
    assert 10 < corpus_bleu(hypotheses, references).score < 90  # neither trivial case
    assert_equals_sacrebleu(hypotheses, references)


def no_clipping(hypotheses, references, monkeypatch):
    """A broken twin: a repeated n-gram counts each time if the reference has it once."""

    class Unclipped(Counter):
        def __and__(self, other):
            return Counter({ngram: count for ngram, count in self.items() if ngram in other})

    monkeypatch.setattr(metrics, "Counter", Unclipped)
    return corpus_bleu(hypotheses, references)


def no_brevity_penalty(hypotheses, references, monkeypatch):
    """A broken twin: saying little costs nothing."""
    monkeypatch.setattr(metrics, "_brevity_penalty", lambda *lengths: 1.0)
    return corpus_bleu(hypotheses, references)


def no_smoothing(hypotheses, references, monkeypatch):
    """A broken twin: one order without a match makes the whole score zero."""
    exact = [100 * m / t if t else 0.0 for m, t in [(4, 5), (2, 4), (1, 3), (0, 2)]]
    monkeypatch.setattr(metrics, "_smoothed_precisions", lambda *counts: exact)
    return corpus_bleu(hypotheses, references)


def mean_of_sentences(hypotheses, references, monkeypatch):
    """A broken twin: the mean of the sentences' scores."""
    pairs = zip(hypotheses, references, strict=True)
    scores = [corpus_bleu([hypothesis], [reference]) for hypothesis, reference in pairs]
    return scores[0]._replace(score=sum(bleu.score for bleu in scores) / len(scores))


@pytest.mark.parametrize(
    ("broken", "hypotheses", "references"),
    [
        (no_clipping, ["le le le chat dort"], ["le chat dort bien ici"]),
        (no_brevity_penalty, ["le chat dort bien"], ["le chat dort bien ici"]),
        (no_smoothing, ["le le chat dort bien"], ["le chat dort très bien ici"]),
        (mean_of_sentences, FRENCH[:3], [FRENCH[0], FRENCH[1], FRENCH[3]]),
    ],
)
def test_broken_twins_differ_from_sacrebleu(broken, hypotheses, references, monkeypatch):
    assert_equals_sacrebleu(hypotheses, references)
    with pytest.raises(AssertionError):
        assert_equals_sacrebleu(
            hypotheses, references, lambda *corpus: broken(*corpus, monkeypatch=monkeypatch)
        )


@given(st.lists(sentences(min_size=4, max_size=9), min_size=1))
def test_a_perfect_translation_scores_100(references):
    assert corpus_bleu(references, references).score == pytest.approx(100)


@given(corpora(max_size=5), st.randoms(use_true_random=False))
def test_bleu_lies_in_range_and_knows_no_order(corpus, rng):
    bleu = corpus_bleu(*corpus)
    assert 0 <= bleu.score <= 100 + 1e-9
    assert 0 <= bleu.brevity_penalty <= 1
    shuffled = list(zip(*corpus, strict=True))
    rng.shuffle(shuffled)
    assert corpus_bleu(*map(list, zip(*shuffled, strict=True))) == bleu


@given(corpora(max_size=5))
def test_one_more_reference_never_lowers_a_precision(corpus):
    hypotheses, references = corpus
    more = corpus_bleu(hypotheses, [[reference, "le chat"] for reference in references])
    matches = corpus_bleu(hypotheses, references).precisions[0]
    assert more.precisions[0] >= matches  # of single words: those are never smoothed


def test_tokenize_is_the_callers_choice():
    hypotheses, references = ["n' aime pas , non"], ["n' aime pas, non"]
    assert corpus_bleu(hypotheses, references).score == pytest.approx(100)
    assert corpus_bleu(hypotheses, references, tokenize=str.split).score < 100
    letters = corpus_bleu(["abcde"], ["abcdef"], tokenize=list)
    penalty = math.exp(-1 / 5)
    assert letters.score == pytest.approx(100 * penalty)
    assert letters[1:] == ([100.0] * 4, pytest.approx(penalty), 5, 6)


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([], [], "the corpus is empty"),
        (["a"], ["a", "b"], r"the same length.* got .*'hypotheses': 1, 'references': 2"),
        (["a", "b"], [["a", "b"]], r"'hypotheses': 2, 'references': 1"),  # sacreBLEU's layout
        ("a sentence", ["a sentence"], "hypotheses must be a list of sentences.*'a sentence'"),
        (["a"], "a", "references must be a list of sentences"),
        (["a"], [[]], "'a' has no reference"),
    ],
)
def test_bleu_refuses(hypotheses, references, message):
    with pytest.raises(ValueError, match=message):
        corpus_bleu(hypotheses, references)


# --- chrF ---


def sacrebleus_chrf(hypotheses, references):
    """`references` holds a string, or several, for each hypothesis."""
    alternatives = [[r] if isinstance(r, str) else r for r in references]
    scorer = sacrebleu.CHRF()
    return scorer.corpus_score(hypotheses, list(zip(*alternatives, strict=True))).score


def assert_chrf_equals_sacrebleus(hypotheses, references, score=chrf):
    expected = sacrebleus_chrf(hypotheses, references)
    assert score(hypotheses, references) == pytest.approx(expected, abs=1e-9)


def test_the_docstring_says_sacrebleus_signature():
    scorer = sacrebleu.CHRF()
    scorer.corpus_score(["a"], [["a"]])
    for part in ("case:mixed", "eff:yes", "nc:6", "nw:0", "space:no"):
        assert part in chrf.__doc__
        assert part in str(scorer.get_signature())


def test_chrf_by_hand():
    # Without the space: lechat and lachatte. Of the hypothesis's 6, 5, 4, 3, 2 and 1 n-grams
    # these are shared: l e c h a t, ch ha at, cha hat, chat. The reference has 8, 7, 6, 5, 4, 3.
    precision = (6 / 6 + 3 / 5 + 2 / 4 + 1 / 3 + 0 / 2 + 0 / 1) / 6
    recall = (6 / 8 + 3 / 7 + 2 / 6 + 1 / 5 + 0 / 4 + 0 / 3) / 6
    expected = 100 * 5 * precision * recall / (4 * precision + recall)
    assert chrf(["le chat"], ["la chatte"]) == pytest.approx(expected)
    assert expected == pytest.approx(30.33, abs=0.01)


@given(corpora(max_size=5))
@example((["le chat"], ["le chat"]))  # all but the longest n-grams
@example((["ab"], ["abc"]))  # few orders count
@example(([""], [""]))
@example((["le"], [""]))
@example(([""], ["le"]))
@example((["", "le chat dort"], ["le lait", "le chat dort"]))
@example((["le chat dort", "le lait"], ["", "le lait"]))
def test_chrf_equals_sacrebleu(corpus):
    assert_chrf_equals_sacrebleus(*corpus)


@given(
    st.lists(st.tuples(nasty_text() | st.text(max_size=9), nasty_text()), min_size=1, max_size=4)
)
def test_chrf_equals_sacrebleu_on_nasty_strings(pairs):
    assert_chrf_equals_sacrebleus(*map(list, zip(*pairs, strict=True)))


@given(st.lists(st.tuples(sentences(max_size=5), *[sentences(max_size=5)] * 3), min_size=1))
def test_chrf_equals_sacrebleu_with_three_references(rows):
    assert_chrf_equals_sacrebleus([row[0] for row in rows], [list(row[1:]) for row in rows])


@pytest.mark.parametrize("seed", range(5))
def test_chrf_equals_sacrebleu_on_spoiled_translations(seed):
    rng = random.Random(seed)
    references = rng.choices(FRENCH, k=97)
    hypotheses = [spoiled(reference, rng) for reference in references]
    assert 10 < chrf(hypotheses, references) < 95
    assert_chrf_equals_sacrebleus(hypotheses, references)


@pytest.mark.real_data("tatoeba-en-fr")
def test_scores_equal_sacrebleus_on_real_sentences():
    rng = random.Random(0)
    references = [pair.tgt for pair in tatoeba.load("test")]
    hypotheses = [spoiled(reference, rng) for reference in references]
    assert_equals_sacrebleu(hypotheses, references)
    assert_chrf_equals_sacrebleus(hypotheses, references)
    others = rng.sample(references, len(references))
    alternatives = [list(pair) for pair in zip(references, others, strict=True)]
    assert_equals_sacrebleu(hypotheses, alternatives)
    assert_chrf_equals_sacrebleus(hypotheses, alternatives)


def recall_and_precision_alike(hypotheses, references, monkeypatch):
    """A broken twin: what is left out costs no more than what is too much."""
    monkeypatch.setattr(metrics, "CHRF_BETA", 1)
    return chrf(hypotheses, references)


def spaces_counted(hypotheses, references, monkeypatch):
    """A broken twin: a space is a character."""
    visible = [[text.replace(" ", "_") for text in texts] for texts in (hypotheses, references)]
    return chrf(*visible)


def every_order_counted(hypotheses, references, monkeypatch):
    """A broken twin: an order without n-grams scores nothing and counts."""
    one = metrics._Overlap(0, 1, 1)
    overlaps = metrics._overlaps
    monkeypatch.setattr(
        metrics,
        "_overlaps",
        lambda *texts: [o if o.hypothesis else one for o in overlaps(*texts)],
    )
    return chrf(hypotheses, references)


def mean_chrf_of_sentences(hypotheses, references, monkeypatch):
    """A broken twin: the mean of the sentences' scores."""
    pairs = zip(hypotheses, references, strict=True)
    scores = [chrf([hypothesis], [reference]) for hypothesis, reference in pairs]
    return sum(scores) / len(scores)


@pytest.mark.parametrize(
    ("broken", "hypotheses", "references"),
    [
        (recall_and_precision_alike, ["le chat dort"], ["le chat dort bien ici"]),
        (spaces_counted, ["le chat dort"], ["le chaton dort"]),
        (every_order_counted, ["chat"], ["chats"]),
        (mean_chrf_of_sentences, ["le chat dort", "oui"], ["le chat dort bien", "non"]),
    ],
)
def test_broken_chrfs_differ_from_sacrebleu(broken, hypotheses, references, monkeypatch):
    assert_chrf_equals_sacrebleus(hypotheses, references)
    with pytest.raises(AssertionError):
        assert_chrf_equals_sacrebleus(
            hypotheses, references, lambda *corpus: broken(*corpus, monkeypatch=monkeypatch)
        )


@given(corpora(max_size=5), st.randoms(use_true_random=False))
def test_chrf_lies_in_range_and_knows_no_order(corpus, rng):
    score = chrf(*corpus)
    assert 0 <= score <= 100 + 1e-9
    shuffled = list(zip(*corpus, strict=True))
    rng.shuffle(shuffled)
    assert chrf(*map(list, zip(*shuffled, strict=True))) == pytest.approx(score)


@given(st.lists(sentences(min_size=1, max_size=9), min_size=1))
def test_a_perfect_translation_has_a_chrf_of_100(references):
    assert chrf(references, references) == pytest.approx(100)


def test_a_wrong_ending_costs_less_in_chrf_than_in_bleu():
    reference = ["les petites maisons blanches sont très belles ici"]
    endings = ["les petits maisons blanche sont très beaux ici"]
    assert chrf(endings, reference) > 60
    assert corpus_bleu(endings, reference).score < 30


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([], [], "the corpus is empty"),
        (["a"], ["a", "b"], r"the same length.* got .*'hypotheses': 1, 'references': 2"),
        ("a sentence", ["a sentence"], "hypotheses must be a list of sentences.*'a sentence'"),
        (["a"], [[]], "'a' has no reference"),
    ],
)
def test_chrf_refuses(hypotheses, references, message):
    with pytest.raises(ValueError, match=message):
        chrf(hypotheses, references)


# --- word error rate ---


@functools.cache
def brute_force(one, other):
    """Return the edit distance by trying every edit at the beginning."""
    if not one or not other:
        return len(one) + len(other)
    if one[0] == other[0]:
        return brute_force(one[1:], other[1:])
    return 1 + min(
        brute_force(one[1:], other[1:]), brute_force(one[1:], other), brute_force(one, other[1:])
    )


def greedy(one, other):
    """A broken twin: words are compared place by place."""
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))


def tokens():
    return st.lists(st.sampled_from("abc"), max_size=6).map("".join)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "edits"),
    [
        ("kitten", "sitting", 3),  # k to s, e to i, and a g
        ("", "abc", 3),
        ("abc", "", 3),
        ("abc", "abc", 0),
        ("abcd", "bcde", 2),  # out at the front, in at the back
        ("ab", "ba", 2),  # to swap two is no single edit
    ],
)
def test_edit_distance_by_hand(hypothesis, reference, edits):
    assert edit_distance(hypothesis, reference) == edits
    assert edit_distance(list(hypothesis), list(reference)) == edits


@given(tokens(), tokens())
def test_edit_distance_equals_brute_force(one, other):
    assert edit_distance(one, other) == brute_force(one, other)


def test_place_by_place_is_not_enough():
    assert edit_distance("abcd", "bcde") == brute_force("abcd", "bcde") != greedy("abcd", "bcde")


@given(tokens(), tokens(), tokens())
def test_edit_distance_is_a_distance(one, two, three):
    assert edit_distance(one, two) == edit_distance(two, one)
    assert (edit_distance(one, two) == 0) == (one == two)
    assert edit_distance(one, three) <= edit_distance(one, two) + edit_distance(two, three)
    assert abs(len(one) - len(two)) <= edit_distance(one, two) <= max(len(one), len(two))
    assert edit_distance(three + one, three + two) == edit_distance(one, two)


def test_word_error_rate_by_hand():
    # chat for chien; "pas" left out; "bien" and "ici" too much; 4 + 5 words in the references.
    hypotheses = ["le chat dort bien ici", "je ne sais"]
    references = ["le chien dort", "je ne sais pas trop"]
    # the first: 1 substitution and 2 insertions; the second: 2 deletions
    assert word_error_rate(hypotheses, references) == pytest.approx(5 / 8)


def test_word_error_rate_is_no_mean_over_sentences():
    hypotheses, references = ["a", "a b c d e"], ["b", "a b c d e"]
    assert word_error_rate(hypotheses, references) == pytest.approx(1 / 6)
    each = [word_error_rate([h], [r]) for h, r in zip(hypotheses, references, strict=True)]
    assert sum(each) / 2 == pytest.approx(1 / 2)


def test_too_many_words_bring_the_rate_above_1():
    assert word_error_rate(["a b c d"], ["e"]) == 4
    assert word_error_rate(["a b", ""], ["", "a"]) == 3


def test_white_space_is_no_error():
    assert word_error_rate(["  le\u00a0chat  dort \n"], ["le chat dort"]) == 0


@given(corpora(max_size=5).filter(lambda corpus: any(corpus[1])))
def test_word_error_rate_properties(corpus):
    hypotheses, references = corpus
    rate = word_error_rate(hypotheses, references)
    words = sum(len(reference.split()) for reference in references)
    assert rate * words == pytest.approx(
        sum(brute_force(tuple(h.split()), tuple(r.split())) for h, r in zip(*corpus, strict=True))
    )
    assert word_error_rate(references, references) == 0
    assert word_error_rate([""] * len(references), references) == 1


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([], [], "the corpus is empty"),
        (["a"], ["a", "b"], r"'hypotheses': 1, 'references': 2"),
        ("a", ["a"], "hypotheses must be a list of sentences"),
        (["a", ""], ["", " "], "all references are empty"),
    ],
)
def test_word_error_rate_refuses(hypotheses, references, message):
    with pytest.raises(ValueError, match=message):
        word_error_rate(hypotheses, references)


# --- exact match ---


def test_exact_match():
    assert exact_match(["a b", "c", "d"], ["a b", "C", "d "]) == pytest.approx(1 / 3)
    assert exact_match(["a"], ["a"]) == 1.0


@pytest.mark.parametrize(("hypotheses", "references"), [([], []), (["a"], ["a", "b"]), ("a", "a")])
def test_exact_match_refuses(hypotheses, references):
    with pytest.raises(ValueError, match=r"corpus is empty|the same length|list of sentences"):
        exact_match(hypotheses, references)


# --- perplexity ---


@given(st.integers(1, 10_000))
def test_guessing_among_n_tokens_has_perplexity_n(n):
    assert perplexity(math.log(n)) == pytest.approx(n)


def test_perplexity_of_a_hopeless_model_is_infinite():
    assert perplexity(1000.0) == math.inf
    assert perplexity(math.inf) == math.inf


@pytest.mark.parametrize("loss", [-0.1, math.nan])
def test_perplexity_refuses(loss):
    with pytest.raises(ValueError, match=f"mean_loss={loss}"):
        perplexity(loss)


# --- strongest links ---


def test_each_target_word_is_linked_to_its_largest_weight():
    """Two target words, three source words: (source, target), as in the gold alignment."""
    weights = torch.tensor([[0.2, 0.1, 0.7], [0.5, 0.3, 0.2]])
    assert strongest_links(weights) == {(2, 0), (0, 1)}


def test_two_target_words_may_share_a_source_word():
    assert strongest_links(torch.tensor([[0.1, 0.9], [0.4, 0.6], [1.0, 0.0]])) == {
        (1, 0),
        (1, 1),
        (0, 2),
    }


def test_of_equal_weights_the_first_is_the_strongest():
    assert strongest_links(torch.full((2, 3), 1 / 3)) == {(0, 0), (0, 1)}


def test_the_links_of_an_alignment_drawn_as_weights_are_that_alignment():
    gold = {(4, 0), (0, 1), (2, 2)}
    weights = torch.zeros(3, 5)
    for source, target in gold:
        weights[target, source] = 1
    assert alignment_error_rate([strongest_links(weights)], [gold]) == 0


# --- alignment error rate ---


def links(max_size=7):
    return st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=max_size)


def test_alignment_error_rate_by_hand():
    # Two sentence pairs. A: 3 + 1 links, S: 2 + 1, and (1, 2) is possible only.
    predicted = [{(0, 0), (1, 2), (2, 1)}, {(0, 1)}]
    sure = [{(0, 0), (1, 1)}, {(0, 1)}]
    possible = [{(0, 0), (1, 1), (1, 2)}, {(0, 1)}]
    # |A ∩ S| = 1 + 1, |A ∩ P| = 2 + 1, |A| + |S| = 4 + 3
    assert alignment_error_rate(predicted, sure, possible) == pytest.approx(1 - 5 / 7)
    assert alignment_error_rate(predicted, sure) == pytest.approx(1 - 4 / 7)


def test_alignment_error_rate_is_no_mean_over_sentences():
    predicted, sure = [{(0, 0)}, {(0, 1), (1, 0), (2, 2)}], [{(0, 0)}, {(0, 0), (1, 1), (2, 2)}]
    each = [alignment_error_rate([a], [s]) for a, s in zip(predicted, sure, strict=True)]
    assert alignment_error_rate(predicted, sure) == pytest.approx(1 - 4 / 8)
    assert sum(each) / 2 != pytest.approx(1 - 4 / 8)


@given(st.lists(links().filter(bool), min_size=1, max_size=5))
def test_the_gold_alignment_has_no_error(sure):
    assert alignment_error_rate(sure, sure) == 0


@given(links().filter(bool), links(), links())
def test_alignment_error_rate_properties(sure, possible, predicted):
    rate = alignment_error_rate([predicted], [sure], [possible])
    assert 0 <= rate <= 1
    # Sure links are possible, said or unsaid.
    assert rate == alignment_error_rate([predicted], [sure], [possible | sure])
    # A possible link costs nothing; leaving out a sure one does.
    assert alignment_error_rate([sure | possible], [sure], [possible]) == 0
    f_score = 2 * len(predicted & sure) / (len(predicted) + len(sure))
    assert alignment_error_rate([predicted], [sure]) == pytest.approx(1 - f_score)


@pytest.mark.parametrize(
    ("predicted", "sure", "possible", "message"),
    [
        ([], [], None, "the corpus is empty"),
        ([set()], [set(), set()], None, r"'predicted': 1, 'sure': 2"),
        ([set()], [set()], [], r"'possible': 0"),
        ([set()], [set()], None, "all sets of links are empty"),
        ([set()], [set()], [{(0, 0)}], "all sets of links are empty"),
    ],
)
def test_alignment_error_rate_refuses(predicted, sure, possible, message):
    with pytest.raises(ValueError, match=message):
        alignment_error_rate(predicted, sure, possible)
