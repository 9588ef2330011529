"""A page of attention weights inside another page: whole, quoted, and named for who hears it."""

from html.parser import HTMLParser

import torch

from attentively.analysis.attention_page import Map, Text, frame, page


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
