"""Tokenizers in the file format of the `tokenizers` library, ``tokenizer.json``.

The library then returns the same ids as the package's tokenizer, ``<end>`` included:
``tokenizers.Tokenizer.from_file("tokenizer.json").encode(text).ids``. Two differences remain. The
library reads the spelling of a special token, such as ``<pad>``, as that token; the package reads
it as ordinary text. It also splits words at fewer rare control characters than Python does.
"""

import json

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from attentively.tokens.vocabulary import (
    END,
    END_ID,
    SPECIAL_TOKENS,
    UNK,
    BPETokenizer,
    CharacterTokenizer,
    Tokenizer,
    Vocabulary,
    WordTokenizer,
    load_tokenizer,
)


def to_library(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """Return `tokenizer` as a tokenizer of the library; raises `TypeError` for unknown kinds."""
    if isinstance(tokenizer, BPETokenizer):
        content = json.loads(tokenizer.to_json())["library"]
        library = tokenizers.Tokenizer.from_str(json.dumps(content))
    elif isinstance(tokenizer, WordTokenizer | CharacterTokenizer):
        ids = {token: index for index, token in enumerate(tokenizer.vocabulary.tokens)}
        library = tokenizers.Tokenizer(models.WordLevel(ids, unk_token=UNK))
        library.add_special_tokens(list(SPECIAL_TOKENS))
        if isinstance(tokenizer, WordTokenizer):
            library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        else:
            character = tokenizers.Regex(r"[\s\S]")
            library.pre_tokenizer = pre_tokenizers.Split(character, "isolated")
            library.decoder = decoders.Fuse()
    else:
        raise TypeError(f"a {type(tokenizer).__name__} has no form in the tokenizers library")
    library.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", special_tokens=[(END, END_ID)]
    )
    return library


def from_library(text: str) -> BPETokenizer | WordTokenizer | CharacterTokenizer:
    """Read the text of a ``tokenizer.json`` that `to_library` made.

    Raises `ValueError` for other text, such as the tokenizer of another program.
    """
    try:
        content = json.loads(text)
        library = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises no narrower class
        raise ValueError(f"not a tokenizer of the tokenizers library: {error}") from None
    found = (library.id_to_token(index) for index in range(library.get_vocab_size()))
    tokens = [token for token in found if token is not None]
    if tokens[: len(SPECIAL_TOKENS)] != list(SPECIAL_TOKENS):
        raise ValueError(
            f"the first tokens are {tokens[: len(SPECIAL_TOKENS)]}, but expected "
            f"{list(SPECIAL_TOKENS)}: the tokenizer was made by another program"
        )
    ordinary = tokens[len(SPECIAL_TOKENS) :]
    match content["model"]["type"], (content["pre_tokenizer"] or {}).get("type"):
        case "BPE", _:
            content["post_processor"] = None  # `BPETokenizer` adds the end token itself
            return load_tokenizer(json.dumps({"kind": "bpe", "library": content}))
        case "WordLevel", "WhitespaceSplit":
            return WordTokenizer(Vocabulary(ordinary))
        case "WordLevel", "Split":
            return CharacterTokenizer(Vocabulary(ordinary))
    raise ValueError(
        f"a {content['model']['type']} tokenizer: expected one of words, characters or BPE"
    )
