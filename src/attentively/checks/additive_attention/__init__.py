"""Checks of the assignment on additive attention.

The answers of parts 1, 2 and 6, and of one function of parts 4 and 5, are compared with the
recordings in this folder. The other checks measure what students predict, or test properties. No
function here is the answer of a part.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from attentively.attention import additive
from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    describe,
    expect_tensor,
    once_solved,
    open_call,
    plain_number,
    plain_tensor,
    show,
)
from attentively.checks.compare import as_plain, refuse_floats
from attentively.checks.question import Recorded, Results
from attentively.checks.recordings import Topic
from attentively.checks.trained_translator import MODEL, expect_same_translations
from attentively.data import toy
from attentively.data.batches import pad
from attentively.generation.generate import translate
from attentively.models.checkpoints import load_pretrained
from attentively.models.seq2seq import Seq2Seq
from attentively.tokens.vocabulary import PAD_ID, target_ids

__all__ = [
    "alignment",
    "an_example",
    "attention",
    "bug_hunt",
    "energies",
    "examples",
    "once_solved",
    "predictions",
    "progress",
    "ready",
    "why_tanh",
]

SENTENCES = (
    "the cat drinks the milk",
    "the girl does not see the white horse",
    "the animal did not cross the street because it was too tired",
    "the animal did not cross the street because it was too wide",
    "my uncle hears the small dog and the queen opens the door",
)
_SHORT = (*SENTENCES[:2], "my uncle hears the small dog")

Inputs = Mapping[str, Any]

_parts = Parts()
_topic = Topic(__file__)
progress = _parts.progress


def ready() -> None:
    """Translate one sentence, to show that the package, its trained model and the checks work."""
    _parts.explain_undefined_names()
    translation = translate(load_pretrained(MODEL), SENTENCES[:1], beam_size=1)[0]
    print(f"PyTorch {torch.__version__}. The trained model translates “{SENTENCES[0]}”")
    print(f"to “{translation.text}”. The set-up is complete.")


def examples(split: str, num_pairs: int) -> list[tuple[Tensor, set[tuple[int, int]]]]:
    """Return the trained model's attention weights in toy sentence pairs, with the gold links.

    The decoder is given the gold translation (teacher forcing), so that row i of the weights
    belongs to target word i. Sentences have one or two clauses.
    """
    return [
        (weights, set(pair.alignment))
        for pair, weights in _with_weights(toy.load(split, num_pairs, clauses=(1, 2)))
    ]


def an_example() -> tuple[toy.ToyPair, Tensor]:
    """Return one toy sentence pair with the trained model's attention weights."""
    return _with_weights([toy.translate(SENTENCES[2])])[0]


def _with_weights(pairs: Sequence[toy.ToyPair]) -> list[tuple[toy.ToyPair, Tensor]]:
    model, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    src = pad([src_tokenizer.encode(pair.src_text) for pair in pairs], PAD_ID)
    tgt = pad([target_ids(tgt_tokenizer, pair.tgt_text) for pair in pairs], PAD_ID)
    with torch.no_grad():
        memory = model.encode(src)
        output = model.decode(tgt[:, :-1], memory, need_weights=True)
    assert output.weights is not None  # the trained model attends
    return [
        (pair, weights[: len(pair.tgt) + 1, : len(pair.src) + 1])
        for pair, weights in zip(pairs, output.weights, strict=True)
    ]


def _random(*sizes: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*sizes)


# Part 1


@_parts.part(
    "energies",
    "energies",
    rebuilds=("attentively.attention.additive:AdditiveAttention",),
    step=True,
)
def energies(candidate: object, thorough: bool = False) -> None:
    """Check a function ``(query, keys, W, U, v) -> scores``."""
    _topic.examine("energies", candidate, thorough)


# Part 2


@_parts.part(
    "AdditiveAttention",
    "AdditiveAttention",
    rebuilds=("attentively.attention.additive:AdditiveAttention",),
)
def attention(candidate: object, thorough: bool = False) -> None:
    """Check a class like `AdditiveAttention`, by itself and inside the trained model."""
    if isinstance(candidate, nn.Module):
        raise CheckFailed(
            "  AdditiveAttention is an instance. Pass the class itself: AdditiveAttention, "
            "without ()."
        )
    check_attention(candidate, thorough)


def check_attention(candidate: object, thorough: bool = False) -> None:
    """Check any attention class, including the package's own."""
    _topic.examine(
        "AdditiveAttention",
        candidate,
        thorough,
        properties={"": _expect_masked},
        quotes={"masked_weight": lambda got, case: _most_masked(got, case.case.inputs["mask"])},
    )

    def put_in(model: Seq2Seq) -> None:
        theirs = cast(additive.AdditiveAttention, model.decoder.attention)
        sizes = {
            "query_dim": theirs.query_projection.in_features,
            "key_dim": theirs.key_projection.in_features,
            "hidden_dim": theirs.energy.in_features,
        }
        mine = call(candidate, sizes)
        assert isinstance(mine, nn.Module)  # or an earlier stage would have said so
        mine.load_state_dict(theirs.state_dict())
        model.decoder.attention = mine.eval()

    expect_same_translations(put_in, _SHORT, "attention")


def _expect_masked(results: Results, inputs: Inputs) -> None:
    """Test what the mask requires of the weights and of fully masked sentences."""
    weights, mask = results["weights"], inputs.get("mask")
    if mask is None or type(weights) is not Tensor:
        return
    if weights.isnan().any() and mask.any(dim=1).all():
        raise CheckFailed(
            "  The weights contain NaN although no sentence is fully masked. Possible causes: "
            f"a softmax over -inf only, or a division by a sum of 0.\n{describe(inputs)}"
        )
    if weights.shape == mask.shape and 0 < weights[~mask].abs().sum() < 0.01:
        raise CheckFailed(
            "  The value that replaces the masked scores is not low enough: "
            f"{_most_masked(weights, mask)} Use torch.finfo(scores.dtype).min.\n" + describe(inputs)
        )
    if weights.isnan().any():
        _refuse_nan(inputs)
    if mask[-1].any():
        return
    for what in ("weights", "context"):
        row = results[what][-1] if type(results[what]) is Tensor else torch.zeros(())
        if row.isnan().any():
            _refuse_nan(inputs)
        if row.count_nonzero():
            uniform = what == "weights" and torch.allclose(row, row.mean())
            raise CheckFailed(
                f"  The last sentence is fully masked (its mask is all False), but its {what} "
                f"{'are' if what == 'weights' else 'is'} not 0."
                + (
                    " Its scores are all equal, so the softmax assigns equal weights. Set the "
                    "masked weights to 0 after the softmax as well."
                    if uniform
                    else ""
                )
                + f"\n{describe(inputs)}\n  got         {show(row)}"
            )


def _most_masked(weights: object, mask: Tensor) -> str:
    """Name the masked position with the largest weight."""
    if type(weights) is not Tensor or weights.shape != mask.shape or mask.all():
        return "masked positions received weight, but must receive exactly 0."
    masked = weights.abs().masked_fill(mask, -1)
    row, position = divmod(int(masked.argmax()), mask.size(1))
    return (
        f"position {position} of sentence {row} is masked, but received weight "
        f"{weights[row, position]:.2g}. It must receive exactly 0."
    )


def _refuse_nan(inputs: Inputs) -> None:
    """Explain NaN in a fully masked sentence."""
    raise CheckFailed(
        "  A fully masked sentence (its mask is all False) gives NaN; its weights and its context "
        "must be 0. Possible causes: a softmax over -inf only, or a division by a sum of 0.\n"
        + describe(inputs)
    )


# Part 3


@functools.cache
def _measure(
    batch: int, src_len: int, tgt_len: int, query_dim: int, key_dim: int, hidden_dim: int
) -> tuple[dict[str, int], int]:
    """Run the package's attention for a whole target, and count.

    Returns the multiplications of each product, with U h at every step, and the number of values
    in all outputs of the tanh.
    """
    module = additive.AdditiveAttention(query_dim, key_dim, hidden_dim)
    kept: list[int] = []
    module.energy.register_forward_hook(lambda _, inputs, output: kept.append(inputs[0].numel()))
    keys = torch.randn(batch, src_len, key_dim)
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        for query in torch.randn(tgt_len, batch, query_dim):
            module(query, keys)
    name = type(module).__name__
    counts = {
        where: sum(flops.values()) // 2  # a multiplication and an addition each
        for where, flops in counter.get_flop_counts().items()
    }
    products = {
        "W s": counts[f"{name}.query_projection"],
        "U h": counts[f"{name}.key_projection"],
        "the product with v": counts[f"{name}.energy"],
    }
    products["the weighted sum of the keys"] = counts["Global"] - sum(products.values())
    return products, sum(kept)


def _whole_number(what: str, answer: object, inputs: Mapping[str, object]) -> int:
    if answer is None:
        raise CheckFailed(f"  {what} returned None: is there a `return`?\n{describe(inputs)}")
    answer = as_plain(answer, 0)
    refuse_floats(answer, 0, what, inputs)
    if type(answer) is not int:
        raise CheckFailed(
            f"  {what} must return an int, but returned {show(answer)}, of type "
            f"{type(answer).__name__}. Multiply and add the sizes, which are "
            f"ints.\n{describe(inputs)}"
        )
    return answer


@_parts.part("cost", "numbers_kept", "multiplications")
def predictions(numbers_kept: object, multiplications: object, thorough: bool = False) -> None:
    """Compare two predicted costs with those measured in a run of the package's attention."""
    names = ("batch", "src_len", "tgt_len", "query_dim", "key_dim", "hidden_dim")
    numbers = [(1, 5, 3, 7, 11, 13), (2, 3, 5, 7, 11, 13)]
    if thorough:
        numbers.append((7, 5, 2, 13, 3, 11))
    for each in open_call.new("kept", numbers):
        _check_kept(numbers_kept, dict(zip(names, each, strict=True)))
    for each in open_call.new("count", numbers):
        for keys_once in (False, True):
            _check_count(multiplications, dict(zip(names, each, strict=True)), keys_once)


def _check_kept(numbers_kept: object, sizes: Mapping[str, int]) -> None:
    got = _whole_number("numbers_kept", call(numbers_kept, sizes), sizes)
    _, expected = _measure(**sizes)
    if got != expected:
        diagnosis = " or ".join(_factors(got, expected, sizes))
        if got == 4 * expected:
            diagnosis = "the result is 4 times the measured one. Count values, not bytes"
        diagnosis = diagnosis or (
            "the tanh outputs a different number of values. Write down the shape of its output for "
            "one target position"
        )
        raise CheckFailed(_prediction("numbers_kept", diagnosis, sizes, got, expected))


def _check_count(multiplications: object, sizes: dict[str, int], keys_once: bool) -> None:
    inputs = sizes | {"keys_once": keys_once}
    got = _whole_number("multiplications", call(multiplications, inputs), inputs)
    products = dict(_measure(**sizes)[0])
    every_step = sum(products.values())
    saved = products["U h"] - products["U h"] // inputs["tgt_len"]
    expected = every_step - saved if keys_once else every_step
    if got == expected:
        return
    if keys_once:
        products["U h"] -= saved
    off = {count: name for name, count in products.items()}
    diagnosis = ""
    if got == 2 * expected:
        diagnosis = "the result is twice the measured one. Count multiplications only, no additions"
    elif keys_once and got == every_step:
        diagnosis = (
            "U h is counted once per target position, but keys_once=True means once per sentence"
        )
    elif not keys_once and got == every_step - saved:
        diagnosis = (
            "U h is counted once per sentence, but keys_once=False means once per target position"
        )
    elif expected - got in off:
        diagnosis = f"the multiplications of {off[expected - got]} are not counted"
    elif got - expected in off:
        diagnosis = f"the multiplications of {off[got - expected]} are counted twice"
    else:
        diagnosis = " or ".join(
            _factors(got, expected, inputs) or _one_product_off(got - expected, products, inputs)
        )
    diagnosis = diagnosis or (
        "the result is not the number of multiplications of the four products. Write down, for "
        "each of them, its multiplications and how often it is computed"
    )
    raise CheckFailed(_prediction("multiplications", diagnosis, inputs, got, expected))


def _factors(got: int, expected: int, sizes: Mapping[str, int]) -> list[str]:
    """Name the dimensions whose sizes explain a wrong product: a missing, extra or wrong factor."""
    by_name = {name: size for name, size in sizes.items() if size > 1 and name != "keys_once"}
    found = []
    for name, size in by_name.items():
        if got * size == expected:
            found.append(f"the result is too small by the factor {name}")
        if got == expected * size:
            found.append(f"the result is too large by the factor {name}")
    pairs = itertools.permutations(by_name.items(), 2)
    found += [
        f"the result has the factor {other} instead of {name}"
        for (name, size), (other, instead) in pairs
        if expected % size == 0 and got == expected // size * instead
    ]
    return found


def _one_product_off(
    difference: int, products: Mapping[str, int], sizes: Mapping[str, int]
) -> list[str]:
    """Name each product and dimension by which the error of the sum can be explained."""
    return [
        factor.replace("the result", f"the count for {product}")
        for product, count in products.items()
        for factor in _factors(count + difference, count, sizes)
    ]


def _prediction(
    what: str, diagnosis: str, sizes: Mapping[str, int], got: int, expected: int
) -> str:
    return (
        f"  {what}: {diagnosis}.\n{describe(sizes)}\n"
        f"  got         {got:,}\n  measured    {expected:,}"
    )


# Part 4


@_parts.part("debugging", "true_statements", "mended_attention")
def bug_hunt(true_statements: object, candidate: object, thorough: bool = False) -> None:
    """Check the statements about the faulty attention, and each property of the corrected one."""
    _check_statements(true_statements)
    properties = {
        "weights sum to 1 without a mask": _expect_sums,
        "weights depend on the query": _expect_dependence,
        "weights with a mask": _expect_mask,
        "fully masked sentences": _expect_nothing,
    }
    _topic.examine("mended_attention", candidate, thorough, properties=properties)


def _faulty_attention(
    queries: Tensor, keys: Tensor, mask: Tensor, W: Tensor, U: Tensor, v: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what the function in the notebook returns; a test compares the two."""
    projected_queries = torch.tanh(queries @ W.T).unsqueeze(2)
    projected_keys = torch.tanh(keys @ U.T).unsqueeze(1)
    weights = torch.softmax((projected_queries + projected_keys) @ v, dim=1) * mask.unsqueeze(1)
    return (weights.detach().unsqueeze(-1) * keys.unsqueeze(1)).mean(dim=2), weights


def _statements_true_of(attention: Callable[..., tuple[Tensor, Tensor]]) -> set[str]:
    """Measure which statements of part 4 are true of an attention function."""
    queries, keys = torch.randn(2, 3, 7).requires_grad_(), torch.randn(2, 5, 11).requires_grad_()
    parameters = torch.randn(13, 7), torch.randn(13, 11), torch.randn(13)
    contexts, weights = attention(queries, keys, torch.ones(2, 5).bool(), *parameters)
    mask = torch.arange(5) < torch.tensor([[2], [5]])
    masked = attention(queries, keys, mask, *parameters)[1].transpose(1, 2)
    contexts.square().sum().backward()
    sums = weights.sum(dim=2)
    true = {
        "A": torch.allclose(sums, torch.ones_like(sums)),
        "B": torch.allclose(weights, weights[:, :, :1].expand_as(weights)),
        "C": torch.allclose(weights, weights[:, :1].expand_as(weights)),
        "D": not masked[~mask].any(),
        "E": not torch.allclose(masked[mask], weights.transpose(1, 2)[mask]),
        "F": torch.allclose(contexts, weights @ keys, atol=1e-5),
        "G": queries.grad is not None and bool(queries.grad.any()),
        "H": keys.grad is not None and bool(keys.grad.any()),
    }
    return {letter for letter, holds in true.items() if holds}


_STATEMENTS = {
    "ABC": "With a mask that is all True, compare weights.sum(dim=2) with 1, the weights of the "
    "source positions (along dim=2), and those of the target positions (along dim=1). Use "
    "torch.allclose.",
    "DE": "Call faulty_attention twice, with a mask that is all True and with one that is not, and "
    "compare the weights.",
    "FGH": "Compare contexts with weights @ keys. For the gradients, pass queries and keys with "
    "requires_grad=True, call contexts.sum().backward() and look at .grad.",
}


def _check_statements(true_statements: object) -> None:
    answer = call(true_statements, {})
    named = list(answer) if isinstance(answer, set | frozenset | list | tuple | str) else [None]
    got = {each for each in named if type(each) is str}
    if len(got) < len(named) or not got <= set("ABCDEFGH"):
        raise CheckFailed(
            "  true_statements must return a set of letters from A to H, such as "
            f'{{"A", "B"}}, but returned {show(answer)}.'
        )
    expected = _statements_true_of(_faulty_attention)
    if got == set("ADEFGH"):
        raise CheckFailed(
            "  true_statements: these statements are true of a correct attention. Name those that "
            "are true of faulty_attention, before any correction."
        )
    for letters, how in _STATEMENTS.items():
        wrong = len((got ^ expected) & set(letters))
        if wrong:
            raise CheckFailed(
                f"  true_statements: {wrong} of the statements {', '.join(letters)} "
                f"{'is' if wrong == 1 else 'are'} judged wrongly: true but not named, or named but "
                f"false. {how}\n  got         {show(sorted(got))}"
            )


def _weights(results: Results, inputs: Inputs) -> Tensor:
    """Return the weights, if they and the contexts have the right shapes."""
    batch, tgt_len = inputs["queries"].shape[:2]
    src_len, key_dim = inputs["keys"].shape[1:]
    weights = plain_tensor(results["weights"], "weights", inputs)
    if weights.isnan().any() and not inputs["mask"].any(dim=1).all():
        _refuse_nan(inputs)
    expect_tensor(
        results["contexts"],
        (batch, tgt_len, key_dim),
        "contexts",
        inputs,
        "Return one vector for each target position: (batch, tgt_len, key_dim).",
    )
    return expect_tensor(
        weights,
        (batch, tgt_len, src_len),
        "weights",
        inputs,
        "Return one weight for each pair of target and source position: (batch, tgt_len, src_len).",
    )


def _expect_sums(results: Results, inputs: Inputs) -> None:
    weights = _weights(results, inputs)
    sums = {dim: weights.sum(dim=dim) for dim in (2, 1, 0)}
    one = {
        dim: torch.allclose(total, torch.ones_like(total), atol=1e-4) for dim, total in sums.items()
    }
    if one[2]:
        return
    if not weights.count_nonzero():
        raise CheckFailed(
            "  All weights are 0, although no position is masked (the mask is all True): the mask "
            f"is inverted. True marks the positions that may be attended to.\n{describe(inputs)}"
        )
    normalised = {1: "target positions", 0: "sentences of the batch"}
    over = "".join(
        f" They sum to 1 over the {what} (dim={dim}): softmax is applied along the wrong dimension."
        for dim, what in normalised.items()
        if one[dim]
    )
    raise CheckFailed(
        "  The weights of a target position do not sum to 1 over the source positions, although no "
        f"position is masked.{over}\n{describe(inputs)}\n  got         sums {show(sums[2][0])} "
        "for the target positions of the first sentence"
    )


def _expect_dependence(results: Results, inputs: Inputs) -> None:
    weights = _weights(results, inputs)
    src_len = weights.size(2)
    if src_len > 1 and torch.allclose(weights, torch.full_like(weights, 1 / src_len), atol=1e-5):
        raise CheckFailed(
            f"  All weights are equal (1/{src_len}), although no position is masked (the mask is "
            "all True). Possible causes: the mask is inverted, or all scores are equal.\n"
            + describe(inputs)
        )
    if weights.size(1) > 1 and torch.allclose(
        weights, weights[:, :1].expand_as(weights), atol=1e-5
    ):
        raise CheckFailed(
            "  All target positions have the same weights: the weights do not depend on the query. "
            "The softmax cancels every term that is equal for all keys, so look at the line in "
            f"which query and key are combined.\n{describe(inputs)}"
        )


def _expect_mask(results: Results, inputs: Inputs) -> None:
    weights, mask = _weights(results, inputs), inputs["mask"].unsqueeze(1)
    padded = weights.masked_fill(mask, 0).abs().max()
    if padded > 0:
        raise CheckFailed(
            f"  A masked position received weight {padded:.4g}, but must receive exactly 0.\n"
            f"{describe(inputs)}"
        )
    totals = weights.sum(dim=2)
    if not torch.allclose(totals, torch.ones_like(totals), atol=1e-4):
        raise CheckFailed(
            "  Masked positions receive no weight, but the weights of the other positions sum to "
            f"{totals.min():.4g} instead of 1: the weight of the masked positions is lost. Mask "
            "the scores before the softmax, with the lowest finite value.\n"
            f"{describe(inputs)}"
        )


def _expect_nothing(results: Results, inputs: Inputs) -> None:
    _weights(results, inputs)
    for what, value in results.items():
        if value[-1].count_nonzero():
            raise CheckFailed(
                f"  The {what} of a fully masked sentence (its mask is all False) are not 0. Set "
                f"the masked weights to 0 after the softmax as well.\n{describe(inputs)}"
            )


# Part 5

_QUERIES = torch.tensor([[1.0], [-1.0]])
_KEYS = torch.tensor([[1.0, 1.0], [-1.0, 1.0]])
_ENOUGH = 0.9


@_parts.part("role of the tanh", "by_hand", "query_dependence")
def why_tanh(by_hand: object, query_dependence: object, thorough: bool = False) -> None:
    """Check parameters set by hand, and a measure of how strongly weights depend on the query."""
    _check_by_hand(by_hand)
    _topic.examine(
        "query_dependence", query_dependence, thorough, properties={"": _expect_one_number}
    )


def _check_by_hand(by_hand: object) -> None:
    answer = call(by_hand, {})
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        raise CheckFailed(
            f"  by_hand must return three tensors, `return W, U, v`, but returned {show(answer)}."
        )
    shapes = {"W": (2, 1), "U": (2, 2), "v": (2,)}
    matrices = {}
    for (name, shape), value in zip(shapes.items(), answer, strict=True):
        if type(value) in (list, tuple, Tensor):
            with contextlib.suppress(TypeError, ValueError):  # the next line says so
                value = torch.as_tensor(value, dtype=torch.float32)
        matrices[name] = expect_tensor(value, shape, f"{name} of by_hand", {})
    W, U, v = matrices.values()
    weights = _weights_with(W, U, v)
    on_match = weights.diagonal()
    if (on_match >= _ENOUGH).all():
        return
    table = (
        "    weights of    key +1   key -1\n"
        f"    query +1      {weights[0, 0]:6.3f}   {weights[0, 1]:6.3f}\n"
        f"    query -1      {weights[1, 0]:6.3f}   {weights[1, 1]:6.3f}\n"
        f"  expected    at least {_ENOUGH} where query and key have the same sign"
    )
    if torch.allclose(weights[0], weights[1], atol=1e-4):
        diagnosis = (
            "both queries assign the same weights. The sign of W s must decide which key has the "
            "higher score."
        )
        if not W.count_nonzero():
            diagnosis = "W is zero, so the query has no influence on the scores."
        elif not U[:, 1].count_nonzero():
            diagnosis = (
                "both queries assign the same weights. The second column of U is zero, so the "
                "constant 1 of the keys has no influence, and no solution exists. tanh is an odd "
                "function, so e(-s, -h) = -e(s, h). Therefore e(-1, +1) - e(-1, -1) equals "
                "e(+1, +1) - e(+1, -1): both queries prefer the same key, but one difference must "
                "be negative and the other positive. The second column of U acts as a bias: it "
                "moves the point at which the tanh changes its sign, so that this symmetry no "
                "longer holds."
            )
    elif (on_match > 0.5).all():
        diagnosis = (
            f"each query assigns more weight to the correct key, but less than {_ENOUGH}. Scale "
            "the entries of v up."
        )
    elif (on_match < 0.5).all():
        diagnosis = "each query assigns more weight to the wrong key. Reverse the sign of v."
    else:
        wrong = "+1" if on_match[0] <= 0.5 else "-1"
        diagnosis = (
            f"query {wrong} does not assign more weight to its own key; the other query does. "
            "Write down the two tanh values for each of the four pairs of query and key."
        )
    raise CheckFailed(f"  by_hand: {diagnosis}\n{table}")


def _weights_with(W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    """Return the weights that the package's attention assigns with these parameters."""
    attention = additive.AdditiveAttention(1, 2, 2)
    for parameter, value in zip(attention.parameters(), (W, U, v.unsqueeze(0)), strict=True):
        parameter.data = value
    with torch.no_grad():
        weights: Tensor = attention(_QUERIES, _KEYS.expand(2, 2, 2))[1]
    return weights


def _expect_one_number(results: Results, inputs: Inputs) -> None:
    (answer,) = results.values()
    if plain_number(answer) is None:
        raise CheckFailed(
            f"  query_dependence must return one number (a float or a tensor with one entry), "
            f"but returned {show(answer)}.\n{describe(inputs)}"
        )


# Part 6


@_parts.part("alignment", "links", "experiment", "least_looked_at")
def alignment(
    links: object, experiment: object, least_looked_at: object, thorough: bool = False
) -> None:
    """Check links from weights, the choice of the threshold, and the least attended word."""
    _topic.examine(
        "links",
        links,
        thorough,
        properties={"": _expect_pairs},
        quotes={"missing": lambda got, case: show(sorted(case.expected["links"] - got))},
        explain=_explain_links,
    )
    _topic.examine(
        "experiment",
        experiment,
        thorough,
        properties={"": _expect_two_numbers},
        explain=_explain_rate,
    )
    _topic.examine(
        "least_looked_at",
        least_looked_at,
        thorough,
        quotes={
            "number": lambda got, case: show(got),
            "words": lambda got, case: show(case.case.inputs["weights"].size(1) - 1),
        },
    )


def _expect_pairs(results: Results, inputs: Inputs) -> None:
    got = results["links"]
    if not isinstance(got, set | frozenset):
        raise CheckFailed(
            f"  links must return a set of pairs, but returned {show(got)}.\n{describe(inputs)}"
        )
    pairs = [link for link in got if type(link) is tuple and len(link) == 2]
    if any(isinstance(number, Tensor) for link in pairs for number in link):
        raise CheckFailed(
            "  links: the pairs contain tensors. A set compares tensors by identity, not by "
            "value, so it finds no match. Convert them to int: .tolist() or "
            f"int(...).\n{describe(inputs)}"
        )
    if len(pairs) < len(got) or not all(
        plain_number(number) is not None for link in pairs for number in link
    ):
        raise CheckFailed(
            "  links: each link must be a pair of ints (source index, target index), got "
            f"{show(got)}.\n{describe(inputs)}"
        )


def _explain_links(got: Any, recorded: Recorded) -> str:
    expected = recorded.expected["links"]
    missing, added = show(sorted(expected - got)), show(sorted(got - expected))
    if not got - expected:
        return (
            f"links are missing: {missing}. A source word is linked if its weight is at least (>=) "
            "threshold times the largest weight of the row, also if both are equal."
        )
    if not expected - got:
        return (
            f"these links are too many: {added}. Their weights are below threshold times the "
            "largest weight of their row, or they belong to <end>."
        )
    return (
        "these are not the links whose weight is at least threshold times the largest weight of "
        "the row."
    )


def _expect_two_numbers(results: Results, inputs: Inputs) -> None:
    (answer,) = results.values()
    answers = answer if isinstance(answer, tuple | list) else ()
    if len(answers) != 2 or None in map(plain_number, answers):
        raise CheckFailed(
            f"  experiment must return two numbers, `return threshold, rate`, but returned "
            f"{show(answer)}."
        )


def _explain_rate(got: Any, recorded: Recorded) -> str:
    threshold, rate = map(plain_number, got)
    expected, expected_rate = recorded.expected["threshold and rate"]
    assert threshold is not None  # see `_expect_two_numbers`
    assert rate is not None
    if abs(threshold - expected) < 1e-3:
        return (
            "the threshold is correct, but the rate is not the alignment error rate of the test "
            "sentences with it."
        )
    if all(abs(threshold - each) > 1e-3 for each in recorded.case.inputs["thresholds"]):
        return (
            "the first result is not one of the given thresholds. Choose one of the entries of the "
            "argument thresholds (not its index, and not a constant in your code)."
        )
    if abs(rate - expected_rate) < 1e-3:
        return "the rate is correct, but it belongs to another threshold than the returned one."
    return ""
