"""What models write comes back as text, with what a reader should know beside it."""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from search_models import (
    VOCAB,
    A,
    B,
    C,
    Markov,
    MarkovText,
    decided,
    markov,
    opinionated_seq2seq,
    random_markov,
    row_tensors,
    transformer,
)

from attentively.generation import generate, search
from attentively.generation.generate import translate
from attentively.models.captioning import Captioner
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import CaptionerConfig
from attentively.models.interface import DecoderOutput, EncoderDecoder, Memory
from attentively.tokens.vocabulary import END_ID, START_ID, Vocabulary, WordTokenizer


@pytest.fixture(scope="module", params=["additive", "fixed"])
def seq2seq(request):
    return opinionated_seq2seq(request.param)


# --- Translating text ---


@row_tensors
class CopierState:
    position: torch.Tensor
    src: torch.Tensor


class Copier(EncoderDecoder):
    """Writes the source again, looking at the token that it copies."""

    def __init__(self, attends=True):
        super().__init__()
        self.certainty = torch.nn.Parameter(torch.tensor(5.0))
        self.attends = attends

    def encode(self, src, src_mask=None):
        return Memory(src.unsqueeze(-1).float(), self.source_mask(src))

    def start(self, memory):
        src = memory.outputs.squeeze(-1).long()
        return CopierState(torch.zeros_like(src[:, 0]), src)

    def step(self, token, state):
        here = state.position.clamp(max=state.src.size(1) - 1).unsqueeze(1)
        logits = self.certainty * F.one_hot(state.src.gather(1, here).squeeze(1), VOCAB)
        return logits, dataclasses.replace(state, position=state.position + 1)

    def decode(self, tgt, memory, need_weights=False):
        state, logits = self.start(memory), []
        for token in tgt.unbind(dim=1):
            now, state = self.step(token, state)
            logits.append(now)
        if not (need_weights and self.attends):
            return DecoderOutput(torch.stack(logits, dim=1))
        steps = torch.arange(tgt.size(1)).clamp(max=state.src.size(1) - 1)
        looks = F.one_hot(steps, state.src.size(1)).float().expand(len(tgt), -1, -1)
        return DecoderOutput(torch.stack(logits, dim=1), looks)


def copier(**choices):
    tokenizer = WordTokenizer(Vocabulary(["a", "b", "c"]))
    return Checkpoint(Copier(**choices), tokenizer, tokenizer)


SENTENCES = ["a b c", "c", "b a", "a a b b c c a a b b c c", "c b a", "a"]


@pytest.mark.parametrize("batch_size", [1, 2, 64])
@pytest.mark.parametrize("beam_size", [1, 3, 50])
def test_translations_come_in_the_order_of_the_sentences(batch_size, beam_size):
    translations = translate(copier(), SENTENCES, beam_size=beam_size, batch_size=batch_size)
    assert [translation.text for translation in translations] == SENTENCES
    for translation, sentence in zip(translations, SENTENCES, strict=True):
        tokens = [*sentence.split(), "<end>"]
        assert translation.src_tokens == tokens
        assert translation.tgt_tokens == tokens
        torch.testing.assert_close(translation.weights, torch.eye(len(tokens)))
        certain = 5 - math.log(math.exp(5) + VOCAB - 1)
        assert translation.score == pytest.approx(certain, abs=1e-5)
        assert translation.note == ""


def test_the_batch_size_changes_nothing(seq2seq):
    tokenizers = [WordTokenizer(Vocabulary(f"w{i}" for i in range(n - 4))) for n in (13, 11)]
    checkpoint = Checkpoint(seq2seq, *tokenizers)
    sentences = [" ".join(f"w{(i * j) % 9}" for j in range(i)) for i in (3, 11, 1, 7, 2)]
    together = translate(checkpoint, sentences, beam_size=3)
    for batch_size in (1, 2):
        apart = translate(checkpoint, sentences, beam_size=3, batch_size=batch_size)
        for ours, theirs in zip(together, apart, strict=True):
            assert (ours.text, ours.tgt_tokens, ours.note) == theirs[:1] + theirs[2:3] + theirs[5:]
            assert ours.score == pytest.approx(theirs.score, abs=1e-5)
            torch.testing.assert_close(ours.weights, theirs.weights)


def test_weights_are_one_row_per_written_token(seq2seq):
    tokenizers = [WordTokenizer(Vocabulary(f"w{i}" for i in range(n - 4))) for n in (13, 11)]
    checkpoint = Checkpoint(seq2seq, *tokenizers)
    for translation in translate(checkpoint, ["w1 w2 w3", "w4 w5 w6 w7 w8"], max_len=5):
        if seq2seq.config.attention == "fixed":
            assert translation.weights is None
            continue
        shape = len(translation.tgt_tokens), len(translation.src_tokens)
        assert translation.weights.shape == shape
        torch.testing.assert_close(translation.weights.sum(dim=1), torch.ones(shape[0]))
        translation.weights.mul_(1)  # an ordinary tensor: a reader may compute with it
        assert (translation.tgt_tokens[-1:] == ["<end>"]) == (translation.note == "")


def test_weights_only_where_asked_for_and_there():
    assert translate(copier(), ["a"], need_weights=False)[0].weights is None
    assert translate(copier(attends=False), ["a"])[0].weights is None


def test_what_is_not_translated_says_why():
    sentences = ["", "a", " \n ", "a b c a", "b zebra a zebra yak", "<end> a"]
    translations = translate(copier(), sentences, max_src_len=6)
    assert [translation.note for translation in translations] == [
        "empty sentence",
        "",
        "empty sentence",
        "",
        "unknown words: zebra, yak",
        "unknown words: <end>",
    ]
    for index in (0, 2):
        assert translations[index][:1] == ("",)
        assert translations[index].score == -math.inf
        assert translations[index].weights is None
    assert translations[4].src_tokens == ["b", "<unk>", "a", "<unk>", "<unk>", "<end>"]
    assert translations[4].text  # translated all the same

    (too_long,) = translate(copier(), ["a b c a"], max_src_len=4)
    assert too_long.note == "too long: 5 tokens, but at most 4 are translated"
    assert too_long.text == ""


def test_a_translation_that_does_not_end_says_so():
    (translation,) = translate(copier(), ["a b c a"], beam_size=1, max_len=3)
    assert translation.text == "a b c"
    assert translation.tgt_tokens == ["a", "b", "c"]
    assert translation.weights.shape == (3, 5)
    assert translation.note == "stopped after 3 tokens"
    (unknown,) = translate(copier(), ["a zebra c a"], beam_size=1, max_len=3)
    assert unknown.note == "stopped after 3 tokens; unknown words: zebra"


def test_a_long_sentence_has_room_for_its_translation():
    sentence = " ".join(["a", "b", "c"] * 50)
    assert translate(copier(), [sentence])[0].text == sentence


def test_nothing_to_translate():
    assert translate(copier(), []) == []


@pytest.mark.parametrize(
    ("sentences", "choices", "message"),
    [
        ("a b", {}, "expected a list of sentences, but got one string: 'a b'"),
        (["a"], {"beam_size": 0}, "beam_size=0 must be at least 1"),
        (["a"], {"max_len": 0}, "max_len=0 must be at least 1"),
        (["a"], {"max_src_len": 0}, "max_src_len=0 must be at least 1"),
        (["a"], {"batch_size": 0}, "batch_size=0 must be at least 1"),
        (
            ["a"],
            {"sampling": search.Sampling(temperature=0.0)},
            r"temperature=0\.0 must be above 0",
        ),
        (["a"], {"sampling": search.Sampling(top_k=0)}, "top_k=0 must be at least 1"),
        (
            ["a"],
            {"sampling": search.Sampling(top_p=1.5)},
            r"top_p=1\.5 must be above 0 and at most 1",
        ),
        (["a"], {"sampling": search.Sampling(samples=0)}, "samples=0 must be at least 1"),
        (["a"], {"length_penalty": math.nan}, "length_penalty=nan would divide .* by nan"),
        (["a"], {"length_penalty": math.inf}, "length_penalty=inf would divide .* by inf"),
        (["a"], {"length_penalty": 2000.0}, r"length_penalty=2000\.0 would divide .* by inf"),
        (["a"], {"length_penalty": -2000.0}, r"length_penalty=-2000\.0 would divide .* by 0\.0"),
    ],
)
def test_translate_refuses(sentences, choices, message):
    with pytest.raises(ValueError, match=message):
        translate(copier(), sentences, **choices)


class Choosy(Copier):
    """Refuses what it has no place for, when it reads or when it writes."""

    def __init__(self, reads=math.inf, writes=math.inf):
        super().__init__()
        self.reads, self.writes = reads, writes

    def encode(self, src, src_mask=None):
        if src.shape[1] > self.reads:
            raise ValueError(f"{src.shape[1]} tokens, but {self.reads} positions")
        return super().encode(src, src_mask)

    def step(self, token, state):
        if state.position.max() >= self.writes:
            raise ValueError(f"there is no position {self.writes}")
        return super().step(token, state)


@pytest.mark.parametrize(
    ("limits", "note"),
    [({"reads": 6}, "13 tokens, but 6 positions"), ({"writes": 6}, "there is no position 6")],
)
@pytest.mark.parametrize("batch_size", [1, 64])
def test_a_sentence_that_the_model_refuses_spoils_no_other(limits, note, batch_size):
    tokenizer = WordTokenizer(Vocabulary(["a", "b", "c"]))
    checkpoint = Checkpoint(Choosy(**limits), tokenizer, tokenizer)
    translations = translate(checkpoint, SENTENCES, beam_size=1, max_len=20, batch_size=batch_size)
    expected = ["" if len(sentence.split()) == 12 else sentence for sentence in SENTENCES]
    assert [translation.text for translation in translations] == expected
    assert [translation.note for translation in translations] == ["", "", "", note, "", ""]
    assert translations[3].src_tokens == [*SENTENCES[3].split(), "<end>"]


def test_a_model_that_says_nothing_does_not_pass_for_one_that_refuses():
    tokenizer = WordTokenizer(Vocabulary(["a", "b", "c"]))
    silent = Markov(torch.full((1, *[VOCAB] * 3), math.nan))
    with pytest.raises(search.NoChoiceError):
        translate(Checkpoint(silent, tokenizer, tokenizer), ["a", "b"])


def test_a_model_that_does_not_translate_is_refused():
    tokenizer = WordTokenizer(Vocabulary(["a", "b", "c"]))
    writer = MarkovText(random_markov(0).logits.detach())
    with pytest.raises(ValueError, match="a MarkovText cannot translate text"):
        translate(Checkpoint(writer, None, tokenizer), ["a"])


def test_a_sentence_beyond_the_positions_has_a_note():
    tokenizers = [WordTokenizer(Vocabulary(f"w{i}" for i in range(n - 4))) for n in (13, 11)]
    checkpoint = Checkpoint(transformer(positions="learned", max_len=9), *tokenizers)
    sentences = ["w1 w2", "w3 " * 11, "w4"]
    fits, too_long, fits_too = translate(checkpoint, sentences, max_len=5, beam_size=2)
    assert "max_len=9" in too_long.note
    assert (too_long.text, too_long.weights) == ("", None)
    assert fits.tgt_tokens
    assert fits_too.tgt_tokens


# --- Captions ---


class Painter(Copier):
    """Writes the pixels of a row of an image: 0.4 is token 4, and 0.3 the end."""

    def source_mask(self, src):
        return torch.ones(len(src), 1, src.shape[2] * src.shape[3], dtype=torch.bool)

    def encode(self, src, src_mask=None):
        assert not self.training
        return Memory((10 * src).round().flatten(1).unsqueeze(-1), self.source_mask(src))


def image(*pixels):
    return torch.tensor(pixels).view(1, 1, 1, len(pixels)) / 10


def captioner(model=None, src_tokenizer=None):
    tokenizer = WordTokenizer(Vocabulary(["a", "b", "c"]))
    return Checkpoint(model or Painter(), src_tokenizer, tokenizer)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_every_image_gets_its_caption(batch_size):
    images = torch.cat([image(4, 5, 6, 3), image(6, 3, 4, 4), image(5, 5, 3, 3)])
    captions = generate.caption(captioner(), images, beam_size=3, batch_size=batch_size)
    assert [caption.text for caption in captions] == ["a b c", "c", "b b"]
    for caption in captions:
        assert caption.tgt_tokens == [*caption.text.split(), "<end>"]
        assert caption.src_tokens == []
        torch.testing.assert_close(caption.weights, torch.eye(4)[: len(caption.tgt_tokens)])
        assert caption.note == ""
        certain = 5 - math.log(math.exp(5) + VOCAB - 1)
        assert caption.score == pytest.approx(certain, abs=1e-5)


def test_captions_the_rest():
    assert generate.caption(captioner(), image(4, 3)[:0]) == []
    (short,) = generate.caption(captioner(), image(4, 5, 6, 3), 1, max_len=2, need_weights=False)
    assert (short.text, short.note, short.weights) == ("a b", "stopped after 2 tokens", None)
    tokenizer = captioner().tgt_tokenizer
    for other in (
        copier(),
        captioner(src_tokenizer=tokenizer),
        captioner(MarkovText(torch.ones(1))),
    ):
        with pytest.raises(ValueError, match=r"a (Copier|Painter|MarkovText) cannot caption"):
            generate.caption(other, image(4, 3))
    with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
        generate.caption(captioner(), image(4, 3), batch_size=0)
    with pytest.raises(
        ValueError, match=r"length_penalty=2000\.0 would divide .* of 64 tokens by inf"
    ):
        generate.caption(captioner(), image(4, 3), length_penalty=2000.0)


def test_a_captioner_looks_at_places():
    config = CaptionerConfig(
        tgt_vocab_size=VOCAB,
        height=12,
        width=24,
        feature_dim=5,
        embedding_dim=3,
        decoder_dim=11,
        attention_dim=2,
    )
    checkpoint = captioner(decided(Captioner(config)))
    images = torch.rand(3, 1, 12, 24)
    captions = generate.caption(checkpoint, images, beam_size=2, max_len=5)
    down, right = config.feature_map
    for index, caption in enumerate(captions):
        assert 1 <= len(caption.tgt_tokens) <= 5
        assert caption.weights.shape == (len(caption.tgt_tokens), down * right)
        torch.testing.assert_close(caption.weights.sum(1), torch.ones(len(caption.tgt_tokens)))
        (alone,) = generate.caption(checkpoint, images[index : index + 1], beam_size=2, max_len=5)
        assert alone.tgt_tokens == caption.tgt_tokens
        assert alone.score == pytest.approx(caption.score, abs=1e-5)


# --- Text that goes on ---

STORIES = {
    (START_ID, START_ID): {A: 0.7, B: 0.3},
    (START_ID, A): {B: 0.8, C: 0.2},
    (A, B): {C: 0.9, END_ID: 0.1},
}


def storyteller():
    tokenizer = WordTokenizer(Vocabulary(["a", "b", "c"]))
    return Checkpoint(MarkovText(markov(STORIES).logits.detach()), None, tokenizer)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_a_text_goes_on_from_its_prompt(batch_size):
    prompts = ["", "a", "a b", "", "a b c", "b"]
    found = generate.continue_text(storyteller(), prompts, 9, search.Beam(1), batch_size)
    assert [[text.text for text in texts] for texts in found] == [
        ["a b c"],
        ["a b c"],
        ["a b c"],
        ["a b c"],
        ["a b c"],
        ["b"],
    ]
    assert [text.src_tokens for (text,) in found] == [prompt.split() for prompt in prompts]
    assert [text.tgt_tokens for (text,) in found][:3] == [
        ["a", "b", "c", "<end>"],
        ["b", "c", "<end>"],
        ["c", "<end>"],
    ]
    assert all(text.weights is None and text.note == "" for (text,) in found)


def test_a_text_may_go_on_in_several_ways():
    (found,) = generate.continue_text(storyteller(), ["a"], 9, search.Beam(3, 0.0))
    assert [text.text for text in found] == ["a b c", "a c", "a b"]
    assert [text.score for text in found] == pytest.approx([math.log(p) for p in (0.72, 0.2, 0.08)])
    generator = torch.Generator().manual_seed(0)
    how = search.Sampling(top_k=1, samples=4, generator=generator)
    assert [
        [text.text for text in texts]
        for texts in generate.continue_text(storyteller(), ["", "b"], 9, how)
    ] == [["a b c"] * 4, ["b"] * 4]
    (freely,) = generate.continue_text(storyteller(), ["a"])
    assert len(freely) == 1


def test_what_a_text_does_not_say_is_noted():
    ((text,),) = generate.continue_text(storyteller(), ["a zebra b"], 1, search.Beam(1))
    assert text.src_tokens == ["a", "<unk>", "b"]
    assert text.note == "unknown words: zebra"
    ((text,),) = generate.continue_text(storyteller(), ["a"], 1, search.Beam(1))
    assert (text.text, text.note) == ("a b", "stopped after 1 tokens")


def test_a_prompt_is_read_after_the_start_token(monkeypatch):
    read, start = [], MarkovText.start

    def watched(model, prompt):
        read.extend(prompt.tolist())
        return start(model, prompt)

    monkeypatch.setattr(MarkovText, "start", watched)
    generate.continue_text(storyteller(), ["", "a", "a b"], 1, search.Beam(1))
    assert read == [[], [START_ID], [START_ID, A]]  # all but the last, which is read next


def test_a_beam_goes_on_without_what_is_forbidden():
    prompt = torch.tensor([[START_ID, A]])
    for how in (search.Beam(3), search.Sampling(samples=7)):
        forbidden = (*search.FORBIDDEN_IDS, B)
        (found,) = search.generate(storyteller().model, prompt, 5, how, forbidden)
        assert all(B not in hypothesis.ids for hypothesis in found)
        assert [C] in [hypothesis.ids for hypothesis in found]


def test_probabilities_are_computed_in_thirty_two_bits():
    logits = torch.randn(2, VOCAB).bfloat16()
    found = search.next_log_probabilities(logits, ())
    torch.testing.assert_close(found, logits.float().log_softmax(dim=-1))


def test_nothing_to_go_on_with():
    assert generate.continue_text(storyteller(), []) == []


def go_on(how):
    return generate.continue_text(storyteller(), ["a"], 100, how)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: generate.continue_text(storyteller(), "a b"), "expected a list of prompts"),
        (lambda: generate.continue_text(copier(), ["a"]), "a Copier cannot continue a text"),
        (lambda: generate.continue_text(storyteller(), ["a"], 0), "max_len=0 must be at least 1"),
        (
            lambda: search.generate(Copier(), torch.ones(1, 2, dtype=int), 3),
            "a Copier cannot continue",
        ),
        (
            lambda: search.generate(storyteller().model, torch.ones(2, 0, dtype=int), 3),
            "prompt_len=0 must be at least 1",
        ),
        (
            lambda: generate.continue_text(storyteller(), ["a"], 3, search.Beam(0)),
            "beam_size=0 must be at least 1",
        ),
        (lambda: go_on(search.Sampling(0.0)), r"temperature=0\.0 must be above 0"),
        (lambda: go_on(search.Sampling(math.inf)), r"temperature=inf must be .* finite"),
        (lambda: go_on(search.Sampling(1e-40)), r"temperature=1e-40 must be a finite number"),
        (lambda: go_on(search.Beam(2, 1e6)), r"length_penalty=1000000\.0 would divide .* by inf"),
        (lambda: go_on(search.Beam(2, -1e3)), r"length_penalty=-1000\.0 would divide .* by 0\.0"),
    ],
)
def test_going_on_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
