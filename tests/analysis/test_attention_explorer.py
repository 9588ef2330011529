"""The attention explorer as HTML: every weight, nothing loaded, a table without scripts."""

import json
import re
from html.parser import HTMLParser

import pytest
import torch

from attentively.analysis.attention_explorer import (
    Attention,
    Example,
    Explorer,
    attentions_of,
    explore,
)
from attentively.generation.generate import translate
from attentively.models import checkpoints

WEIGHTS = torch.tensor([[[[0.25, 0.75, 0.0]], [[0.5, 0.0, 0.5]]]])  # 1 layer, 2 heads
ATTENTION = Attention("One <attention>", "cross", ["q&"], ["a", '"b"', "</script>"], WEIGHTS)


class Reader(HTMLParser):
    """Collect what a page contains: elements with their attributes, and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data.strip())


def data_of(page: str) -> list[list[dict]]:
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', page)
    return [json.loads(block) for block in blocks]


def test_the_page_holds_every_weight_and_a_table_of_their_mean():
    page = Explorer([Example("a <b>", "q&", [ATTENTION], note="one & two")]).page()
    [[one]] = data_of(page)
    assert one["weights"] == [[[[250, 750, 0]], [[500, 0, 500]]]]
    assert (one["queries"], one["keys"]) == (["q&"], ["a", '"b"', "</script>"])
    read = Reader(page)
    assert [tag for tag, _ in read.elements].count("td") == 1 + 3
    position = read.texts.index("One <attention>, mean of all layers and heads, in percent")
    assert [text for text in read.texts[position:] if text][1:9] == [
        "query ↓ key →", "a", '"b"', "</script>", "q&", "38", "38", "25",
    ]  # fmt: skip
    assert "Note: one & two" in read.texts
    assert not [each for _, each in read.elements if each.keys() & {"src", "href"}]  # no other file


def test_an_output_of_a_cell_is_the_whole_page_in_a_titled_frame():
    explorer = Explorer([Example('a "b"', "c", [ATTENTION])], title='Weights of "a"')
    [(tag, attributes)] = Reader(explorer._repr_html_()).elements
    assert tag == "iframe"
    assert attributes["srcdoc"] == explorer.page()
    assert attributes["title"] == 'Weights of "a"'
    assert repr(explorer) == '<attention explorer: a "b">'


def test_names_that_do_not_fit_the_weights_are_refused():
    for changed in (ATTENTION._replace(keys=["a"]), ATTENTION._replace(weights=WEIGHTS[0])):
        with pytest.raises(ValueError, match=r"One <attention>: weights have shape .*expected"):
            Explorer([Example("a", "b", [changed])])


def test_a_transformer_shows_its_three_attentions_in_every_layer_and_head():
    checkpoint = checkpoints.load_pretrained("toy-transformer")
    sentence = "the animal sleeps"
    explorer = explore(checkpoint, sentence)
    [example] = explorer.examples
    assert [each.role for each in example.attentions] == ["cross", "encoder", "decoder"]
    cross, encoder, decoder = example.attentions
    config = checkpoint.model.config
    for attention in example.attentions:
        assert attention.weights.shape[:2] == (config.num_layers, config.num_heads)
        sums = attention.weights.sum(dim=-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))
    assert list(encoder.queries) == list(encoder.keys) == list(cross.keys)
    assert decoder.keys[0] == "<start>"
    assert list(decoder.keys[1:]) == list(decoder.queries[:-1])
    future = torch.ones(decoder.weights.shape[2:], dtype=torch.bool).triu(1)
    assert not decoder.weights[..., future].any()
    [translation] = translate(checkpoint, [sentence], need_weights=True)
    torch.testing.assert_close(cross.weights.mean(dim=(0, 1)), translation.weights)


def test_the_row_of_a_token_holds_the_weights_with_which_it_is_predicted():
    model, *tokenizers = checkpoints.load_pretrained("toy-transformer").translator()
    ids = tokenizers[1].encode("le chat dort")
    cross, _, decoder = attentions_of(model, *tokenizers, "the cat sleeps", ids)
    assert list(cross.queries) == ["le", "chat", "dort", "<end>"]
    assert list(cross.keys) == ["the", "cat", "sleeps", "<end>"]
    assert list(decoder.keys) == ["<start>", "le", "chat", "dort"]


def test_a_recurrent_model_shows_one_and_a_model_without_attention_none():
    [one] = explore(checkpoints.load_pretrained("toy-additive"), ["the animal sleeps"]).examples
    assert [each.weights.shape[:2] for each in one.attentions] == [(1, 1)]
    explorer = explore(checkpoints.load_pretrained("toy-fixed"), "the animal sleeps")
    assert explorer.examples[0].attentions == []
    assert "There are no attention weights." in explorer.page()
