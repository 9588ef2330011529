"""The tokenizers library reads our tokenizers: the same ids, the end token included."""

import json

import pytest
import tokenizers

from attentively.models import checkpoints
from attentively.tokens.library_tokenizers import from_library, to_library
from attentively.tokens.vocabulary import END_ID, BPETokenizer, CharacterTokenizer, WordTokenizer

SENTENCES = ["the animal crossed the street .", "l'animal ne dort pas", "it  was tired"]
MADE = {
    "word": WordTokenizer.train(SENTENCES),
    "character": CharacterTokenizer.train(SENTENCES),
    "bpe": BPETokenizer.train(SENTENCES, 61),
}
TEXTS = [*SENTENCES, "", "  a  tired\tstreet \n", "Zürich", "日本", "l’animal"]
every_kind = pytest.mark.parametrize("kind", MADE)


def same_ids(library, tokenizer):
    return all(library.encode(text).ids == tokenizer.encode(text) for text in TEXTS)


@every_kind
def test_the_library_returns_the_same_ids(kind, tmp_path):
    path = str(tmp_path / "tokenizer.json")
    to_library(MADE[kind]).save(path)
    library = tokenizers.Tokenizer.from_file(path)
    assert same_ids(library, MADE[kind])
    assert library.get_vocab_size() == len(MADE[kind])
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="<end> $A", special_tokens=[("<end>", END_ID)]
    )
    assert not same_ids(library, MADE[kind])


def test_characters_are_not_words():
    """Broken twin: the two kinds differ only in how a text is split."""
    assert not same_ids(to_library(MADE["character"]), MADE["word"])
    library = to_library(MADE["character"])
    library.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    assert not same_ids(library, MADE["character"])


@every_kind
def test_it_comes_back_as_it_was(kind):
    back = from_library(to_library(MADE[kind]).to_str())
    assert type(back) is type(MADE[kind])
    assert back.to_json() == MADE[kind].to_json()
    for text in [*TEXTS, "<pad> <end>"]:
        assert back.encode(text) == MADE[kind].encode(text)


def test_the_tokenizer_of_a_shipped_model():
    tokenizer = checkpoints.load_pretrained("tatoeba-en-fr-transformer").src_tokenizer
    assert same_ids(to_library(tokenizer), tokenizer)
    assert from_library(to_library(tokenizer).to_str()).to_json() == tokenizer.to_json()


@pytest.mark.usefixtures("unchecked")
def test_other_tokenizers_are_refused():
    foreign = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "a": 1}, "[UNK]"))
    with pytest.raises(ValueError, match=r"first tokens are \['\[UNK\]', 'a'\].*another program"):
        from_library(foreign.to_str())
    unigram = json.loads(to_library(MADE["word"]).to_str())
    unigram["pre_tokenizer"] = None
    with pytest.raises(ValueError, match="a WordLevel tokenizer: expected"):
        from_library(json.dumps(unigram))
    for text in ("", "{}", "null", "[1]"):
        with pytest.raises(ValueError, match="not a tokenizer of the tokenizers library"):
            from_library(text)
    with pytest.raises(TypeError, match="a list has no form"):
        to_library([])
