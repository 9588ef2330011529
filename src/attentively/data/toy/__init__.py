"""The toy language: generated English sentences with French translations and gold alignments.

.. code-block:: python

    from attentively.data import toy

    pairs = toy.load("train", 20_000)
    pair = toy.translate("the animal did not cross the street because it was too wide")
    pair.tgt_text  # l' animal n' a pas traversé la rue parce qu' elle était trop large

About 200 English words and 270 French words form sentences of 3 to 60 words. A translation has to
place most adjectives after the noun but some before it; to make articles, adjectives and some
participles agree in gender and number; to elide (*l'*, *n'*, *qu'*, separate tokens); to put *ne …
pas* around the verb; and to resolve what "it" refers to, which sometimes only the end of the
sentence reveals.

Each sentence has one translation. Its words are aligned as follows.

.. list-table:: Word alignment
   :header-rows: 1

   * - English
     - French
     - Links
   * - the animal
     - l' animal
     - the–l', animal–animal: an elided article is an article
   * - a small blue ball
     - une petite balle bleue
     - word by word; *petite* precedes the noun, *bleue* follows it
   * - drank
     - a bu
     - drank–a, drank–bu
   * - sits, sat
     - est assis, était assis
     - both French words align with the one English word
   * - does not drink
     - ne boit pas
     - not–ne, not–pas; does–boit, drink–boit
   * - did not drink
     - n' a pas bu
     - not–n', not–pas; did–a, drink–bu: "do" carries the tense
   * - is not wide
     - n' est pas large
     - is–est, not–n', not–pas, wide–large
   * - does not see a cat
     - ne voit pas de chat
     - a–de: after a negated verb *un* and *une* become *de*
   * - because it was
     - parce qu' il était
     - because–parce, because–qu'; it–il
   * - the cat that drinks, the milk that the cat drinks
     - le chat qui boit, le lait que le chat boit
     - that–qui, that–que; "who" likewise
   * - blue and held by the boy
     - bleue et tenue par le garçon
     - word by word

The French past tense is the *passé composé* with *avoir*, but the *imparfait* for "was" and "sat".
A relative clause with *que* is in the present tense, since after *que* a past participle would
agree with the preceding object. "It", "he", "she" and "they" refer to the one noun of their clause
that their adjective can describe.
"""

from attentively.data.toy.corpus import detokenize, generate, load, pronoun_pairs, words
from attentively.data.toy.grammar import ToyPair
from attentively.data.toy.reading import is_well_formed, translate
from attentively.data.toy.splits import HELD_OUT, SPLITS

__all__ = [
    "HELD_OUT",
    "SPLITS",
    "ToyPair",
    "detokenize",
    "generate",
    "is_well_formed",
    "load",
    "pronoun_pairs",
    "translate",
    "words",
]
