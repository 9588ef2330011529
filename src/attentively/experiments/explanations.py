"""Explanations: predictions under attention weights that differ from the learned ones.

A classifier with one attention step predicts the sentiment of sentences. Its weights are permuted,
replaced by adversarial weights, and imitated by a model with other weights; they are compared with
those of the same model from another seed, and with other explanations of the same predictions. The
weights of the pretrained translator are permuted as well. The sentences need the data set
(``attentively data get sentiment``).

Jain & Wallace (2019), https://arxiv.org/abs/1902.10186, sections 4.1 and 4.2; Wiegreffe & Pinter
(2019), https://arxiv.org/abs/1908.04626, sections 3.1 and 4; Vashishth et al. (2019),
https://arxiv.org/abs/1909.11218, section 4, for translation.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively.analysis import explanations
from attentively.data import sentiment, toy
from attentively.data.batches import collate, encode_pairs, pad
from attentively.data.sentiment import Labelled
from attentively.data.words import split_words
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import as_text, scores
from attentively.layers.bidirectional import BidirectionalEncoder
from attentively.layers.embedding import TokenEmbedding
from attentively.models.attentive_classifier import AttentiveClassifier
from attentively.models.checkpoints import Checkpoint, load_pretrained
from attentively.models.interface import evaluating
from attentively.models.seq2seq import Seq2Seq
from attentively.tokens.vocabulary import PAD_ID, UNK_ID, WordTokenizer

SHIPPED = "toy-additive"
"""The translator whose weights are permuted."""

EMBEDDING_DIM = 32
STEPS = 300
BATCH_SIZE = 32
LEARNING_RATE = 3e-3
DIVERGENCE_WEIGHT = 0.01
"""Weight of the divergence of the attention weights in the loss: lambda."""
PERMUTATIONS = 20
CLAUSES = (1, 2, 3)

Loss = Callable[[AttentiveClassifier, Int[Tensor, " batch"]], Tensor]


class Sentences(NamedTuple):
    """Padded token ids, and the labels of the sentences."""

    ids: Int[Tensor, "sentences longest"]
    labels: Int[Tensor, " sentences"]

    @property
    def mask(self) -> Bool[Tensor, "sentences longest"]:
        """True at words."""
        return self.ids != PAD_ID

    def only(self, batch: Int[Tensor, " batch"]) -> "Sentences":
        """Return a subset of the sentences, without unnecessary padding."""
        longest = int(self.mask[batch].sum(dim=1).max())
        return Sentences(self.ids[batch, :longest], self.labels[batch])


def tidied(examples: Sequence[Labelled]) -> list[Labelled]:
    """Return each text in lower case with words separated by spaces, without empty texts."""
    texts = ((" ".join(split_words(text)), label) for text, label in examples)
    return [Labelled(text, label) for text, label in texts if text]


def encode(examples: Sequence[Labelled], tokenizer: WordTokenizer) -> Sentences:
    """Return the ids of normalised sentences, without end tokens."""
    ids = [tokenizer.encode(example.text)[:-1] for example in examples]
    labels = [int(example.label == "positive") for example in examples]
    return Sentences(pad(ids), torch.tensor(labels))


def new_classifier(vocab_size: int, seed: int, reader: bool) -> AttentiveClassifier:
    """Return an untrained classifier; with `reader`, an RNN contextualises the words."""
    torch.manual_seed(seed)
    return AttentiveClassifier(
        TokenEmbedding(vocab_size, EMBEDDING_DIM),
        key_dim=EMBEDDING_DIM,
        num_labels=2,
        reader=BidirectionalEncoder(EMBEDDING_DIM, EMBEDDING_DIM // 2) if reader else None,
    )


def train(
    classifier: AttentiveClassifier, sentences: Sentences, loss_of: Loss, steps: int, seed: int
) -> None:
    """Minimise a loss on random batches, without parameters that need no gradient."""
    learned = [parameter for parameter in classifier.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(learned, LEARNING_RATE)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        batch = torch.randint(len(sentences.ids), (BATCH_SIZE,), generator=generator)
        loss = loss_of(classifier, batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def true_labels(sentences: Sentences) -> Loss:
    """Return the loss of the task."""

    def loss(classifier: AttentiveClassifier, batch: Int[Tensor, " batch"]) -> Tensor:
        some = sentences.only(batch)
        return F.cross_entropy(classifier(some.ids, some.mask).logits, some.labels)

    return loss


def forgery(
    original: AttentiveClassifier,
    sentences: Sentences,
    divergence_weight: float = DIVERGENCE_WEIGHT,
) -> Loss:
    """Return the loss for the original's predictions with other attention weights."""

    def loss(forger: AttentiveClassifier, batch: Int[Tensor, " batch"]) -> Tensor:
        some = sentences.only(batch)
        with torch.no_grad():
            true_logits, true_weights = original(some.ids, some.mask)
        logits, weights = forger(some.ids, some.mask)
        return explanations.forgery_loss(
            logits.softmax(dim=-1),
            weights,
            true_logits.softmax(dim=-1),
            true_weights,
            divergence_weight,
        )

    return loss


def uniform(mask: Bool[Tensor, "sentences longest"]) -> Float[Tensor, "sentences longest"]:
    """Return uniform weights on all real positions."""
    return mask / mask.sum(dim=1, keepdim=True)


def kendall(first: Float[Tensor, " places"], second: Float[Tensor, " places"]) -> float:
    """Return Kendall's tau-a, from -1 to 1: concordant minus discordant pairs, as a fraction.

    A pair that is tied in either ranking counts as neither.
    """
    one, other = ((x.unsqueeze(0) - x.unsqueeze(1)).sign() for x in (first, second))
    places = len(first)
    return ((one * other).sum() / (places * (places - 1))).item()


def measure(kind: str, seed: int, quick: bool, directory: Path) -> Row:
    """Run the tests on one classifier, or permute the weights of the translator."""
    torch.set_num_threads(1)
    if kind == "translation":
        found = _translation(seed, quick)
    else:
        found = _sentiment(kind == "recurrent", seed, quick)
    return {name: round(value, 4) for name, value in found.items()}


def _sentiment(reader: bool, seed: int, quick: bool) -> Row:
    sentences, tests, vocab_size = load_sentences(quick)
    ids, labels, mask = tests.ids, tests.labels, tests.mask
    steps = 3 if quick else STEPS

    made = partial(new_classifier, vocab_size, reader=reader)
    original, flat = made(seed), made(seed)
    rival, forger = made(seed + 100), made(seed + 100)
    train(original, sentences, true_labels(sentences), steps, seed)
    train(rival, sentences, true_labels(sentences), steps, seed + 100)
    nn.init.zeros_(flat.attention.energy.weight).requires_grad_(False)  # equal weights for ever
    train(flat, sentences, true_labels(sentences), steps, seed)
    train(forger, sentences, forgery(original, sentences), steps, seed)

    with torch.no_grad():
        logits, weights = original(ids, mask)
        truth = logits.softmax(dim=-1)
        keys = original.read(original.embedding(ids), mask)

    def answer(other: Tensor) -> Tensor:
        return original.judge(keys, other).softmax(dim=-1)

    def accuracy(probabilities: Tensor) -> float:
        return (probabilities.argmax(dim=-1) == labels).float().mean().item()

    def agreement(probabilities: Tensor) -> float:
        return (probabilities.argmax(dim=-1) == truth.argmax(dim=-1)).float().mean().item()

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        permuted = torch.stack(
            [
                answer(explanations.permuted_weights(weights, mask, generator))
                for _ in range(PERMUTATIONS)
            ]
        )
        equal = answer(uniform(mask))
        flat_answers = flat(ids, mask).logits.softmax(dim=-1)
        forged_logits, forged_weights = forger(ids, mask)
        forged = forged_logits.softmax(dim=-1)
        rival_logits, rival_weights = rival(ids, mask)
        rivals = rival_logits.softmax(dim=-1)
    adversary = explanations.adversarial_weights(answer, weights, mask, seed=seed)
    distance = explanations.jensen_shannon(adversary, weights)
    moved = explanations.total_variation(permuted, truth.expand_as(permuted)).median(dim=0).values
    return {
        "test_sentences": len(ids),
        "mean_words": mask.sum(dim=1).float().mean().item(),
        "largest_weight": weights.max(dim=1).values.mean().item(),
        "accuracy": accuracy(truth),
        "accuracy_equal_weights": accuracy(equal),
        "accuracy_trained_with_equal_weights": accuracy(flat_answers),
        "accuracy_permuted": sum(map(accuracy, permuted)) / PERMUTATIONS,
        "same_answer_permuted": sum(map(agreement, permuted)) / PERMUTATIONS,
        "moved_by_permutation": moved.mean().item(),
        "adversarial_distance": distance.mean().item(),
        "adversarial_far": (distance > 0.5).float().mean().item(),
        "forger_accuracy": accuracy(forged),
        "forger_same_answer": agreement(forged),
        "forger_moved": explanations.total_variation(forged, truth).mean().item(),
        "forger_distance": explanations.jensen_shannon(forged_weights, weights).mean().item(),
        "rival_accuracy": accuracy(rivals),
        "rival_same_answer": agreement(rivals),
        "rival_moved": explanations.total_variation(rivals, truth).mean().item(),
        "rival_distance": explanations.jensen_shannon(rival_weights, weights).mean().item(),
        **correlations(original, tests),
    }


def correlations(classifier: AttentiveClassifier, tests: Sentences) -> dict[str, float]:
    """Return Kendall's tau between the rankings by attention, occlusion and gradient.

    The explanations are those of the probability of the predicted label, ranked by absolute value.
    Sentences of fewer than three words are excluded.
    """
    taus: list[tuple[float, float, float]] = []
    for ids, mask in zip(tests.ids, tests.mask, strict=True):
        words = ids[mask]
        if len(words) < 3:
            continue
        real = torch.ones(1, len(words), dtype=torch.bool)
        with torch.no_grad():
            logits, weights = classifier(words.unsqueeze(0), real)
            embedded = classifier.embedding(words)
        label = int(logits.argmax())

        def score(inputs: Tensor, label: int = label) -> Tensor:
            everywhere = torch.ones(inputs.shape[:2], dtype=torch.bool)
            if inputs.dim() == 2:  # ids
                inputs = classifier.embedding(inputs)
            return classifier.answer(inputs, everywhere).logits.softmax(dim=-1)[:, label]

        occluded = explanations.occlusion(score, words, UNK_ID).abs()
        sloped = explanations.gradient_times_input(score, embedded).abs()
        taus.append(
            (
                kendall(weights[0], occluded),
                kendall(weights[0], sloped),
                kendall(occluded, sloped),
            )
        )
    names = ("attention_and_occlusion", "attention_and_gradient", "occlusion_and_gradient")
    means = (sum(values) / len(values) for values in zip(*taus, strict=True))
    return dict(zip(names, means, strict=True))


class OtherWeights(nn.Module):
    """An attention whose weights are replaced before the weighted sum."""

    def __init__(
        self,
        attention: nn.Module,
        change: Callable[[Tensor, Tensor], Tensor],
    ) -> None:
        """`change` receives weights and mask, and returns the weights to use."""
        super().__init__()
        self.attention = attention
        self.change = change

    def forward(
        self,
        query: Float[Tensor, "batch query_dim"],
        keys: Float[Tensor, "batch src_len key_dim"],
        mask: Bool[Tensor, "batch src_len"],
    ) -> tuple[Float[Tensor, "batch key_dim"], Float[Tensor, "batch src_len"]]:
        """Return the context for the changed weights, and these weights."""
        _, weights = self.attention(query, keys, mask)
        other = self.change(weights, mask)
        return torch.einsum("bs,bsd->bd", other, keys), other


def _translation(seed: int, quick: bool) -> Row:
    checkpoint = load_pretrained(SHIPPED)
    pairs = toy.load("test", 5 if quick else 300, clauses=CLAUSES, seed=seed)
    generator = torch.Generator().manual_seed(seed)

    def permute(weights: Tensor, mask: Tensor) -> Tensor:
        return explanations.permuted_weights(weights, mask, generator)

    own = _translator_numbers(checkpoint, pairs)
    model = checkpoint.model
    assert isinstance(model, Seq2Seq)
    learned = model.decoder.attention
    found = {"test_sentences": len(pairs), "mean_words": _mean_words(pairs)}
    changes = {"": None, "_permuted": permute, "_equal_weights": lambda _, mask: uniform(mask)}
    for name, change in changes.items():
        model.decoder.attention = learned if change is None else OtherWeights(learned, change)
        numbers = _translator_numbers(checkpoint, pairs)
        right = numbers.pop("chosen") == own["chosen"]
        numbers["same_word"] = right.float().mean().item()
        found |= {f"{key}{name}": value for key, value in numbers.items()}
    return found


def _mean_words(pairs: Sequence[toy.ToyPair]) -> float:
    return sum(len(pair.src) for pair in pairs) / len(pairs)


def _translator_numbers(checkpoint: Checkpoint, pairs: Sequence[toy.ToyPair]) -> Row:
    """Return exact match and BLEU, and the predicted word after each true prefix."""
    model, *tokenizers = checkpoint.translator()
    src, tgt = collate(encode_pairs(as_text(pairs), *tokenizers))
    with evaluating(model):
        logits = model(src, tgt[:, :-1])
    return {
        **scores(checkpoint, pairs),
        "chosen": logits.argmax(dim=-1)[tgt[:, 1:] != PAD_ID],
    }


def load_sentences(quick: bool) -> tuple[Sentences, Sentences, int]:
    """Return the encoded training and test sentences, and the size of their vocabulary."""
    train_texts, test_texts = (tidied(_opinions(split, quick)) for split in ("train", "test"))
    tokenizer = WordTokenizer.train((text for text, _ in train_texts), min_count=2)
    return encode(train_texts, tokenizer), encode(test_texts, tokenizer), len(tokenizer)


def _opinions(split: str, quick: bool) -> list[Labelled]:
    """Return real sentences or, in the quick form, a few of our own, so that it runs offline."""
    if not quick:
        return sentiment.load(split)
    good, bad = ("good", "positive"), ("bad", "negative")
    return [
        Labelled(f"the {noun} was very {word}", label)
        for noun in ("milk", "street", "cat", "film")
        for word, label in (good, bad)
    ]


EXPERIMENT = Experiment(
    name="explanations",
    question="How do predictions change with attention weights that differ from the learned ones?",
    conditions=[{"kind": kind} for kind in ("recurrent", "embedding", "translation")],
    measure=measure,
)
