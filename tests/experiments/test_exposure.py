"""What is said after true and after own words, counted on decoders whose answers are known."""

import pytest
import torch
from torch import Tensor, nn

from attentively.data.batches import Example, collate
from attentively.experiments import exposure
from attentively.experiments.exposure import compare, look, run_free
from attentively.models.configs import Seq2SeqConfig
from attentively.models.interface import DecoderOutput, EncoderDecoder, Memory
from attentively.models.seq2seq import Seq2Seq
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID

A, B, C = 4, 5, 6


class Word:
    """A state that is nothing."""

    def select(self, rows: Tensor) -> "Word":
        return self


class Table(EncoderDecoder):
    """A decoder that knows only the word just read: a row of probabilities for each."""

    def __init__(self, rows: dict[int, dict[int, float]]) -> None:
        super().__init__()
        table = torch.full((7, 7), 1e-4)
        for read, said in rows.items():
            for word, probability in said.items():
                table[read, word] = probability
        self.logits = nn.Parameter(table.log())

    def encode(self, src, src_mask=None):
        return Memory(torch.zeros(*src.shape, 1), self.source_mask(src))

    def decode(self, tgt, memory, need_weights=False):
        return DecoderOutput(self.logits[tgt])

    def start(self, memory):
        return Word()

    def step(self, token, state):
        return self.logits[token], state


@pytest.fixture
def table():
    """After <start> it prefers C to A; after C it ends; after A it says B, and then the end."""
    return Table({
        START_ID: {A: 0.4, C: 0.5, B: 0.1},
        A: {B: 0.8, C: 0.1, END_ID: 0.1},
        B: {END_ID: 0.9, A: 0.1},
        C: {A: 0.2, B: 0.1, C: 0.1, END_ID: 0.6},
    })  # fmt: skip


EXAMPLE = Example([A, END_ID], [START_ID, A, B, END_ID])


def test_by_hand(table):
    """The page's table: led, two of three are right; alone, none."""
    row = compare(table, [EXAMPLE])
    assert row["tokens"] == 3
    assert row["loss_after_gold"] == pytest.approx(0.415, abs=2e-3)
    assert row["accuracy_after_gold"] == pytest.approx(2 / 3, abs=1e-4)
    assert row["accuracy_after_own"] == 0
    assert row["exact_match"] == 0
    assert row["alive"]["tokens"] == 2  # at the third its sentence has ended
    assert row["after_slip"]["tokens"] == 1
    assert row["after_slip"]["gold"]["loss"] == pytest.approx(0.223, abs=2e-3)
    assert row["after_slip"]["own"]["loss"] == pytest.approx(2.303, abs=2e-3)
    assert [found["tokens"] for found in row["by_distance"][:3]] == [1, 0, 0]


def test_free_running_reads_its_own_words(table):
    free = run_free(table, torch.tensor([[A, END_ID]]), steps=4)
    assert free.words.tolist() == [[C, END_ID, PAD_ID, PAD_ID]]
    read = torch.tensor([[START_ID, C, END_ID, PAD_ID]])
    assert torch.equal(free.logits, table.logits[read])


def test_one_slip_is_read_and_true_words_after_it():
    """It says C for the first A, then goes on alone: A, B, and the end, too early."""
    slips = Table({
        START_ID: {C: 0.6, A: 0.4},
        A: {B: 0.9},
        C: {A: 0.7, B: 0.3},
        B: {A: 0.2, END_ID: 0.8},
    })  # fmt: skip
    example = Example([A, END_ID], [START_ID, A, B, A, B, END_ID])
    at = look(slips, collate([example]))
    read = {"gold": [START_ID, A, B, A, B], "slip": [START_ID, C, B, A, B]}
    for name, words in read.items():
        log_probabilities = slips.logits.log_softmax(dim=-1)
        expected = [-log_probabilities[w, t] for w, t in zip(words, example.tgt[1:], strict=True)]
        torch.testing.assert_close(at.losses[name][0], torch.stack(expected))
    assert at.slipped.tolist() == [[False, True, True, True, False]]
    assert at.distance[0, 1:].tolist() == [1, 2, 3, 4]


def model(seed=0):
    torch.manual_seed(seed)
    return Seq2Seq(Seq2SeqConfig(13, 11, attention="fixed", embedding_dim=5, encoder_dim=3,
                                 decoder_dim=7)).eval()  # fmt: skip


EXAMPLES = [
    Example([7, 5, 9, END_ID], [START_ID, 4, 10, END_ID]),
    Example([8, END_ID], [START_ID, 6, 5, 9, 4, END_ID]),
    Example([11, 12, 6, 5, 9, END_ID], [START_ID, 8, 8, END_ID]),
]


def test_before_the_first_slip_nothing_differs():
    at = look(model(), collate(EXAMPLES))
    before = at.alive & ~at.slipped
    assert before[:, 0].all()
    assert at.slipped.any()
    for name in ("slip", "own"):
        torch.testing.assert_close(at.losses[name][before], at.losses["gold"][before])
    assert not torch.allclose(at.losses["own"][at.slipped], at.losses["gold"][at.slipped])


def test_padding_counts_for_nothing():
    """In a batch or alone, a sentence counts the same."""
    together = compare(model(), EXAMPLES)
    assert together["tokens"] == 3 + 5 + 3
    alone = [compare(model(), [example]) for example in EXAMPLES]
    for name in ("loss_after_gold", "accuracy_after_gold", "accuracy_after_own"):
        total = sum(row[name] * row["tokens"] for row in alone)
        assert together[name] == pytest.approx(total / 11, abs=1e-3)


def test_a_perfect_model_has_no_gap():
    perfect = Table({START_ID: {A: 1.0}, A: {B: 1.0}, B: {END_ID: 1.0}})
    row = compare(perfect, [EXAMPLE])
    assert row["accuracy_after_gold"] == row["accuracy_after_own"] == row["exact_match"] == 1
    assert row["after_slip"] == {"tokens": 0}


def test_training_on_own_words_does_not_see_the_true_ones():
    """Targets that differ in a word that is only read by a teacher: nothing else changes."""
    from attentively.models.checkpoints import Checkpoint
    from attentively.training.training_config import TrainingConfig

    config = TrainingConfig(steps=1)
    trainer = exposure.FreeRunningTrainer(
        Checkpoint(model(), None, None), EXAMPLES, EXAMPLES, config, progress=False
    )
    batch = collate(EXAMPLES[:1])
    own = run_free(trainer.model, batch.src, 3).logits
    losses = exposure.surprise(own, batch.tgt[:, 1:])
    torch.testing.assert_close(trainer._loss(batch), losses.mean())


def test_another_person_is_compared_after_the_first_difference(table):
    """One says A B, the other A C: what follows the A is due after both, so only the end counts."""
    other = Example([A, END_ID], [START_ID, A, C, END_ID])
    row = exposure.after_another_person(table, [(EXAMPLE, other)])
    assert row["tokens"] == 1
    assert row["gold"]["loss"] == pytest.approx(0.105, abs=2e-3)
    assert row["other"]["loss"] == pytest.approx(0.511, abs=2e-3)  # the end after C: 0.6


def test_two_persons_are_compared_while_both_speak(table):
    """In a batch, padding on either side counts for nothing."""

    def said(*words):
        return Example([A, END_ID], [START_ID, *words, END_ID])

    pairs = [(said(A, B), said(C, A, B)), (said(A, A, B, C), said(A, B)), (said(C), said(A, C, C))]
    alone = [exposure.after_another_person(table, [pair]) for pair in pairs]
    together = exposure.after_another_person(table, pairs)
    assert [row["tokens"] for row in alone] == [2, 1, 1]
    assert together["tokens"] == 4
    for name in ("gold", "other"):
        total = sum(row[name]["loss"] * row["tokens"] for row in alone)
        assert together[name]["loss"] == pytest.approx(total / 4, abs=1e-3)


def test_the_source_is_reversed_but_for_its_end():
    for words in ([7, 5, 9], [8, 7, 5, 9, 6], [7]):
        example = Example([*words, END_ID], [START_ID, 4, END_ID])
        assert exposure.reversed_source(example) == Example([*words[::-1], END_ID], example.tgt)


def test_one_reader_never_reads_padding():
    torch.manual_seed(0)
    one_way = exposure.OneWaySeq2Seq(model().config).eval()
    src, longer = torch.tensor([[7, 5, END_ID]]), torch.tensor([[7, 5, END_ID, PAD_ID, PAD_ID]])
    tgt = torch.tensor([[START_ID, 4, 10]])
    logits = []
    for ids in (src, longer):
        logits.append(one_way.decode(tgt, one_way.encode(ids)).logits)
    torch.testing.assert_close(*logits)


def test_thirds_of_a_target(table):
    """Three tokens: one in each third."""
    thirds = exposure.loss_by_third(table, [EXAMPLE])
    assert thirds == pytest.approx([0.916, 0.223, 0.105], abs=2e-3)
