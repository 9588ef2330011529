"""The same weights in Hugging Face's Marian and in our Transformer say and write the same.

Transformers is needed for these tests alone, and its import takes seconds: so the tests import it.
"""

import inspect
import types
from functools import cache

import pytest
import torch

from attentively.data.batches import pad
from attentively.generation import search
from attentively.models.configs import TransformerConfig
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID

VOCAB, D_MODEL, HEADS, D_FF, LAYERS = 13, 16, 2, 23, 2
MAX_LEN = 60
SEEDS = (1, 4, 9, 10, 11, 21)  # with which most texts end


def marian(seed, activation="relu"):
    """Return a random Marian model with opinions of its own."""
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(seed)
    config = MarianConfig(
        vocab_size=VOCAB,
        d_model=D_MODEL,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=D_FF,
        decoder_ffn_dim=D_FF,
        activation_function=activation,
        scale_embedding=True,
        max_position_embeddings=MAX_LEN + 1,
        pad_token_id=PAD_ID,
        eos_token_id=END_ID,
        decoder_start_token_id=START_ID,
        forced_eos_token_id=None,
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" in name:
                continue
            kind = next((kind for kind in ("embed_tokens", "lm_head") if kind in name), "other")
            size = {"embed_tokens": 0.3, "lm_head": 0.4, "other": 0.2}[kind]
            parameter.copy_(size * torch.randn_like(parameter) + ("norm.weight" in name))
        # The end grows likelier with two slow sines of the position, so that texts do end.
        model.lm_head.weight[END_ID] = 0.0
        model.lm_head.weight[END_ID, 2:4] = 2.0
    return model


OURS = {
    "self_attn_layer_norm": "around_self_attention.layer_norm",
    "encoder_attn_layer_norm": "around_cross_attention.layer_norm",
    "final_layer_norm": "around_feed_forward.layer_norm",
    "self_attn": "self_attention",
    "encoder_attn": "cross_attention",
    "q_proj": "query_projection",
    "k_proj": "key_projection",
    "v_proj": "value_projection",
    "out_proj": "output_projection",
    "fc1": "feed_forward.inner",
    "fc2": "feed_forward.outer",
}


def our_name(name):
    """Return what we call a parameter of a layer of Marian's."""
    for theirs, ours in OURS.items():
        name = name.replace(theirs, ours)
    if name.startswith("encoder"):
        name = name.replace("around_self_attention", "around_attention")
    if "layer_norm" in name:
        name = name.replace("weight", "gain").replace("bias", "shift")
    return name


def in_ours(theirs):
    """Return our Transformer with the weights of a Marian model.

    Marian's positions have all sines first and then all cosines, ours take turns. So component
    i of a vector of ours is component `order[i]` of Marian's, wherever a vector is read or said.
    """
    order = torch.arange(D_MODEL).view(2, -1).T.flatten()
    config = TransformerConfig(
        src_vocab_size=VOCAB,
        tgt_vocab_size=VOCAB,
        d_model=D_MODEL,
        num_heads=HEADS,
        d_ff=D_FF,
        num_layers=LAYERS,
        dropout=0.3,
        norm="post",
        activation=theirs.config.activation_function,
    )
    model = Transformer(config).eval()
    weights = {}
    for name, value in theirs.model.state_dict().items():
        if ".layers." not in name:
            continue
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight", "fc1.weight")):
            value = value[:, order]  # reads
        elif "out_proj" in name or "fc2" in name or "layer_norm" in name:
            value = value[order]  # says
        weights[our_name(name)] = value
    assert not theirs.final_logits_bias.any()  # ours has none
    for ours, tokens in {
        "encoder.input.embedding.table": theirs.model.encoder.embed_tokens,
        "decoder.input.embedding.table": theirs.model.decoder.embed_tokens,
        "output": theirs.lm_head,
    }.items():
        weights[f"{ours}.weight"] = tokens.weight[:, order]
    model.load_state_dict(weights, strict=True)
    return model


def sources(seed):
    generator = torch.Generator().manual_seed(seed)
    lengths = (5, 2, 7)
    rows = [torch.randint(4, VOCAB, (n,), generator=generator).tolist() for n in lengths]
    return pad([[*row, END_ID] for row in rows])


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_same_logits(activation):
    theirs = marian(0, activation)
    model, src = in_ours(theirs), sources(0)
    tgt = torch.tensor([[START_ID, 5, 6, 7], [START_ID, 12, 4, 9], [START_ID, 8, 8, 4]])
    with torch.no_grad():
        found = model.decode(tgt, model.encode(src)).logits
        expected = theirs(
            input_ids=src, attention_mask=(src != PAD_ID).long(), decoder_input_ids=tgt
        ).logits
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@cache
def written_by_marian(seed, beam_size, length_penalty=1.0):
    src = sources(seed)
    return marian(seed).generate(
        input_ids=src,
        attention_mask=(src != PAD_ID).long(),
        do_sample=False,
        num_beams=beam_size,
        num_return_sequences=beam_size,
        length_penalty=length_penalty,
        early_stopping=False,
        max_new_tokens=MAX_LEN,
        suppress_tokens=list(search.FORBIDDEN_IDS),
        return_dict_in_generate=True,
        output_scores=True,
    )


def words(row):
    """Return the tokens between start and end, and whether there is an end."""
    ids = row.tolist()[1:]
    return (ids[: ids.index(END_ID)], True) if END_ID in ids else (ids, False)


def beams_agree(module, beam_size, length_penalty):
    """The same texts in the same order, with the same scores.

    Texts stopped after MAX_LEN tokens stand among the others in Transformers and after them in
    ours, so sentences with such texts are not compared.
    """
    compared = 0
    for seed in SEEDS:
        expected = written_by_marian(seed, beam_size, length_penalty)
        model, src = in_ours(marian(seed)), sources(seed)
        found = module.beam_search(model, src, MAX_LEN, beam_size, length_penalty)
        texts = [words(row) for row in expected.sequences]
        scores = expected.sequences_scores.tolist()
        for index, hypotheses in enumerate(found):
            its = slice(index * beam_size, (index + 1) * beam_size)
            if all(ended for _, ended in texts[its]):
                assert [(h.ids, h.finished) for h in hypotheses] == texts[its]
                assert [h.score for h in hypotheses] == pytest.approx(scores[its], abs=1e-4)
                compared += 1
    assert compared >= 7


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("beam_size", [2, 5])
def test_beam_search_agrees(beam_size, length_penalty):
    beams_agree(search, beam_size, length_penalty)


def test_greedy_search_agrees():
    ended = 0
    for seed in SEEDS:
        expected = [words(row) for row in written_by_marian(seed, beam_size=1).sequences]
        model, src = in_ours(marian(seed)), sources(seed)
        greedy = search.greedy_search(model, src, MAX_LEN)
        assert [(h.ids, h.finished) for h in greedy] == expected
        ((*beam,),) = zip(*search.beam_search(model, src, MAX_LEN, 1), strict=True)
        assert [(h.ids, h.finished) for h in beam] == expected
        ended += sum(h.finished for h in greedy)
    assert ended >= 5


def broken_twin(old, new):
    source_code = inspect.getsource(search)
    assert source_code.count(old) == 1, f"found {source_code.count(old)} times: {old}"
    twin = types.ModuleType("broken_twin")
    exec(compile(source_code.replace(old, new), "broken_twin", "exec"), twin.__dict__)
    return twin


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # the end token is not counted
        (
            "_ended(candidates, beam_size, penalty(length))",
            "_ended(candidates, beam_size, penalty(max(1, length - 1)))",
        ),
        # the search stops as soon as enough have ended
        ("return best_live > found[-1].score", "return False"),
        # ... or only when nothing is left
        ("return best_live > found[-1].score", "return True"),
        # beginnings are scored one token too long
        ("highest[row] / penalty(length)", "highest[row] / penalty(length + 1)"),
        # ended sentences push beginnings out of the beam
        ("log_probabilities, 2 * beam_size)", "log_probabilities, beam_size)"),
        # an unlikely end is as good as any
        ("ended[:, :beam_size].nonzero()", "ended.nonzero()"),
    ],
)
def test_a_broken_twin_does_not_agree(old, new):
    twin = broken_twin(old, new)
    with pytest.raises(AssertionError):
        beams_agree(twin, 5, 0.6)


def test_truncation_agrees():
    from transformers.generation.logits_process import (
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    torch.manual_seed(0)
    logits = torch.randn(7, 101, dtype=torch.float64) * 3
    for temperature in (0.3, 1.0, 1.7):
        for top_k in (None, 1, 10, 101):
            for top_p in (None, 0.05, 0.5, 0.95):
                warpers = [TemperatureLogitsWarper(temperature)]
                warpers += [] if top_k is None else [TopKLogitsWarper(top_k)]
                warpers += [] if top_p is None else [TopPLogitsWarper(top_p)]
                expected = logits
                for warper in warpers:
                    expected = warper(None, expected)
                found = search.truncate(logits.log_softmax(-1), temperature, top_k, top_p)
                torch.testing.assert_close(found, expected.log_softmax(dim=-1))
