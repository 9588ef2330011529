"""Sentence pairs with BPE-dropout: words are split differently in each epoch.

A model that always sees the same segmentation of a word learns little about how its subwords are
composed. Therefore Provilkov, Emelianenko & Voita (2020), https://arxiv.org/abs/1910.13267, skip
some merges at random in training, and none in inference.
"""

import random
from collections.abc import Sequence

from attentively.data.batches import Example, encode_pairs
from attentively.data.pairs import Pair
from attentively.tokens.byte_pair import merge_word
from attentively.tokens.vocabulary import END_ID, START_ID, BPETokenizer


class CutAnew(Sequence[Example]):
    """Translation examples with a new random segmentation after each `renew`.

    The initial segmentation is that without dropout. The trainer calls `renew` before each epoch,
    and then forms batches by length.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        tokenizer: BPETokenizer,
        dropout: float,
        variety: int = 32,
    ) -> None:
        """Skip merges with probability `dropout`.

        For each word, `variety` segmentations are sampled once, and one of them is chosen at each
        occurrence: segmentation in Python would otherwise take longer than training.
        """
        if not 0 < dropout < 1:
            raise ValueError(f"dropout={dropout} must be between 0 and 1")
        if variety < 1:
            raise ValueError(f"variety={variety} must be at least 1")
        self._tokenizer = tokenizer
        self._dropout = dropout
        self._variety = variety
        self._rank = {pair: place for place, pair in enumerate(tokenizer.merges)}
        self._words = [(tokenizer.words(src), tokenizer.words(tgt)) for src, tgt in pairs]
        self._cuts: dict[str, list[list[int]]] = {}
        self._examples = encode_pairs(pairs, tokenizer, tokenizer)

    def renew(self, seed: str) -> None:
        """Segment every sentence again; the result depends only on the text and `seed`."""
        generator = random.Random(seed)
        self._examples = [
            Example(
                [*self._cut(src, generator), END_ID],
                [START_ID, *self._cut(tgt, generator), END_ID],
            )
            for src, tgt in self._words
        ]

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # one example or a list
        return self._examples[index]

    def _cut(self, words: Sequence[str], generator: random.Random) -> list[int]:
        return [index for word in words for index in generator.choice(self._cuts_of(word))]

    def _cuts_of(self, word: str) -> list[list[int]]:
        """Return the sampled segmentations of a word, which depend on the word alone."""
        if word not in self._cuts:
            generator = random.Random(word)
            self._cuts[word] = [
                self._tokenizer.ids(merge_word(word, self._rank, self._dropout, generator))
                for _ in range(self._variety)
            ]
        return self._cuts[word]
