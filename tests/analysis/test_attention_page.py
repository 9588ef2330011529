"""A page of attention weights inside another page: whole, quoted, and named for who hears it."""

from html.parser import HTMLParser

import torch

from attentively.analysis.attention_page import Map, Text, frame, maps_of_heads, page
from attentively.models import checkpoints


def test_a_frame_holds_the_whole_page_and_a_title():
    weights = torch.tensor([[0.25, 0.75]])
    whole = page("Where", [Text('a "b"', "c", [Map("one", ["c"], ["a", '"b"'], weights)])])
    found = {}

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            found[tag] = dict(attributes)

    Reader().feed(frame(whole, 'maps of "a"'))
    assert list(found) == ["iframe"]
    assert found["iframe"]["srcdoc"] == whole
    assert found["iframe"]["title"] == 'maps of "a"'


def test_maps_of_heads_are_counted_from_one_and_their_rows_are_predictions():
    model, src, tgt = checkpoints.load_pretrained("toy-transformer").translator()
    ids = tgt.encode("le chat dort")
    maps = maps_of_heads(model, src, tgt, "the cat sleeps", ids)
    assert len(maps) == 3 * 2 * 4
    assert maps[0].name == "Target to source, layer 1 head 1"
    assert maps[-1].name == "Target to target, layer 2 head 4"
    assert maps[0].rows == ["le", "chat", "dort", "<end>"]
    assert maps[0].columns == ["the", "cat", "sleeps", "<end>"]
    assert maps[-1].columns == ["<start>", "le", "chat", "dort"]
    for one in maps:
        assert one.weights.shape == (len(one.rows), len(one.columns))
        torch.testing.assert_close(one.weights.sum(dim=-1), torch.ones(len(one.rows)))
    assert maps[-1].weights.triu(1).abs().max() == 0  # the decoder is causal
