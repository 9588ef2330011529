"""A page with nothing but a live model, and what PyTorch computes of it."""

import base64
import sys
from pathlib import Path

import torch

from attentively.generation.search import beam_search
from attentively.models.interface import evaluating
from attentively.tokens.vocabulary import START_ID

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import live_transformer  # noqa: E402

SENTENCES = [
    "I have never seen such a beautiful garden.",
    "The animal didn’t cross the street because it was too tired.",
    "  Two  spaces and a\ttab, then 12:45 o'clock — “quoted”.  ",
    "Café, naïve, 日本 and ½ of an 🍎!",
    "a",
]
COMPARE = """
([name, sentences, beamSize, lengthPenalty]) =>
  Attentively.load("live", name).then(({model, subwords}) =>
    sentences.map((sentence) => {
      const source = subwords.encode(sentence);
      const memory = model.encode(source);
      const maxLength = Attentively.maximumLength(source.length);
      const search = Attentively.beamSearch(
        model, memory, {beamSize, lengthPenalty, maxLength});
      const {hypotheses} = Attentively.runSearch(search);
      const decoded = model.decode([2, ...hypotheses[0].ids], memory);
      return {
        source,
        hypotheses: hypotheses.map(({ids, logProbability, score, finished}) =>
          ({ids, logProbability, score, finished})),
        text: subwords.decode(hypotheses[0].ids),
        logits: decoded.map(({logits}) => inBase64(logits)),
      };
    }))
"""
IN_BASE64 = """
window.inBase64 = (values) => {
  let binary = "";
  for (const byte of new Uint8Array(values.buffer)) binary += String.fromCharCode(byte);
  return btoa(binary);
};
"""


def write_page(folder: Path, name: str) -> None:
    """Write a page with the live model of this checkpoint, and all that it loads."""
    (folder / "live").mkdir()
    for path in (ROOT / "book" / "_static" / "live").iterdir():
        (folder / "live" / path.name).write_bytes(path.read_bytes())
    checkpoint = live_transformer.PRETRAINED / f"{name}.safetensors"
    for file, text in live_transformer.scripts(checkpoint).items():
        (folder / "live" / file).write_text(text, encoding="utf-8")
    scripts = "".join(
        f'<script defer src="live/{file}"></script>' for file in live_transformer.SCRIPTS
    )
    examples = ["Where did you buy this book?"]
    element = live_transformer.opening(
        live_transformer.described(checkpoint, SENTENCES[0], examples), "live"
    )
    (folder / "page.html").write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Live</title>'
        f'<link rel="stylesheet" href="live/live.css">{scripts}'
        f'<main class="bd-article">{element}No scripts run here.</div></div></main></html>',
        encoding="utf-8",
    )


def from_base64(rows: list[str]) -> torch.Tensor:
    """Return the vectors that `inBase64` wrote."""
    return torch.stack(
        [torch.frombuffer(bytearray(base64.b64decode(row)), dtype=torch.float32) for row in rows]
    )


def expected(translator, sentence, beam_size=5, length_penalty=1.0):
    """Return what PyTorch computes: source, hypotheses, text, and logits of the best one."""
    model, src_tokenizer, tgt_tokenizer = translator
    source = src_tokenizer.encode(sentence)
    src = torch.tensor([source])
    max_len = 10 + 16 * -(-len(source) // 8)
    with evaluating(model):
        hypotheses = beam_search(model, src, max_len, beam_size, length_penalty)[0]
        logits = model(src, torch.tensor([[START_ID, *hypotheses[0].ids]]))[0]
    return source, hypotheses, tgt_tokenizer.decode(hypotheses[0].ids), logits


def differences(translator, sentence, got, beam_size=5, length_penalty=1.0) -> list[str]:
    """Return in what the browser and PyTorch differ."""
    source, hypotheses, text, logits = expected(translator, sentence, beam_size, length_penalty)
    if got["source"] != source:
        return [f"{sentence}: ids {got['source']}, expected {source}"]
    found = []
    if [each["ids"] for each in got["hypotheses"]] != [each.ids for each in hypotheses]:
        found.append(f"{sentence}: {got['text']!r}, expected {text!r}, or other hypotheses")
    elif got["text"] != text:
        found.append(f"{sentence}: the text is {got['text']!r}, expected {text!r}")
    else:
        error = (from_base64(got["logits"]) - logits).abs().max().item()
        if not error < 1e-3:
            found.append(f"{sentence}: the logits differ by {error}")
        for ours, other in zip(got["hypotheses"], hypotheses, strict=True):
            if abs(ours["score"] - other.score) > 1e-4 or ours["finished"] != other.finished:
                found.append(f"{sentence}: {ours}, expected {other}")
    return found


def wait_until_done(window) -> None:
    window.page.wait_for_function(
        "() => document.querySelector('.live-status').textContent.startsWith('Done')"
    )
