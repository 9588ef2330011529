"""Searches find what they promise, on languages small enough to list every sentence."""

import dataclasses
import inspect
import itertools
import math
import types

import pytest
import torch
import torch.nn.functional as F

from attentively import decoding
from attentively.checkpoints import Checkpoint
from attentively.data.batches import pad
from attentively.decoding import beam_search, evaluating, greedy_search, translate
from attentively.masks import padding_mask
from attentively.protocol import DecoderOutput, EncoderDecoder, Memory
from attentively.seq2seq import Seq2Seq, Seq2SeqConfig
from attentively.vocabulary import END_ID, PAD_ID, START_ID, UNK_ID, Vocabulary, WordTokenizer

WORDS = (4, 5, 6)
VOCAB = 7


def row_tensors(cls):
    """Give a frozen dataclass of tensors the `select` of a decoder state."""

    def select(self, rows):
        fields = dataclasses.fields(self)
        return cls(**{field.name: getattr(self, field.name)[rows] for field in fields})

    cls.select = select
    return dataclasses.dataclass(frozen=True)(cls)


@row_tensors
class MarkovState:
    language: torch.Tensor
    previous: torch.Tensor


class Markov(EncoderDecoder):
    """The next token depends on the last two, and on which language the source asks for.

    The two tokens make the state of two hypotheses differ where their last tokens agree.
    """

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.nn.Parameter(logits)  # language, previous, token, next

    def encode(self, src, src_mask):
        return Memory(src.unsqueeze(-1).float())

    def start(self, memory, src_mask):
        language = memory.outputs[:, 0, 0].long() % len(self.logits)
        return MarkovState(language, torch.full_like(language, START_ID))

    def step(self, token, state):
        logits = self.logits[state.language, state.previous, token]
        return logits, dataclasses.replace(state, previous=token)

    def decode(self, tgt, memory, src_mask, need_weights=False):
        state, logits = self.start(memory, src_mask), []
        for token in tgt.unbind(dim=1):
            now, state = self.step(token, state)
            logits.append(now)
        return DecoderOutput(torch.stack(logits, dim=1))


def random_markov(seed):
    generator = torch.Generator().manual_seed(seed)
    return Markov(torch.randn(3, VOCAB, VOCAB, VOCAB, generator=generator, dtype=torch.float64) * 2)


def markov(tree):
    """A language given by the probabilities of what follows each beginning of one or two words.

    `tree` maps (previous, token) to {next: probability}; all else ends at once.
    """
    probabilities = torch.zeros(1, VOCAB, VOCAB, VOCAB)
    probabilities[..., END_ID] = 1.0
    for (previous, token), following in tree.items():
        probabilities[0, previous, token] = 0.0
        for index, probability in following.items():
            probabilities[0, previous, token, index] = probability
    return Markov(probabilities.log())


def source(*rows):
    src = pad([[*row, END_ID] for row in rows or [(4,)]])
    return src, padding_mask(src, PAD_ID)


A, B, C = WORDS
# Greedy takes A (0.6) and ends with 0.6 × 0.4 = 0.24; B C has 0.4 × 0.9 = 0.36.
GREEDY_LOSES = {
    (START_ID, START_ID): {A: 0.6, B: 0.4},
    (START_ID, A): {A: 0.4, B: 0.3, C: 0.3},
    (START_ID, B): {C: 0.9, A: 0.1},
}
# "A" has probability 0.5; "B C C" has 0.5 × 0.9 × 0.9 = 0.405, over twice as many tokens.
LONG_OR_SHORT = {
    (START_ID, START_ID): {A: 0.5, B: 0.5},
    (START_ID, B): {C: 0.9, END_ID: 0.1},
    (B, C): {C: 0.9, END_ID: 0.1},
}


def log_probability_of(model, src, ids):
    """What the model says of a whole target when it is read to it (teacher forcing)."""
    row = torch.tensor([src])
    mask = padding_mask(row, PAD_ID)
    tgt = torch.tensor([[START_ID, *ids]])
    logits = model.decode(tgt[:, :-1], model.encode(row, mask), mask).logits
    return logits.log_softmax(-1).gather(-1, tgt[:, 1:, None]).sum().item()


def every_sentence(max_len):
    """Every row of words and an end with at most `max_len` tokens."""
    for length in range(max_len):
        for words in itertools.product(WORDS, repeat=length):
            yield [*words, END_ID]


# --- Properties, each a function that a broken twin of the module can be given ---


def width_one_is_greedy(module):
    for seed in range(5):
        model = random_markov(seed)
        src, mask = source((4,), (5, 4), (6, 6, 5))
        for max_len in (1, 2, 11):
            greedy = module.greedy_search(model, src, mask, max_len)
            beam = module.beam_search(model, src, mask, max_len, beam_size=1)
            for one, found in zip(greedy, beam, strict=True):
                assert len(found) == 1
                assert (one.ids, one.finished) == (found[0].ids, found[0].finished)
                assert one.log_probability == pytest.approx(found[0].log_probability)


def a_wide_beam_is_exhaustive(module):
    max_len = 4
    for seed in range(3):
        model = random_markov(seed)
        src, mask = source((4,), (5,))
        for length_penalty in (0.0, 0.7, 1.0, 2.0):
            found = module.beam_search(model, src, mask, max_len, 300, length_penalty)
            for row, hypotheses in zip(src.tolist(), found, strict=True):
                finished = [h for h in hypotheses if h.finished]
                scores = {
                    tuple(ids[:-1]): log_probability_of(model, row, ids)
                    / len(ids) ** length_penalty
                    for ids in every_sentence(max_len)
                }
                best_first = sorted(scores, key=scores.get, reverse=True)
                assert [tuple(h.ids) for h in finished] == best_first
                assert [h.score for h in finished] == pytest.approx([scores[i] for i in best_first])


def log_probabilities_are_the_models(module):
    model = random_markov(1)
    src, mask = source((4,), (5, 4), (6, 6, 5))
    for row, found in zip(src, module.beam_search(model, src, mask, 9, beam_size=5), strict=True):
        for hypothesis in found:
            ids = [*hypothesis.ids, *[END_ID] * hypothesis.finished]
            expected = log_probability_of(model, row.tolist(), ids)
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-5)
            assert hypothesis.score == pytest.approx(expected / len(ids), abs=1e-5)


def special_tokens_are_never_written(module):
    for seed in range(5):
        model = random_markov(seed)
        src, mask = source((4,), (5,), (6,))
        for found in module.beam_search(model, src, mask, 7, beam_size=11):
            assert found
            for hypothesis in found:
                assert set(hypothesis.ids) <= set(WORDS)
        for hypothesis in module.greedy_search(model, src, mask, 7):
            assert set(hypothesis.ids) <= set(WORDS)


def company_changes_nothing(module):
    model = random_markov(2)
    rows = [(4,), (5, 4), (6, 6, 5), (4, 4, 4, 4, 4), (5,)]
    src, mask = source(*rows)
    together = module.beam_search(model, src, mask, 7, beam_size=3)
    backwards = module.beam_search(model, src.flip(0), mask.flip(0), 7, beam_size=3)
    assert together == backwards[::-1]
    assert together == [module.beam_search(model, *source(row), 7, beam_size=3)[0] for row in rows]
    greedy = module.greedy_search(model, src, mask, 7)
    assert greedy == [module.greedy_search(model, *source(row), 7)[0] for row in rows]


def two_beams_find_what_greedy_misses(module):
    model = markov(GREEDY_LOSES)
    (greedy,) = module.greedy_search(model, *source(), max_len=5)
    assert greedy.ids == [A, A]
    assert math.exp(greedy.log_probability) == pytest.approx(0.24)
    ((best, *_),) = module.beam_search(model, *source(), max_len=5, beam_size=2)
    assert best.ids == [B, C]
    assert math.exp(best.log_probability) == pytest.approx(0.36)


def the_length_penalty_chooses(module):
    model = markov(LONG_OR_SHORT)
    for length_penalty, winner in [(0.0, [A]), (1.0, [B, C, C])]:
        ((best, *_),) = module.beam_search(model, *source(), 5, 3, length_penalty)
        assert best.ids == winner


def a_later_sentence_may_overtake(module):
    """The short sentence ends first; the search goes on and keeps both, and no third."""
    (found,) = module.beam_search(markov(LONG_OR_SHORT), *source(), 5, 2, 1.0)
    assert [hypothesis.ids for hypothesis in found] == [[B, C, C], [A]]
    expected = [math.log(0.405) / 4, math.log(0.5) / 2]
    assert [hypothesis.score for hypothesis in found] == pytest.approx(expected)


def unfinished_sentences_come_last(module):
    """After two tokens only "A" has ended, and its score is worse than that of "B C"."""
    model = markov({(START_ID, START_ID): {A: 0.4, B: 0.6}, (START_ID, B): {C: 1.0}})
    (found,) = module.beam_search(model, *source(), max_len=2, beam_size=2)
    assert [(h.ids, h.finished) for h in found] == [([A], True), ([B, C], False)]
    assert found[0].score < found[1].score


PROPERTIES = [
    width_one_is_greedy,
    a_wide_beam_is_exhaustive,
    log_probabilities_are_the_models,
    special_tokens_are_never_written,
    company_changes_nothing,
    two_beams_find_what_greedy_misses,
    the_length_penalty_chooses,
    a_later_sentence_may_overtake,
    unfinished_sentences_come_last,
]


@pytest.mark.parametrize("holds", PROPERTIES)
def test_property(holds):
    holds(decoding)


def broken_twin(old, new):
    """The module with one line changed."""
    source_code = inspect.getsource(decoding)
    assert source_code.count(old) == 1, f"found {source_code.count(old)} times: {old}"
    twin = types.ModuleType("broken_twin")
    exec(compile(source_code.replace(old, new), "broken_twin", "exec"), twin.__dict__)
    return twin


@pytest.mark.parametrize(
    ("old", "new", "seen_by"),
    [
        # an ended sentence gives its place to a new one
        ("beam_size - len(ended[sentence])", "beam_size", a_later_sentence_may_overtake),
        # the search stops at the first ended sentence
        ("if not live:", "if not live or any(ended):", a_later_sentence_may_overtake),
        # ... or as soon as the beam holds some
        ("if not live:", "if not live or len(ended[0]) > 3:", a_wide_beam_is_exhaustive),
        # the beam is one narrower
        ("beam_size - len(ended[sentence])", "1", two_beams_find_what_greedy_misses),
        # unlikely tokens are thrown away early
        ("width = min(beam_size, ", "width = min(2, ", a_wide_beam_is_exhaustive),
        # the states of the hypotheses are mixed up
        ("[partial.parent for", "[live[0].parent for", log_probabilities_are_the_models),
        # every sentence's hypotheses compete with those of its neighbours
        ("key=lambda c: c.sentence):", "key=lambda c: 0):", company_changes_nothing),
        # one sentence's end is everybody's
        ("if ended.all():", "if ended.any():", width_one_is_greedy),
        # what comes after the end is kept
        ("ids.index(END_ID) if finished", "ids.index(END_ID) + 1 if finished", width_one_is_greedy),
        # the length penalty is forgotten
        ("** length_penalty", "** 0", the_length_penalty_chooses),
        # the end token is not counted
        (
            "log_probability / len(partial.ids) **",
            "log_probability / max(1, len(partial.ids) - partial.ended) **",
            a_later_sentence_may_overtake,
        ),
        # sentences that never ended are ranked among those that did
        (
            "(hypothesis.finished, hypothesis.score)",
            "hypothesis.score",
            unfinished_sentences_come_last,
        ),
        # <pad>, <unk> and <start> are written
        (
            "FORBIDDEN_IDS = (PAD_ID, UNK_ID, START_ID)",
            "FORBIDDEN_IDS = ()",
            special_tokens_are_never_written,
        ),
        # what is forbidden is shared out among the rest
        (
            "    if not log_probabilities.amax",
            "    log_probabilities = log_probabilities.log_softmax(dim=-1)\n"
            "    if not log_probabilities.amax",
            log_probabilities_are_the_models,
        ),
    ],
)
def test_a_broken_twin_is_seen(old, new, seen_by):
    twin = broken_twin(old, new)
    with pytest.raises(AssertionError):
        seen_by(twin)


# --- Searching, the rest ---


def test_forbidden_ids_are_the_callers_choice():
    model = markov({(START_ID, START_ID): {UNK_ID: 0.9, A: 0.1}})
    assert greedy_search(model, *source(), max_len=3)[0].ids == [A]
    assert greedy_search(model, *source(), 3, forbidden_ids=())[0].ids == [UNK_ID]
    assert beam_search(model, *source(), 3, 1, forbidden_ids=(A,))[0][0].ids == [UNK_ID]


def test_an_impossible_token_is_never_written():
    """A beam wider than the choices there are holds fewer hypotheses."""
    (found,) = beam_search(markov(GREEDY_LOSES), *source(), max_len=5, beam_size=100)
    assert len(found) == 5
    assert sum(math.exp(h.log_probability) for h in found) == pytest.approx(1.0)


def test_an_empty_translation_may_win():
    model = markov({(START_ID, START_ID): {END_ID: 0.9, A: 0.1}})
    assert greedy_search(model, *source(), max_len=3)[0][:1] == ([],)
    ((best, *_),) = beam_search(model, *source(), max_len=3, beam_size=2)
    assert (best.ids, best.finished) == ([], True)
    assert best.score == pytest.approx(math.log(0.9))


@pytest.mark.parametrize("search", [greedy_search, lambda *given: beam_search(*given, beam_size=3)])
@pytest.mark.parametrize(
    "model",
    [
        markov({(START_ID, START_ID): {UNK_ID: 1.0}}),
        Markov(torch.full((1, *[VOCAB] * 3), math.nan)),
    ],
)
def test_a_model_that_leaves_no_choice_is_refused(search, model):
    with pytest.raises(ValueError, match="leaves no next token to choose"):
        search(model, *source(), 5)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (lambda model: greedy_search(model, *source(), max_len=0), "max_len=0 must be at least 1"),
        (lambda model: beam_search(model, *source(), 0, 2), "max_len=0 must be at least 1"),
        (lambda model: beam_search(model, *source(), 3, 0), "beam_size=0 must be at least 1"),
        (lambda model: beam_search(model, *source(), 3, -2), "beam_size=-2 must be at least 1"),
    ],
)
def test_searches_refuse(search, message):
    with pytest.raises(ValueError, match=message):
        search(random_markov(0))


# --- With a real model ---


@pytest.fixture(scope="module", params=["additive", "fixed"])
def seq2seq(request):
    torch.manual_seed(5)
    config = Seq2SeqConfig(
        src_vocab_size=13,
        tgt_vocab_size=11,
        embedding_dim=5,
        encoder_dim=7,
        decoder_dim=3,
        attention_dim=2,
        attention=request.param,
        dropout=0.5,
    )
    model = Seq2Seq(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)  # decided opinions, so that ties and ends occur
    return model


def test_padding_the_source_changes_nothing(seq2seq):
    src, mask = source((4, 5, 6), (7, 8, 9, 10, 4), (12,))
    longer = F.pad(src, (0, 6), value=PAD_ID)
    longer_mask = padding_mask(longer, PAD_ID)
    assert_close(
        [greedy_search(seq2seq, src, mask, 7)], [greedy_search(seq2seq, longer, longer_mask, 7)]
    )
    assert_close(
        beam_search(seq2seq, src, mask, 7, 3), beam_search(seq2seq, longer, longer_mask, 7, 3)
    )


def test_a_model_that_looks_at_padding_would_be_seen(seq2seq):
    src, _ = source((4, 5, 6), (7, 8, 9, 10, 4), (12,))
    longer = F.pad(src, (0, 6), value=PAD_ID)
    everything, more = (padding_mask(rows, pad_id=-1) for rows in (src, longer))
    with pytest.raises(AssertionError):
        assert_close(
            beam_search(seq2seq, src, everything, 7, 3), beam_search(seq2seq, longer, more, 7, 3)
        )


def assert_close(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.ids for h in ours] == [h.ids for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-5)


def test_searching_leaves_the_model_as_it_was(seq2seq):
    seq2seq.train()
    seq2seq.encoder.eval()  # a frozen part stays frozen
    try:
        first = beam_search(seq2seq, *source((4, 5)), 7, 3)
        assert first == beam_search(seq2seq, *source((4, 5)), 7, 3)  # no dropout
        assert seq2seq.training
        assert seq2seq.dropout.training
        assert not seq2seq.encoder.training
        with evaluating(seq2seq):
            assert not seq2seq.dropout.training
            assert torch.is_inference_mode_enabled()
        with pytest.raises(ValueError, match="logits"), evaluating(seq2seq):
            decoding.next_log_probabilities(torch.full((2, VOCAB), math.nan))
        assert seq2seq.dropout.training
        assert not seq2seq.encoder.training
        assert not torch.is_inference_mode_enabled()
    finally:
        seq2seq.eval()


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

    def encode(self, src, src_mask):
        return Memory(src.unsqueeze(-1).float())

    def start(self, memory, src_mask):
        src = memory.outputs.squeeze(-1).long()
        return CopierState(torch.zeros_like(src[:, 0]), src)

    def step(self, token, state):
        here = state.position.clamp(max=state.src.size(1) - 1).unsqueeze(1)
        logits = self.certainty * F.one_hot(state.src.gather(1, here).squeeze(1), VOCAB)
        return logits, dataclasses.replace(state, position=state.position + 1)

    def decode(self, tgt, memory, src_mask, need_weights=False):
        state, logits = self.start(memory, src_mask), []
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
    assert too_long.note == "too long: 5 tokens, and at most 4 are translated"
    assert too_long.text == ""


def test_a_translation_that_does_not_end_says_so():
    (translation,) = translate(copier(), ["a b c a"], beam_size=1, max_len=3)
    assert translation.text == "a b c"
    assert translation.tgt_tokens == ["a", "b", "c"]
    assert translation.weights.shape == (3, 5)
    assert translation.note == "given up after 3 tokens"
    (unknown,) = translate(copier(), ["a zebra c a"], beam_size=1, max_len=3)
    assert unknown.note == "given up after 3 tokens; unknown words: zebra"


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
    ],
)
def test_translate_refuses(sentences, choices, message):
    with pytest.raises(ValueError, match=message):
        translate(copier(), sentences, **choices)
