"""The memory and the multiplications of cached decoding, and known mistakes in counting them.

`fault` names a mistake; without it, the answer is correct.
"""


def held(
    num_layers: int, d_model: int, src_len: int, words: int, rows: int, fault: str = ""
) -> int:
    places = {"no source": words, "source once": words, "no words": src_len}
    in_a_row = places.get(fault, src_len + words + (fault == "one more") - (fault == "one fewer"))
    twice = 1 if fault == "keys only" else 4 if fault == "doubled" else 2
    numbers = twice * num_layers * d_model * in_a_row * (1 if fault == "one row" else rows)
    numbers += twice * num_layers * d_model * src_len * (fault == "source once")
    return numbers // num_layers if fault == "one layer" else numbers


HELD_FAULTS = {
    "keys only": "cache_entries: Only the keys or only the values are counted. The cache stores "
    "both.",
    "doubled": "cache_entries: The result is twice too large. The keys of all heads together have "
    "d_model entries per position.",
    "no source": "cache_entries: The keys and values of the memory are missing.",
    "source once": "cache_entries: The memory is counted once. Each row has its own copy of its "
    "keys and values.",
    "no words": "cache_entries: The keys and values of the target words are missing.",
    "one row": "cache_entries: `rows` is ignored. Each row has a cache of its own.",
    "one layer": "cache_entries: `num_layers` is ignored. Each layer has a cache of its own.",
    "one more": "cache_entries: One target position too many: `words` already includes START.",
    "one fewer": "cache_entries: One target position too few: START is stored as well, and `words` "
    "includes it.",
}


def _in_a_layer(
    new: int, keys: int, src_len: int, d_model: int, d_ff: int, memory: int, fault: str
) -> int:
    """Return the multiplications of one layer for `new` words that attend to `keys` words."""
    own = (3 if fault == "no output" else 4) * new * d_model**2
    looks = 2 * new * keys * d_model
    if fault == "half" and new > 1:
        looks = new * (new + 1) * d_model
    across = (1 if fault == "no output" else 2) * new * d_model**2 + 2 * memory * d_model**2
    over = 2 * new * src_len * d_model
    if fault == "scores only":
        looks, over = looks // 2, over // 2
    if fault == "no scores":
        looks = over = 0
    if fault == "no source":
        across = over = 0
    network = (1 if fault == "half network" else 2) * new * d_model * d_ff
    return own + looks + across + over + network * (fault != "no network")


def multiplied(
    words: int, src_len: int, d_model: int, d_ff: int, num_layers: int, *, fault: str = ""
) -> dict[str, int]:
    def layer(new: int, keys: int, memory: int) -> int:
        return _in_a_layer(new, keys, src_len, d_model, d_ff, memory, fault)

    layers = 1 if fault == "one layer" else num_layers
    lengths = range(words) if fault == "from 0" else range(1, words + 1)
    if fault == "last step":
        lengths = range(words, words + 1)
    recomputed = sum(layer(n, n, 0 if fault == "memory once" else src_len) for n in lengths)
    recomputed += layer(0, 0, src_len) * (fault == "memory once")
    cached = sum(layer(1, n, src_len * (fault == "memory each")) for n in lengths)
    cached += layer(0, 0, src_len) * (fault not in ("memory each", "no memory"))
    if fault == "one key":
        cached = sum(layer(1, 1, 0) for _ in lengths) + layer(0, 0, src_len)
    if fault == "exchanged":
        recomputed, cached = cached, recomputed
    return {"recomputed": layers * recomputed, "cached": layers * cached}


MULTIPLIED_FAULTS = {
    "exchanged": 'multiplications: "recomputed" and "cached" are exchanged.',
    "one layer": "multiplications: This is the result for one layer; there are num_layers.",
    "from 0": "multiplications: The numbers of words are off by one: the first step reads one "
    "word, START, and the last step reads `words`.",
    "last step": "multiplications: Only the last step is counted. Add up all steps.",
    "no output": "multiplications: The output projection is missing. An attention has four "
    "projections: of queries, keys, values and output.",
    "scores only": "multiplications: Besides the projections, an attention computes two products: "
    "queries times keys, and weights times values. One of them is missing.",
    "no scores": "multiplications: The products of queries with keys and of weights with values "
    "are missing.",
    "half": "multiplications: Without a cache, masked scores are computed as well: all of (n, n).",
    "no source": "multiplications: The cross-attention is missing.",
    "half network": "multiplications: The feed-forward network has two layers; only one is "
    "counted.",
    "no network": "multiplications: The feed-forward network is missing.",
    "memory once": "multiplications: Without a cache, the keys and values of the memory are "
    "computed again in every step.",
    "memory each": "multiplications: With a cache, the keys and values of the memory are computed "
    "once, before the first step.",
    "no memory": "multiplications: With a cache, the keys and values of the memory must be "
    "computed once as well.",
    "one key": "multiplications: With a cache, the new word still attends to all words so far.",
}


def dearer(times: int, src_len: int, d_model: int, d_ff: int, *, fault: str = "") -> int:
    recomputed = cached = 0
    words = 0
    while True:
        words += 1
        if fault == "last step":
            recomputed = cached = 0
        recomputed += _in_a_layer(words, words, src_len, d_model, d_ff, src_len, "")
        cached += _in_a_layer(1, words, src_len, d_model, d_ff, src_len * (words == 1), "")
        if recomputed > times * cached or (recomputed == times * cached and fault != "more"):
            return words - (fault == "last cheaper")


DEARER_FAULTS = {
    "last step": "length_for_ratio: Single steps are compared. Compare the totals of all steps up "
    "to this length.",
    "more": "length_for_ratio: A ratio of exactly `times` is sufficient.",
    "last cheaper": "length_for_ratio: This is the last length with a smaller ratio; return the "
    "next one.",
}
