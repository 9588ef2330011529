"""Checks of the assignment on scoring and the bottleneck: BLEU, bootstrap, diagnosis, probes.

The answers are compared with the recordings in this folder; no function here is the answer of a
part. The faults of part 4 are planted, and for part 5 the remaining matches are counted.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import Any, cast

import sacrebleu
import torch
from torch import Tensor

from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    Verdict,
    call,
    call_twice,
    describe,
    expect_pair,
    known,
    once_solved,
    open_call,
    plain_number,
    show,
)
from attentively.checks.compare import as_plain, listed
from attentively.checks.recordings import Topic
from attentively.data import toy
from attentively.data.batches import collate, encode_pairs
from attentively.data.pairs import Pair
from attentively.data.toy.lexicon import NOUNS
from attentively.generation.search import greedy_search
from attentively.models.checkpoints import load_pretrained
from attentively.models.seq2seq import FixedContext, Seq2Seq
from attentively.scoring.metrics import (
    MAX_ORDER,
    bleu_counts,
    bleu_from_counts,
    chrf,
    corpus_bleu,
    count_ngrams,
    word_error_rate,
)

__all__ = [
    "bleu",
    "bleu_of_counts",
    "bootstrap",
    "bootstrap_samples",
    "contexts",
    "count",
    "diagnosis",
    "matches",
    "nonsense",
    "once_solved",
    "outputs",
    "probe",
    "progress",
    "ready",
    "reports",
    "sacrebleu_score",
    "sentence_of",
    "spoilt",
]

Inputs = Mapping[str, Any]

_parts = Parts()
_topic = Topic(__file__)
progress = _parts.progress

Ngram = tuple[str, ...]


def ready() -> None:
    """Score one sentence, to show that the package, sacreBLEU and the checks work."""
    _parts.explain_undefined_names()
    print(f"PyTorch {torch.__version__}, sacreBLEU {sacrebleu.__version__}.")
    print(f"BLEU of “{_CAT}” against itself: {sacrebleu_score(*[[_CAT]] * 2):.0f}.")
    print("The set-up is complete.")


_CAT = "le chat boit le lait"


def sacrebleu_score(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return sacreBLEU's score of text split at spaces, without smoothing."""
    bleu = sacrebleu.BLEU(tokenize="none", smooth_method="none")
    return float(bleu.corpus_score(list(hypotheses), [list(references)]).score)


# The trained models and their outputs


@cache
def outputs(number: int, clauses: int, model: str = "toy-fixed") -> tuple[list[str], list[str]]:
    """Return the outputs of a trained model for new sentences, and the references."""
    translator, src_tokenizer, tgt_tokenizer = load_pretrained(model).translator()
    pairs = toy.load("validation", number, clauses=(clauses,))
    texts = [Pair(pair.src_text, pair.tgt_text) for pair in pairs]
    src = collate(encode_pairs(texts, src_tokenizer, tgt_tokenizer)).src
    with torch.no_grad():
        found = greedy_search(translator.eval(), src, 60)
    hypotheses = [" ".join(tgt_tokenizer.tokens(each.ids)) for each in found]
    return hypotheses, [pair.tgt_text for pair in pairs]


def count(hypotheses: Sequence[str], references: Sequence[str]) -> list[list[int]]:
    """Return the ten counts of each sentence from which BLEU is computed."""
    pairs = zip(hypotheses, references, strict=True)
    return [bleu_counts(hypothesis, reference, str.split) for hypothesis, reference in pairs]


def bleu_of_counts(items: Sequence[Sequence[int]]) -> float:
    """Return the BLEU of the sentences with these counts."""
    return bleu_from_counts([sum(column) for column in zip(*items, strict=True)]).score


def bootstrap_samples(number: int, size: int, seed: int = 0) -> list[list[int]]:
    """Return bootstrap samples, each a list of `size` indices of sentences."""
    generator = torch.Generator().manual_seed(seed)
    return cast(list[list[int]], torch.randint(size, (number, size), generator=generator).tolist())


# Part 1


@_parts.part(
    "clipped matches",
    "clipped_matches",
    rebuilds=("attentively.scoring.metrics:bleu_counts",),
    refuses=(
        "attentively.scoring.metrics:corpus_bleu",
        "attentively.scoring.metrics:count_ngrams",
        "attentively.checks.scoring_and_the_bottleneck:count",
        "sacrebleu:corpus_bleu",
        "sacrebleu:sentence_bleu",
        "sacrebleu.metrics:BLEU",
    ),
    step=True,
)
def matches(candidate: object, thorough: bool = False) -> None:
    """Check a function ``(hypothesis, reference, n) -> (matches, total)``."""
    _topic.examine("clipped_matches", candidate, thorough, tidy=_pair)


def _pair(answer: object, inputs: Inputs) -> tuple[object, ...]:
    return expect_pair(listed(answer), ("matches", "total"), inputs)


# Part 2


@_parts.part(
    "BLEU",
    "brevity_penalty",
    "bleu",
    rebuilds=("attentively.scoring.metrics:corpus_bleu",),
    refuses=(
        "attentively.scoring.metrics:bleu_counts",
        "attentively.scoring.metrics:bleu_from_counts",
        "attentively.scoring.metrics:count_ngrams",
        "attentively.checks.scoring_and_the_bottleneck:count",
        "sacrebleu:corpus_bleu",
        "sacrebleu:sentence_bleu",
        "sacrebleu.metrics:BLEU",
        "attentively.checks.scoring_and_the_bottleneck:sacrebleu_score",
    ),
)
def bleu(brevity_penalty: object, score: object, thorough: bool = False) -> None:
    """Check the brevity penalty and the corpus score."""
    _topic.examine("brevity_penalty", brevity_penalty, thorough, tidy=_number)
    _topic.examine("bleu", score, thorough, tidy=_score)


def _number(answer: object, inputs: Inputs) -> object:
    """Return a number or a tensor of one entry as a Python number, and anything else unchanged."""
    number = plain_number(answer)
    return answer if number is None else number


def _score(answer: object, inputs: Inputs) -> float:
    number = plain_number(answer)
    if number is None:
        raise CheckFailed(f"  bleu: expected a number, got {show(answer)}.\n{describe(inputs)}")
    return number


# Part 3


def _mean(items: Sequence[float]) -> float:
    return sum(items) / len(items)


def _rate(items: Sequence[Mapping[str, int]]) -> float:
    return 100 * sum(each["matches"] for each in items) / sum(each["total"] for each in items)


SCORES: dict[str, Callable[..., float]] = {
    "the mean": _mean,
    "the matches of all items, divided by the total of all": _rate,
    "BLEU": bleu_of_counts,
}
"""Score functions, by their description in a message."""


class Score:
    """A score function that is shown as its description."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __call__(self, items: Sequence[Any]) -> float:
        """Return the score of the items."""
        return SCORES[self.name](items)


@_parts.part(
    "bootstrap",
    "interval",
    "share_of_wins",
    rebuilds=(
        "attentively.scoring.bootstrap:interval",
        "attentively.scoring.bootstrap:compare",
    ),
)
def bootstrap(interval: object, share_of_wins: object, thorough: bool = False) -> None:
    """Check a bootstrap interval, and a comparison of two systems on the same samples."""
    _topic.examine("interval", interval, thorough, tidy=_ends)
    _topic.examine("share_of_wins", share_of_wins, thorough, tidy=_number)


def _short(value: object) -> float | None:
    number = plain_number(value)
    return None if number is None else float(f"{number:.6g}")


def _ends(answer: object, inputs: Inputs) -> tuple[object, ...]:
    return tuple(map(_short, expect_pair(listed(answer), ("low", "high"), inputs)))


# Part 4

_LONG_ENOUGH = 4
"""Minimum number of letters of a word that the faults "words" and "endings" change."""


def _other_ending(word: str) -> str:
    if len(word) < _LONG_ENOUGH:
        return word
    return word[:-1] if word[-1] in "es" else f"{word}e"


def _spoil(words: list[str], fault: str, vocabulary: list[str], dice: random.Random) -> list[str]:
    half = len(words) // 2
    if fault == "omission":
        return words[:half]
    if fault == "repetition":
        return words + words[half:]
    if fault == "order":
        return dice.sample(words, len(words))
    if fault == "endings":
        return [_other_ending(word) for word in words]
    return [dice.choice(vocabulary) if len(word) >= _LONG_ENOUGH else word for word in words]


@cache
def spoilt(
    fault: str, every: int, seed: int = 0, clauses: int = 2, number: int = 24
) -> tuple[list[str], list[str]]:
    """Return the outputs of a system with a fault in every n-th sentence, and the references.

    In addition, one word is wrong in every sixth sentence.
    """
    dice = random.Random(f"{fault}-{seed}")
    vocabulary = [word for word in toy.words("tgt") if len(word) >= _LONG_ENOUGH]
    hypotheses, references = [], []
    for row, pair in enumerate(_toy_pairs(number, clauses, seed)):
        words = list(pair)
        if row % 6 == 0:
            words[dice.randrange(len(words) // 2)] = dice.choice(vocabulary)
        if row % every == 0:
            words = _spoil(words, fault, vocabulary, dice)
        hypotheses.append(" ".join(words))
        references.append(" ".join(pair))
    return hypotheses, references


@cache
def _toy_pairs(number: int, clauses: int, seed: int) -> list[tuple[str, ...]]:
    pairs = toy.load("test", number, seed=seed, clauses=(clauses,))
    return [tuple(pair.tgt) for pair in pairs]


@cache
def _report(
    fault: str, every: int, seed: int = 0, clauses: int = 2, number: int = 24
) -> dict[str, object]:
    hypotheses, references = spoilt(fault, every, seed, clauses, number)
    found = corpus_bleu(hypotheses, references, str.split)
    return {
        "bleu": round(found.score, 1),
        "precisions": [round(precision, 1) for precision in found.precisions],
        "brevity_penalty": round(found.brevity_penalty, 3),
        "length_ratio": round(found.hypothesis_length / found.reference_length, 3),
        "chrf": round(chrf(hypotheses, references), 1),
        "wer": round(word_error_rate(hypotheses, references), 3),
    }


_SYSTEMS = {"A": ("endings", 2), "B": ("order", 2), "C": ("omission", 2)}


def reports() -> dict[str, dict[str, object]]:
    """Return the reports of the three systems of the notebook."""
    return {name: _report(*system, seed=5) for name, system in _SYSTEMS.items()}


def sentence_of(name: str) -> tuple[str, str]:
    """Return a faulty output of one of the three systems, and its reference."""
    hypotheses, references = spoilt(*_SYSTEMS[name], seed=5)
    return hypotheses[2], references[2]


FAULTS = ("omission", "repetition", "order", "endings", "words")

_PLANTED = [(1, 0, 2, 12), (2, 0, 2, 12)]
_FURTHER_PLANTED = [(1, 1, 3, 12), (2, 1, 3, 12)]
"""The fault occurs in every n-th sentence: n, the seed of the sentences, their clauses and number.
"""


@_parts.part("diagnosis", "diagnose")
def diagnosis(candidate: object, thorough: bool = False) -> None:
    """Check the diagnoses of systems with planted faults."""
    planted = [*_PLANTED, *_FURTHER_PLANTED * thorough]
    for system in open_call.new("planted", planted):
        for fault in FAULTS:
            asked = {"report": _report(fault, *system)}
            said = call_twice(candidate, asked)
            if not isinstance(said, str) or said != fault:
                raise CheckFailed(_misread(said, fault, asked, *system))


def _misread(
    said: object,
    fault: str,
    asked: Mapping[str, object],
    every: int,
    *sentences: int,
) -> str:
    if not isinstance(said, str) or said not in FAULTS:
        names = ", ".join(map(repr, FAULTS))
        return f"  diagnose: expected one of {names}; got {show(said)}.\n{describe(asked)}"
    hypotheses, references = spoilt(fault, every, *sentences)
    other = _report(said, every, *sentences)
    return (
        f"  The diagnosis {said!r} is wrong for the report below: the fault is {fault!r}.\n"
        f"{describe(asked)}\n"
        f"  output      {hypotheses[2 * every]}\n  reference   {references[2 * every]}\n"
        f"  A system with the fault {said!r} has another report:\n  {show(other)}\n"
        "  Both systems have a few other errors in addition to their fault. Which values of the "
        "two reports differ most?"
    )


# Part 5


def _kept(order: Sequence[str], reference: Sequence[str]) -> list[int]:
    return [
        (count_ngrams(order, n) & count_ngrams(reference, n)).total()
        for n in range(1, MAX_ORDER + 1)
    ]


def _pieces_reversed(hypothesis: Sequence[str], reference: Sequence[str]) -> list[str]:
    """Return the words with the pieces between all safe cuts in reverse order."""
    theirs = count_ngrams(reference, 2)
    pieces: list[list[str]] = []
    for place, word in enumerate(hypothesis):
        if not place or (hypothesis[place - 1], word) not in theirs:
            pieces.append([])
        pieces[-1].append(word)
    return [word for piece in reversed(pieces) for word in piece]


_NONSENSE_TWINS = [
    Twin(
        "The words are in reverse order, so the words inside every matching n-gram are reversed as "
        "well.",
        lambda h, r: h[::-1],
    ),
    Twin(
        "The words are sorted, which separates the words of matching n-grams.",
        lambda h, r: sorted(h),
    ),
    *known(
        "The sentence is always cut in the middle. Cut only where no match is lost.",
        lambda h, r: [*h[len(h) // 2 :], *h[: len(h) // 2]],
        lambda h, r: [*h[(len(h) + 1) // 2 :], *h[: (len(h) + 1) // 2]],
    ),
    *known(
        "The first word is always moved to the end, or the last word to the front, even if it is "
        "part of a matching n-gram.",
        lambda h, r: [*h[1:], *h[:1]],
        lambda h, r: [*h[-1:], *h[:-1]],
    ),
]


_NONSENSE_CASES = [
    ("le chat dort bien ici", "le chat dort"),
    ("le lait boit le chat", "le chat boit le lait"),
    ("le chat", "Le chat et la belle chatte"),
    ("chat le", "le chat"),
    ("deux filles voient un oiseau", "deux filles voient un oiseau rouge"),
    ("oui", "non"),
    ("oui oui", "non"),
    ("le chat le chat le lait ici", "le chat le lait"),
    (
        "une vieille femme a vu le petit cheval et cette maison rouge est belle",
        "la vieille femme a entendu le petit cheval mais cette maison est très belle",
    ),
    (
        "la fille a dansé et le chat a bu le lait dans la cuisine",
        "le chat a bu le lait et la fille a dansé dans la cuisine",
    ),
    ("oui oui non oui oui", "bien"),
    ("la reine et la reine", "la reine dort"),
]


@_parts.part("nonsense", "nonsense")
def nonsense(candidate: object, thorough: bool = False) -> None:
    """Check that the words are the same, in another order, and that no match is lost."""
    cases = _NONSENSE_CASES
    if thorough:
        cases = [*cases, *zip(*outputs(19, 3), strict=True)]
    for hypothesis, reference in cases:
        _expect_nonsense(candidate, hypothesis.split(), reference.split())


def _expect_nonsense(candidate: object, hypothesis: list[str], reference: list[str]) -> None:
    asked = {"hypothesis": hypothesis, "reference": reference}
    answer = call(candidate, asked)
    if not isinstance(answer, list | tuple) or not all(isinstance(w, str) for w in answer):
        said = "None. Is a `return` missing?" if answer is None else show(answer)
        raise CheckFailed(f"  nonsense: expected a list of words, got {said}\n{describe(asked)}")
    order = [str(word) for word in answer]
    got = f"{describe(asked)}\n  got         {' '.join(order)}"
    missing, extra = Counter(hypothesis) - Counter(order), Counter(order) - Counter(hypothesis)
    if missing or extra:
        what = f"lacks {show(next(iter(missing)))}" if missing else f"has {show(next(iter(extra)))}"
        raise CheckFailed(
            f"  The answer {what}{'' if missing else ' too often'}. Return every word as often as "
            f"it occurs in the hypothesis: only the order may change.\n{got}"
        )
    before, after = _kept(hypothesis, reference), _kept(order, reference)
    for n, (had, has) in enumerate(zip(before, after, strict=True), start=1):
        if has < had:
            why = _known_mistake(candidate)
            theirs = count_ngrams(reference, n)
            lost = (count_ngrams(hypothesis, n) & theirs) - (count_ngrams(order, n) & theirs)
            raise CheckFailed(
                f"  {why} A match is lost: “{' '.join(next(iter(lost)))}” matches in the "
                f"hypothesis and no longer in the answer.\n{got}"
            )
    free = _free_cuts(hypothesis, reference)
    if order == hypothesis and free:
        left, right = hypothesis[free[0] - 1], hypothesis[free[0]]
        why = f"For example, which match would be lost by a cut between “{left}” and “{right}”?"
        if _pieces_reversed(hypothesis, reference) == order:
            why += " Reversing the order of the pieces gives the same sentence: try another order."
        raise CheckFailed(
            "  The answer is the unchanged hypothesis, although another order loses no match. "
            f"{why}\n{got}"
        )


def _known_mistake(candidate: object) -> str:
    """Return what to say of a lost match: a mistake is known by its answers in all cases."""
    asked = [[text.split() for text in case] for case in _NONSENSE_CASES]
    with suppress(Verdict, TypeError):  # an error, or no list, in another case
        answers = [
            [*cast(Any, call(candidate, {"hypothesis": h, "reference": r}))] for h, r in asked
        ]
        for twin in _NONSENSE_TWINS:
            if answers == [twin.answer(*each) for each in asked]:
                return twin.diagnosis
    return "The sentence is cut inside an n-gram that occurs in the reference."


def _free_cuts(hypothesis: Sequence[str], reference: Sequence[str]) -> list[int]:
    """Return the cuts between words that are not neighbours in the reference."""
    theirs = count_ngrams(reference, 2)
    return [
        place
        for place, pair in enumerate(pairwise(hypothesis), start=1)
        if pair not in theirs and [*hypothesis[place:], *hypothesis[:place]] != [*hypothesis]
    ]


# Part 6


def contexts(number: int, clauses: int, split: str = "train") -> tuple[Tensor, list[list[int]]]:
    """Return the fixed context vector of each sentence, and the indices of its nouns."""
    model, src_tokenizer, tgt_tokenizer = load_pretrained("toy-fixed").translator()
    pairs = toy.load(split, number, clauses=(clauses,))
    texts = [Pair(pair.src_text, pair.tgt_text) for pair in pairs]
    src = collate(encode_pairs(texts, src_tokenizer, tgt_tokenizer)).src
    with torch.no_grad():
        memory = cast(Seq2Seq, model.eval()).encode(src)
        query = torch.zeros(len(src), 1)  # a fixed context ignores it
        context, _ = FixedContext()(query, memory.outputs, memory.mask.squeeze(1))
    numbers = {form: index for index, noun in enumerate(NOUNS) for form in noun.english.split()}
    return context, [[numbers[word] for word in pair.src if word in numbers] for pair in pairs]


class NearestMean:
    """A simple probe, which makes errors."""

    def __repr__(self) -> str:
        return "a function that predicts the class with the nearest mean"

    def __call__(self, contexts: Tensor, labels: Tensor, new: Tensor) -> Tensor:
        """Return the labels of the nearest means."""
        classes = labels.unique()
        means = torch.stack([contexts[labels == each].mean(dim=0) for each in classes])
        return classes[torch.cdist(new, means).argmin(dim=1)]


@_parts.part("probe", "probe", "evidence")
def probe(fit: object, evidence: object, thorough: bool = False) -> None:
    """Check a linear probe, and the comparison of an accuracy with two baselines."""
    _topic.examine("probe", fit, thorough, tidy=_labels_of)
    _topic.examine("evidence", evidence, thorough, tidy=_shares)


def _shares(answer: object, inputs: Inputs) -> tuple[object, ...]:
    answer = listed(answer)
    if not isinstance(answer, list | tuple) or len(answer) != 3:
        raise CheckFailed(
            "  evidence: expected three numbers, `return accuracy, most_frequent, shuffled`; got "
            f"{show(answer)}\n{describe(inputs)}"
        )
    return tuple(map(_short, answer))


def _labels_of(answer: object, asked: Inputs) -> list[object]:
    values = as_plain(answer, [])
    if not isinstance(values, list | tuple):
        said = "None. Is a `return` missing?" if answer is None else show(answer)
        raise CheckFailed(
            f"  probe: expected one label for each new context, got {said}\n{describe(asked)}"
        )
    if None in map(plain_number, values):
        raise CheckFailed(
            "  probe: expected one label for each new context. If these are the scores, "
            f"take the argmax of each row.\n{describe(asked)}"
        )
    return list(values)
