"""A recorded translation is what the model computes, and its picture says so in words."""

import re
import sys
from pathlib import Path

import torch

from attentively.generation.generate import translate
from attentively.models import checkpoints
from attentively.models.interface import evaluating
from attentively.tokens.vocabulary import START_ID

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import recorded_translation  # noqa: E402

NAME = "tatoeba-en-fr-transformer"


def test_it_is_what_the_model_computes():
    recorded = recorded_translation.record(NAME, "I do not like milk.")
    model, source, target = checkpoints.load_pretrained(NAME).translator()
    src = torch.tensor([source.encode("I do not like milk.")])
    ids = target.encode(recorded.text)
    with evaluating(model):
        maps = model.attention_maps(src, torch.tensor([[START_ID, *ids[:-1]]]))
    weights = maps.cross[2, 0, 0]
    assert weights.shape == (len(recorded.target), len(recorded.source))
    torch.testing.assert_close(torch.tensor(recorded.weights), weights, atol=0.0051, rtol=0)
    assert recorded.source[-1] == recorded.target[-1] == "<end>"
    assert recorded.head == "layer 3, head 1"


def test_a_recurrent_model_has_one_attention():
    name = "tatoeba-en-fr-additive"
    recorded = recorded_translation.record(name, "I do not like milk.")
    checkpoint = checkpoints.load_pretrained(name)
    [translation] = translate(checkpoint, ["I do not like milk."], beam_size=5)
    assert recorded.text == translation.text
    assert recorded.weights[0] == tuple(round(each, 2) for each in translation.weights[0].tolist())
    assert recorded.head is None
    assert "head" not in recorded_translation.caption(recorded)


def test_the_picture():
    one = recorded_translation.Recorded(("a", "<b>"), ("x", "y"), ((0.04, 0.96), (0.5, 0.5)), "x")
    svg = recorded_translation.draw(one)
    assert svg.count("<path") == 3  # the smallest weight is not drawn
    assert "x: &lt;b&gt; 0.96; y: a 0.50" in svg
    widths = [float(width) for width in re.findall(r'stroke-width="([\d.]+)"', svg)]
    assert widths == [5.8, 3.5, 3.5]


def test_the_table():
    one = recorded_translation.Recorded(("a", "<b>"), ("x", "y"), ((0.04, 0.96), (0.3, 0.7)), "x")
    rows = re.findall(r"<tr><th[^>]*>(\w)</th><td>(.*?)</td>", recorded_translation.table(one))
    assert rows == [("x", "<q>&lt;b&gt;</q> 0.96"), ("y", "<q>&lt;b&gt;</q> 0.70, <q>a</q> 0.30")]
    assert "(layer 3)" in recorded_translation.caption(one._replace(head="layer 3"))
