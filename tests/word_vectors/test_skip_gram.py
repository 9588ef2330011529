"""Skip-gram: the loss, and what it is learned from."""

import math
import random
from collections import Counter

import pytest
import torch
import torch.nn.functional as F

from attentively.tokens.vocabulary import PAD_ID
from attentively.word_vectors.skip_gram import (
    SkipGram,
    context_pairs,
    draw_negatives,
    keep_probabilities,
    noise_distribution,
    subsample,
    word_counts,
)
from attentively.word_vectors.vectors import WordVectors

VOCAB, DIM, PAIRS, DRAWN = 13, 5, 7, 3


def model_and_pairs(kind=SkipGram):
    model = kind(VOCAB, DIM)
    torch.nn.init.normal_(model.centre.table.weight)
    torch.nn.init.normal_(model.context.table.weight)
    centre, context = torch.randint(1, VOCAB, (2, PAIRS))
    return model, centre, context, torch.randint(1, VOCAB, (PAIRS, DRAWN))


# What is learned


def by_the_equation(model, centre, context, negatives):
    v, u = model.centre.table.weight, model.context.table.weight
    total = 0
    for pair in range(PAIRS):
        total -= torch.log(torch.sigmoid(u[context[pair]] @ v[centre[pair]]))
        for drawn in negatives[pair]:
            total -= torch.log(torch.sigmoid(-u[drawn] @ v[centre[pair]]))
    return total / PAIRS


def as_classification(model, centre, context, negatives):
    """Tell seen words, label 1, from drawn ones, label 0: a logistic regression."""
    words = torch.cat([context.unsqueeze(1), negatives], dim=1)
    logits = torch.einsum(
        "bwd,bd->bw", model.context.table.weight[words], model.centre.table.weight[centre]
    )
    labels = torch.zeros_like(logits)
    labels[:, 0] = 1
    losses = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return losses.sum(dim=1).mean()


class ForgetsTheSign(SkipGram):
    """A broken twin: drawn words are drawn nearer, too."""

    def forward(self, centre, context, negatives):
        v = self.centre(centre)
        drawn = torch.einsum("bnd,bd->bn", self.context(negatives), v)
        seen = torch.einsum("bd,bd->b", self.context(context), v)
        return (-F.logsigmoid(seen) - F.logsigmoid(drawn).sum(dim=1)).mean()


class OneForTheBatch(SkipGram):
    """A broken twin: every pair has to win against the first pair's drawn words."""

    def forward(self, centre, context, negatives):
        return super().forward(centre, context, negatives[:1].expand_as(negatives))


def agrees(kind, reference) -> bool:
    model, *pairs = model_and_pairs(kind)
    ours, expected = model(*pairs), reference(model, *pairs)
    gradients, expected_gradients = (
        torch.autograd.grad(loss, list(model.parameters())) for loss in (ours, expected)
    )
    return torch.allclose(ours, expected) and all(
        torch.allclose(one, other, atol=1e-6)
        for one, other in zip(gradients, expected_gradients, strict=True)
    )


@pytest.mark.parametrize("reference", [by_the_equation, as_classification])
def test_the_loss_equals_the_equation_and_a_classification(reference):
    assert agrees(SkipGram, reference)
    assert not agrees(ForgetsTheSign, reference)
    assert not agrees(OneForTheBatch, reference)


def test_one_pair_and_its_gradient_by_hand():
    """Where every dot product is ln 3, sigma is 3/4: the seen word pulls by 1/4, a drawn by 3/4."""
    model = SkipGram(VOCAB, 2)
    with torch.no_grad():
        model.centre.table.weight[1] = torch.tensor([1.0, 0.0])
        model.context.table.weight[2] = torch.tensor([math.log(3), 5.0])
        model.context.table.weight[3] = torch.tensor([math.log(3), -1.0])
    loss = model(torch.tensor([1]), torch.tensor([2]), torch.tensor([[3]]))
    assert loss.item() == pytest.approx(-math.log(3 / 4) - math.log(1 / 4))
    loss.backward()
    u, v = model.context.table.weight.grad, model.centre.table.weight.grad
    torch.testing.assert_close(u[2], torch.tensor([-1 / 4, 0]))  # -(1 - sigma) v
    torch.testing.assert_close(u[3], torch.tensor([3 / 4, 0]))  # +sigma v
    torch.testing.assert_close(v[1], torch.tensor([math.log(3) / 2, -5 / 4 - 3 / 4]))
    assert v.abs().sum(dim=1).nonzero().flatten().tolist() == [1]
    assert u.abs().sum(dim=1).nonzero().flatten().tolist() == [2, 3]


def test_it_begins_knowing_nothing():
    """All dot products are 0, so every answer is 1/2: a loss of ln 2 for each word."""
    _, centre, context, negatives = model_and_pairs()
    model = SkipGram(VOCAB, DIM)
    assert model(centre, context, negatives).item() == pytest.approx((1 + DRAWN) * math.log(2))
    assert (model.vectors[PAD_ID] == 0).all()
    assert 0 < model.vectors[1:].abs().max() <= 0.5 / DIM
    assert not model.vectors.requires_grad


def test_words_of_like_company_come_near():
    """Words 4 and 5 stand in the same places, 6 and 7 in others."""
    chance = random.Random(0)
    sentences = []
    for _ in range(300):
        one, other = ((4, 5), (8, 9)), ((6, 7), (10, 11))
        centres, company = chance.choice([one, other])
        sentences.append([company[0], chance.choice(centres), company[1]])
    noise = noise_distribution(word_counts(sentences, VOCAB))
    pairs = torch.tensor([pair for sentence in sentences for pair in context_pairs(sentence, 2)])
    model = SkipGram(VOCAB, DIM)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        loss = model(pairs[:, 0], pairs[:, 1], draw_negatives(noise, len(pairs), DRAWN))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    vectors = WordVectors([f"w{index}" for index in range(VOCAB)], model.vectors)
    assert vectors.similarity("w4", "w5") > 0.9
    assert vectors.similarity("w6", "w7") > 0.9
    assert max(vectors.similarity("w4", other) for other in ("w6", "w7")) < 0.5
    assert vectors.nearest("w4", 1)[0].word == "w5"


# What it is learned from


def test_pairs_by_hand():
    sentence = [5, 6, 7, 8]
    assert list(context_pairs(sentence, 1)) == [(5, 6), (6, 5), (6, 7), (7, 6), (7, 8), (8, 7)]
    assert len(list(context_pairs(sentence, 3))) == 4 * 3
    assert list(context_pairs(sentence, 3)) == list(context_pairs(sentence, 99))
    assert list(context_pairs([5], 2)) == list(context_pairs([], 2)) == []
    assert list(context_pairs([5, 5], 1)) == [(5, 5), (5, 5)]  # again is a neighbour too


def shares_by_distance(pairs_of, window=4, length=101):
    counts = Counter(
        abs(one - other)
        for trial in range(40)
        for one, other in pairs_of(list(range(length)), window, random.Random(trial))
    )
    return [counts[distance] / (40 * 2 * (length - distance)) for distance in range(1, window + 1)]


def one_reach_for_the_sentence(sentence, window, chance):
    """A broken twin: drawn once, so a whole sentence sees far or near."""
    return context_pairs(sentence, chance.randint(1, window))


def window_thins_with_distance(pairs_of) -> bool:
    """A neighbour d steps away is seen with probability (window - d + 1) / window."""
    return all(
        abs(share - expected) < 0.03
        for share, expected in zip(
            shares_by_distance(pairs_of), [1, 3 / 4, 2 / 4, 1 / 4], strict=True
        )
    )


def test_a_drawn_window_sees_near_words_more_often():
    assert window_thins_with_distance(context_pairs)
    assert not window_thins_with_distance(lambda sentence, window, _: context_pairs(sentence, 4))


def reaches(pairs_of):
    """Return how far each word of one sentence looks."""
    furthest = Counter()
    for one, other in pairs_of(list(range(100)), 4, random.Random(1)):
        furthest[one] = max(furthest[one], abs(one - other))
    return set(furthest.values())


def test_the_window_is_drawn_anew_for_every_word():
    assert reaches(context_pairs) == {1, 2, 3, 4}
    assert len(reaches(one_reach_for_the_sentence)) == 1


def test_the_same_seed_draws_the_same_windows():
    sentence = list(range(30))
    one, same, other = (list(context_pairs(sentence, 5, random.Random(seed))) for seed in (1, 1, 2))
    assert one == same != other


def test_a_window_of_nothing_is_refused():
    with pytest.raises(ValueError, match="window=0 must be at least 1"):
        list(context_pairs([4, 5], 0))


def test_counts():
    assert word_counts([[4, 5, 4], [], [6]], 7) == [0, 0, 0, 0, 2, 1, 1]


def test_keep_probabilities_by_hand():
    """Of 100 words, 64, 32 and 4; at t = 0.04 they stay with sqrt(.04/.64) = 1/4, and so on."""
    keep = keep_probabilities([0, 64, 32, 4], threshold=0.04)
    assert keep == pytest.approx([1, 1 / 4, math.sqrt(1 / 8), 1])
    assert keep_probabilities([1, 9999])[1] == pytest.approx(math.sqrt(1e-5), rel=1e-3)
    assert keep_probabilities([99, 1], threshold=0.5)[1] == 1  # rarer than t: always


def thins_out(keep) -> bool:
    chance, sentence = random.Random(0), [1, 2, 3] * 4000
    left = Counter(subsample(sentence, keep, chance))
    return all(
        abs(left[word] / 4000 - expected) < 0.03
        for word, expected in ((1, 1 / 4), (2, 8**-0.5), (3, 1))
    )


def test_frequent_words_are_thinned_out():
    keep = keep_probabilities([0, 64, 32, 4], threshold=0.04)
    assert thins_out(keep)
    assert not thins_out([1 - share for share in keep])  # a broken twin: discards what it keeps
    assert subsample([3, 3, 3], keep, random.Random(0)) == [3, 3, 3]


COUNTS = [0, 1, 16, 81, 256]  # to the power of 3/4: 0, 1, 8, 27, 64


def test_noise_by_hand():
    torch.testing.assert_close(noise_distribution(COUNTS), torch.tensor([0, 1, 8, 27, 64]) / 100)
    torch.testing.assert_close(
        noise_distribution(COUNTS, power=0.0), torch.tensor([0, 0.25, 0.25, 0.25, 0.25])
    )
    torch.testing.assert_close(noise_distribution(COUNTS, power=1.0), torch.tensor(COUNTS) / 354)
    with pytest.raises(ValueError, match="all counts are zero"):
        noise_distribution([0, 0])


def draws_like_the_paper(noise) -> bool:
    """Pearson's chi-squared over 20,000 draws, at odds of one in a thousand (3 degrees: 16.3)."""
    generator = torch.Generator().manual_seed(0)
    drawn = draw_negatives(noise, 4000, 5, generator)
    assert drawn.shape == (4000, 5)
    counts = torch.bincount(drawn.flatten(), minlength=5)
    expected = torch.tensor([1, 8, 27, 64]) / 100 * drawn.numel()
    return counts[0] == 0 and bool(((counts[1:] - expected) ** 2 / expected).sum() < 16.3)


def test_negatives_are_drawn_like_the_paper():
    assert draws_like_the_paper(noise_distribution(COUNTS))
    assert not draws_like_the_paper(noise_distribution(COUNTS, power=1.0))  # as often as they occur
    assert not draws_like_the_paper(noise_distribution(COUNTS, power=0.0))  # all alike


def test_the_same_seed_draws_the_same_negatives():
    noise = noise_distribution(COUNTS)
    one, same, other = (
        draw_negatives(noise, 11, 3, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.gpu
def test_the_gpu_says_the_same():
    model, *pairs = model_and_pairs()
    expected = model(*pairs)
    there = model.to("cuda")(*(part.cuda() for part in pairs))
    torch.testing.assert_close(there.cpu(), expected, atol=1e-5, rtol=1e-5)
