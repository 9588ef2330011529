"""The families of models that can be trained: from what, and how it becomes examples."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Literal, NamedTuple

from attentively.config import ModelConfig
from attentively.data.batches import (
    encode_labelled,
    encode_lines,
    encode_pairs,
    encode_running_text,
    encode_scenes,
)
from attentively.data.corpora import KINDS, Corpus, Kind
from attentively.generation.search import Beam
from attentively.models import checkpoints
from attentively.models.captioning import Captioner
from attentively.models.checkpoints import Checkpoint
from attentively.models.encoder_heads import Classifier, MaskedLanguageModel
from attentively.models.interface import Model
from attentively.models.language_model import LanguageModel
from attentively.models.seq2seq import Seq2Seq
from attentively.models.transformer import Transformer
from attentively.scoring import evaluation
from attentively.scoring.evaluation import Report
from attentively.tokens.vocabulary import (
    END_ID,
    SPECIAL_TOKENS,
    BPETokenizer,
    CharacterTokenizer,
    Tokenizer,
    Vocabulary,
    WordTokenizer,
)

TokenizerKind = Literal["word", "character", "bpe"]
DEFAULT_SIZE = 5000
"""Tokens of a vocabulary of pieces of words, unless it is said."""
PIECE_LENGTH = 128
"""Tokens of a piece of running text, unless it is said."""
FROM_DATA = {"src_vocab_size", "tgt_vocab_size", "vocab_size", "labels", "height", "width"}
"""What the data settles, so that nobody need choose it."""


class Tokenizers(NamedTuple):
    """Of what a model reads and of what it writes; None where that is no text."""

    src: Tokenizer | None
    tgt: Tokenizer | None


class Texts(NamedTuple):
    """What the tokenizers of a model must know."""

    src: Sequence[str] | None
    tgt: Sequence[str] | None


class Content(NamedTuple):
    """What a split of a corpus holds, and how it is to be read."""

    items: Any
    kind: Kind
    piece_length: int = PIECE_LENGTH


class Family(ABC):
    """A kind of model: from what it learns, and how that becomes examples of its task."""

    name: str
    """As ``--model`` has it."""
    model: type[Model]
    """The class of its models, one of `checkpoints.MODELS`."""
    kinds: tuple[Kind, ...]
    """What corpora it learns from."""
    says_texts = True
    """Whether an evaluation lets its models write texts or say labels."""

    @property
    def kind(self) -> Kind | None:
        """What its corpora hold, if that is one thing only."""
        return self.kinds[0] if len(self.kinds) == 1 else None

    @property
    def config(self) -> type[ModelConfig]:
        """The class of their configurations."""
        return checkpoints.MODELS[self.model.__name__][1]

    @abstractmethod
    def texts(self, content: Content) -> Texts:
        """Return what the tokenizers must know."""

    @abstractmethod
    def examples(self, content: Content, tokenizers: Tokenizers, config: Any) -> Sequence[Any]:
        """Return examples of the models' task."""

    @abstractmethod
    def evaluate(
        self, checkpoint: Checkpoint, content: Content, how: Beam, progress: bool
    ) -> Report:
        """Score a model on what it has not seen; what does not search needs no beam."""

    def from_data(self, content: Content, tokenizers: Tokenizers) -> dict[str, Any]:
        """Return the choices of the configuration that the data settles."""
        src, tgt = (one and len(one) for one in tokenizers)
        sizes = {"src_vocab_size": src, "tgt_vocab_size": tgt, "vocab_size": src or tgt}
        names = {field.name for field in fields(self.config)}
        return {name: size for name, size in sizes.items() if name in names}


class Translating(Family):
    """From a sentence to its translation."""

    kinds = ("pairs",)

    def __init__(self, name: str, model: type[Model]) -> None:
        self.name = name
        self.model = model

    def texts(self, content: Content) -> Texts:
        """Return the sentences of either side."""
        return Texts([pair.src for pair in content.items], [pair.tgt for pair in content.items])

    def examples(self, content: Content, tokenizers: Tokenizers, config: Any) -> Sequence[Any]:
        """Return pairs of ids."""
        return encode_pairs(content.items, _known(tokenizers.src), _known(tokenizers.tgt))

    def evaluate(
        self, checkpoint: Checkpoint, content: Content, how: Beam, progress: bool
    ) -> Report:
        """Return BLEU, chrF, exact match and perplexity."""
        return evaluation.evaluate(checkpoint, content.items, *how, progress)


class WritingOn(Family):
    """From a text to what comes next."""

    name = "language-model"
    model = LanguageModel
    kinds = ("text",)
    says_texts = False

    def texts(self, content: Content) -> Texts:
        """Return the text, as one or line by line: it is the same to a tokenizer."""
        return Texts(None, content.items.splitlines(keepends=True))

    def examples(self, content: Content, tokenizers: Tokenizers, config: Any) -> Sequence[Any]:
        """Return pieces of the text if it is read by characters, or else its lines."""
        tokenizer = _known(tokenizers.tgt)
        if isinstance(tokenizer, CharacterTokenizer):
            return encode_running_text(content.items, tokenizer, content.piece_length)
        return encode_lines(content.items.splitlines(), tokenizer)

    def evaluate(
        self, checkpoint: Checkpoint, content: Content, how: Beam, progress: bool
    ) -> Report:
        """Return perplexities."""
        return evaluation.evaluate_language_model(
            checkpoint, content.items, content.piece_length, progress
        )


class FillingIn(Family):
    """From a text with gaps to what is missing."""

    name = "masked-language-model"
    model = MaskedLanguageModel
    kinds = ("text", "labels", "pairs")
    says_texts = False

    def texts(self, content: Content) -> Texts:
        """Return lines of a text, or sentences without their labels or translations."""
        if content.kind == "text":
            return Texts([line for line in content.items.splitlines() if line.strip()], None)
        return Texts([item[0] for item in content.items], None)

    def examples(self, content: Content, tokenizers: Tokenizers, config: Any) -> Sequence[Any]:
        """Return the ids of every text that has a known token to take out."""
        tokenizer = _known(tokenizers.src)
        rows = [tokenizer.encode(text) for text in self.texts(content).src or ()]
        return [ids for ids in rows if max(ids) > END_ID]

    def evaluate(
        self, checkpoint: Checkpoint, content: Content, how: Beam, progress: bool
    ) -> Report:
        """Return the accuracy on what was taken out."""
        texts = self.texts(content).src or ()
        return evaluation.evaluate_masked_language_model(checkpoint, texts, progress)


class Classifying(Family):
    """From a sentence to its label."""

    name = "classifier"
    model = Classifier
    kinds = ("labels",)

    def texts(self, content: Content) -> Texts:
        """Return the sentences."""
        return Texts([item.text for item in content.items], None)

    def examples(self, content: Content, tokenizers: Tokenizers, config: Any) -> Sequence[Any]:
        """Return ids and the number of the label."""
        return encode_labelled(content.items, _known(tokenizers.src), config.labels)

    def evaluate(
        self, checkpoint: Checkpoint, content: Content, how: Beam, progress: bool
    ) -> Report:
        """Return accuracy and confusions."""
        return evaluation.evaluate_classifier(checkpoint, content.items, progress)

    def from_data(self, content: Content, tokenizers: Tokenizers) -> dict[str, Any]:
        """Return the size of the vocabulary, and the labels in alphabetical order."""
        labels = tuple(sorted({item.label for item in content.items}))
        return {**super().from_data(content, tokenizers), "labels": labels}


class Captioning(Family):
    """From an image to words."""

    name = "captioner"
    model = Captioner
    kinds = ("scenes",)

    def texts(self, content: Content) -> Texts:
        """Return the captions."""
        return Texts(None, [" ".join(scene.caption) for scene in content.items])

    def examples(self, content: Content, tokenizers: Tokenizers, config: Any) -> Sequence[Any]:
        """Return images and the ids of their captions."""
        return encode_scenes(content.items, _known(tokenizers.tgt))

    def evaluate(
        self, checkpoint: Checkpoint, content: Content, how: Beam, progress: bool
    ) -> Report:
        """Return how many captions are true."""
        return evaluation.evaluate_captioner(checkpoint, content.items, *how, progress)

    def from_data(self, content: Content, tokenizers: Tokenizers) -> dict[str, Any]:
        """Return the size of the vocabulary and that of the images."""
        height, width = content.items[0].image.shape[-2:]
        return {**super().from_data(content, tokenizers), "height": height, "width": width}


def _known(tokenizer: Tokenizer | None) -> Tokenizer:
    if tokenizer is None:
        raise ValueError("this model has no tokenizer on the side that the data needs one for")
    return tokenizer


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in [
        Translating("seq2seq", Seq2Seq),
        Translating("transformer", Transformer),
        WritingOn(),
        Classifying(),
        FillingIn(),
        Captioning(),
    ]
}


def find(name: str) -> Family:
    """Return the family called `name`; an unknown name lists those there are."""
    if name not in FAMILIES:
        raise ValueError(f"model={name!r} is unknown: choose of {', '.join(FAMILIES)}")
    return FAMILIES[name]


def of(model: Model) -> Family:
    """Return the family that a model belongs to."""
    return next(family for family in FAMILIES.values() if family.model is type(model))


def usual(kind: Kind) -> Family:
    """Return the family that learns from this kind of data, if nothing else is said."""
    return next(family for family in FAMILIES.values() if family.kinds[0] == kind)


def refuse_other_data(family: Family, corpus: Corpus) -> None:
    """Raise `ValueError` for data that a model of this family does not learn from."""
    if corpus.kind not in family.kinds:
        raise ValueError(
            f"{corpus.name} holds {KINDS[corpus.kind]}, but a {family.name} learns from "
            f"{' or '.join(KINDS[kind] for kind in family.kinds)}"
        )


def usual_tokenizer(corpus: Corpus) -> TokenizerKind:
    """Return how a corpus is cut into tokens, if nothing else is said.

    What has few words is cut into words, running text into characters, other text into pieces
    of words.
    """
    if corpus.name.startswith("toy") or corpus.kind in ("labels", "scenes"):
        return "word"
    return "character" if corpus.kind == "text" else "bpe"


def learn(kind: TokenizerKind, texts: Texts, size: int | None) -> Tokenizers:
    """Make tokenizers that know `texts`; of bpe there is one for both sides."""
    if kind == "bpe":
        sides = [side for side in texts if side is not None]
        size = DEFAULT_SIZE if size is None else size
        joint = BPETokenizer.train((text for side in sides for text in side), size)
        return Tokenizers(*(None if side is None else joint for side in texts))
    if kind == "character":
        if size is not None:
            raise ValueError(
                f"vocabulary_size={size} goes with words and pieces of words: "
                "of characters all are listed"
            )
        return Tokenizers(
            *(None if side is None else CharacterTokenizer.train(side) for side in texts)
        )
    return Tokenizers(*(None if side is None else _words(side, size) for side in texts))


def _words(texts: Iterable[str], size: int | None) -> WordTokenizer:
    """List every word, or the most frequent ones of `size` tokens in all."""
    every = WordTokenizer.train(texts).vocabulary.tokens[len(SPECIAL_TOKENS) :]
    if size is None:
        return WordTokenizer(Vocabulary(every))
    if size <= len(SPECIAL_TOKENS):
        raise ValueError(f"vocabulary_size={size} has no room for a word and the special tokens")
    return WordTokenizer(Vocabulary(every[: size - len(SPECIAL_TOKENS)]))


def kind_of(tokenizer: Tokenizer) -> TokenizerKind:
    """Return what ``--tokenizer`` made this one."""
    if isinstance(tokenizer, BPETokenizer):
        return "bpe"
    return "character" if isinstance(tokenizer, CharacterTokenizer) else "word"
