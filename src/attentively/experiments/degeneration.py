"""Degeneration: how often open-ended text repeats itself, by the method of decoding.

The pretrained language model of Shakespeare's plays continues passages of the test split, which it
has not seen in training, by greedy search, beam search and sampling. Holtzman et al. (2020),
https://arxiv.org/abs/1904.09751, found that search produces repetitive text and that sampling from
the nucleus comes closer to text written by people. The model runs on the CPU, where samples are
reproducible.
"""

import functools
from pathlib import Path

import torch

from attentively.data import text
from attentively.experiments.runner import Experiment, Row
from attentively.generation.generate import continue_text
from attentively.generation.search import Beam, Sampling
from attentively.models.checkpoints import load_pretrained

PASSAGES = 30
PROMPT, LENGTH = 64, 400
"""Lengths of a prompt and of its continuation, in characters."""
METHODS: dict[str, Sampling | Beam] = {
    "greedy": Sampling(top_k=1),
    "beam 5": Beam(5),
    "temperature 0.5": Sampling(temperature=0.5),
    "top-k 10": Sampling(top_k=10),
    "top-p 0.9": Sampling(top_p=0.9),
    "sampling": Sampling(),
}


def measure(method: str, seed: int, quick: bool, directory: Path) -> Row:
    """Continue passages of the plays; each seed takes other passages."""
    del directory  # nothing is trained
    passages = _passages(seed, quick)
    if method == "people":
        written = [passage[PROMPT:] for passage in passages]
    else:
        how = METHODS[method]
        if isinstance(how, Sampling):
            how = how._replace(generator=torch.Generator().manual_seed(seed))
        prompts = [passage[:PROMPT] for passage in passages]
        length = len(passages[0]) - PROMPT
        found = continue_text(load_pretrained("shakespeare-gpt"), prompts, length, how)
        written = [texts[0].text[PROMPT:] for texts in found]
    known = _known_words(quick)
    words = [word for one in written for word in _words(one)]
    return {
        "texts": len(written),
        "repeated": round(sum(map(repeated, written)) / len(written), 4),
        "loops": round(sum(repeated(one) >= 0.5 for one in written) / len(written), 4),
        "known_words": round(sum(word in known for word in words) / len(words), 4),
    }


def repeated(written: str, order: int = 4) -> float:
    """Return the share of word n-grams that occurred earlier in the same text."""
    words = written.split()
    ngrams = [tuple(words[i : i + order]) for i in range(len(words) - order + 1)]
    return 1 - len(set(ngrams)) / len(ngrams) if ngrams else 0.0


def _passages(seed: int, quick: bool) -> list[str]:
    """Return passages that begin with a line, long enough for a prompt and its continuation."""
    plays = "But soft, what light\n" * 99 if quick else text.shakespeare("test")
    count, length = (2, 40) if quick else (PASSAGES, LENGTH)
    apart = (len(plays) - PROMPT - length) // (count + 1)
    starts = [plays.index("\n", apart * i + seed * apart // 3) + 1 for i in range(count)]
    return [plays[start : start + PROMPT + length] for start in starts]


def _words(written: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation and the unfinished last one."""
    whole = written[: written.rfind(" ")].lower()
    return "".join(c if c.isalpha() or c == "'" else " " for c in whole).split()


@functools.cache
def _known_words(quick: bool) -> frozenset[str]:
    """Return the words of the training text."""
    return frozenset(_words("but soft what light" if quick else text.shakespeare("train")))


EXPERIMENT = Experiment(
    name="degeneration",
    question="How often does open-ended text repeat itself under search and under sampling?",
    conditions=[{"method": method} for method in ("people", *METHODS)],
    measure=measure,
)
