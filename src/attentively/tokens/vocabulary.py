"""Vocabularies and tokenizers: special tokens, and tokenizers of characters, words and subwords.

A *source* sentence is ``tokenizer.encode(text)``: its ids and then ``END_ID``.
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


class Vocabulary:
    """A list of distinct tokens, the special ones first; a token's place is its id."""

    def __init__(self, tokens: Iterable[str]) -> None:
        """`tokens` are the ordinary tokens, without the special ones."""
        self.tokens = [*SPECIAL_TOKENS, *tokens]
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        if len(self._ids) != len(self.tokens):
            repeated = [token for token, count in Counter(self.tokens).items() if count > 1]
            raise ValueError(
                f"a vocabulary lists each token once, but these repeat: {repeated[:5]}"
            )

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._ids

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Return the id of each token, ``UNK_ID`` for one that is not listed."""
        return [self._ids.get(token, UNK_ID) for token in tokens]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id; raises `ValueError` for an id out of range."""
        ids = list(ids)
        for index in ids:
            if not 0 <= index < len(self.tokens):
                raise ValueError(f"id {index} is outside a vocabulary of {len(self.tokens)} tokens")
        return [self.tokens[index] for index in ids]


@runtime_checkable
class Tokenizer(Protocol):
    """What the rest of the package asks of a tokenizer."""

    def __len__(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, ``END_ID`` last."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`, padding, start and end left out."""

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id as a reader should see it, special tokens too."""

    def to_json(self) -> str:
        """Return all that `load_tokenizer` needs."""


class WordTokenizer:
    """One token for each word between white space."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @classmethod
    def train(cls, sentences: Iterable[str], min_count: int = 1) -> "WordTokenizer":
        """List the words that occur at least `min_count` times, the frequent ones first."""
        counts = Counter(word for sentence in sentences for word in sentence.split())
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        words = [word for word, count in ranked if count >= min_count]
        if not words:
            raise ValueError(f"no word occurs {min_count} times or more: is the corpus empty?")
        return cls(Vocabulary(word for word in words if word not in SPECIAL_TOKENS))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the words of `text`, ``END_ID`` last."""
        # A special token spelled out in the text is text, not an instruction.
        words = (UNK if word in SPECIAL_TOKENS else word for word in text.split())
        return [*self.vocabulary.encode(words), END_ID]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the words of `ids` joined by spaces, padding, start and end left out."""
        return " ".join(self.vocabulary.decode(i for i in ids if i not in _SILENT_IDS))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the word of each id, special tokens too."""
        return self.vocabulary.decode(ids)

    def to_json(self) -> str:
        """Return all that `load_tokenizer` needs."""
        ordinary = self.vocabulary.tokens[len(SPECIAL_TOKENS) :]
        return json.dumps({"kind": "word", "tokens": ordinary}, ensure_ascii=False)


class CharacterTokenizer:
    """One token for each character; spaces and line ends count, and nothing is tidied away."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @classmethod
    def train(cls, texts: Iterable[str]) -> "CharacterTokenizer":
        """List the characters that occur, in the order of Unicode; one text will do."""
        characters = {character for text in texts for character in text}
        if not characters:
            raise ValueError("there is no character to list: is the corpus empty?")
        return cls(Vocabulary(sorted(characters)))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the characters of `text`, ``END_ID`` last."""
        return [*self.vocabulary.encode(text), END_ID]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the characters of `ids` side by side, padding, start and end left out."""
        return "".join(self.vocabulary.decode(i for i in ids if i not in _SILENT_IDS))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the character of each id, special tokens too."""
        return self.vocabulary.decode(ids)

    def to_json(self) -> str:
        """Return all that `load_tokenizer` needs."""
        ordinary = self.vocabulary.tokens[len(SPECIAL_TOKENS) :]
        return json.dumps({"kind": "character", "tokens": ordinary}, ensure_ascii=False)


class BPETokenizer:
    """Subwords by byte-pair encoding: frequent words whole, rare ones in pieces.

    Sennrich, Haddow & Birch (2016), https://arxiv.org/abs/1508.07909. The work is done
    by the `tokenizers` library. A piece that begins a word begins with ``▁``.
    """

    def __init__(self, library_tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = library_tokenizer

    @classmethod
    def train(cls, sentences: Iterable[str], vocabulary_size: int) -> "BPETokenizer":
        """Merge frequent neighbours until `vocabulary_size` tokens are listed."""
        if vocabulary_size <= len(SPECIAL_TOKENS):
            raise ValueError(
                f"vocabulary_size={vocabulary_size} has no room for a character and the special "
                "tokens"
            )
        sentences = [sentence for sentence in sentences if sentence.strip()]
        if not sentences:
            raise ValueError("byte-pair encoding needs at least one sentence that is not empty")
        tokenizer = tokenizers.Tokenizer(models.BPE(unk_token=UNK))
        tokenizer.normalizer = normalizers.Sequence(
            [
                normalizers.NFC(),
                normalizers.Replace("’", "'"),
                normalizers.Replace(tokenizers.Regex(r"\s+"), " "),
                normalizers.Strip(),
            ]
        )
        # "l'animal." is cut into ▁l' + animal + . before any merge is learned.
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
                f"vocabulary_size={vocabulary_size} has no room for the special tokens and the "
                f"corpus's characters, {smallest} in all"
            )
        # Special tokens were listed to reserve their ids. Spelled out in a text they are text.
        tokenizer.encode_special_tokens = True
        return cls(tokenizer)

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Return the ids of the pieces of `text`, ``END_ID`` last."""
        return [*self._tokenizer.encode(text).ids, END_ID]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`, padding, start and end left out."""
        pieces = self.tokens(i for i in ids if i not in _SILENT_IDS)
        return "".join(pieces).replace("▁", " ").strip()

    def words(self, text: str) -> list[str]:
        """Return the words and marks of `text`, tidied: what is cut into pieces one by one."""
        tidied = self._tokenizer.normalizer.normalize_str(text)
        return [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(tidied)]

    @property
    def merges(self) -> list[tuple[str, str]]:
        """The pairs of pieces to join, in the order in which they were learned."""
        learned = json.loads(self._tokenizer.to_str())["model"]["merges"]
        return [(first, second) for first, second in learned]

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """Return the id of each piece, ``UNK_ID`` for one that is not listed."""
        found = (self._tokenizer.token_to_id(piece) for piece in pieces)
        return [UNK_ID if index is None else index for index in found]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the piece of each id; raises `ValueError` for an id out of range."""
        pieces = []
        size = len(self)
        for index in ids:
            piece = self._tokenizer.id_to_token(index) if 0 <= index < size else None
            if piece is None:
                raise ValueError(f"id {index} is outside a vocabulary of {size} tokens")
            pieces.append(piece)
        return pieces

    def to_json(self) -> str:
        """Return all that `load_tokenizer` needs."""
        return json.dumps({"kind": "bpe", "library": json.loads(self._tokenizer.to_str())})


_SILENT_IDS = {PAD_ID, START_ID, END_ID}


def load_tokenizer(text: str) -> WordTokenizer | CharacterTokenizer | BPETokenizer:
    """Read back what a tokenizer's ``to_json`` wrote; raises `ValueError` for other text."""
    match json.loads(text):
        case {"kind": "word", "tokens": [*tokens]} if all(isinstance(t, str) for t in tokens):
            return WordTokenizer(Vocabulary(tokens))
        case {"kind": "character", "tokens": [*tokens]} if all(_is_character(t) for t in tokens):
            return CharacterTokenizer(Vocabulary(tokens))
        case {"kind": "bpe", "library": library}:
            try:
                library_tokenizer = tokenizers.Tokenizer.from_str(json.dumps(library))
            except Exception as error:  # the library knows no narrower one
                raise ValueError(f"this is no tokenizer of the library's: {error}") from None
            library_tokenizer.encode_special_tokens = True  # not kept in the library's own file
            return BPETokenizer(library_tokenizer)
    raise ValueError(
        "expected a tokenizer of kind 'word', 'character' or 'bpe', as written by to_json"
    )


def _is_character(token: object) -> bool:
    return isinstance(token, str) and len(token) == 1


def target_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return ``START_ID``, the ids of `text`, ``END_ID``: what a decoder is taught."""
    return [START_ID, *tokenizer.encode(text)]


def unknown_words(tokenizer: Tokenizer, text: str) -> Sequence[str]:
    """Return the words of `text` of which some part is not in the vocabulary."""
    return [word for word in text.split() if UNK_ID in tokenizer.encode(word)]


def note_unknown_words(tokenizer: Tokenizer, text: str) -> str:
    """Return a note that names the unknown words of `text`, each once; nothing without any."""
    if UNK_ID not in tokenizer.encode(text):
        return ""
    words = dict.fromkeys(unknown_words(tokenizer, text))
    return f"unknown words: {', '.join(words)}" if words else "unknown white space"
