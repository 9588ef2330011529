"""The checks of 17_translating_with_it, beyond what its bank of answers proves."""

import pytest
import torch
from assignments import ASSIGNMENTS
from notebook_tools import ROOT, write
from torch.utils.flop_counter import FlopCounterMode

from attentively.attention import multi_head, positional, scaled_dot_product
from attentively.attention.masks import padding_mask
from attentively.checks import translating_with_it as checks
from attentively.checks.recordings import QUESTIONS, load_questions
from attentively.checks.student_modules import shaken, sizes_of
from attentively.checks.trained_translator import TRANSFORMER
from attentively.coursework import earlier_parts
from attentively.generation.generate import translate
from attentively.models import plain_transformer
from attentively.models.checkpoints import load_pretrained
from attentively.models.configs import TransformerConfig
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import START_ID
from attentively_grader.course import notebooks

NAME = "17_translating_with_it"
right = load_questions(ROOT / "solutions" / NAME / QUESTIONS)
SENTENCES = [
    "the cat drank the milk because it was sweet",
    "the animal did not cross the street because it was too tired",
    "the dogs eat the bread",
]
SRC = torch.tensor([[3, 4, 5, 2, 0], [4, 6, 3, 5, 2]])
MASK = padding_mask(SRC, 0)


def config(norm="pre", d_model=6, num_heads=3, num_layers=2):
    return TransformerConfig(
        src_vocab_size=7, tgt_vocab_size=11, d_model=d_model, num_heads=num_heads, d_ff=5,
        num_layers=num_layers, norm=norm,
    )  # fmt: skip


def plain(model):
    made = plain_transformer.Transformer(*sizes_of(model.config).values()).eval()
    made.load_state_dict(model.state_dict())
    return made


def test_ready_says_so(capsys):
    checks.ready()
    assert capsys.readouterr().out.endswith("has 281,984 parameters. Ready.\n")


# The plain Transformer does what the package's does


@pytest.mark.parametrize("given", [right, checks], ids=["right answer", "for the other parts"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_cached_step_is_the_packages(norm, given):
    torch.manual_seed(0)
    model = shaken(Transformer(config(norm)))
    own = plain(model)
    memory = model.encode(SRC)
    state, cache = model.start(memory), given.start(own, memory.outputs, 3)
    text = torch.tensor([[1, 5, 4, 9], [1, 3, 10, 2]])
    for words in range(1, 5):
        expected, state = model.step(text[:, words - 1], state)
        got, cache = given.step(own, text[:, :words], cache, MASK)
        torch.testing.assert_close(got, expected)
        kept = state.caches[1]
        torch.testing.assert_close(cache[1]["keys"], kept.target.keys)
        torch.testing.assert_close(cache[1]["memory_values"], kept.memory.values)


@pytest.mark.parametrize("cached", [False, True])
def test_predicted_multiplications_are_what_pytorch_counts(cached):
    words, num_layers = 5, 2
    own = plain(shaken(Transformer(config(d_model=8, num_heads=2, num_layers=num_layers))))
    text = torch.randint(3, 11, (1, words))
    src, src_mask = SRC[1:], MASK[1:]
    with torch.no_grad():
        memory = own.encoder(src, src_mask)
        with FlopCounterMode(display=False) as counted:
            if cached:
                cache = right.start(own, memory, 2)
            for length in range(1, words + 1):
                if cached:
                    _, cache = right.step(own, text[:, :length], cache, src_mask)
                else:
                    own.output(own.decoder(text[:, :length], memory, src_mask)[:, -1:])
    made = counted.get_total_flops() // 2 - words * 8 * 11  # without the output layer
    found = right.multiplications(words, 5, 8, 5, num_layers)
    assert found["cached" if cached else "recomputed"] == made
    held = sum(each.numel() for entry in cache for each in entry.values()) if cached else 0
    assert not cached or held == right.cache_entries(num_layers, 8, 5, words, 1)


# A student's own parts, from the attention to the search


def all_of_it(folder, monkeypatch, names):
    for name in names:
        source = ROOT / "solutions" / name / f"{name}.ipynb"
        write(notebooks.read(source), folder / name / source.name)
    (folder / NAME).mkdir()
    monkeypatch.chdir(folder / NAME)
    of = {each.number: each.checks for each in ASSIGNMENTS}
    attention = earlier_parts.take(
        "12_self_attention", of["12"].attention, scaled_dot_product.scaled_dot_product_attention
    )
    codes = earlier_parts.take("13_positional_encoding", of["13"].matrix, positional.sinusoids)
    heads = earlier_parts.take(
        "14_multi_head_attention", of["14"].multi_head, multi_head.MultiHeadAttention,
        using={"scaled_dot_product_attention": attention},
    )  # fmt: skip
    _, model = earlier_parts.take(
        "15_building_the_transformer", of["15"].transformer, plain_transformer.InputEmbedding,
        plain_transformer.Transformer, using={"MultiHeadAttention": heads, "sinusoids": codes},
    )  # fmt: skip
    return heads, model


EARLIER = [
    "12_self_attention",
    "13_positional_encoding",
    "14_multi_head_attention",
    "15_building_the_transformer",
]


@pytest.mark.parametrize("names", [EARLIER, EARLIER[:3], []], ids=["all", "not 15", "none"])
def test_a_students_parts_of_12_to_15_translate_with_their_search(
    names, tmp_path, monkeypatch, capsys
):
    heads, model = all_of_it(tmp_path, monkeypatch, names)
    said = capsys.readouterr().out
    assert said.count("using your answer from") == len(names)
    assert said.count("using the reference, because") == 4 - len(names)
    trained = checks.translator(model)
    if len(names) == 4:
        assert "with MultiHeadAttention and sinusoids replaced" in said
        assert type(trained.model.decoder.layers[1].cross_attention) is heads
        assert heads is not multi_head.MultiHeadAttention
    src, src_mask = checks.read(SENTENCES, trained.src_tokenizer)
    with torch.no_grad():
        fed_back = right.greedy(trained.model, src, src_mask, 40)
        beams = [
            right.beam_search(trained.model, *checks.read([each], trained.src_tokenizer),
                              trained.num_heads, 4, 40, 1.0)[0]
            for each in SENTENCES
        ]  # fmt: skip
    before = load_pretrained(TRANSFORMER)
    for search, found in ((1, fed_back), (4, [words for words, _ in beams])):
        expected = [each.text for each in translate(before, SENTENCES, beam_size=search)]
        assert [trained.tgt_tokenizer.decode(ids) for ids in found] == expected


def test_the_head_that_decides_says_which_noun_is_meant_not_its_gender():
    """Patching flips the answer if the antecedent in the donor is the other noun."""
    model, num_heads, src_tokenizer, tgt_tokenizer = checks.translator()
    il, elle = tgt_tokenizer.encode("il elle")[:2]
    patients = []
    with torch.no_grad():
        for twins in checks.minimal_pairs(12):
            ids = [START_ID, *tgt_tokenizer.encode(twins.written)[:-1]]
            for noun, sentence in enumerate(twins.sentences):
                src, src_mask = checks.read([sentence], src_tokenizer)
                cache = right.start(model, model.encoder(src, src_mask), num_heads)
                for words in range(1, len(ids)):
                    _, cache = right.step(model, torch.tensor([ids[:words]]), cache, src_mask)
                shape = src.size(1), twins.place
                patients.append((ids, cache, src_mask, shape, noun, twins.pronouns[noun]))
        flips = {True: [], False: []}
        for ids, cache, src_mask, shape, noun, pronoun in patients:
            for other in patients:
                if other[3] == shape:
                    new = right.patch_cache(cache, other[1], 0, 2, [shape[1]])
                    scores, _ = right.step(model, torch.tensor([ids]), new, src_mask)
                    said = "il" if scores[0, il] > scores[0, elle] else "elle"
                    flips[other[4] == noun].append(said != pronoun)
    assert len(flips[True]) > 10
    assert sum(flips[True]) / len(flips[True]) < 0.1
    assert sum(flips[False]) / len(flips[False]) > 0.9
