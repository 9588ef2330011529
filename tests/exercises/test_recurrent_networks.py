"""The checks of 03_recurrent_networks, beyond what its bank of answers proves."""

import itertools

import pytest
import right_answers_03 as right
import torch
import wrong_answers_03 as wrong
from torch import nn

from attentively.checks import CheckFailed
from attentively.checks import recurrent_networks as checks
from attentively.generation.generate import translate
from attentively.layers.bidirectional import BidirectionalEncoder
from attentively.models.checkpoints import load_pretrained


def test_each_part_has_fifteen_wrong_answers_or_more():
    assert min(len(answers) for answers in wrong.WRONG.values()) >= 15


def test_ready_translates(capsys):
    checks.ready()
    assert "“le chat boit le lait”" in capsys.readouterr().out


# The trained translator


def texts(checkpoint):
    return [each.text for each in translate(checkpoint, checks.SENTENCES, beam_size=1)]


@pytest.mark.parametrize("read", right.READERS)
def test_the_translator_rebuilt_of_right_parts_translates_as_ever(read):
    assert texts(checks.rebuilt(right.GRUCell, read)) == texts(load_pretrained(checks.MODEL))


@pytest.mark.parametrize(
    ("cell", "read"),
    [
        (wrong.WrongWayRound, right.read_both_ways),
        (right.GRUCell, wrong.in_reading_order),
    ],
)
def test_the_translator_rebuilt_of_wrong_parts_translates_otherwise(cell, read):
    assert texts(checks.rebuilt(cell, read)) != texts(load_pretrained(checks.MODEL))


def test_the_cells_of_an_encoder_read_as_it_does():
    package = BidirectionalEncoder(3, 5)
    embedded, lengths = torch.randn(2, 7, 3), torch.tensor([7, 2])
    mask = torch.arange(7) < lengths.unsqueeze(1)
    annotations, state = right.read_both_ways(*checks._cells(package), embedded, lengths)
    expected = package(embedded, mask)
    torch.testing.assert_close(annotations, expected[0])
    torch.testing.assert_close(state, expected[1])


def test_a_cell_that_fails_only_inside_the_translator_is_caught():
    class Limited(right.GRUCell):
        def forward(self, x, state):
            new = super().forward(x, state)
            return new if x.size(-1) < 20 else 0.9 * new

    with pytest.raises(CheckFailed, match="the trained model's weights"):
        checks.gru_step(Limited)


def test_an_encoder_that_fails_only_inside_the_translator_is_caught():
    def limited(forward_cell, backward_cell, embedded, lengths):
        annotations, state = right.read_both_ways(forward_cell, backward_cell, embedded, lengths)
        return annotations, state if len(lengths) < 4 else 0 * state

    with pytest.raises(CheckFailed, match="the trained model's weights"):
        checks.encoder(limited)


# Known mistakes are told apart where they are shown


def test_known_steps_differ_from_the_right_one_and_from_each_other():
    cell = nn.GRUCell(2, 3)
    weights = [torch.randn_like(value) for value in cell.parameters()]
    inputs = (torch.randn(5, 2), torch.randn(5, 3), *weights)
    answers = [twin.answer(*inputs) for twin in checks._STEP_TWINS]
    answers.append(torch.gru_cell(*inputs))
    for one, other in itertools.combinations(answers, 2):
        assert not torch.allclose(one, other, atol=1e-3)


def test_the_step_of_the_checks_is_pytorchs():
    weights = [torch.randn_like(value) for value in nn.GRUCell(2, 3).parameters()]
    inputs = (torch.randn(5, 2), torch.randn(5, 3), *weights)
    torch.testing.assert_close(checks._gru(*inputs), torch.gru_cell(*inputs))


# What is measured


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_the_count_of_the_checks_is_that_of_pytorch(kind, bidirectional, num_layers):
    network = getattr(nn, kind)(2, 5, num_layers, bidirectional=bidirectional)
    measured = sum(parameter.numel() for parameter in network.parameters())
    assert checks._wrong_count(kind, 2, 5, num_layers, bidirectional) == measured


@pytest.mark.parametrize(
    ("lengths", "num_layers", "bidirectional", "expected"),
    [
        ([1], 1, False, 1),
        ([4], 1, False, 4),
        ([4], 1, True, 4),  # both readers at the same time
        ([2], 2, False, 3),  # word 1; word 2 and, above, word 1; above, word 2
        ([2], 2, True, 4),  # above, word 1 waits for the backward reader
        ([2, 5, 3], 3, False, 7),
        ([2, 5, 3], 3, True, 15),
    ],
)
def test_the_longest_chain_of_steps(lengths, num_layers, bidirectional, expected):
    assert checks._steps(lengths, num_layers, bidirectional) == expected


def test_clipping_is_that_of_pytorch():
    gradients = [10 * torch.randn(3, 5), torch.randn(7)]
    clipped, total = right.clip_by_torch(gradients, 2.0)
    torch.testing.assert_close(
        checks._scaled(checks._norm)(gradients, 2.0), torch.cat([g.flatten() for g in clipped])
    )
    assert float(checks._norm(gradients)) == pytest.approx(float(total))


def test_the_translators_gradients_are_large_on_a_wrong_translation():
    gradients = checks._gradients_of_the_translator()
    assert len(gradients) > 10
    assert 0.1 < float(checks._norm(gradients)) < 1000


@pytest.mark.parametrize("cell_states", [False, True])
def test_the_hunted_encoder_reads_as_pytorchs_lstm(cell_states):
    example = checks._Example([3, 1, 2], 2, 5)
    lstm = nn.LSTM(2, 5, batch_first=True, bidirectional=True)
    for suffix, cell in (("_l0", example.forward_cell), ("_l0_reverse", example.backward_cell)):
        for name, value in cell.state_dict().items():
            getattr(lstm, name + suffix).data = value
    for row, words, length in zip(
        example.right(cell_states), example.embedded, example.lengths, strict=True
    ):
        outputs, _ = lstm(words[:length].unsqueeze(0))
        assert torch.allclose(row[:length], outputs[0], atol=1e-6) is not cell_states
        assert not row[length:].any()


def test_the_notebooks_faulty_encoder_is_that_of_the_bank():
    from assignments import ASSIGNMENTS

    from attentively_grader.course import notebooks

    (assignment,) = [each for each in ASSIGNMENTS if each.number == "03"]
    (cell,) = [c for c in notebooks.read(assignment.source).cells if c.id == "bug-hunt-faulty"]
    namespace = {"torch": torch, "nn": nn}
    exec(cell.source, namespace)
    example = checks._Example([3, 1, 2], 2, 5)
    for got, expected in zip(
        namespace["faulty_encoder"](*example.inputs.values()),
        wrong.faulty_encoder(*example.inputs.values()),
        strict=True,
    ):
        torch.testing.assert_close(got, expected)
