"""One small model of every kind that can be saved, and examples to teach it."""

import tiny_models
import torch

from attentively.data.batches import Example, ImageExample, LabelledExample
from attentively.models.captioning import Captioner
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import (
    STRIDE,
    CaptionerConfig,
    ClassifierConfig,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
)
from attentively.models.encoder_heads import Classifier, MaskedLanguageModel
from attentively.models.language_model import LanguageModel
from attentively.tokens.vocabulary import END_ID, START_ID, Vocabulary, WordTokenizer

STACK = {"d_model": 8, "num_heads": 2, "d_ff": 11, "num_layers": 2, "dropout": 0.0}
HEIGHT, WIDTH = 2 * STRIDE, 3 * STRIDE


def captioner():
    torch.manual_seed(0)
    sizes = {"feature_dim": 7, "embedding_dim": 5, "decoder_dim": 11, "attention_dim": 3}
    return Captioner(CaptionerConfig(19, HEIGHT, WIDTH, **sizes))


def one_of_each():
    """Return an untrained model of every kind that can be saved."""
    torch.manual_seed(0)
    heads = {"vocab_size": 13, **STACK}
    return {
        "Seq2Seq": tiny_models.seq2seq(),
        "Transformer": tiny_models.MODELS["transformer-pre"](),
        "Captioner": captioner(),
        "LanguageModel": LanguageModel(LanguageModelConfig(**heads)),
        "MaskedLanguageModel": MaskedLanguageModel(MaskedLanguageModelConfig(**heads)),
        "Classifier": Classifier(ClassifierConfig(labels=("no", "maybe", "yes"), **heads)),
    }


def checkpoint_of(model):
    """Return the model with tokenizers that fit it."""
    words = [
        None if size is None else WordTokenizer(Vocabulary(f"w{i}" for i in range(size - 4)))
        for size in model.config.vocab_sizes
    ]
    return Checkpoint(model, *words)


PAIRS = [
    Example([*range(4, 4 + n), END_ID], [START_ID, *range(9, 9 + m), END_ID])
    for n, m in [(2, 5), (7, 1), (3, 3)]
]
TEXTS = [[START_ID, 5, 6, 7, END_ID], [START_ID, 8, END_ID], [START_ID, 9, 5, 6, 5, 6, 5, END_ID]]


def scenes():
    images = torch.rand(3, 1, HEIGHT, WIDTH)
    captions = [[START_ID, 5, 7, END_ID], [START_ID, END_ID], [START_ID, 11, 13, 17, END_ID]]
    return [ImageExample(image, tgt) for image, tgt in zip(images, captions, strict=True)]


def examples_for(name):
    """Return three examples for the kind of model of that name."""
    labels = (2, 0, 1)
    return {
        "Captioner": scenes(),
        "LanguageModel": TEXTS,
        "MaskedLanguageModel": [text[1:] for text in TEXTS],
        "Classifier": [
            LabelledExample(text[1:], label) for text, label in zip(TEXTS, labels, strict=True)
        ],
    }.get(name, PAIRS)
