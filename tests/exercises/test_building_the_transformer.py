"""The checks of 15_building_the_transformer, beyond what its bank of answers proves."""

import shutil

import nbformat
import pytest
import torch
from assignments import ASSIGNMENTS, Assignment, faults_of_scores
from grader.stub_pool import HAVE, REASON
from notebook_tools import ROOT, with_source, write

from attentively import coursework
from attentively.attention.masks import padding_mask
from attentively.checks import CheckFailed, NotImplementedYet
from attentively.checks import building_the_transformer as checks
from attentively.checks.building_the_transformer.pytorch_names import pytorch_transformer
from attentively.checks.edits import edited
from attentively.checks.recordings import load_questions
from attentively.checks.student_modules import shaken, state_of
from attentively.checks.trained_translator import TRANSFORMER
from attentively.coursework import earlier_parts
from attentively.generation.generate import translate
from attentively.models import plain_transformer
from attentively.models.checkpoints import load_pretrained
from attentively.models.configs import TransformerConfig
from attentively.models.transformer import Transformer
from attentively_grader.coordinator import grade
from attentively_grader.course import notebooks
from attentively_grader.course.course import Course

NAME = "15_building_the_transformer"
ASSIGNMENT = Assignment(NAME)
right = load_questions(ASSIGNMENT.questions)
EARLIER = ["12_self_attention", "13_positional_encoding", "14_multi_head_attention"]


def test_ready_says_so(capsys):
    checks.ready()
    assert capsys.readouterr().out.endswith("has 281,984 parameters. Ready.\n")


# What the checks compare with is what the package does


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_answers_compute_what_the_package_does(norm):
    """The whole Transformer consists of the answers of parts 1 to 4."""
    torch.manual_seed(0)
    sizes = {"src_vocab_size": 7, "tgt_vocab_size": 11, "d_model": 12, "num_heads": 4}
    sizes |= {"d_ff": 13, "num_layers": 3, "dropout": 0.0, "norm": norm}
    model = shaken(Transformer(TransformerConfig(**sizes)))
    own = right.Transformer(*sizes.values()).eval()
    own.load_state_dict(model.state_dict())
    src, tgt = torch.tensor([[3, 4, 5, 2, 6], [6, 2, 0, 0, 0]]), torch.tensor([[1, 5, 4]] * 2)
    torch.testing.assert_close(own(src, padding_mask(src, 0), tgt), model(src, tgt))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("sizes", [(2, 11, 12, 13), (1, 7, 4, 5), (5, 3, 2, 3)])
def test_the_formula_counts_what_the_package_makes(norm, sizes):
    num_layers, vocab_size, d_model, d_ff = sizes
    config = TransformerConfig(
        src_vocab_size=vocab_size, tgt_vocab_size=vocab_size, share_embeddings=True,
        d_model=d_model, d_ff=d_ff, num_layers=num_layers, num_heads=1, norm=norm,
    )  # fmt: skip
    made = sum(each.numel() for each in Transformer(config).parameters())
    assert right.count(num_layers, vocab_size, d_model, d_ff, norm) == made
    assert right.sizes(state_of(Transformer(config)))["parameters"] == made
    assert right.deepest(made, vocab_size, d_model, d_ff, norm) == num_layers
    assert right.deepest(made - 1, vocab_size, d_model, d_ff, norm) == num_layers - 1


def test_the_papers_base_model_is_the_deepest_for_65_million():
    assert right.count(6, 37000, 512, 2048, "post") == 63_082_496
    assert right.deepest(65 * 10**6, 37000, 512, 2048, "post") == 6


@pytest.mark.parametrize(
    ("check", "answers"),
    [
        (checks.residual, (right.FeedForward, plain_transformer.Residual)),
        (checks.layers, (plain_transformer.EncoderLayer, right.DecoderLayer)),
        (checks.layers, (right.EncoderLayer, plain_transformer.DecoderLayer)),
        (checks.transformer, (plain_transformer.InputEmbedding, plain_transformer.Transformer)),
    ],
)
def test_the_parts_of_the_plain_transformer_are_refused(check, answers):
    with pytest.raises(CheckFailed, match=r"own\s+functions\s+are\s+not\s+accepted"):
        check(*answers)


def test_weights_from_pytorch_do_what_they_did_there():
    theirs = pytorch_transformer(12, 4, 13, 3)
    own = right.Transformer(7, 11, 12, 4, 13, 3).eval()
    state = right.from_pytorch(theirs.state_dict())
    missing, unknown = own.load_state_dict(state, strict=False)
    assert not unknown
    assert all("table" in name or name == "output.weight" for name in missing)
    src, tgt = torch.tensor([[3, 4, 5, 2, 6], [6, 2, 0, 0, 0]]), torch.tensor([[1, 5, 4]] * 2)
    src_mask = padding_mask(src, 0)
    got = own.decoder(tgt, own.encoder(src, src_mask), src_mask)
    tgt_mask, hidden = right.masks_for_pytorch(src_mask, 3)
    inputs = own.encoder.input(src), own.decoder.input(tgt)
    masks = {"src_key_padding_mask": hidden, "memory_key_padding_mask": hidden}
    expected = theirs(*inputs, tgt_mask=tgt_mask, **masks)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)
    # The broken variant: with the norms of the decoder layers exchanged they differ.
    swap = '"cross_attention", "feed_forward"] -> "feed_forward", "cross_attention"]'
    broken = edited(right.from_pytorch, swap)(theirs.state_dict())
    own.load_state_dict(broken, strict=False)
    other = own.decoder(tgt, own.encoder(src, src_mask), src_mask)
    assert not torch.allclose(other, expected, atol=1e-2)


# Earlier parts of this assignment


@pytest.mark.parametrize(
    ("check", "answers"),
    [
        (checks.residual, (right.FeedForward, right.Residual)),
        (checks.layers, (right.EncoderLayer, right.DecoderLayer)),
        (checks.transformer, (right.InputEmbedding, right.Transformer)),
    ],
)
def test_a_wrong_layer_normalisation_is_named_in_later_parts(check, answers, monkeypatch):
    monkeypatch.setattr(right.LayerNorm, "forward", lambda self, x: self.gain * x + self.shift)
    with pytest.raises(CheckFailed, match=r"the layer normalisation of part\s+1, gives a\s+wrong"):
        check(*answers)


def test_a_wrong_feed_forward_network_is_named_in_the_layers(monkeypatch):
    monkeypatch.setattr(right.FeedForward, "forward", lambda self, x: self.outer(self.inner(x)))
    with pytest.raises(CheckFailed, match=r"the feed-forward network of part\s+2, gives a\s+wrong"):
        checks.layers(right.EncoderLayer, right.DecoderLayer)


def test_a_method_of_an_earlier_part_that_is_not_written_is_named(monkeypatch):
    def forward(self, x):
        raise NotImplementedError

    forward.__code__ = forward.__code__.replace(co_qualname="LayerNorm.forward")
    monkeypatch.setattr(right.LayerNorm, "forward", forward)
    with pytest.raises(NotImplementedYet, match=r"LayerNorm\.forward is not written"):
        checks.residual(right.FeedForward, right.Residual)


# In the trained translator


def test_a_students_transformer_translates_as_the_packages_with_beams_too():
    sentences = ["the cat drank the milk because it was sweet", "the dogs eat the bread"]
    expected = translate(load_pretrained(TRANSFORMER), sentences, need_weights=False)
    found = translate(checks.translator(right.Transformer), sentences, need_weights=False)
    for one, other in zip(found, expected, strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, abs=1e-4)


# Parts of earlier assignments


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Hand in the solution with two kinds of earlier work beside it, and grade it."""
    root = tmp_path_factory.mktemp("course")
    (assignment,) = (each for each in ASSIGNMENTS if each.name == NAME)
    if HAVE is None:
        pytest.skip(REASON)
    shutil.copy(ROOT / "nbgrader_config.py", root)
    (root / "src").mkdir()  # which is named there
    source, released = (notebooks.read(p) for p in (assignment.source, assignment.released))
    write(source, root / "solutions" / NAME / f"{NAME}.ipynb")
    shutil.copy(assignment.questions, root / "solutions" / NAME)
    solved = {cell.id: cell.source for cell in source.cells}
    for cell in released.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = solved[cell.id]
    for student, has in (("one_only", EARLIER[1:2]), ("one_wrong", EARLIER)):
        work = root / "work" / student
        write(released, work / NAME / f"{NAME}.ipynb")
        if student == "one_only":
            alone = coursework.submit(work, NAME, student, root / "alone")
            assert earlier_parts.FILE not in alone.files
        for name in has:
            notebook = notebooks.read(ROOT / "solutions" / name / f"{name}.ipynb")
            if student == "one_wrong" and name == EARLIER[1]:
                answer = (
                    "def sinusoids(length, d_model):\n    return torch.zeros(length, d_model)\n"
                )
                notebook = with_source(notebook, "sinusoids", answer)
            write(notebook, work / name / f"{name}.ipynb")
        receipt = coursework.submit(work, NAME, student, root / "submitted")
        assert earlier_parts.FILE in receipt.files
    assert grade(root) == 0
    return Course(root)


WHOSE = {
    "one_only": [
        "scaled_dot_product_attention: using the reference, because this "
        "submission does not contain 12_self_attention",
        "MultiHeadAttention: using the reference, because this "
        "submission does not contain 14_multi_head_attention",
        "sinusoids: using your answer from 13_positional_encoding",
    ],
    "one_wrong": [
        "scaled_dot_product_attention: using your answer from 12_self_attention",
        "MultiHeadAttention: using your answer from 14_multi_head_attention, with "
        "scaled_dot_product_attention replaced",
        "sinusoids: using the reference, because your answer in 13_positional_encoding is wrong",
    ],
}


@pytest.mark.slow
@pytest.mark.notebook
@pytest.mark.timeout(900)
@pytest.mark.parametrize("student", WHOSE)
def test_a_students_own_parts_are_used_where_they_are_right(graded, student):
    path = graded.root / "autograded" / student / NAME / f"{NAME}.ipynb"
    ran = nbformat.read(path, as_version=4)
    said = "".join(
        output.text
        for cell in ran.cells
        if cell.cell_type == "code" and "earlier_parts.take(" in cell.source
        for output in cell.outputs
        if output.output_type == "stream"
    )
    assert [line for line in WHOSE[student] if line not in said] == []
    assert said.count("\n") == 3
    found = graded.scores(NAME)[student]
    assert faults_of_scores(found) == []
    assert found.total == 100


def test_the_attention_of_assignment_12_works_inside_the_heads_of_14(tmp_path, monkeypatch, capsys):
    """It is called by them, and by the layers that are made of them."""
    for name in (*EARLIER, NAME):
        source = ROOT / "solutions" / name / f"{name}.ipynb"
        write(notebooks.read(source), tmp_path / name / source.name)
    monkeypatch.chdir(tmp_path / NAME)
    calls = []

    def counted(*given):
        calls.append(given)
        return right_attention(*given)

    right_attention = earlier_parts.take(EARLIER[0], checks_of("self_attention").attention, None)
    heads = earlier_parts.take(
        EARLIER[2], checks_of("multi_head_attention").multi_head, None,
        using={"scaled_dot_product_attention": counted},
    )  # fmt: skip
    assert capsys.readouterr().out.count("using your answer") == 2
    calls.clear()
    x = torch.randn(2, 3, 8)
    heads(8, 2)(x, x, x)
    assert len(calls) == 1
    assert calls[0][0].shape == (2, 2, 3, 4)


def checks_of(topic):
    (found,) = (each.checks for each in ASSIGNMENTS if each.name.endswith(topic))
    return found
