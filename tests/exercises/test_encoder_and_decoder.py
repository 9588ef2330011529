"""The checks of 04_encoder_and_decoder, beyond what its bank of answers proves."""

import itertools

import pytest
import torch
from answer_bank import ANSWERS
from assignments import Assignment

from attentively.checks import CheckFailed
from attentively.checks import encoder_and_decoder as checks
from attentively.checks.edits import edited
from attentively.checks.recordings import load_questions
from attentively.data.batches import Batch
from attentively.generation.search import greedy_search
from attentively.models.configs import Seq2SeqConfig
from attentively.models.seq2seq import Seq2Seq
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID
from attentively.training.objectives import Translation, teacher_forced_loss

QUESTIONS = Assignment("04_encoder_and_decoder").questions
questions, answers = load_questions(QUESTIONS), load_questions(QUESTIONS.with_name(ANSWERS))


def test_ready_translates(capsys):
    checks.ready()
    assert "“le chat boit le lait”" in capsys.readouterr().out


def test_the_ids_in_the_cases_are_those_of_the_package():
    assert (PAD_ID, START_ID, END_ID) == (0, 2, 3)


# The right answers compared with the package, and with values worked by hand


def test_the_loss_and_the_outputs_are_the_packages_on_the_trained_model():
    src, tgt = checks.sentences(20, 2)
    model = checks.translator()
    with torch.no_grad():
        expected = float(teacher_forced_loss(model, Batch(src, tgt)))
        found = float(questions.teacher_forced_loss(model, src, tgt))
        assert found == pytest.approx(expected, rel=1e-4)
        assert questions.write(model, src, 60) == checks.own_words(src)


def test_a_scripted_model_outputs_its_texts_and_other_tokens_after_them():
    model = checks.ScriptedModel([[5, 6], [7]])
    src = torch.tensor([[11, END_ID], [12, END_ID]])
    assert [h.ids for h in greedy_search(model, src, 9, ())] == [[5, 6], [7]]
    assert model.calls == 3
    rows = edited(questions.write, (f"{questions.UNTIL_THE_END} -> if True:", questions.GOES_ON))
    assert rows(model, src, 5) == [[5, 6, END_ID, 9, 9], [7, END_ID, 9, 9, 9]]


def test_the_losses_are_those_worked_by_hand():
    """4, 8 and 3 nats from index 2 on, and 1 more after one other word."""
    first = next(iter(questions.after_cases(thorough=False))).inputs
    model = first["model"].make()
    assert questions.loss_after(model, *[*first.values()][1:]) == pytest.approx((5.0, 6.0))


def counted(lengths, max_len):
    """Decode a batch with targets of these lengths in both modes, and count."""
    batch = checks.random_batch([2] * len(lengths), lengths)
    model, runs = checks.small_model(), []
    model.decoder.cell.register_forward_hook(lambda *_: runs.append(1))
    script = checks.ScriptedModel([[5] * length for length in lengths])
    src = torch.tensor([[11 + row, END_ID] for row in range(len(lengths))])
    with torch.no_grad():
        logits = model.decode(batch.tgt[:, :-1], model.encode(batch.src)).logits
        greedy_search(script, src, max_len)
    return {
        "decode_calls": 1,
        "step_calls": script.calls,
        "cell_runs": len(runs),
        "positions": logits[..., 0].numel(),
        "labels": Translation().count(batch),
    }


def measured(batch, src_len, tgt_len, embedding_dim, encoder_dim, decoder_dim, vocab):
    """Return the shapes of the tensors inside a model of the package."""
    sizes = (embedding_dim, encoder_dim, decoder_dim)
    model = Seq2Seq(Seq2SeqConfig(29, vocab, *sizes, attention="fixed")).eval()
    seen = {}

    def watch(name, module, look):
        module.register_forward_hook(lambda _, *values: seen.update({name: look(*values)}))

    watch("src_embedded", model.src_embedding, lambda _, output: output)
    watch("encoder_outputs", model.encoder, lambda _, output: output[0])
    watch("first_state", model.decoder.bridge, lambda _, output: output)
    watch("context", model.decoder.attention, lambda _, output: output[0])
    watch("cell_input", model.decoder.cell, lambda inputs, _: inputs[0])
    src, tgt = (torch.ones(batch, length, dtype=torch.long) for length in (src_len, tgt_len))
    with torch.no_grad():
        memory = model.encode(src)
        seen["logits"] = model.decode(tgt[:, :-1], memory).logits
        seen["step_logits"], _ = model.step(tgt[:, 0], model.start(memory))
    return {name: tuple(value.shape) for name, value in seen.items()}


@pytest.mark.parametrize(
    ("question", "measure"), [(questions.COUNTS, counted), (questions.SHAPES, measured)]
)
def test_counts_and_shapes_are_those_of_a_model_of_the_package(question, measure):
    for case in question.cases(thorough=True):
        assert question.answer(**case.inputs) == measure(**case.inputs)


# What the parts are about


def test_exposure_costs_nothing_where_the_translator_is_right_and_much_where_it_is_not():
    model = checks.translator()
    gaps = []
    with torch.no_grad():
        for clauses, k in ((1, 2), (3, 2), (3, 8), (3, 12)):
            src, tgt = checks.sentences(50, clauses)
            gold, own = questions.loss_after(model, src, tgt, checks.own_words(src), k)
            gaps.append(own - gold)
    assert abs(gaps[0]) < 0.01
    assert gaps[1] < 0.1 < 0.5 < gaps[2] < gaps[3]


@pytest.mark.parametrize("count", range(1, len(answers.FAULTS) + 1))
def test_the_bug_hunt_ends_only_when_every_fault_is_corrected(count):
    for faults in itertools.combinations(answers.FAULTS.values(), count):
        with pytest.raises(CheckFailed):
            checks.bug_hunt(edited(questions.training_step, tuple(itertools.chain(*faults))))


def test_a_leaking_step_says_a_lower_loss_and_learns_nothing():
    """What part 6 shows."""
    src, tgt = checks.sentences(200, 1, split="train")
    unseen = Batch(*checks.sentences(50, 1))
    said, worth = [], []
    for faults in (answers.AS_IT_WAS, ()):
        step = edited(questions.training_step, faults)
        model = checks.untrained()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for first in range(0, 200, 20):
            rows = slice(first, first + 20)
            loss = step(model, optimizer, src[rows], tgt[rows], 1.0)
        said.append(loss)
        with torch.no_grad():
            worth.append(float(teacher_forced_loss(model.eval(), unseen)))
    assert said[0] < said[1]
    assert worth[0] > worth[1]
