"""The checks of 03_recurrent_networks, beyond what its bank of answers proves."""

import pytest
import torch
from answer_bank import ANSWERS
from assignments import Assignment
from torch import nn

from attentively.checks import recurrent_networks as checks
from attentively.checks.edits import edited
from attentively.checks.recordings import load_questions
from attentively.generation.generate import translate
from attentively.layers.bidirectional import BidirectionalEncoder
from attentively.models.checkpoints import load_pretrained

ASSIGNMENT = Assignment("03_recurrent_networks")
questions = load_questions(ASSIGNMENT.questions)
answers = load_questions(ASSIGNMENT.questions.with_name(ANSWERS))


def inputs_of(cases):
    """Return the inputs of all cases, with the cells made."""
    return [
        {name: each.make() if name.endswith("cell") else each for name, each in case.inputs.items()}
        for case in cases(thorough=True)
    ]


def test_ready_translates(capsys):
    checks.ready()
    assert "“le chat boit le lait”" in capsys.readouterr().out


# The trained translator


def texts(checkpoint):
    return [each.text for each in translate(checkpoint, checks.SENTENCES, beam_size=1)]


@pytest.mark.parametrize("read", [questions.read_both_ways, *answers.RIGHT["read_both_ways"]])
def test_the_translator_rebuilt_of_right_parts_translates_as_before(read):
    assert texts(checks.rebuilt(questions.GRUCell, read)) == texts(load_pretrained(checks.MODEL))


def test_the_translator_rebuilt_of_wrong_parts_translates_otherwise():
    expected = texts(load_pretrained(checks.MODEL))
    cell = edited(questions.GRUCell, f"{questions.NEW_STATE} -> z * n + (1 - z) * state")
    assert texts(checks.rebuilt(cell, questions.read_both_ways)) != expected
    read = edited(
        questions.read_both_ways, "[states[j] for j in range(src_len)] -> [*states.values()]"
    )
    assert texts(checks.rebuilt(questions.GRUCell, read)) != expected


def test_the_cells_of_an_encoder_compute_its_states():
    package = BidirectionalEncoder(3, 5)
    embedded, lengths = torch.randn(2, 7, 3), torch.tensor([7, 2])
    expected = package(embedded, torch.arange(7) < lengths.unsqueeze(1))
    found = questions.read_both_ways(*checks._cells(package), embedded, lengths)
    torch.testing.assert_close(found, expected)


def test_the_gradients_of_the_translator_are_large_on_a_wrong_translation():
    gradients = checks._gradients_of_the_translator()
    assert len(gradients) > 10
    assert 0.1 < float(questions.clip(gradients, 1.0)[1]) < 1000


# The right answers agree with PyTorch and the package in all cases


def test_the_step_is_pytorchs():
    for case in questions.step_cases(thorough=True):
        with torch.no_grad():
            expected = torch.gru_cell(*case.inputs.values(), *case.weights.values())
        cell = questions.GRUCell(*case.made.values())
        cell.load_state_dict(case.weights)
        torch.testing.assert_close(cell(*case.inputs.values()), expected)


def test_the_bidirectional_encoder_is_the_packages():
    for inputs in inputs_of(questions.reading_cases):
        expected = answers.by_the_package(*inputs.values())
        torch.testing.assert_close(questions.read_both_ways(*inputs.values()), expected)


def test_the_number_of_parameters_is_that_of_pytorchs_modules():
    for inputs in inputs_of(questions.parameter_cases):
        assert questions.parameters(*inputs.values()) == answers.parameters_by_building(
            *inputs.values()
        )


@pytest.mark.parametrize(
    ("lengths", "num_layers", "bidirectional", "expected"),
    [
        ([1], 1, False, 1),
        ([4], 1, False, 4),
        ([4], 1, True, 4),  # both directions at the same time
        ([2], 2, False, 3),  # word 1; word 2 and, above, word 1; above, word 2
        ([2], 2, True, 4),  # above, word 1 waits for the backward RNN
        ([2, 5, 3], 3, False, 7),
        ([2, 5, 3], 3, True, 15),
    ],
)
def test_the_longest_chain_of_steps(lengths, num_layers, bidirectional, expected):
    for count in (questions.sequential_steps, answers.steps_by_walking):
        assert count(lengths, num_layers, bidirectional) == expected


def test_the_corrected_encoder_is_pytorchs_lstm_on_each_sentence():
    for inputs in inputs_of(questions.hunted_cases):
        *cells, embedded, mask = inputs.values()
        lstm = nn.LSTM(embedded.size(2), cells[0].hidden_size, batch_first=True, bidirectional=True)
        lstm.load_state_dict(answers.weights_in_a_layer(*cells))
        annotations, summaries = questions.fixed_encoder(*inputs.values())
        for row, summary, words, real in zip(annotations, summaries, embedded, mask, strict=True):
            outputs = lstm(words[real].unsqueeze(0))[0][0]
            torch.testing.assert_close(row[real], outputs)
            torch.testing.assert_close(summary, outputs.mean(dim=0))
            assert not row[~real].any()


def test_the_notebooks_faulty_encoder_is_that_of_the_bank():
    from attentively_grader.course import notebooks

    cells = notebooks.read(ASSIGNMENT.source).cells
    (cell,) = [each for each in cells if each.id == "bug-hunt-faulty"]
    namespace = {"torch": torch, "nn": nn}
    exec(cell.source, namespace)
    for inputs in inputs_of(questions.hunted_cases):
        expected = namespace["faulty_encoder"](*inputs.values())
        torch.testing.assert_close(answers.faulty_encoder(*inputs.values()), expected)
