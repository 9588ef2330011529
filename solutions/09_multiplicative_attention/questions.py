"""Multiplicative attention as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. The
vectors of part 5 and the tests of part 6 are examined by code in
`attentively.checks.multiplicative_attention`.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: F401  for the edits
from torch import Tensor

from attentively.checks import multiplicative_attention as checks
from attentively.checks.compare import Fresh
from attentively.checks.question import Case, Question, cases_of, learning


def ragged(batch: int, src_len: int) -> Tensor:
    """Return a padding mask: sentences of different lengths, each of at least one word."""
    lengths = torch.tensor([1 + (3 * row + src_len - 1) % src_len for row in range(batch)])
    return torch.arange(src_len) < lengths.unsqueeze(1)


# Part 1


def dot_scores(query, keys):
    queries = query.unsqueeze(1)
    scores = (queries * keys).sum(dim=-1)
    return scores


def general_scores(query, keys, W):
    queries = (query @ W).unsqueeze(1)
    scores = (queries * keys).sum(dim=-1)
    return scores


def concat_scores(query, keys, W, v):
    queries = query.unsqueeze(1).expand(-1, keys.size(1), -1)
    both = torch.cat([queries, keys], dim=-1)
    scores = torch.tanh(both @ W.T) @ v
    return scores


BY_HAND: dict[str, dict[str, Tensor]] = {
    "dot": {},
    "general": {"W": torch.tensor([[0.0, 1.0], [0.5, 3.0]])},
    "concat": {
        "W": torch.tensor([[0.5, 0.0, 0.2, 0.0], [0.0, -0.2, 0.0, 0.4]]),
        "v": torch.tensor([2.0, -1.0]),
    },
}


def score_inputs(
    score: str, batch: int, src_len: int, query_dim: int, key_dim: int, hidden: int
) -> dict[str, Tensor]:
    key_dim = query_dim if score == "dot" else key_dim
    inputs = {"query": torch.randn(batch, query_dim), "keys": torch.randn(batch, src_len, key_dim)}
    if score == "general":
        inputs["W"] = torch.randn(query_dim, key_dim)
    if score == "concat":
        inputs |= {"W": torch.randn(hidden, query_dim + key_dim), "v": torch.randn(hidden)}
    return inputs


def scoring(answer: Any, mistakes: dict[str, Any], by_position: str) -> Question:
    """Return the question of one score; all have some mistakes in common."""
    score = answer.__name__.removesuffix("_scores")

    def cases(thorough: bool) -> Iterator[Case]:
        query = torch.tensor([[1.0, 2.0]])
        keys = torch.tensor([[[1.0, 1.5], [0.0, 1.0], [2.0, -1.0]]])
        yield Case({"query": query, "keys": keys, **BY_HAND[score]})
        yield Case(score_inputs(score, 3, 3, 2, 2, 2))
        # Scores so large that exponentials are infinite
        yield Case({"query": 1000 * query, "keys": keys, **BY_HAND[score]})
        inputs = score_inputs(score, 2, 3, 5, 7, 11)
        yield Case(learning(inputs, *inputs))
        for sizes in [(1, 1, 2, 3, 5), (5, 2, 13, 11, 3)] * thorough:
            yield Case(score_inputs(score, *sizes))

    common = {
        "these values are attention weights: a softmax is already applied. Return the scores "
        "before the softmax.": "return scores -> return scores.softmax(dim=-1)",
        "the scores are divided by √d. Only the Transformer scales its scores; none of these "
        "three scores is scaled.": "return scores -> return scores / query.size(1) ** 0.5",
        "every sentence is scored with the query of the first sentence (index 0).": (
            "queries = -> query = query[:1].expand_as(query)\n    queries ="
        ),
        "key j is scored with the query of sentence j instead of the query of its own sentence: "
        "broadcasting aligns the batch dimension of the query with the key dimension (src_len). "
        "Insert a dimension of size 1 for the keys: query.unsqueeze(1).": by_position,
    }
    hint = "Return one score for each key of each sentence: (batch, src_len)."
    results = {f"the result of {answer.__name__}": hint}
    return Question(answer, results, cases, common | mistakes, named=True)


PRODUCTS = "(queries * keys).sum(dim=-1)"
AVERAGED = {
    "the products of the entries are averaged. A dot product is their sum.": (
        f"{PRODUCTS} -> (queries * keys).mean(dim=-1)"
    )
}
DOT = scoring(
    dot_scores,
    {
        "the products of the entries are not summed. Sum them over the last dimension, so that "
        "each key has one score.": f"{PRODUCTS} -> queries * keys",
        **AVERAGED,
        "the result has a dimension of size 1 between the sentences and the keys. Remove it with "
        "squeeze(1).": f"{PRODUCTS} -> queries @ keys.mT",
        "each query is compared with the keys of all sentences. Compare it with the keys of its "
        "own sentence only.": f"{PRODUCTS} -> query @ keys.mT",
        "these values are cosines. A dot product is not divided by the lengths of the vectors.": (
            f"{PRODUCTS} -> F.cosine_similarity(queries, keys, dim=-1)"
        ),
    },
    by_position="query.unsqueeze(1) -> query",
)
GENERAL = scoring(
    general_scores,
    {
        **AVERAGED,
        "W must be transposed. In hᵀ W h̄ the rows of W belong to the query and its columns to the "
        "key.": "query @ W -> query @ W.T",
        "W is missing: these values are the dot scores.": "query @ W -> query",
        "a tanh is applied to W h̄ or to hᵀ W. The general score has no tanh.": [
            f"{PRODUCTS} -> (query.unsqueeze(1) * torch.tanh(keys @ W.T)).sum(dim=-1)",
            "(query @ W) -> torch.tanh(query @ W)",
        ],
        "the products of the entries of h and W h̄ are not summed. Sum them over the last "
        "dimension, so that each key has one score.": [
            f"{PRODUCTS} -> query.unsqueeze(1) * (keys @ W.T)",
            f"{PRODUCTS} -> queries * keys",
        ],
    },
    by_position="(query @ W).unsqueeze(1) -> query @ W",
)

W_H, W_KEY = "(queries @ W[:, : query.size(1)].T)", "(keys @ W[:, query.size(1) :].T)"
OTHER_FUNCTIONS = {
    f"the activation function is a {name}. The equation has a tanh.": f"torch.tanh -> {function}"
    for name, function in {"sigmoid": "torch.sigmoid", "ReLU": "torch.relu"}.items()
}
OUTPUT = "torch.tanh(both @ W.T) @ v"
UP, DOWN = "(both @ W.T).exp()", "(-both @ W.T).exp()"
ONE_TANH = "Add the two parts first, then apply one tanh to the sum."
CONCAT = scoring(
    concat_scores,
    {
        "the key comes before the query in the concatenation. W multiplies [h; h̄], the query "
        "first.": "[queries, keys] -> [keys, queries]",
        "the tanh is missing.": "torch.tanh -> ",
        **OTHER_FUNCTIONS,
        "the tanh is applied to the whole expression. Multiply by v after the tanh: "
        "v·tanh(W [h; h̄]).": f"{OUTPUT} -> torch.tanh(both @ W.T @ v)",
        "the tanh is applied twice, to the query's part and to the key's part. "
        f"{ONE_TANH}": f"{OUTPUT} -> ({W_H}.tanh() + {W_KEY}.tanh()) @ v",
        f"the tanh is applied to only one of the two parts. {ONE_TANH}": [
            f"{OUTPUT} -> ({W_H}.tanh() + {W_KEY}) @ v",
            f"{OUTPUT} -> ({W_H} + {W_KEY}.tanh()) @ v",
        ],
        "the tanh is applied before the product with W. The score is v·tanh(W [h; h̄]), not "
        "v·W tanh([h; h̄]).": f"{OUTPUT} -> both.tanh() @ W.T @ v",
        "on this input, an exponential is infinite in 32-bit floats. Use torch.tanh.": [
            f"{OUTPUT} -> (({UP} - {DOWN}) / ({UP} + {DOWN})) @ v",
            f"{OUTPUT} -> (({UP} / {DOWN} - 1) / ({UP} / {DOWN} + 1)) @ v",
        ],
        "v is missing: the outputs of the tanh are summed without weights. Multiply by v "
        "instead.": "@ v -> @ torch.ones_like(v)",
        "the query is missing: only the columns of W that multiply the key are used.": (
            f"{OUTPUT} -> torch.tanh({W_KEY}) @ v"
        ),
    },
    by_position="unsqueeze(1).expand(-1, -> expand(len(keys),",
)


# Part 2


def layer(kind: str, *sizes: Any, text: str = "", scale: float = 1.0, **changed: Tensor) -> Fresh:
    """Return a layer of a decoder, with some of its parameters changed."""
    state = {n: scale * value for n, value in checks.LAYERS[kind](*sizes).state_dict().items()}
    text = text or f"LuongAttention{sizes}" * (kind == "attention")
    return Fresh(checks.layer, {"kind": kind, "sizes": sizes, "state": state | changed}, text)


def decoder_step(embedded, state, keys, mask, cell, attention, combine):
    new = cell(embedded, state)
    context, weights = attention(new, keys, mask)
    both = torch.cat([context, new], dim=-1)
    vector = torch.tanh(combine(both))
    return new, vector, weights


STEP_NAMES = ("embedded", "state", "keys", "mask", "cell", "attention", "combine")


def step_inputs(
    batch: int, src_len: int, embedding_dim: int, decoder_dim: int, key_dim: int, vector_dim: int
) -> dict[str, Any]:
    given = (
        torch.randn(batch, embedding_dim),
        torch.randn(batch, decoder_dim),
        torch.randn(batch, src_len, key_dim),
        ragged(batch, src_len),
        layer("GRUCell", embedding_dim, decoder_dim),
        layer("attention", decoder_dim, key_dim, "general"),
        layer("Linear", key_dim + decoder_dim, vector_dim),
    )
    return dict(zip(STEP_NAMES, given, strict=True))


def step_cases(thorough: bool) -> Iterator[Case]:
    rows = [[0.5, 0.0, 0.2, 0.0], [0.0, 0.1, -0.3, 0.4]]
    with_rows = f"Linear(4, 2, bias=False) with the weight {rows}"
    by_hand = (
        torch.tensor([[1.0, 0.0]]),
        torch.tensor([[0.0, 2.0]]),
        torch.tensor([[[1.0, 0.5], [0.0, -1.0], [0.5, 0.5]]]),
        torch.tensor([[True, True, False]]),
        layer("adding", text="a function that returns embedded + 0.5 * state"),
        layer("attention", 2, 2, "dot"),
        layer("Linear", 4, 2, False, text=with_rows, weight=torch.tensor(rows)),
    )
    yield from cases_of(STEP_NAMES, [by_hand])
    inputs = step_inputs(2, 5, 3, 7, 11, 13)
    yield Case(learning(inputs, "embedded"), results=("state",))
    yield Case(learning(inputs, "state", "keys"), results=("vector", "weights"))
    for sizes in [(1, 1, 2, 3, 5, 7), (7, 5, 13, 2, 3, 11)] * thorough:
        yield Case(step_inputs(*sizes))


RESULTS = "return new, vector, weights"
VECTOR = "torch.tanh(combine(both))"

STEP = Question(
    decoder_step,
    {"state": "", "vector": "", "weights": ""},
    step_cases,
    {
        "The three results are correct, but in the wrong order. Return state, vector, weights.": [
            f"{RESULTS} -> return {', '.join(order)}"
            for order in [*itertools.permutations(("new", "vector", "weights"))][1:]
        ],
        "State: this is the state before the token is read. Return the new state, which the cell "
        "computes.": f"{RESULTS} -> return state, vector, weights",
        "State: the arguments of the cell are exchanged. Call cell(embedded, state).": (
            "cell(embedded, state) -> cell(state, embedded)"
        ),
        "State: the previous state is ignored. Call cell(embedded, state).": (
            "cell(embedded, state) -> cell(embedded, 0 * state)"
        ),
        "Weights: the cell is called twice, so the token is read twice. Call it once.": (
            "attention(new -> attention(cell(embedded, new)"
        ),
        "State: the attentional vector is returned as the state. It is used for the prediction "
        "only; return the cell's new state.": f"{RESULTS} -> return vector, vector, weights",
        "State: the context vector is returned as the state. Return the cell's new state.": (
            f"{RESULTS} -> return context, vector, weights"
        ),
        "Weights: the query is the state before the token, as in Bahdanau's decoder. In Luong's "
        "decoder the query is the current state, which the cell returns.": (
            "attention(new -> attention(state"
        ),
        "Weights: the query is the embedded token. The query must be the cell's new state.": (
            "attention(new -> attention(embedded"
        ),
        "Weights: the mask is not passed to the attention: padding receives weight.": (
            "keys, mask) -> keys, None)"
        ),
        "Weights: the mask is inverted. It is True at words; pass it unchanged.": (
            "keys, mask) -> keys, ~mask)"
        ),
        "Attentional vector: state and context vector are exchanged in the concatenation. In the "
        "paper it is W_c [c; h]: the context vector first.": "[context, new] -> [new, context]",
        "Attentional vector: the tanh is missing.": f"{VECTOR} -> combine(both)",
        "Attentional vector: the activation function is a sigmoid. It must be the tanh.": (
            f"{VECTOR} -> torch.sigmoid(combine(both))"
        ),
        "Attentional vector: the tanh is applied before W_c. The vector is tanh(W_c [c; h]), not "
        "W_c tanh([c; h]).": f"{VECTOR} -> combine(both.tanh())",
        "Attentional vector: this is the context vector. The attentional vector also depends on "
        "the state: tanh(W_c [c; h]).": f"{VECTOR} -> context",
        "Attentional vector: this is the state. The attentional vector also depends on the context "
        "vector: tanh(W_c [c; h]).": f"{VECTOR} -> new",
        "Attentional vector: the context vector is concatenated with the state before the token. "
        "Use the current state.": "[context, new] -> [context, state]",
        "Attentional vector: the context vector is concatenated with the embedded token. Use the "
        "current state.": "[context, new] -> [context, embedded]",
        "Attentional vector: this is [c; h] itself. Apply W_c and the tanh to it.": (
            f"{VECTOR} -> both"
        ),
    },
    look=("state", "weights", "vector"),
)


# Part 3


def decode_fed(embedded, states, keys, mask, cells, attention, combine):
    now = list(states)
    fed = torch.zeros(len(embedded), combine.out_features)
    vectors, rows = [], []
    for token in embedded.transpose(0, 1):
        below = torch.cat([token, fed], dim=-1)
        for i, cell in enumerate(cells):
            now[i] = cell(below, now[i])
            below = now[i]
        context, weights = attention(now[-1], keys, mask)
        both = torch.cat([context, now[-1]], dim=-1)
        vector = torch.tanh(combine(both))
        vectors.append(vector)
        rows.append(weights)
        fed = vector
    return torch.stack(vectors, dim=1), torch.stack(rows, dim=1)


FED_NAMES = ("embedded", "states", "keys", "mask", "cells", "attention", "combine")
# Cells, batch, target and source lengths, then the dimensions of token, state, key and vector. In
# the third and fourth, token and fed vector are together as long as a state, so that more mistakes
# run.
FED_SIZES = [
    (1, 1, 1, 2, 2, 2, 2, 2),
    (1, 1, 3, 2, 2, 2, 2, 2),
    (2, 1, 2, 2, 2, 4, 2, 2),
    (2, 2, 3, 4, 1, 2, 1, 1),
    (3, 2, 3, 4, 7, 11, 5, 13),
]
FURTHER_FED_SIZES = [(4, 1, 3, 1, 2, 5, 3, 7), (2, 5, 2, 7, 13, 3, 3, 3)]


def fed_inputs(
    number: int, batch: int, tgt_len: int, src_len: int, *sizes: int, scale: float = 2.0
) -> dict[str, Any]:
    embedding_dim, decoder_dim, key_dim, vector_dim = sizes
    widths = [embedding_dim + vector_dim] + [decoder_dim] * (number - 1)
    given = (
        torch.randn(batch, tgt_len, embedding_dim),
        torch.randn(number, batch, decoder_dim),
        torch.randn(batch, src_len, key_dim),
        ragged(batch, src_len),
        [layer("GRUCell", width, decoder_dim, scale=scale) for width in widths],
        layer("attention", decoder_dim, key_dim, "general", scale=scale),
        layer("Linear", key_dim + decoder_dim, vector_dim, scale=scale),
    )
    return dict(zip(FED_NAMES, given, strict=True))


def one_way_only(way: str) -> Case:
    """Return a case in which a step depends on earlier steps in one way only."""
    inputs = fed_inputs(1, 2, 2, 3, 3, 5, 2, 7)
    state = inputs["cells"][0].given["state"]
    if way == "vectors":  # an update gate of 0, so that the cell forgets its state
        state["weight_hh"] = torch.zeros(15, 5)
        state["bias_ih"] = torch.tensor([0.0] * 5 + [-100.0] * 5 + [0.0] * 5)
    else:
        state["weight_ih"][:, 3:] = 0
    said = (
        f"In this call, a step depends on the earlier steps only through the {way} that are passed "
        "on to it. Are they detached?"
    )
    learned = "embedded" if way == "vectors" else "states"
    return Case(learning(inputs, learned), results=("vectors",), note=said)


def fed_cases(thorough: bool) -> list[Case]:
    cases = [Case(fed_inputs(*sizes)) for sizes in FED_SIZES]
    cases += [one_way_only("vectors"), one_way_only("states")]
    inputs = fed_inputs(2, 2, 2, 4, 3, 5, 2, 7, scale=1.0)
    cases.append(Case(learning(inputs, "embedded", "keys")))
    return cases + [Case(fed_inputs(*sizes)) for sizes in FURTHER_FED_SIZES * thorough]


IN_ORDER = (
    "The dimensions are batch, target position and entries, in this order: stack the steps along "
    "dim=1."
)
FEED = "fed = vector\n -> "
RISE = "now[i] = cell(below, now[i])\n            below = now[i]"
FIRST = "fed = torch.zeros(len(embedded), combine.out_features)"
STACKED = "torch.stack(vectors, dim=1), torch.stack(rows, dim=1)"

FED = Question(
    decode_fed,
    {"vectors": IN_ORDER, "weights": IN_ORDER},
    fed_cases,
    {
        "The two results are correct, but in the wrong order. Return vectors, weights.": (
            f"{STACKED} -> torch.stack(rows, dim=1), torch.stack(vectors, dim=1)"
        ),
    }
    | {
        f"Input feeding: {said}": edits
        for said, edits in {
            "there is no input feeding: every step reads zeros together with its token. From the "
            "second step on, it must read the attentional vector of the previous step.": (
                f"{FEED}fed = torch.zeros_like(vector)\n"
            ),
            "the context vector is fed to the next step. Feed the attentional vector, "
            "tanh(W_c [c; h]).": f"{FEED}fed = context\n",
            "the top state is fed to the next step. Feed the attentional vector, tanh(W_c [c; h]"
            ").": f"{FEED}fed = now[-1]\n",
            "the tanh is missing.": f"{VECTOR} -> combine(both)",
            "the vector that is fed to the next step has no tanh. Feed tanh(W_c [c; h]).": (
                f"{FEED}fed = combine(both)\n"
            ),
            "the fed vector comes before the token in the input of the bottom cell. The input is "
            "[token; vector].": "[token, fed] -> [fed, token]",
            "the first step reads an attentional vector, but there is no previous step. It must "
            "read zeros.": (
                f"{FIRST} -> context, _ = attention(states[-1], keys, mask)\n"
                "    fed = torch.tanh(combine(torch.cat([context, states[-1]], dim=-1)))"
            ),
            "a step reads the attentional vector from two steps before. It must read that of the "
            "previous step.": (
                f"{FIRST} -> fed = late = torch.zeros(len(embedded), combine.out_features)",
                f"{FEED}fed, late = late, vector\n",
            ),
            "the result contains the vector that each step reads. Return the vector that each step "
            "computes.": "vectors.append(vector) -> vectors.append(fed)",
            "every step starts from the initial states. A cell must continue from its own previous "
            "state.": "cell(below, now[i]) -> cell(below, states[i])",
            "the query is the top state before the token. In Luong's decoder the query is the "
            "current top state.": (
                "below = torch.cat -> query = now[-1]\n        below = torch.cat",
                "attention(now[-1] -> attention(query",
            ),
            "state and context vector are exchanged in the concatenation. It is W_c [c; h]: the "
            "context vector first.": "[context, now[-1]] -> [now[-1], context]",
            "the query is the state of the bottom cell. It must be the state of the top cell.": (
                "attention(now[-1] -> attention(now[0]"
            ),
            "the context vector is concatenated with the state of the bottom cell. Use the state "
            "of the top cell.": "[context, now[-1]] -> [context, now[0]]",
            "a cell reads the previous state of the cell below it. It must read the new state of "
            "that cell.": f"{RISE} -> below, now[i] = now[i], cell(below, now[i])",
            "a cell continues from the state of the cell below it. It must read that state as its "
            "input and continue from its own previous state.": (
                "cell(below, now[i]) -> cell(below, now[max(i - 1, 0)])"
            ),
            "the mask is not passed to the attention: padding receives weight.": (
                "keys, mask) -> keys, None)"
            ),
            "the mask is inverted. It is True at words; pass it unchanged.": (
                "keys, mask) -> keys, ~mask)"
            ),
            "a cell does not start from its own initial state. The initial state of cells[i] is "
            "states[i].": [
                f"list(states) -> {others}"
                for others in (
                    "[states[-1]] * len(states)",
                    "[states[0]] * len(states)",
                    "list(0 * states)",
                    "list(states.flip(0))",
                )
            ],
            "every cell reads the token and the fed vector. Only the bottom cell does; each other "
            "cell reads the new state of the cell below it.": "\n            below = now[i] -> ",
        }.items()
    },
)


# Part 4


def predicted_position(query, lengths, W_p, v_p):
    hidden = torch.tanh(query @ W_p.T)
    share = torch.sigmoid(hidden @ v_p)
    position = lengths * share
    return position


def position_cases(thorough: bool) -> Iterator[Case]:
    names = ("query", "lengths", "W_p", "v_p")
    by_hand = (
        torch.tensor([[1.0, -1.0]]),
        torch.tensor([8]),
        torch.tensor([[0.5, 0.0], [1.0, -0.5]]),
        torch.tensor([1.0, -2.0]),
    )
    after_the_last_word = (
        torch.tensor([[2.0, 2.0]]),
        torch.tensor([3]),
        torch.eye(2),
        torch.tensor([2.0, 2.0]),
    )
    saturated = (torch.tensor([[9.0, 9.0]]), torch.tensor([5]), torch.eye(2), torch.ones(2) * 50)
    yield from cases_of(names, [by_hand, after_the_last_word, saturated])
    for batch, query_dim, hidden in [(2, 3, 5)] + [(1, 2, 2), (7, 3, 13)] * thorough:
        given = (
            torch.randn(batch, query_dim),
            torch.arange(batch) * 4 + 3,
            torch.randn(hidden, query_dim),
            torch.randn(hidden),
        )
        inputs = dict(zip(names, given, strict=True))
        yield Case(learning(inputs, "query", "W_p", "v_p") if batch == 2 else inputs)


LENGTH = "lengths * share"
NOT_ROUNDED = "It is a real number; rounding has no gradient, so W_p and v_p would not learn."

POSITION = Question(
    predicted_position,
    {"the result of predicted_position": "Return one position for each sentence: (batch,)."},
    position_cases,
    {
        "the length is missing: these values lie between 0 and 1. Multiply them by the length of "
        "the sentence.": f"{LENGTH} -> share",
        "every sentence is treated as if it were as long as the longest one. Use its own length; "
        "otherwise its translation depends on the other sentences of the batch.": (
            f"{LENGTH} -> lengths.max() * share"
        ),
        "every sentence is treated as if it were as long as the first one. Use its own length.": (
            f"{LENGTH} -> lengths[0] * share"
        ),
        "the length minus 1 is used. p_t lies between 0 and S, the length itself.": (
            f"{LENGTH} -> (lengths - 1) * share"
        ),
        "the sigmoid is missing: without it, a position may lie outside the sentence.": (
            "torch.sigmoid -> "
        ),
        "the tanh is missing.": "torch.tanh -> ",
        **OTHER_FUNCTIONS,
        "on this input, an exponential is infinite in 32-bit floats. Use torch.sigmoid.": (
            "torch.sigmoid(hidden @ v_p) -> torch.exp(hidden @ v_p) / (1 + torch.exp(hidden @ v_p))"
        ),
        "the tanh is applied to the whole expression. Multiply by v_p after the tanh.": (
            "torch.tanh -> ",
            "(hidden @ v_p) -> (torch.tanh(hidden @ v_p))",
        ),
        "the length is inside the sigmoid, so every result is below 1. Multiply by the length "
        "after the sigmoid.": (
            f"{LENGTH} -> share",
            "(hidden -> (lengths * (hidden",
            "v_p)\n -> v_p))\n",
        ),
        "the position is limited to the last word. It may be as large as S.": (
            f"{LENGTH} -> torch.minimum({LENGTH}, lengths - 1.0)"
        ),
        f"the position is rounded. {NOT_ROUNDED}": f"{LENGTH} -> ({LENGTH}).round()",
        f"the position is rounded down. {NOT_ROUNDED}": f"{LENGTH} -> ({LENGTH}).floor()",
        "W_p must be transposed. Its shape is (hidden_dim, query_dim) and each query is a row: use "
        "`query @ W_p.T`.": "W_p.T -> W_p",
    },
    named=True,
)


def local_weights(scores, position, mask, window):
    places = torch.arange(scores.size(1))
    centre = position.unsqueeze(1)
    distance = (places - centre).abs()
    sigma = window / 2
    gaussian = torch.exp(-(distance**2) / (2 * sigma**2))
    inside = mask & (distance <= window)
    low = scores.masked_fill(~inside, torch.finfo(scores.dtype).min)
    align = low.softmax(dim=-1) * inside
    weights = align * gaussian
    return weights


def window_case(scores: list[float], position: float, words: int, window: int) -> Case:
    mask = (torch.arange(len(scores)) < words).unsqueeze(0)
    inputs = {"scores": torch.tensor([scores]), "position": torch.tensor([position])}
    return Case(inputs | {"mask": mask, "window": window})


def window_inputs(batch: int, src_len: int, window: int) -> dict[str, Any]:
    mask = ragged(batch, src_len)
    return {
        "scores": 2.0 * torch.randn(batch, src_len),
        "position": mask.sum(dim=1) * torch.rand(batch),
        "mask": mask,
        "window": window,
    }


def window_cases(thorough: bool) -> Iterator[Case]:
    # Positions 0 to 3; around 2 there are five.
    yield window_case([1.0, 2.0, 0.5, 1.5, 3.0, 2.5], 1.6, 6, 2)
    yield window_case([1.0, 2.0, 0.5], 1.0, 3, 1)
    yield window_case([0.5, 2.0, 1.0, 3.0, 0.0, 1.0], 2.75, 6, 2)
    # The window begins before the sentence, and ends after it, where padding stands.
    yield window_case([1.0, 0.5, 2.0, 0.0, 1.0], 0.3, 5, 2)
    yield window_case([1.0, 0.5, 2.0, 5.0, 4.0], 2.4, 3, 2)
    # Outside are scores that take all.
    yield window_case([0.0, 1.0, 120.0, 0.0, 0.0, 120.0], 3.9, 5, 1)
    # As far to the right as p can be
    yield window_case([1.0, 2.0, 0.0, 1.0], 3.0, 3, 1)
    yield window_case([120.0, 121.0, 119.0, 120.0], 1.0, 4, 1)
    # A low value must be lower still.
    yield window_case([-150.0, -149.0, -151.0, -150.0], 1.0, 4, 1)
    both = window_inputs(2, 4, 1)
    both["scores"] += torch.tensor([[120.0], [-150.0]])
    yield Case(both)
    yield Case(window_inputs(2, 5, 2) | {"mask": torch.tensor([[True] * 5, [False] * 5])})
    yield Case(learning(window_inputs(2, 7, 2), "scores", "position"))
    for sizes in [(5, 13, 3), (1, 1, 2), (7, 11, 5)] * thorough:
        yield Case(window_inputs(*sizes))


INSIDE = "mask & (distance <= window)"
LOWEST = "torch.finfo(scores.dtype).min"
CENTRE = "centre = position.unsqueeze(1) -> centre = "
SQUARED_SIGMA = "(2 * sigma**2)"
PRODUCT = "align * gaussian"
SOFTMAX = "low.softmax(dim=-1)"
NOT_THE_CENTRE = "The centre is p itself, a real number."
OF_BOTH = "The centre of both is p itself, a real number."

WINDOW = Question(
    local_weights,
    {
        "the result of local_weights": "Return one weight for each source position: (batch, "
        "src_len)."
    },
    window_cases,
    {
        "the weights are normalised again after the Gaussian. Equation (10) ends with the product, "
        "so the weights sum to at most 1.": (
            f"{PRODUCT} -> F.normalize({PRODUCT}, p=1, dim=-1, eps=1e-30)"
        ),
        "the Gaussian multiplies the scores. It must multiply the weights, after the softmax.": (
            "scores.masked_fill -> (scores * gaussian).masked_fill",
            f"{PRODUCT} -> align",
        ),
        "the Gaussian is missing: inside the window, the distance from the centre has no effect.": (
            f"{PRODUCT} -> align"
        ),
        "the window is missing: positions farther than D from the centre receive weight.": (
            f"{INSIDE} -> mask"
        ),
        "the softmax is computed over the whole sentence, and the window is applied afterwards. "
        "Compute the softmax over the window only, so that positions outside have no influence.": (
            "masked_fill(~inside -> masked_fill(~mask"
        ),
        "the softmax is computed over the whole sentence, and the weights in the window are "
        "normalised again. On this input a position outside has by far the highest score, so the "
        "softmax leaves the others weights too small to be normalised again. Compute the softmax "
        "over the window only.": [
            ("masked_fill(~inside -> masked_fill(~mask", f"{SOFTMAX} * inside -> {again}")
            for again in (
                f"F.normalize({SOFTMAX} * inside, p=1, dim=-1, eps=1e-9)",
                f"{SOFTMAX} * inside / ({SOFTMAX} * inside).sum(dim=-1, keepdim=True)",
            )
        ],
        "padding inside the window receives weight.": f"{INSIDE} -> distance <= window",
        "padding inside the window is included in the softmax and only removed afterwards. Exclude "
        "it before the softmax.": "masked_fill(~inside -> masked_fill(distance > window",
        "the value that replaces scores outside the window is not low enough: on this input, the "
        f"scores inside are even lower. Use {LOWEST}.": f"{LOWEST} -> -30.0",
        "scores outside the window are set to 0 before the softmax, but 0 is an ordinary score. "
        f"Use {LOWEST}.": f"{LOWEST} -> 0.0",
        "a position at a distance of exactly D is excluded. The window contains all positions with "
        "|s − p| ≤ D.": "distance <= window -> distance < window",
        "the division by 2 drops the fraction: for D = 1, σ is 0.5.": "window / 2 -> window // 2",
        "the Gaussian is too wide: σ is D / 2.": "window / 2 -> window",
        "the Gaussian is too narrow: (s − p)² is divided by 2σ².": f"{SQUARED_SIGMA} -> sigma**2",
        "σ is not squared: (s − p)² is divided by 2σ².": f"{SQUARED_SIGMA} -> (2 * sigma)",
        "the exponent of the Gaussian has the wrong sign: the weights must decrease with the "
        "distance from the centre.": "torch.exp(-(distance**2) -> torch.exp((distance**2)",
        "the distance is not squared: the exponent is -(s − p)² / (2σ²).": (
            "-(distance**2) -> -(distance)"
        ),
        "every sentence has the window of the first one. Use the position of each sentence.": (
            f"{CENTRE}position[:1].unsqueeze(1)"
        ),
        "the softmax normalises over the sentences. It must normalise over the source positions.": (
            f"{SOFTMAX} -> low.softmax(dim=0)"
        ),
        "the Gaussian is divided by σ√(2π), like a probability density. Here its value at the "
        "centre is 1.": f"{PRODUCT} -> {PRODUCT} / (sigma * (2 * torch.pi) ** 0.5)",
        "the position is limited to the last word. It may be as large as S.": (
            f"{CENTRE}torch.minimum(position, mask.sum(dim=1) - 1.0).unsqueeze(1)"
        ),
        "the position is moved so that the window lies inside the sentence. The window may extend "
        "beyond it.": (
            f"{CENTRE}torch.minimum(position, mask.sum(dim=1) - 1.0 - window)"
            ".clamp(min=window).unsqueeze(1)"
        ),
        f"the centre of the window is rounded. {NOT_THE_CENTRE}": (
            "(distance <= -> ((places - centre.round()).abs() <="
        ),
        f"the centre of the Gaussian is rounded. {NOT_THE_CENTRE}": (
            "-(distance**2) -> -((places - centre.round()) ** 2)"
        ),
        "the position is rounded, for the window and for the Gaussian. "
        f"{OF_BOTH}": f"{CENTRE}position.round().unsqueeze(1)",
        f"the centre of the window is rounded down. {NOT_THE_CENTRE}": (
            "(distance <= -> ((places - centre.floor()).abs() <="
        ),
        "the position is rounded down, for the window and for the Gaussian. "
        f"{OF_BOTH}": f"{CENTRE}position.floor().unsqueeze(1)",
        "positions are counted from 1. The first word is at position 0.": (
            "torch.arange(scores.size(1)) -> torch.arange(1, scores.size(1) + 1)"
        ),
        "the window starts at p. It must extend D positions to each side of p.": (
            f"{INSIDE} -> {INSIDE} & (places >= centre)"
        ),
        "the window is only half as wide as it should be. It must extend D positions to each side "
        "of p.": "distance <= window -> distance <= window / 2",
        "on this input, the exponential of a score is infinite in 32-bit floats. Subtract the "
        "largest score of each row before the exponential, as torch.softmax does.": [
            f"{SOFTMAX} -> {e} / {e}.sum(dim=-1, keepdim=True).clamp(min=1e-30)"
            for e in ("low.exp()", "(scores.exp() * inside)")
        ],
        "the largest score of all sentences is subtracted before the exponential. Subtract that of "
        "each row, as torch.softmax does.": (
            f"{SOFTMAX} -> (low - low.max()).exp() / "
            "(low - low.max()).exp().sum(dim=-1, keepdim=True).clamp(min=1e-30)"
        ),
    },
    named=True,
)


# Part 5


def parameters(score, query_dim, key_dim, hidden_dim):
    return {
        "dot": 0,
        "general": query_dim * key_dim,
        "concat": hidden_dim * (query_dim + key_dim) + hidden_dim,
    }[score]


def multiplications(score, src_len, tgt_len, query_dim, key_dim, hidden_dim):
    pairs = src_len * tgt_len
    keys_first = src_len * query_dim * key_dim + pairs * query_dim
    queries_first = tgt_len * query_dim * key_dim + pairs * key_dim
    projections = hidden_dim * (tgt_len * query_dim + src_len * key_dim)
    return {
        "dot": pairs * query_dim,
        "general": min(keys_first, queries_first),
        "concat": projections + pairs * hidden_dim,
    }[score]


SCORES = ("dot", "general", "concat")
# In the third and the fourth case, simple rules do not find the cheaper order.
DIMS = [(3, 5, 7), (11, 2, 3), (13, 2, 5), (5, 17, 3)]
FURTHER_DIMS = [(5, 13, 2), (7, 3, 17)]
LENGTHS = [(13, 2), (2, 13), (5, 7), (5, 2), (5, 5), (11, 3)]


def sizes_of(score: str, query_dim: int, key_dim: int, hidden_dim: int) -> dict[str, int]:
    key_dim = query_dim if score == "dot" else key_dim
    return {"query_dim": query_dim, "key_dim": key_dim, "hidden_dim": hidden_dim}


def parameter_cases(thorough: bool) -> Iterator[Case]:
    for dims in DIMS + FURTHER_DIMS * thorough:
        for score in SCORES:
            yield Case({"score": score, **sizes_of(score, *dims)})


def multiplication_cases(thorough: bool) -> Iterator[Case]:
    for dims, (src_len, tgt_len) in zip(DIMS + FURTHER_DIMS * thorough, LENGTHS, strict=False):
        for score in SCORES:
            lengths = {"src_len": src_len, "tgt_len": tgt_len}
            yield Case({"score": score, **lengths, **sizes_of(score, *dims)})


NAMES = ("src_len", "tgt_len", "query_dim", "key_dim", "hidden_dim")
SYMBOLS = dict(zip("STqkh", NAMES, strict=True))


def instead(formulas: dict[str, str], score: str, *others: str) -> list[str]:
    """Return edits that replace the formula of a score by others, in short symbols."""
    return [
        f'"{score}": {formulas[score]}, -> "{score}": '
        + re.sub(r"\b[STqkh]\b", lambda symbol: SYMBOLS[symbol[0]], other)
        + ","
        for other in others
    ]


NUMBERS = {
    "dot": "0",
    "general": "query_dim * key_dim",
    "concat": "hidden_dim * (query_dim + key_dim) + hidden_dim",
}
PARAMETERS = Question(
    parameters,
    {"the number of parameters": "The package's module has a different number."},
    parameter_cases,
    {
        "dot has no parameters.": instead(NUMBERS, "dot", "q", "2 * q", "q * k", "1"),
        "W of general multiplies h from one side and h̄ from the other: its shape is (query_dim, "
        "key_dim).": instead(
            NUMBERS, "general", "h * k", "h * q", "q + k", "h * (q + k)", "q * q", "k * k"
        ),
        "v of concat is missing. It has hidden_dim entries.": (
            instead(NUMBERS, "concat", "h * (q + k)")
        ),
        "W of concat is missing. It multiplies [h; h̄].": instead(NUMBERS, "concat", "h"),
        "W of concat multiplies [h; h̄], which has query_dim + key_dim entries.": (
            instead(NUMBERS, "concat", "h * q * k + h", "h * k + h", "h * q + h", "h * q + k + h")
        ),
        "a bias is counted. None of these layers has a bias.": (
            instead(NUMBERS, "general", "q * k + q", "q * k + k")
            + instead(NUMBERS, "concat", "h * (q + k) + 2 * h", "h * (q + k) + 2 * h + 1")
        ),
    },
    named=True,
)

COSTS = {
    "dot": "pairs * query_dim",
    "general": "min(keys_first, queries_first)",
    "concat": "projections + pairs * hidden_dim",
}
MULTIPLICATIONS = Question(
    multiplications,
    {"the number of multiplications": "The package needs a different number when it runs."},
    multiplication_cases,
    {
        "this is the number for one target position. Each of the tgt_len target positions scores "
        "all source positions.": (
            instead(COSTS, "dot", "S * q")
            + instead(COSTS, "general", "q * k + S * k", "min(q * k + S * k, S * q * k + S * q)")
            + instead(COSTS, "concat", "S * h * (q + k) + S * h", "h * (q + S * k + S)")
        ),
        "a dot product of two vectors of dimension d takes d multiplications.": (
            instead(COSTS, "dot", "0", "S * T", "S * T * (2 * q - 1)")
        ),
        "the lengths are added. Each of the tgt_len target positions is compared with each of the "
        "src_len source positions.": instead(COSTS, "dot", "(S + T) * q"),
        "W is applied to both vectors. Apply it to one of them, h or h̄.": instead(
            COSTS, "general", *(f"(S + T) * q * k + S * T * {dim}" for dim in "qk")
        ),
        "W is applied again for each pair of positions. W h̄ depends on the source position only, "
        "and hᵀ W on the target position only, so it is computed once per position.": instead(
            COSTS, "general", *(f"S * T * (q * k + {dim})" for dim in "qk")
        ),
        "fewer multiplications are possible for these sizes. W can be applied once per source "
        "position or once per target position: return the smaller number.": instead(
            COSTS,
            "general",
            "max(keys_first, queries_first)",
            "keys_first",
            "queries_first",
            "keys_first if S <= T else queries_first",
            *(
                f"keys_first if {rule} else queries_first"
                for rule in ("q >= k", "q <= k", "S * q <= T * k", "S + q <= T + k")
            ),
        ),
        "these are only the products with W. Add the dot products of all pairs.": instead(
            COSTS, "general", "S * q * k", "T * q * k", "min(S, T) * q * k"
        ),
        "the dot products have the wrong dimension: after hᵀ W the vectors have dimension key_dim, "
        "after W h̄ they have dimension query_dim.": instead(
            COSTS,
            "general",
            "min(S * q * k + S * T * k, T * q * k + S * T * q)",
            "min(S, T) * q * k + S * T * q",
            "min(S, T) * q * k + S * T * k",
        ),
        "W [h; h̄] is computed again for each pair of positions. It is the sum of a part that "
        "depends on h and a part that depends on h̄: compute each part once per position.": instead(
            COSTS,
            "concat",
            "S * T * h * (q + k) + S * T * h",
            "h * (S * k + S * T * q + S * T)",
            "h * (S * T * k + T * q + S * T)",
        ),
        "the product with v is missing. It takes hidden_dim multiplications for each pair.": (
            instead(COSTS, "concat", *(f"projections + h * {of}" for of in ("0", "1", "S", "T")))
        ),
        "these are only the products with v. The products with W are missing.": (
            instead(COSTS, "concat", "S * T * h")
        ),
        "the dimensions are exchanged: there are tgt_len vectors h of dimension query_dim, and "
        "src_len vectors h̄ of dimension key_dim.": (
            instead(COSTS, "concat", "h * (S * q + T * k + S * T)")
        ),
    },
    named=True,
)


def each_finds_the_next():
    X = torch.tensor([[1.0, 0.0], [-0.5, 0.866], [-0.5, -0.866]])
    W = 5 * torch.tensor([[-0.5, 0.866], [-0.866, -0.5]])
    return X, W


NEXT = Question(
    each_finds_the_next,
    mistakes={
        "W is symmetric": "return X, W -> return X, 9 * torch.eye(2).flip(0)",
        "each vector finds itself": "return X, W -> return X, 10 * torch.eye(2)",
        "each vector finds the previous one": "return X, W -> return X, W.T",
        "the scores are too close together": "5 * -> 0.5 *",
        "finds vector 0, not vector": "return X, W -> return torch.ones(3, 2), W",
        "expected `return X, W`": "return X, W -> return W",
        "three vectors of dimension 2": "return X, W -> return W, X",
        "Expected X as a torch.Tensor": "return X, W -> return 'X', W",
    },
)


# Part 6


def symptoms(decode):
    embedded, keys = torch.randn(2, 3, 5), torch.randn(2, 4, 7)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    other_end = torch.cat([embedded[:, :-1], torch.randn(2, 1, 5)], dim=1)
    other_padding = keys.masked_fill(~mask.unsqueeze(-1), 3.0)

    def differ(some, others):
        pairs = zip(some, others, strict=True)
        return not all(torch.allclose(one, other, atol=1e-5) for one, other in pairs)

    usual = decode(embedded, keys, mask)
    after = decode(other_end, keys, mask)
    padded = decode(embedded, other_padding, mask)
    each = [decode(embedded[i : i + 1], keys[i : i + 1], mask[i : i + 1]) for i in (0, 1)]
    alone = [torch.cat(results) for results in zip(*each, strict=True)]
    found = {
        "future": differ([x[:, :-1] for x in usual], [x[:, :-1] for x in after]),
        "late": not differ([usual[1][:, -1]], [after[1][:, -1]]),
        "padding": differ(usual, padded),
        "neighbours": differ(usual, alone),
        "sum": differ([usual[1].sum(dim=-1)], [torch.ones(2, 3)]),
    }
    return {name for name, shown in found.items() if shown}


SYMPTOMS = Question(symptoms)


PARTS = {
    "scores": [DOT, GENERAL, CONCAT],
    "attentional": [STEP],
    "input_feeding": [FED],
    "local": [POSITION, WINDOW],
    "what_w_buys": [PARAMETERS, MULTIPLICATIONS, NEXT],
    "examine": [SYMPTOMS],
}
"""The questions of each check, in the order of its arguments."""
