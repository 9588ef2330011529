"""The families of models that can be trained: their data, tokenizers and training examples."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from attentively.cli.train_options import CONFIGS, DEFAULT_SIZE, PIECE_LENGTH, TokenizerKind
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


class Tokenizers(NamedTuple):
    """The tokenizers of the source and of the target; None for a side that is no text."""

    src: Tokenizer | None
    tgt: Tokenizer | None


class Texts(NamedTuple):
    """The texts that the tokenizers of a model are trained on."""

    src: Sequence[str] | None
    tgt: Sequence[str] | None


class Content(NamedTuple):
    """The items of a split of a corpus, and their kind."""

    items: Any
    kind: Kind
    piece_length: int = PIECE_LENGTH


class Family(ABC):
    """A kind of model: its training data, and how the data becomes examples of its task."""

    name: str
    """Its name as a value of ``--model``."""
    model: type[Model]
    """The class of its models, one of `checkpoints.MODELS`."""
    kinds: tuple[Kind, ...]
    """The kinds of corpora that it can be trained on."""
    says_texts = True
    """Whether an evaluation produces texts or labels that can be written to a file."""

    @property
    def kind(self) -> Kind | None:
        """The kind of its corpora; None if there are several."""
        return self.kinds[0] if len(self.kinds) == 1 else None

    @property
    def config(self) -> type[ModelConfig]:
        """The class of its models' configurations."""
        return CONFIGS[self.name]

    @abstractmethod
    def texts(self, content: Content) -> Texts:
        """Return the texts that the tokenizers are trained on."""

    @abstractmethod
    def examples(self, content: Content, tokenizers: Tokenizers, config: Any) -> Sequence[Any]:
        """Return examples of the models' task."""

    @abstractmethod
    def evaluate(
        self, checkpoint: Checkpoint, content: Content, how: Beam, progress: bool
    ) -> Report:
        """Evaluate a model on held-out data; the beam is for models that search."""

    def from_data(self, content: Content, tokenizers: Tokenizers) -> dict[str, Any]:
        """Return the fields of the configuration that follow from the data."""
        src, tgt = (one and len(one) for one in tokenizers)
        sizes = {"src_vocab_size": src, "tgt_vocab_size": tgt, "vocab_size": src or tgt}
        names = {field.name for field in fields(self.config)}
        return {name: size for name, size in sizes.items() if name in names}


class TranslationFamily(Family):
    """Translate a sentence."""

    kinds = ("pairs",)

    def __init__(self, name: str, model: type[Model]) -> None:
        self.name = name
        self.model = model

    def texts(self, content: Content) -> Texts:
        """Return the sentences of both sides."""
        return Texts([pair.src for pair in content.items], [pair.tgt for pair in content.items])

    def examples(self, content: Content, tokenizers: Tokenizers, config: Any) -> Sequence[Any]:
        """Return pairs of ids."""
        return encode_pairs(content.items, _known(tokenizers.src), _known(tokenizers.tgt))

    def evaluate(
        self, checkpoint: Checkpoint, content: Content, how: Beam, progress: bool
    ) -> Report:
        """Return BLEU, chrF, exact match and perplexity."""
        return evaluation.evaluate(checkpoint, content.items, *how, progress)


class LanguageModelFamily(Family):
    """Predict the next token of a text."""

    name = "language-model"
    model = LanguageModel
    kinds = ("text",)
    says_texts = False

    def texts(self, content: Content) -> Texts:
        """Return the lines of the text."""
        return Texts(None, content.items.splitlines(keepends=True))

    def examples(self, content: Content, tokenizers: Tokenizers, config: Any) -> Sequence[Any]:
        """Return chunks of the text for a character tokenizer, else its lines."""
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


class MaskedLanguageModelFamily(Family):
    """Predict the masked tokens of a text."""

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
        """Return the ids of every text that has a known token to mask."""
        tokenizer = _known(tokenizers.src)
        rows = [tokenizer.encode(text) for text in self.texts(content).src or ()]
        return [ids for ids in rows if max(ids) > END_ID]

    def evaluate(
        self, checkpoint: Checkpoint, content: Content, how: Beam, progress: bool
    ) -> Report:
        """Return the accuracy on the masked tokens."""
        texts = self.texts(content).src or ()
        return evaluation.evaluate_masked_language_model(checkpoint, texts, progress)


class ClassifierFamily(Family):
    """Predict the label of a sentence."""

    name = "classifier"
    model = Classifier
    kinds = ("labels",)

    def texts(self, content: Content) -> Texts:
        """Return the sentences."""
        return Texts([item.text for item in content.items], None)

    def examples(self, content: Content, tokenizers: Tokenizers, config: Any) -> Sequence[Any]:
        """Return the ids of each sentence and the index of its label."""
        return encode_labelled(content.items, _known(tokenizers.src), config.labels)

    def evaluate(
        self, checkpoint: Checkpoint, content: Content, how: Beam, progress: bool
    ) -> Report:
        """Return the accuracy and the confusion matrix."""
        return evaluation.evaluate_classifier(checkpoint, content.items, progress)

    def from_data(self, content: Content, tokenizers: Tokenizers) -> dict[str, Any]:
        """Return the vocabulary size, and the labels in alphabetical order."""
        labels = tuple(sorted({item.label for item in content.items}))
        return {**super().from_data(content, tokenizers), "labels": labels}


class CaptionerFamily(Family):
    """Describe an image."""

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
        """Return the share of correct captions."""
        return evaluation.evaluate_captioner(checkpoint, content.items, *how, progress)

    def from_data(self, content: Content, tokenizers: Tokenizers) -> dict[str, Any]:
        """Return the vocabulary size and the size of the images."""
        height, width = content.items[0].image.shape[-2:]
        return {**super().from_data(content, tokenizers), "height": height, "width": width}


def _known(tokenizer: Tokenizer | None) -> Tokenizer:
    if tokenizer is None:
        raise ValueError("this model has no tokenizer for a side of the data that is text")
    return tokenizer


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in [
        TranslationFamily("seq2seq", Seq2Seq),
        TranslationFamily("transformer", Transformer),
        LanguageModelFamily(),
        ClassifierFamily(),
        MaskedLanguageModelFamily(),
        CaptionerFamily(),
    ]
}


def find(name: str) -> Family:
    """Return the family called `name`; the error for an unknown name lists the families."""
    if name not in FAMILIES:
        raise ValueError(f"model={name!r} is unknown: choose one of {', '.join(FAMILIES)}")
    return FAMILIES[name]


def of(model: Model) -> Family:
    """Return the family that a model belongs to."""
    return next(family for family in FAMILIES.values() if family.model is type(model))


def usual(kind: Kind) -> Family:
    """Return the default family for this kind of data."""
    return next(family for family in FAMILIES.values() if family.kinds[0] == kind)


def refuse_other_data(family: Family, corpus: Corpus) -> None:
    """Raise `ValueError` for data that a model of this family cannot be trained on."""
    if corpus.kind not in family.kinds:
        raise ValueError(
            f"{corpus.name} contains {KINDS[corpus.kind]}, but a {family.name} needs "
            f"{' or '.join(KINDS[kind] for kind in family.kinds)}"
        )


def usual_tokenizer(corpus: Corpus) -> TokenizerKind:
    """Return the default tokenizer of a corpus.

    Corpora with a small vocabulary are split into words, running text into characters, other text
    into subwords.
    """
    if corpus.name.startswith("toy") or corpus.kind in ("labels", "scenes"):
        return "word"
    return "character" if corpus.kind == "text" else "bpe"


def learn(kind: TokenizerKind, texts: Texts, size: int | None) -> Tokenizers:
    """Train the tokenizers on `texts`; with bpe, both sides share one."""
    if kind == "bpe":
        sides = [side for side in texts if side is not None]
        size = DEFAULT_SIZE if size is None else size
        joint = BPETokenizer.train((text for side in sides for text in side), size)
        return Tokenizers(*(None if side is None else joint for side in texts))
    if kind == "character":
        if size is not None:
            raise ValueError(
                f"vocabulary_size={size} is for word and bpe tokenizers: "
                "a character tokenizer lists every character"
            )
        return Tokenizers(
            *(None if side is None else CharacterTokenizer.train(side) for side in texts)
        )
    return Tokenizers(*(None if side is None else _words(side, size) for side in texts))


def _words(texts: Iterable[str], size: int | None) -> WordTokenizer:
    """List every word, or the most frequent words up to `size` tokens in total."""
    every = WordTokenizer.train(texts).vocabulary.tokens[len(SPECIAL_TOKENS) :]
    if size is None:
        return WordTokenizer(Vocabulary(every))
    if size <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"vocabulary_size={size} must exceed the {len(SPECIAL_TOKENS)} special tokens"
        )
    return WordTokenizer(Vocabulary(every[: size - len(SPECIAL_TOKENS)]))


def kind_of(tokenizer: Tokenizer) -> TokenizerKind:
    """Return the value of ``--tokenizer`` for this tokenizer."""
    if isinstance(tokenizer, BPETokenizer):
        return "bpe"
    return "character" if isinstance(tokenizer, CharacterTokenizer) else "word"
