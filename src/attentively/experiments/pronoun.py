"""Pronoun: how does a trained Transformer choose between *il* and *elle*?

The sentences are minimal pairs of the toy language, in which only the last English word, an
adjective, determines which of two nouns "it" refers to. Three interventions measure what the
prediction of the pronoun depends on: words of the sentence are replaced, edges of the attention are
blocked (attention knockout), and outputs of heads are replaced by those for another sentence
(activation patching).

Seed 0 is the pretrained ``toy-transformer``. The models of the other seeds are trained with the
same recipe, as by ``attentively train --config toy-transformer --seed SEED``. Layers and heads are
counted from 1 in the results.
"""

import importlib.resources
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attentively import device
from attentively.analysis.interventions import (
    HeadOutputs,
    knock_out,
    patch_outputs,
    record_outputs,
)
from attentively.analysis.pruning import Head, find_heads
from attentively.data import corpora, toy
from attentively.data.batches import Batch, collate, encode_pairs
from attentively.data.pairs import Pair
from attentively.data.toy import ToyPair
from attentively.data.toy.lexicon import ADJECTIVES, NOUNS
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import as_text, origin
from attentively.models import checkpoints
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import TransformerConfig
from attentively.models.interface import evaluating
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import WordTokenizer
from attentively.training.trainer import Trainer
from attentively.training.training_config import TrainingConfig

RECIPE = "toy-transformer"
MINIMAL_PAIRS = 200
Kind = Literal["encoder", "cross", "decoder"]
"""The encoder's self-attention, the cross-attention, and the decoder's self-attention."""
Edge = tuple[int, int]
"""The positions of a query and of a key."""
_NOUN = {form: noun for noun in NOUNS for form in noun.english.split()}
_ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}


# Positions in a sentence


def nouns(pair: ToyPair) -> tuple[int, int]:
    """Return the positions of the two English nouns; the first is the antecedent of "it"."""
    end = pair.src.index("because")
    one, other = (i for i, word in enumerate(pair.src[:end]) if word in _NOUN)
    feminine = "elle" in pair.tgt
    return (one, other) if _NOUN[pair.src[one]].feminine == feminine else (other, one)


def adjective(pair: ToyPair) -> int:
    """Return the position of the adjective, which is the last English word."""
    return len(pair.src) - 1


def it(pair: ToyPair) -> int:
    """Return the position of "it"."""
    return len(pair.src) - 1 - pair.src[::-1].index("it")


def pronoun(pair: ToyPair) -> int:
    """Return the decoder position that predicts *il* or *elle*."""
    return next(i for i, word in enumerate(pair.tgt) if word in ("il", "elle"))


def before_noun(pair: ToyPair, noun: int) -> int:
    """Return the decoder position that predicts the French noun of an English position."""
    return min(tgt for src, tgt in pair.alignment if src == noun)


def elided(pair: ToyPair) -> bool:
    """Return whether the antecedent has the article *l'*, which does not show its gender."""
    return pair.tgt[before_noun(pair, nouns(pair)[0]) - 1] == "l'"


# Sentences with another word


def swap_noun(pair: ToyPair, noun: int, other_gender: bool) -> ToyPair | None:
    """Return the pair with another noun of the same kind; None if the language has none.

    Its gender is the other one or the same.
    """
    old = _NOUN[pair.src[noun]]
    form = old.english.split().index(pair.src[noun])
    first = NOUNS.index(old) + 1
    for new in NOUNS[first:] + NOUNS[: first - 1]:
        alike = new.kinds == old.kinds and new.countable == old.countable
        if alike and (new.gender != old.gender) == other_gender:
            found = _with_word(pair, noun, new.english.split()[form])
            if found is not None:
                return found
    return None


def swap_adjective(pair: ToyPair) -> ToyPair | None:
    """Return the pair with another adjective for the same noun; None if the language has none."""
    old = _ADJECTIVE[pair.src[-1]]
    for new in ADJECTIVES:
        if new is not old and new.kinds == old.kinds and new.selective:
            found = _with_word(pair, adjective(pair), new.english)
            if found is not None:
                return found
    return None


def _with_word(pair: ToyPair, at: int, word: str) -> ToyPair | None:
    """Return the pair with another English word; None if that is not a sentence."""
    try:
        return toy.translate(" ".join([*pair.src[:at], word, *pair.src[at + 1 :]]))
    except ValueError:  # the antecedent of "it" is not determined, or "a" should be "an"
        return None


# Predictions


@dataclass(frozen=True)
class PronounTest:
    """A model, and sentences in which it chooses between *il* and *elle*."""

    model: Transformer
    pairs: Sequence[ToyPair]
    batch: Batch
    at: Int[Tensor, "sentences"]
    """The decoder position that predicts the pronoun."""
    il: int
    elle: int

    @classmethod
    def of(
        cls,
        checkpoint: Checkpoint,
        pairs: Sequence[ToyPair],
        english: Sequence[ToyPair] | None = None,
    ) -> "PronounTest":
        """Return the test of these pairs, or of their French with the `english` of others."""
        model, *tokenizers = checkpoint.translator()
        sources = pairs if english is None else english
        texts = [Pair(src.src_text, tgt.tgt_text) for src, tgt in zip(sources, pairs, strict=True)]
        batch = collate(encode_pairs(texts, *tokenizers)).to(next(model.parameters()).device)
        at = torch.tensor([pronoun(pair) for pair in pairs])
        il, elle = tokenizers[1].encode("il elle")[:2]
        return cls(cast(Transformer, model), pairs, batch, at, il, elle)

    def prefers_il(self) -> Bool[Tensor, "sentences"]:
        """Return for each sentence whether *il* is more probable than *elle*."""
        with evaluating(self.model):
            logits = self.model(self.batch.src, self.batch.tgt[:, :-1]).cpu()
        at_pronoun = logits[torch.arange(len(self.pairs)), self.at]
        return at_pronoun[:, self.il] > at_pronoun[:, self.elle]

    def is_il(self) -> Bool[Tensor, "sentences"]:
        """Return for each sentence whether the reference has *il*."""
        return torch.tensor(["il" in pair.tgt for pair in self.pairs])

    def scores(self, found: Bool[Tensor, "sentences"] | None = None) -> Row:
        """Return the accuracy, and the share of minimal pairs with two different pronouns."""
        found = self.prefers_il() if found is None else found
        return {
            "accuracy": share(found == self.is_il()),
            "distinguished": share(found[::2] != found[1::2]),
        }

    def lengths(self, kind: Kind) -> tuple[int, int]:
        """Return the numbers of queries and of keys of an attention."""
        src_len, tgt_len = self.batch.src.size(1), self.batch.tgt.size(1) - 1
        return (
            src_len if kind == "encoder" else tgt_len,
            tgt_len if kind == "decoder" else src_len,
        )

    def edges(
        self, kind: Kind, find: Callable[[ToyPair], Iterable[Edge]]
    ) -> Bool[Tensor, "sentences queries keys"]:
        """Return a mask of the edges that `find` returns for each sentence."""
        mask = torch.zeros(len(self.pairs), *self.lengths(kind), dtype=torch.bool)
        for row, pair in zip(mask, self.pairs, strict=True):
            for query, key in find(pair):
                row[query, key] = True
        return mask.to(self.batch.src.device)

    def only_at(self, positions: Sequence[int]) -> Bool[Tensor, "sentences queries"]:
        """Return a mask of one decoder position of each sentence."""
        found = torch.arange(self.lengths("decoder")[0]) == torch.tensor(positions).unsqueeze(1)
        return found.to(self.batch.src.device)


def share(found: Bool[Tensor, "sentences"]) -> float:
    """Return the share of True."""
    return round(found.float().mean().item(), 4)


def minimal_pairs(number: int = MINIMAL_PAIRS) -> list[ToyPair]:
    """Return held-out minimal pairs in one list: sentences 2n and 2n + 1 are a pair."""
    return [pair for two in toy.pronoun_pairs(number) for pair in two]


def partners(pairs: Sequence[ToyPair]) -> list[ToyPair]:
    """Return for each sentence the other one of its minimal pair."""
    return [pair for i in range(0, len(pairs), 2) for pair in (pairs[i + 1], pairs[i])]


def heads_of(model: Transformer, kind: Kind, layer: int) -> list[Head]:
    """Return the heads of an attention; the layer is counted from 1."""
    stack = "encoder" if kind == "encoder" else "decoder"
    sub_layer = "cross_attention" if kind == "cross" else "self_attention"
    name = f"{stack}.layers.{layer - 1}.{sub_layer}"
    return [head for head in find_heads(model) if head.attention == name]


# Interventions on the input


def swaps(checkpoint: Checkpoint, pairs: Sequence[ToyPair]) -> list[Row]:
    """Return how often the pronoun changes when a word of both languages is replaced."""
    usual = PronounTest.of(checkpoint, pairs).prefers_il()
    replaced: dict[str, list[ToyPair | None]] = {
        "adjective, fits the other noun": [*partners(pairs)],
        "adjective, fits the same noun": [swap_adjective(pair) for pair in pairs],
    }
    for index, which in enumerate(("antecedent", "other noun")):
        for gender in ("other", "same"):
            replaced[f"{which}, {gender} gender"] = [
                swap_noun(pair, nouns(pair)[index], gender == "other") for pair in pairs
            ]
    rows = []
    for name, swapped in replaced.items():
        exists = torch.tensor([pair is not None for pair in swapped])
        test = PronounTest.of(checkpoint, [pair for pair in swapped if pair is not None])
        found = test.prefers_il()
        rows.append(
            {
                "swap": name,
                "sentences": len(found),
                "changed": share(found != usual[exists]),
                "accuracy": share(found == test.is_il()),
            }
        )
    return rows


def with_other_antecedent(
    pairs: Sequence[ToyPair], other_gender: bool = True
) -> list[tuple[ToyPair, ToyPair]]:
    """Return pairs, each with its version whose antecedent is another noun."""
    return _with_version(pairs, lambda pair: swap_noun(pair, nouns(pair)[0], other_gender))


def _with_version(
    pairs: Sequence[ToyPair], change: Callable[[ToyPair], ToyPair | None]
) -> list[tuple[ToyPair, ToyPair]]:
    found = [(pair, change(pair)) for pair in pairs]
    return [(old, new) for old, new in found if new is not None]


def conflicts(checkpoint: Checkpoint, pairs: Sequence[ToyPair]) -> list[Row]:
    """Return how often the pronoun changes when the antecedent is replaced in one language only.

    In some conditions, no decoder position can attend to the antecedent or to both nouns of the
    English sentence. The pronoun is compared with that of the unmodified sentence and model.
    """
    old, new = zip(*with_other_antecedent(pairs), strict=True)
    tests = {
        "English": PronounTest.of(checkpoint, old, english=new),
        "French": PronounTest.of(checkpoint, new, english=old),
        "nothing": PronounTest.of(checkpoint, old),
    }
    usual = tests["nothing"].prefers_il()
    rows = []
    for replaced, blocked in (
        ("English", 0),
        ("French", 0),
        ("nothing", 1),
        ("French", 1),
        ("nothing", 2),
        ("French", 2),
    ):
        found = _without_nouns(tests[replaced], blocked) != usual
        row = {"replaced": replaced, "blocked": ("none", "antecedent", "both nouns")[blocked]}
        rows.append({**row, "sentences": len(old), "changed": share(found)})
    return rows


def _without_nouns(test: PronounTest, blocked: int) -> Bool[Tensor, "sentences"]:
    """Return the answers without all edges of the cross-attention to the first nouns."""
    positions = range(test.lengths("cross")[0])
    edges = test.edges("cross", lambda p: [(i, n) for i in positions for n in nouns(p)[:blocked]])
    layers = range(1, test.model.config.num_layers + 1)
    heads = [head for n in layers for head in heads_of(test.model, "cross", n)]
    with knock_out(test.model, heads, edges):
        return test.prefers_il()


# Attention knockout


@dataclass(frozen=True)
class EdgeGroup:
    """Edges to block in all heads of an attention, or in some of them."""

    kind: Kind
    layers: tuple[int, ...]
    """Counted from 1."""
    edges: str
    """Description of the edges."""
    find: Callable[[ToyPair], Iterable[Edge]]
    heads: Literal["all", "strongest", "others"] = "all"
    """All heads, the head with the largest weight on these edges, or all but this head."""


def _between_words(pair: ToyPair) -> list[Edge]:
    """Return all edges of the encoder between two different positions, the end token included."""
    length = len(pair.src) + 1
    return [(a, b) for a in range(length) for b in range(length) if a != b]


def _nouns_to_adjective(pair: ToyPair) -> list[Edge]:
    return [(noun, adjective(pair)) for noun in nouns(pair)]


def _to_adjective(pair: ToyPair) -> list[Edge]:
    return [(pronoun(pair), adjective(pair))]


def _to_nouns(pair: ToyPair) -> list[Edge]:
    return [(pronoun(pair), noun) for noun in nouns(pair)]


def _to_positions_before(which: slice, shift: int = 0) -> Callable[[ToyPair], list[Edge]]:
    """Return edges from the pronoun to the positions that predict one noun or both nouns.

    With a shift of 1 they lead to the positions of the French nouns themselves.
    """
    return lambda pair: [
        (pronoun(pair), before_noun(pair, noun) + shift) for noun in list(nouns(pair))[which]
    ]


def _from_positions_before(pair: ToyPair) -> list[Edge]:
    return [(before_noun(pair, noun), noun) for noun in nouns(pair)]


def _from_other_positions(pair: ToyPair) -> list[Edge]:
    return [
        (i, noun)
        for noun in nouns(pair)
        for i in range(len(pair.tgt) + 1)
        if i != before_noun(pair, noun)
    ]


EDGE_GROUPS = (
    EdgeGroup("encoder", (1, 2), "it → adjective", lambda pair: [(it(pair), adjective(pair))]),
    EdgeGroup("encoder", (1, 2), "it → both nouns", lambda p: [(it(p), n) for n in nouns(p)]),
    EdgeGroup("encoder", (1, 2), "both nouns → adjective", _nouns_to_adjective),
    EdgeGroup("encoder", (1, 2), "all between different positions", _between_words),
    EdgeGroup("cross", (1,), "pronoun → adjective", _to_adjective),
    EdgeGroup("cross", (1,), "pronoun → adjective", _to_adjective, "strongest"),
    EdgeGroup("cross", (1,), "pronoun → adjective", _to_adjective, "others"),
    EdgeGroup("cross", (1,), "pronoun → it", lambda pair: [(pronoun(pair), it(pair))]),
    EdgeGroup("cross", (1,), "pronoun → both nouns", _to_nouns),
    EdgeGroup("cross", (2,), "pronoun → adjective", _to_adjective),
    EdgeGroup("cross", (2,), "pronoun → both nouns", _to_nouns),
    EdgeGroup("decoder", (1,), "pronoun → before antecedent", _to_positions_before(slice(1))),
    EdgeGroup("decoder", (2,), "pronoun → before antecedent", _to_positions_before(slice(1))),
    EdgeGroup("decoder", (2,), "pronoun → before other noun", _to_positions_before(slice(1, 2))),
    EdgeGroup("decoder", (2,), "pronoun → before both nouns", _to_positions_before(slice(2))),
    EdgeGroup("decoder", (2,), "pronoun → both nouns", _to_positions_before(slice(2), 1)),
    EdgeGroup("cross", (1,), "position before noun → noun", _from_positions_before),
    EdgeGroup("cross", (1,), "other positions → both nouns", _from_other_positions),
)
"""The edges whose effect is measured; "before" is the decoder position that predicts a noun."""


def knockout(checkpoint: Checkpoint, pairs: Sequence[ToyPair]) -> list[Row]:
    """Return the scores of a model with each of `EDGE_GROUPS` blocked.

    ``weight`` is the weight of a head on the blocked edges of a query, averaged over queries and
    sentences; the largest of these heads. ``accuracy_elided`` is the accuracy in the sentences
    whose antecedent has the article *l'*, ``accuracy_others`` that in the others.
    """
    test = PronounTest.of(checkpoint, pairs)
    with evaluating(test.model):
        maps = test.model.attention_maps(test.batch.src, test.batch.tgt[:, :-1])
    usual = test.prefers_il()
    after_l = torch.tensor([elided(pair) for pair in pairs])
    rows = []
    for group in EDGE_GROUPS:
        edges = test.edges(group.kind, group.find)
        layers = [layer - 1 for layer in group.layers]
        weights = _mean_weights(getattr(maps, group.kind)[layers], edges)
        heads = [head for layer in group.layers for head in heads_of(test.model, group.kind, layer)]
        order = weights.flatten().argsort(descending=True).tolist()
        chosen = {"all": order, "strongest": order[:1], "others": order[1:]}[group.heads]
        with knock_out(test.model, [heads[i] for i in chosen], edges):
            found = test.prefers_il()
        right = found == test.is_il()
        rows.append(
            {
                "attention": group.kind,
                "layers": list(group.layers),
                "edges": group.edges,
                "heads": group.heads,
                "strongest_head": order[0] % len(heads_of(test.model, group.kind, 1)) + 1,
                "weight": round(weights.flatten()[chosen].max().item(), 4),
                **test.scores(found),
                "accuracy_elided": share(right[after_l]),
                "accuracy_others": share(right[~after_l]),
                "changed": share(found != usual),
            }
        )
    return rows


def _mean_weights(
    weights: Float[Tensor, "layers sentences heads queries keys"],
    edges: Bool[Tensor, "sentences queries keys"],
) -> Float[Tensor, "layers heads"]:
    """Return each head's weight on the edges, averaged over the queries that have such an edge."""
    on_edges = (weights * edges.unsqueeze(1)).sum(dim=(1, 3, 4))
    return (on_edges / edges.any(dim=-1).sum()).cpu()


# Activation patching


def patching(checkpoint: Checkpoint, pairs: Sequence[ToyPair]) -> list[Row]:
    """Return how often the pronoun changes when outputs of decoder heads are patched.

    Each head is patched alone, and the heads of each attention together (``"head": "all"``):

    - ``adjective``: at the pronoun, with the output for the other sentence of the minimal pair;
    - ``noun``: at the pronoun, with the output for the same French and an English sentence whose
      antecedent has the other gender;
    - ``before_noun``: the same, at the position that predicts the antecedent.
    """
    test = PronounTest.of(checkpoint, pairs)
    old, new = zip(*with_other_antecedent(pairs), strict=True)
    swapped = PronounTest.of(checkpoint, old)
    of_partner = outputs(PronounTest.of(checkpoint, pairs, english=partners(pairs)))
    of_swapped = outputs(PronounTest.of(checkpoint, old, english=new))
    before = [before_noun(pair, nouns(pair)[0]) for pair in old]
    before_swap = swapped.prefers_il()
    conditions = {
        "adjective": (test, of_partner, test.at.tolist(), test.prefers_il()),
        "noun": (swapped, of_swapped, swapped.at.tolist(), before_swap),
        "before_noun": (swapped, of_swapped, before, before_swap),
    }
    rows = []
    for kind in ("cross", "decoder"):
        for layer in range(1, test.model.config.num_layers + 1):
            heads = heads_of(test.model, kind, layer)
            groups: dict[int | str, list[Head]] = {head.number + 1: [head] for head in heads}
            for name, group in [*groups.items(), ("all", heads)]:
                effects = {key: share(_changed(group, *given)) for key, given in conditions.items()}
                rows.append({"attention": kind, "layer": layer, "head": name, **effects})
    return rows


def patching_controls(checkpoint: Checkpoint, pairs: Sequence[ToyPair]) -> list[Row]:
    """Return the effect of donors with the other pronoun and, as a control, with the same one.

    All heads of an attention are patched. ``donor`` is the share of donors whose own pronoun
    differs: a patch that transmits everything would change as many. ``changed_elided`` is the
    share in the sentences whose antecedent has the article *l'*, ``changed_others`` that in the
    others.
    """
    donors = {
        "adjective, fits the other noun": list(zip(pairs, partners(pairs), strict=True)),
        "adjective, fits the same noun": _with_version(pairs, swap_adjective),
        "antecedent, other gender": with_other_antecedent(pairs, other_gender=True),
        "antecedent, same gender": with_other_antecedent(pairs, other_gender=False),
    }
    rows = []
    for name, versions in donors.items():
        old, new = zip(*versions, strict=True)
        test, donor = PronounTest.of(checkpoint, old), PronounTest.of(checkpoint, old, english=new)
        replacements, usual = outputs(donor), test.prefers_il()
        differs = share(donor.prefers_il() != usual)
        after_l = torch.tensor([elided(pair) for pair in old])
        before = [before_noun(pair, nouns(pair)[0]) for pair in old]
        sites: list[tuple[Kind, int, str, list[int]]]
        sites = [("cross", 1, "pronoun", test.at.tolist())]
        if name.startswith("antecedent"):
            sites = [("cross", 1, "before antecedent", before)]
        for kind, layer, at, positions in [*sites, ("decoder", 2, "pronoun", test.at.tolist())]:
            heads = heads_of(test.model, kind, layer)
            changed = _changed(heads, test, replacements, positions, usual)
            rows.append(
                {
                    "differs": name,
                    "attention": kind,
                    "layer": layer,
                    "at": at,
                    "sentences": len(old),
                    "donor": differs,
                    "changed": share(changed),
                    "changed_elided": share(changed[after_l]),
                    "changed_others": share(changed[~after_l]),
                }
            )
    return rows


def outputs(test: PronounTest) -> HeadOutputs:
    """Return the outputs of all decoder heads."""
    heads = [head for head in find_heads(test.model) if head.attention.startswith("decoder")]
    with record_outputs(test.model, heads) as found:
        test.prefers_il()
    return found


def _changed(
    heads: Sequence[Head],
    test: PronounTest,
    replacements: HeadOutputs,
    at: Sequence[int],
    usual: Bool[Tensor, "sentences"],
) -> Bool[Tensor, "sentences"]:
    """Return for each sentence whether its pronoun changes when these heads are patched."""
    chosen = {head: replacements[head] for head in heads}
    with patch_outputs(test.model, chosen, test.only_at(at)):
        return test.prefers_il() != usual


def strongest_heads(rows: Sequence[Row]) -> dict[str, Row]:
    """Return for each patching condition the single head with the largest effect."""
    single = [row for row in rows if row["head"] != "all"]
    return {
        key: {
            **{name: best[name] for name in ("attention", "layer", "head")},
            "changed": best[key],
        }
        for key in ("adjective", "noun", "before_noun")
        for best in [max(single, key=lambda row: row[key])]
    }


NAMES: dict[str, str] = {
    "encoder": "encoder self-attention",
    "cross": "cross-attention",
    "decoder": "decoder self-attention",
}
"""Names of the kinds of attention in tables."""


def name_of(row: Row) -> str:
    """Return the attention of a row, with its layers."""
    layers = row["layers"] if "layers" in row else [row["layer"]]
    return f"{NAMES[row['attention']]} {' and '.join(map(str, layers))}"


def summary(result: Row) -> list[Row]:
    """Return the measurements that distinguish the models, from one row of the results file."""
    knocked = {
        (row["attention"], row["layers"][-1], row["edges"]): row
        for row in result["knockout"]
        if row["heads"] == "all"
    }
    rows = [
        ("correct after knockout", f"{name_of(row)}: {row['edges']}", row["accuracy"])
        for row in (
            knocked["encoder", 2, "both nouns → adjective"],
            knocked["encoder", 2, "all between different positions"],
            knocked["cross", 1, "pronoun → adjective"],
            knocked["cross", 2, "pronoun → adjective"],
            knocked["cross", 2, "pronoun → both nouns"],
            knocked["decoder", 2, "pronoun → before antecedent"],
        )
    ]
    for key, kind, layer, single in (
        ("adjective", "cross", 1, True),
        ("adjective", "cross", 2, True),
        ("adjective", "decoder", 2, False),
        ("noun", "cross", 2, False),
        ("noun", "decoder", 2, False),
    ):
        best = max(
            (
                row
                for row in result["patching"]
                if (row["attention"], row["layer"]) == (kind, layer)
                and (row["head"] == "all") != single
            ),
            key=lambda row: row[key],
        )
        heads = "best single head" if single else "all heads"
        label = f"{name_of(best)}, {heads}: {key} differs"
        rows.append(("changed by patching", label, best[key]))
    for row in result["conflicts"][:2]:
        label = f"antecedent replaced in {row['replaced']} only"
        rows.append(("changed by another word", label, row["changed"]))
    return [
        {"seed": result["seed"], "measure": measure, "intervention": label, "value": value}
        for measure, label, value in rows
    ]


# The experiment


def trained_model(seed: int, quick: bool, directory: Path) -> Checkpoint:
    """Return the pretrained model for seed 0; otherwise train one, or resume in `directory`."""
    if seed == 0 and not quick:
        return checkpoints.load_pretrained(RECIPE, device.best())
    recipe = read_recipe()
    texts = _training_texts(quick)
    train, validation = texts["train"], texts["validation"]
    torch.manual_seed(seed)
    src_tokenizer, tgt_tokenizer = (
        WordTokenizer.train([pair[side] for pair in train]) for side in (0, 1)
    )
    config = TransformerConfig(
        src_vocab_size=len(src_tokenizer),
        tgt_vocab_size=len(tgt_tokenizer),
        **recipe["transformer"],
    )
    checkpoint = Checkpoint(
        Transformer(config), src_tokenizer, tgt_tokenizer, origin("pronoun", seed)
    )
    steps = {"steps": 4, "validate_every": 2} if quick else {}
    trainer = Trainer(
        checkpoint,
        encode_pairs(train, src_tokenizer, tgt_tokenizer),
        encode_pairs(validation, src_tokenizer, tgt_tokenizer),
        TrainingConfig(**{**recipe["training"], **steps, "seed": seed}),
        directory,
        progress=False,
    )
    trainer.fit(resume=(directory / "last.safetensors").exists())
    checkpoint.provenance["seconds"] = trainer.seconds
    return checkpoint


def read_recipe() -> dict[str, Any]:
    """Return the recipe of the pretrained model."""
    path = importlib.resources.files("attentively") / "recipes" / f"{RECIPE}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _training_texts(quick: bool) -> dict[str, list[Pair]]:
    splits = ("train", "validation")
    if quick:
        return {split: as_text([*toy.load(split, 200), *minimal_pairs(10)]) for split in splits}
    corpus = corpora.find(read_recipe()["data"])
    return {split: list(corpus.load(split)) for split in splits}


def measure(recipe: str, seed: int, quick: bool, directory: Path) -> Row:
    """Measure one model: its predictions, and the effects of all interventions."""
    del recipe  # the only condition
    checkpoint = trained_model(seed, quick, directory)
    pairs = minimal_pairs(20 if quick else MINIMAL_PAIRS)
    patched = patching(checkpoint, pairs)
    return {
        "pretrained": seed == 0 and not quick,
        "training_seconds": round(checkpoint.provenance["seconds"], 1),
        "sentences": len(pairs),
        **PronounTest.of(checkpoint, pairs).scores(),
        "swaps": swaps(checkpoint, pairs),
        "conflicts": conflicts(checkpoint, pairs),
        "knockout": knockout(checkpoint, pairs),
        "patching": patched,
        "patching_controls": patching_controls(checkpoint, pairs),
        "strongest_heads": strongest_heads(patched),
    }


EXPERIMENT = Experiment(
    name="pronoun",
    question='What determines whether a Transformer translates "it" as il or elle?',
    conditions=[{"recipe": RECIPE}],
    measure=measure,
)
