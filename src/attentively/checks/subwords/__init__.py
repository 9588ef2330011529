"""Checks of the assignment on subwords.

The answers of parts 1 to 5 are compared with the recordings in this folder; no function here is the
answer of a part. In part 3, the encoder is also put into a trained translation model, and part 6 is
examined by properties, one by one.
"""

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import tokenizers

from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    call_twice,
    describe,
    expect_pair,
    expect_value,
    in_turn,
    once_solved,
    open_call,
    plain_number,
    show,
)
from attentively.checks.compare import as_plain, refuse_floats
from attentively.checks.question import Recorded
from attentively.checks.recordings import Topic
from attentively.checks.trained_translator import trained
from attentively.data import toy
from attentively.generation.generate import translate
from attentively.models.checkpoints import Checkpoint, load_pretrained
from attentively.tokens import byte_pair
from attentively.tokens.byte_pair import Pair
from attentively.tokens.vocabulary import END_ID, SPECIAL_TOKENS, UNK, UNK_ID

__all__ = [
    "SENTENCES",
    "bug_hunt",
    "documentation",
    "encoding",
    "merges",
    "once_solved",
    "pairs",
    "progress",
    "ready",
    "round_trip",
    "toy_words",
    "translator",
    "vocabulary_size",
]

MODEL = "tatoeba-en-fr-additive"
"""The trained model that receives the student's subwords."""

SENTENCES = (
    "The cat drank the milk.",
    "They welcomed the Queen of the United Kingdom.",
    "The animal did not cross the street because it was too tired.",
)

_parts = Parts()
_topic = Topic(__file__)
progress = _parts.progress


def ready() -> None:
    """Show that the package, its trained model and these checks work."""
    _parts.explain_undefined_names()
    print(f"tokenizers {tokenizers.__version__}. The trained model translates “{SENTENCES[0]}”")
    print(f"as “{_translation(SENTENCES[0])}” Ready.")


def toy_words() -> Counter[str]:
    """Return the count of each word in 300 English sentences of the toy language."""
    return Counter(word for pair in toy.load("train", 300) for word in pair.src)


def documentation() -> tuple[list[str], list[str], list[str]]:
    """Return lines of real English for training, validation and test, from Python's manual.

    Every Python contains these texts. They differ slightly between versions.
    """
    from pydoc_data.topics import topics  # large, and needed here only

    lines = [
        " ".join("".join(c if c.isalpha() else " " for c in line).split())
        for topic in sorted(topics)
        for line in topics[topic].splitlines()
    ]
    lines = [line for line in lines if line.count(" ") >= 3]
    validation, test = lines[3::10], lines[8::10]
    held_out = {*range(3, len(lines), 10), *range(8, len(lines), 10)}
    train = [line for index, line in enumerate(lines) if index not in held_out]
    return train, validation, test


# Part 1


@_parts.part(
    "pairs",
    "count_pairs",
    "merge_pair",
    rebuilds=("attentively.tokens.byte_pair:learn_merges",),
    refuses=("attentively.tokens.byte_pair:join",),
    step=True,
)
def pairs(count_pairs: object, merge_pair: object, thorough: bool = False) -> None:
    """Check ``count_pairs(words)`` and ``merge_pair(pieces, pair)``."""
    _topic.examine("count_pairs", count_pairs, thorough, tidy=_without_zeros)
    _topic.examine("merge_pair", merge_pair, thorough)


def _without_zeros(answer: object, inputs: Mapping[str, Any]) -> object:
    """Accept pairs with the count 0."""
    if isinstance(answer, dict):
        return {key: count for key, count in answer.items() if plain_number(count) != 0}
    return answer


# Part 2

TIE = (
    "Among pairs with equal counts, take the one whose left subword was created earlier; if the "
    "left subwords are equal, the right ones decide. The characters come first, in Unicode order, "
    "and merged subwords follow in the order in which they are created."
)


@_parts.part(
    "merges",
    "learn_merges",
    rebuilds=("attentively.tokens.byte_pair:learn_merges",),
)
def merges(candidate: object, thorough: bool = False) -> None:
    """Check a function ``(word_counts, num_merges) -> merges``."""
    _topic.examine("learn_merges", candidate, thorough, explain=_why_this_pair)


def _why_this_pair(got: object, recorded: Recorded) -> str:
    """Return the counts of the first wrong pair and of the expected one at this step."""
    if not isinstance(got, list | tuple):
        return ""
    (expected,) = recorded.expected.values()
    found = [_as_pair(each) for each in got]
    if len(found) > len(expected) and found[: len(expected)] == expected:
        return "There are more merges than num_merges, or than pairs to merge."
    if set(found) == {*expected} and len(found) == len(expected):
        return "The pairs are correct, but not their order. Return them in the order of learning."
    pairs = zip(found, expected, strict=False)
    differing = [(step, *both) for step, both in enumerate(pairs) if both[0] != both[1]]
    if not differing:
        return ""
    step, pair, right = differing[0]
    if pair is None:
        return "Each merge must be a pair of strings."
    count, most = (
        sum(
            n * [*pairwise(byte_pair.merge_word(word, expected[:step]))].count(each)
            for word, n in recorded.case.inputs["word_counts"].items()
        )
        for each in (pair, right)
    )
    at = f"At step {step + 1}, the pair"
    if not count:
        return (
            f"{at} {pair} does not occur. Apply each merge to the words, keep the result, and "
            "count the pairs of the merged words."
        )
    if count == most:
        return f"{at}s {pair} and {right} have equal counts. {TIE}"
    return (
        f"{at} {pair} has the count {count}, and {right} has {most}. Count the pairs after the "
        "previous merges."
    )


def _as_pair(value: object) -> Pair | None:
    if isinstance(value, list | tuple) and len(value) == 2:
        left, right = value
        if type(left) is str and type(right) is str:
            return left, right
    return None


# Part 3


@functools.cache
def _opened() -> tuple[tokenizers.Tokenizer, list[Pair], dict[str, int]]:
    """Return the library's tokenizer inside that of the trained model, its merges and its ids."""
    described = json.loads(trained(MODEL).translator().src_tokenizer.to_json())["library"]
    library = tokenizers.Tokenizer.from_str(json.dumps(described))
    merges = [(left, right) for left, right in described["model"]["merges"]]
    return library, merges, described["model"]["vocab"]


class _Pieces:
    """A tokenizer with the library's normalisation and pre-tokenizer, and the student's merges."""

    def __init__(self, piece_ids: object) -> None:
        self.inside = trained(MODEL).translator().src_tokenizer
        self.library, self.merges, self.ids = _opened()
        self.piece_ids = piece_ids

    def words(self, text: str) -> list[str]:
        normal = self.library.normalizer.normalize_str(text)
        return [word for word, _ in self.library.pre_tokenizer.pre_tokenize_str(normal)]

    def encode(self, text: str) -> list[int]:
        # Copies, because an argument that stays in use is compared at each later call in grading.
        known = [*self.merges], {**self.ids}
        ids = self.piece_ids(self.words(text), *known, UNK_ID)  # type: ignore[operator]
        return [*ids, END_ID]

    def __len__(self) -> int:
        return len(self.inside)

    def decode(self, ids: Iterable[int]) -> str:
        return self.inside.decode(ids)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return self.inside.tokens(ids)

    def to_json(self) -> str:
        return self.inside.to_json()


def translator(piece_ids: object) -> tuple[Checkpoint, Callable[[str], list[str]]]:
    """Return the trained model with the student's `piece_ids`, and its segmentation of a text."""
    checkpoint = load_pretrained(MODEL)
    pieces = _Pieces(piece_ids)
    fed = replace(checkpoint, src_tokenizer=pieces)
    return fed, lambda text: pieces.tokens(pieces.encode(text)[:-1])


@_parts.part(
    "encoding",
    "encode_word",
    "piece_ids",
    rebuilds=("attentively.tokens.byte_pair:merge_word",),
)
def encoding(encode_word: object, piece_ids: object, thorough: bool = False) -> None:
    """Check ``encode_word(word, merges)`` and ``piece_ids``, finally inside a trained model."""
    _topic.examine("encode_word", encode_word, thorough)
    _topic.examine("piece_ids", piece_ids, thorough)
    _expect_same_translations(piece_ids, thorough)


def _expect_same_translations(piece_ids: object, thorough: bool) -> None:
    """Put the candidate into the trained model, whose translations must stay the same."""
    mine = _Pieces(piece_ids)
    texts = [f"{SENTENCES[1]} Is 1 < 2, <end>? The 猫 drank."]
    if thorough:
        texts.append("Unbelievably, nobody’s naïveté surprised Hyderabad. ÉTÉ 2024")
    for text in open_call.new("piece_ids", texts):
        inputs: dict[str, object] = {
            "words": mine.words(text),
            "merges": mine.merges,
            "ids": mine.ids,
            "unknown_id": UNK_ID,
        }
        answer = call(piece_ids, inputs)
        expected = mine.inside.encode(text)[:-1]
        hint = (
            "The small examples are correct. Here the 4,881 merges of the trained model are used."
        )
        expect_value(answer, expected, "the ids of piece_ids", inputs, hint=hint)
    for sentence in open_call.new("translation", SENTENCES[:1]):
        old = _translation(sentence)
        fed = replace(trained(MODEL), src_tokenizer=mine)
        new = translate(fed, [sentence], beam_size=1)[0].text
        if old != new:
            raise CheckFailed(
                "  With your subwords, the trained model outputs a different translation.\n"
                f"  sentence    {sentence}\n  got         {new}\n  expected    {old}"
            )


@functools.cache
def _translation(sentence: str) -> str:
    """Return the translation by the trained model."""
    return translate(trained(MODEL), [sentence], beam_size=1)[0].text


# Part 4

_NO_IDS: list[tuple[list[int], list[tuple[int, int]], str]] = [
    ([256], [], "Without merges, the largest id is 255."),
    ([97, 257], [(97, 97)], "With one merge, the largest id is 256."),
    (
        [97, -1],
        [(97, 97)],
        "In Python, table[-1] is the last entry, so a negative id raises no error by itself.",
    ),
]


@_parts.part("round trip", "encode_text", "decode_ids")
def round_trip(encode_text: object, decode_ids: object, thorough: bool = False) -> None:
    """Check ``encode_text(text, merges)`` and ``decode_ids(ids, merges)``."""
    _topic.examine("encode_text", encode_text, thorough)
    _topic.examine("decode_ids", decode_ids, thorough)
    for ids, known, why in _NO_IDS:
        _expect_refusal(decode_ids, {"ids": ids, "merges": known}, why)


def _expect_refusal(candidate: object, inputs: Mapping[str, object], why: str) -> None:
    """Reject a candidate that does not raise `ValueError`."""

    def outcome(*given: object) -> str:
        try:
            answer = candidate(*given)  # type: ignore[operator]
        except NotImplementedError:
            raise
        except Exception as error:  # its type is the question
            return "" if isinstance(error, ValueError) else f"raises {type(error).__name__}"
        return f"returns {show(answer)}"

    found = call(outcome, inputs)
    if found:
        raise CheckFailed(
            f"  decode_ids must raise ValueError for an invalid id, but it {found}. {why}\n"
            + describe(inputs)
        )


# Part 5


@_parts.part("vocabulary size", "rare_share", "choose_size")
def vocabulary_size(rare_share: object, choose_size: object, thorough: bool = False) -> None:
    """Check the share of rare subwords, and the choice of a number of merges."""
    _topic.examine("rare_share", rare_share, thorough)
    _topic.examine("choose_size", choose_size, thorough, tidy=_choice, explain=_why_this_choice)


def _choice(answer: object, inputs: Mapping[str, Any]) -> object:
    if answer is None:
        return None
    numbers = map(plain_number, expect_pair(answer, ("size", "pieces_per_word"), inputs))
    rounded = tuple(round(number, 4) for number in numbers if number is not None)
    if len(rounded) < 2:
        raise CheckFailed(
            f"  choose_size: expected `return size, pieces_per_word`, got {show(answer)}."
        )
    return rounded


def _why_this_choice(got: Any, recorded: Recorded) -> str:
    (expected,) = recorded.expected.values()
    if got and got[0] == expected[0]:
        return "the size is correct, but not the subwords per word of the test sentences."
    if got and got[0] not in recorded.case.inputs["sizes"]:
        return (
            "the first result is not one of `sizes`, the fourth argument. A size is a number of "
            "merges."
        )
    return ""


# Part 6


class _Reading:
    """A candidate tokenizer, trained on sentences, with the merges that it should have learned."""

    def __init__(self, candidate: object, sentences: Sequence[str], num_merges: int) -> None:
        self.inputs: dict[str, object] = {"sentences": list(sentences), "num_merges": num_merges}
        self.num_merges = num_merges
        self.how: Callable[..., object] = call_twice
        """How `encode` is called: twice for the first text."""
        self.tokenizer: Any = call(candidate, self.inputs)
        methods = [getattr(self.tokenizer, name, None) for name in ("encode", "decode")]
        for method in methods:
            if not callable(method):
                raise CheckFailed(
                    "  The tokenizer must have the methods encode and decode. Pass the class "
                    "CorrectedTokenizer itself, without ()."
                )
        self.encode, self.decode = cast(list[Callable[..., object]], methods)
        self.words = Counter(f"▁{word}" for sentence in sentences for word in sentence.split())

    @functools.cached_property
    def merges(self) -> list[Pair]:
        return byte_pair.learn_merges(self.words, self.num_merges)

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text; they must be integers and end with END_ID."""
        how, self.how = self.how, call
        answer = as_plain(how(self._encode, {"text": text}), [])
        if not isinstance(answer, list | tuple) or None in map(plain_number, answer):
            raise self.failed("encode: expected a list of ids.", text, answer)
        ids = list(answer)
        refuse_floats(ids, [0] * len(ids), "the ids that encode returns", {"text": text})
        if ids[-1:] != [END_ID]:
            raise self.failed(f"encode: the last id must be END_ID, {END_ID}.", text, ids)
        return ids

    def _encode(self, text: str) -> object:
        return self.encode(text)

    def back(self, ids: Sequence[int]) -> object:
        return call(lambda ids: self.decode(ids), {"ids": list(ids)})

    def pieces(self, ids: Sequence[int]) -> list[Any]:
        """Return the text that each id adds when decoded, without ▁, spaces and the end token."""
        texts = [""]
        for end in range(1, len(ids)):
            text = self.back(ids[:end])
            if not isinstance(text, str):
                return [text]
            texts.append(text.replace("▁", "").replace(" ", ""))
        return [text[len(before) :] for before, text in pairwise(texts)]

    def expect_restored(self, text: str, why: str) -> None:
        if (got := self.back(self.ids(text))) != text:
            raise self.failed(why, text, got, text)

    def expect_no_special_token(self, text: str, why: str) -> None:
        ids = self.ids(text)
        if not set(ids[:-1]).isdisjoint(range(len(SPECIAL_TOKENS))):
            raise self.failed(why, text, ids)

    def failed(
        self, why: str, text: str, got: object, expected: object = None, what: str = ""
    ) -> CheckFailed:
        lines = [f"  {why}", describe(self.inputs | {"text": text}), f"  got         {show(got)}"]
        if expected is not None:
            lines.append(f"  expected    {what}{show(expected)}")
        return CheckFailed("\n".join(lines))


_APART = ["a part of the cat", "the Cat sat apart", "The cats part < a > b"]


def _examine_order(candidate: object, thorough: bool) -> None:
    corpora = [(["aaa ad ac"], 3), (_APART, 12)]
    if thorough:
        corpora.append(([" ".join(pair.src) for pair in toy.load("train", 7)], 31))
    for sentences, num_merges in open_call.new("order", corpora):
        reading = _Reading(candidate, sentences, num_merges)
        text = " ".join(sentences)
        words = [word for word in dict.fromkeys(text.split()) if word == word.lower()]
        got = {word: reading.pieces(reading.ids(word)) for word in words}
        expected = _cut(words, reading.merges)
        wrong = [word for word in words if got[word] != expected[word]]
        if not wrong:
            continue
        word = wrong[0]
        in_order = sorted(reading.merges)
        shown: list[object] = [got[word], expected[word]]
        if got == _cut(words, in_order):
            why = (
                "the merges are not applied in the order in which they were learned. A set does "
                "not keep this order, and sorting replaces it by alphabetical order."
            )
            orders = in_order, reading.merges
            shown = [byte_pair.merge_word(f"▁{word}", order) for order in orders]
        else:
            why = f"{_why_these(got, reading)} (The subwords are shown as decoded, without ▁.)"
        raise reading.failed(f"Subwords: {why}", word, shown[0], shown[1])


def _why_these(got: dict[str, list[str]], reading: _Reading) -> str:
    """Return the mistake that leads to these subwords of each word."""
    plain = {word.removeprefix("▁"): count for word, count in reading.words.items()}
    each_once = dict.fromkeys(reading.words, 1)
    unmarked, unweighted = (
        byte_pair.learn_merges(words, reading.num_merges) for words in (plain, each_once)
    )
    apart = _cut(got, unmarked, mark="")
    causes = {
        "the mark ▁ is missing in training and in encoding. Put ▁ before each word, both when the "
        "merges are learned and when a text is encoded.": [apart],
        "the mark ▁ is missing in encoding. The merges were learned from words with ▁: put it "
        "before each word of a text as well.": [_cut(got, reading.merges, mark="")],
        "▁ remains a separate subword, because it was missing when the merges were learned. Put ▁ "
        "before each word in training as well.": [
            {word: [mark, *pieces] for word, pieces in apart.items()} for mark in ("", UNK)
        ],
        "each word is counted once in training. Add one for each occurrence of a word.": [
            _cut(got, unweighted)
        ],
        "the word is looked up as a whole. Split it by the merges, in their order.": [
            {word: [word] for word in got}
        ],
    }
    usual = "these are not the subwords that the merges give."
    return next((why for why, results in causes.items() if got in results), usual)


def _cut(words: Iterable[str], merges: Sequence[Pair], mark: str = "▁") -> dict[str, list[str]]:
    """Return the subwords of each word, without the mark of its start."""
    return {
        word: [piece.removeprefix("▁") for piece in byte_pair.merge_word(mark + word, merges)]
        for word in words
    }


def _examine_capitals(candidate: object) -> None:
    reading = _Reading(candidate, _APART, 12)
    for lower, upper in (("the", "The"), ("cat", "Cat")):
        if reading.ids(lower) == reading.ids(upper):
            raise reading.failed(
                f"Capital letters: “{lower}” and “{upper}” have the same ids, so that decode "
                "cannot distinguish them. Do not change capital letters.",
                upper,
                reading.ids(upper),
                reading.ids(lower),
                "other ids than ",
            )


def _examine_boundaries(candidate: object, thorough: bool) -> None:
    reading = _Reading(candidate, _APART, 12)
    texts = ["a part", "apart", "the cats", "cat a", *_APART[: 3 if thorough else 1]]
    for text in open_call.new("boundaries", texts):
        ids = reading.ids(text)
        together = text.replace(" ", "")
        if together != text and ids == reading.ids(together):
            raise reading.failed(
                f"Word boundaries: “{text}” and “{together}” have the same ids, so that decode "
                "cannot restore the space. Put ▁ before each word.",
                text,
                ids,
            )
        got = reading.back(ids)
        if got == text:
            continue
        why = "the decoded text differs from the text."
        if isinstance(got, str) and got.replace(" ", "") == together:
            why = "spaces are missing in the decoded text."
            if got.strip() == text:
                why = "there is a space before or after the text. Remove that of the first ▁."
            elif got.count(" ") > text.count(" "):
                why = "there are spaces between the subwords of a word. Only ▁ becomes a space."
        elif isinstance(got, str) and "▁" in got:
            why = "the decoded text contains the mark ▁. Replace it by a space."
        elif isinstance(got, str) and any(special in got for special in SPECIAL_TOKENS):
            why = (
                "the decoded text contains special tokens. Skip the ids of <pad>, <start> and "
                "<end>."
            )
        raise reading.failed(f"Word boundaries: {why}", text, got, text)


def _examine_spelled_out(candidate: object, thorough: bool) -> None:
    sentences = [*_APART, "pad or end or start or unk"]
    reading = _Reading(candidate, sentences, 5)
    specials = SPECIAL_TOKENS if thorough else SPECIAL_TOKENS[::-1][:2]
    for special in open_call.new("special", specials):
        for text in (special, f"the {special} cat"):
            reading.expect_no_special_token(
                text,
                f"Special tokens: the text {special} is encoded as the special token. A text must "
                "not produce special tokens: encode its characters, which are all in the "
                "vocabulary.",
            )
            reading.expect_restored(text, "Special tokens: the decoded text differs from the text.")
    ids = [*reading.ids("the cat"), 0, 0]
    if (got := reading.back([2, *ids])) != "the cat":
        raise reading.failed(
            "Special tokens: the decoded text is wrong. Skip the ids of <pad>, <start> and <end>.",
            f"the ids {[2, *ids]}",
            got,
            "the cat",
        )
    # Here each special token is so frequent that the merges make it one subword.
    for special in open_call.new("merged", specials):
        reading = _Reading(candidate, [f"a{special} b{special} c{special}"], len(special) - 1)
        here = f"Special tokens: here the merges create the subword {special}, which is text"
        reading.expect_no_special_token(
            f"a{special}",
            f"{here}. It has the id of the special token of the same name, but it must have its "
            "own id.",
        )
        reading.expect_restored(
            f"a{special}",
            f"{here}, and decode omits it. Skip the ids of special tokens, not every subword with "
            "the same characters.",
        )


def _examine_unknown(candidate: object) -> None:
    reading = _Reading(candidate, _APART, 12)
    texts = {"cät": 1, "the 猫": 1, "ççc": 2, "cat": 0, "zzz cat zzz": 6, "the cat?": 1}
    for text, unknown in texts.items():
        ids = reading.ids(text)
        found = ids.count(UNK_ID)
        if found == unknown:
            continue
        why = f"{unknown} characters are not in the vocabulary, but UNK_ID occurs {found} times."
        if not found:
            why = "an unknown character is omitted. It must receive UNK_ID, so that it is visible."
        elif found < unknown:
            why = "several unknown characters have one UNK_ID. Each of them must receive UNK_ID."
        elif not unknown:
            why = "all characters are in the vocabulary, but UNK_ID occurs."
        raise reading.failed(f"Unknown characters: {why}", text, ids)
    ids = reading.ids("cät")
    if (got := reading.back(ids)) == "ct":
        why = "decode omits UNK_ID, so that an unknown character is invisible. Decode it as <unk>."
        raise reading.failed(f"Unknown characters: {why}", "cät", got)


def _examine_all(candidate: object, thorough: bool) -> None:
    corpora = [(_APART, 0), (_APART, 12), (["Où est l’été ?"], 3)]
    if thorough:
        corpora.append(([pair.src_text for pair in toy.load("test", 5)], 17))
    for sentences, num_merges in open_call.new("round trip", corpora):
        reading = _Reading(candidate, sentences, num_merges)
        for text in (*sentences, ""):
            reading.expect_restored(text, "Round trip: the decoded text differs from the text.")


_SYMPTOMS = {
    "subwords": _examine_order,
    "capital letters": lambda candidate, _: open_call.once(_examine_capitals, candidate),
    "word boundaries": _examine_boundaries,
    "special tokens": _examine_spelled_out,
    "unknown characters": lambda candidate, _: open_call.once(_examine_unknown, candidate),
    "round trip": _examine_all,
}


@_parts.part("bug hunt", "CorrectedTokenizer")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Check the corrected tokenizer, one property after the other."""
    in_turn(_SYMPTOMS, candidate, thorough)
