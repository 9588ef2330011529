"""Sentence pairs with BPE-dropout: words are split differently in each epoch.

A model that always meets a word in the same pieces learns nothing of what they are made of.
Provilkov, Emelianenko & Voita (2020), https://arxiv.org/abs/1910.13267, therefore overlook some
of the merges in training, and none when they translate.
"""

import random
from collections.abc import Sequence

from attentively.data.batches import Example, encode_pairs
from attentively.data.pairs import Pair
from attentively.tokens.byte_pair import merge_word
from attentively.tokens.vocabulary import END_ID, START_ID, BPETokenizer


class CutAnew(Sequence[Example]):
    """Examples of translation: in the usual pieces at first, in others after each `renew`.

    A trainer renews them before each epoch, and then plans its batches by their lengths.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        tokenizer: BPETokenizer,
        dropout: float,
        variety: int = 32,
    ) -> None:
        """Overlook merges with the probability `dropout`.

        Of each word `variety` cuts are drawn when it is first met, and one of these is taken
        each time after: cutting by hand would otherwise take longer than learning.
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
        """Cut every sentence anew; the cuts depend on the text and on `seed` alone."""
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
        """Return the cuts of a word, which depend on the word alone."""
        if word not in self._cuts:
            generator = random.Random(word)
            self._cuts[word] = [
                self._tokenizer.ids(merge_word(word, self._rank, self._dropout, generator))
                for _ in range(self._variety)
            ]
        return self._cuts[word]
