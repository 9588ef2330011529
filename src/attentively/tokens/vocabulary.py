"""Vocabularies and tokenizers: special tokens, and tokenizers of characters, words and subwords.

A *source* sentence is ``tokenizer.encode(text)``: its ids, then ``END_ID``.
A *target* sentence is ``[START_ID] + tokenizer.encode(text)``: the decoder reads all
but the last token and predicts all but the first.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

PAD, UNK, START, END = SPECIAL_TOKENS = ("<pad>", "<unk>", "<start>", "<end>")
PAD_ID, UNK_ID, START_ID, END_ID = range(len(SPECIAL_TOKENS))
GAP = "___"
"""The spelling of a masked token in a text."""


class Vocabulary:
    """A list of distinct tokens, the special tokens first; a token's index is its id."""

    def __init__(self, tokens: Iterable[str]) -> None:
        """`tokens` are the ordinary tokens, without the special ones."""
        self.tokens = [*SPECIAL_TOKENS, *tokens]
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        if len(self._ids) != len(self.tokens):
            repeated = [token for token, count in Counter(self.tokens).items() if count > 1]
            raise ValueError(
                f"the tokens of a vocabulary must be distinct, but these repeat: {repeated[:5]}"
            )

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._ids

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Return the id of each token, ``UNK_ID`` for an unknown one."""
        return [self._ids.get(token, UNK_ID) for token in tokens]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id; raises `ValueError` for an id out of range."""
        ids = list(ids)
        for index in ids:
            if not 0 <= index < len(self.tokens):
                raise ValueError(
                    f"id {index} is out of range: the vocabulary has {len(self.tokens)} tokens"
                )
        return [self.tokens[index] for index in ids]


@runtime_checkable
class Tokenizer(Protocol):
    """The interface of a tokenizer."""

    def __len__(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, ``END_ID`` last."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids` without padding, start and end tokens."""

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the displayed form of each id, special tokens included."""

    def to_json(self) -> str:
        """Return the tokenizer as JSON, for `load_tokenizer`."""


class WordTokenizer:
    """One token for each word, separated by white space."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @classmethod
    def train(cls, sentences: Iterable[str], min_count: int = 1) -> "WordTokenizer":
        """List the words that occur at least `min_count` times, by descending frequency."""
        counts = Counter(word for sentence in sentences for word in sentence.split())
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        words = [word for word, count in ranked if count >= min_count]
        if not words:
            raise ValueError(f"no word occurs min_count={min_count} times: is the corpus empty?")
        return cls(Vocabulary(word for word in words if word not in SPECIAL_TOKENS))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the words of `text`, ``END_ID`` last."""
        # The spelling of a special token in a text is ordinary text.
        words = (UNK if word in SPECIAL_TOKENS else word for word in text.split())
        return [*self.vocabulary.encode(words), END_ID]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the words of `ids` joined by spaces, without padding, start and end tokens."""
        return " ".join(self.vocabulary.decode(i for i in ids if i not in _SILENT_IDS))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the word of each id, special tokens included."""
        return self.vocabulary.decode(ids)

    def to_json(self) -> str:
        """Return the tokenizer as JSON, for `load_tokenizer`."""
        ordinary = self.vocabulary.tokens[len(SPECIAL_TOKENS) :]
        return json.dumps({"kind": "word", "tokens": ordinary}, ensure_ascii=False)


class CharacterTokenizer:
    """One token for each character, spaces and line ends included, without normalisation."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @classmethod
    def train(cls, texts: Iterable[str]) -> "CharacterTokenizer":
        """List the characters that occur, in Unicode order."""
        characters = {character for text in texts for character in text}
        if not characters:
            raise ValueError("the texts contain no character: is the corpus empty?")
        return cls(Vocabulary(sorted(characters)))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the characters of `text`, ``END_ID`` last."""
        return [*self.vocabulary.encode(text), END_ID]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the characters of `ids`, joined, without padding, start and end tokens."""
        return "".join(self.vocabulary.decode(i for i in ids if i not in _SILENT_IDS))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the character of each id, special tokens included."""
        return self.vocabulary.decode(ids)

    def to_json(self) -> str:
        """Return the tokenizer as JSON, for `load_tokenizer`."""
        ordinary = self.vocabulary.tokens[len(SPECIAL_TOKENS) :]
        return json.dumps({"kind": "character", "tokens": ordinary}, ensure_ascii=False)


class BPETokenizer:
    """Subwords by byte-pair encoding: frequent words whole, rare ones in pieces.

    Sennrich, Haddow & Birch (2016), https://arxiv.org/abs/1508.07909, with the `tokenizers`
    library. The first subword of a word starts with ``▁``.
    """

    def __init__(self, library_tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = library_tokenizer

    @classmethod
    def train(cls, sentences: Iterable[str], vocabulary_size: int) -> "BPETokenizer":
        """Learn merges until the vocabulary has `vocabulary_size` tokens."""
        if vocabulary_size <= len(SPECIAL_TOKENS):
            raise ValueError(
                f"vocabulary_size={vocabulary_size} must exceed the {len(SPECIAL_TOKENS)} "
                "special tokens"
            )
        sentences = [sentence for sentence in sentences if sentence.strip()]
        if not sentences:
            raise ValueError("byte-pair encoding needs at least one non-empty sentence")
        tokenizer = tokenizers.Tokenizer(models.BPE(unk_token=UNK))
        tokenizer.normalizer = normalizers.Sequence(
            [
                normalizers.NFC(),
                normalizers.Replace("’", "'"),
                normalizers.Replace(tokenizers.Regex(r"\s+"), " "),
                normalizers.Strip(),
            ]
        )
        # "l'animal." is split into ▁l' + animal + . before any merge is learned.
        word_or_mark = tokenizers.Regex(r"▁?[\p{L}\p{N}]+'?|▁?[^▁\p{L}\p{N}]")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Metaspace(), pre_tokenizers.Split(word_or_mark, "isolated")]
        )
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary_size,
            special_tokens=list(SPECIAL_TOKENS),
            show_progress=False,
        )
        tokenizer.train_from_iterator(sentences, trainer)
        smallest = tokenizer.get_vocab_size()
        if smallest > vocabulary_size:
            raise ValueError(
                f"vocabulary_size={vocabulary_size} must be at least {smallest}, the number of "
                "special tokens and of distinct characters of the corpus"
            )
        # Special tokens were listed to reserve their ids; in a text they are ordinary text.
        tokenizer.encode_special_tokens = True
        return cls(tokenizer)

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Return the ids of the subwords of `text`, ``END_ID`` last."""
        return [*self._tokenizer.encode(text).ids, END_ID]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids` without padding, start and end tokens."""
        pieces = self.tokens(i for i in ids if i not in _SILENT_IDS)
        return "".join(pieces).replace("▁", " ").strip()

    def words(self, text: str) -> list[str]:
        """Return the words and punctuation marks of `text` after normalisation."""
        tidied = self._tokenizer.normalizer.normalize_str(text)
        return [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(tidied)]

    @property
    def merges(self) -> list[tuple[str, str]]:
        """The merges, in the order in which they were learned."""
        learned = json.loads(self._tokenizer.to_str())["model"]["merges"]
        return [(first, second) for first, second in learned]

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """Return the id of each subword, ``UNK_ID`` for an unknown one."""
        found = (self._tokenizer.token_to_id(piece) for piece in pieces)
        return [UNK_ID if index is None else index for index in found]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the subword of each id; raises `ValueError` for an id out of range."""
        pieces = []
        size = len(self)
        for index in ids:
            piece = self._tokenizer.id_to_token(index) if 0 <= index < size else None
            if piece is None:
                raise ValueError(f"id {index} is out of range: the vocabulary has {size} tokens")
            pieces.append(piece)
        return pieces

    def to_json(self) -> str:
        """Return the tokenizer as JSON, for `load_tokenizer`."""
        return json.dumps({"kind": "bpe", "library": json.loads(self._tokenizer.to_str())})


_SILENT_IDS = {PAD_ID, START_ID, END_ID}


def load_tokenizer(text: str) -> WordTokenizer | CharacterTokenizer | BPETokenizer:
    """Load a tokenizer from the output of its ``to_json``; raises `ValueError` for other text."""
    match json.loads(text):
        case {"kind": "word", "tokens": [*tokens]} if all(isinstance(t, str) for t in tokens):
            return WordTokenizer(Vocabulary(tokens))
        case {"kind": "character", "tokens": [*tokens]} if all(_is_character(t) for t in tokens):
            return CharacterTokenizer(Vocabulary(tokens))
        case {"kind": "bpe", "library": library}:
            try:
                library_tokenizer = tokenizers.Tokenizer.from_str(json.dumps(library))
            except Exception as error:  # the library raises no narrower class
                raise ValueError(f"not a tokenizer of the tokenizers library: {error}") from None
            library_tokenizer.encode_special_tokens = True  # not kept in the library's own file
            return BPETokenizer(library_tokenizer)
    raise ValueError(
        "expected a tokenizer of kind 'word', 'character' or 'bpe', as written by to_json"
    )


def _is_character(token: object) -> bool:
    return isinstance(token, str) and len(token) == 1


def target_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return ``START_ID``, the ids of `text`, ``END_ID``: the target of a decoder."""
    return [START_ID, *tokenizer.encode(text)]


def unknown_words(tokenizer: Tokenizer, text: str) -> Sequence[str]:
    """Return the words of `text` with a part that is not in the vocabulary."""
    return [word for word in text.split() if UNK_ID in tokenizer.encode(word)]


def note_unknown_words(tokenizer: Tokenizer, text: str) -> str:
    """Return a note that lists the unknown words of `text`, each once; empty without any."""
    if UNK_ID not in tokenizer.encode(text):
        return ""
    words = dict.fromkeys(unknown_words(tokenizer, text))
    return f"unknown words: {', '.join(words)}" if words else "unknown white space"
