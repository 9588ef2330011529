"""What a cache costs and saves, counted, and the mistakes made in counting.

`fault` names what a mistake has changed; without one the answer is right.
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
    "keys only": "cache_numbers: Keys and values are held: twice as many.",
    "doubled": "cache_numbers: This is twice too many. d_model numbers are the keys of all heads.",
    "no source": "cache_numbers: The memory's keys and values are missing.",
    "source once": "cache_numbers: Each row has its own copy of the memory's keys and values.",
    "no words": "cache_numbers: The keys and values of the words that were read are missing.",
    "one row": "cache_numbers: Each of the rows has a cache of its own.",
    "one layer": "cache_numbers: Each layer has a cache of its own.",
    "one more": "cache_numbers: One place too many: START is among the words that were read.",
    "one fewer": "cache_numbers: One place too few: START is among the words, and is held too.",
}


def _in_a_layer(
    new: int, keys: int, src_len: int, d_model: int, d_ff: int, memory: int, fault: str
) -> int:
    """Return the multiplications of one layer for so many new words that look at so many keys."""
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
    refed = sum(layer(n, n, 0 if fault == "memory once" else src_len) for n in lengths)
    refed += layer(0, 0, src_len) * (fault == "memory once")
    cached = sum(layer(1, n, src_len * (fault == "memory each")) for n in lengths)
    cached += layer(0, 0, src_len) * (fault not in ("memory each", "no memory"))
    if fault == "one key":
        cached = sum(layer(1, 1, 0) for _ in lengths) + layer(0, 0, src_len)
    if fault == "exchanged":
        refed, cached = cached, refed
    return {"refed": layers * refed, "cached": layers * cached}


MULTIPLIED_FAULTS = {
    "exchanged": "multiplications: The two have changed places.",
    "one layer": "multiplications: This is one layer's; there are num_layers.",
    "from 0": "multiplications: The first step reads one word, START; the last one reads `words`.",
    "last step": "multiplications: This is the last step alone. Every step costs.",
    "no output": "multiplications: An attention has four projections: of queries, keys, values, "
    "and of the output.",
    "scores only": "multiplications: There are two products beside the projections: queries times "
    "keys, and weights times values.",
    "no scores": "multiplications: Queries times keys and weights times values are missing.",
    "half": "multiplications: Scores that the mask hides are computed too: all of (n, n).",
    "no source": "multiplications: The attention to the source is missing.",
    "half network": "multiplications: The feed-forward network has two layers.",
    "no network": "multiplications: The feed-forward network is missing.",
    "memory once": "multiplications: Without a cache the memory's keys and values are made in "
    "every step.",
    "memory each": "multiplications: With the cache the memory's keys and values are made once, "
    "before the first step.",
    "no memory": "multiplications: With the cache the memory's keys and values are made too, once, "
    "before the first step.",
    "one key": "multiplications: With the cache the new word still looks at all words so far.",
}


def dearer(times: int, src_len: int, d_model: int, d_ff: int, *, fault: str = "") -> int:
    refed = cached = 0
    words = 0
    while True:
        words += 1
        if fault == "last step":
            refed = cached = 0
        refed += _in_a_layer(words, words, src_len, d_model, d_ff, src_len, "")
        cached += _in_a_layer(1, words, src_len, d_model, d_ff, src_len * (words == 1), "")
        if refed > times * cached or (refed == times * cached and fault != "more"):
            return words - (fault == "last cheaper")


DEARER_FAULTS = {
    "last step": "dearer_from: The steps are compared one by one. Compare what all of them cost "
    "together, up to this length.",
    "more": "dearer_from: Exactly `times` as much is enough.",
    "last cheaper": "dearer_from: This is the last length at which it is cheaper; the next one is "
    "asked for.",
}
