"""Text becomes numbers and comes back; special tokens are ours alone to write."""

import json
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attentively.tokens.vocabulary import (
    END,
    END_ID,
    PAD,
    PAD_ID,
    SPECIAL_TOKENS,
    START,
    START_ID,
    UNK,
    UNK_ID,
    BPETokenizer,
    CharacterTokenizer,
    Vocabulary,
    WordTokenizer,
    load_tokenizer,
    note_unknown_words,
    target_ids,
    unknown_words,
)

SENTENCES = [
    "the animal did not cross the street .",
    "l'animal n'a pas traversé la rue .",
    "the street is wide , and the animal was tired !",
    "la rue est large , et l'animal était fatigué !",
    "qu'elle soit large ou non , n'est-ce pas ?",
]
CHARACTERS = sorted(set("".join(SENTENCES)))
WORDS = sorted({word for sentence in SENTENCES for word in sentence.split()})
KINDS = ["word", "character", "bpe"]


def train(kind, vocabulary_size=101):
    if kind == "word":
        return WordTokenizer.train(SENTENCES)
    if kind == "character":
        return CharacterTokenizer.train(SENTENCES)
    return BPETokenizer.train(SENTENCES, vocabulary_size)


@pytest.fixture(scope="module")
def tokenizers():
    return {kind: train(kind) for kind in KINDS}


def test_the_special_tokens_come_first():
    assert (PAD, UNK, START, END) == ("<pad>", "<unk>", "<start>", "<end>")
    assert (PAD_ID, UNK_ID, START_ID, END_ID) == (0, 1, 2, 3)
    assert Vocabulary(["chat"]).tokens == ["<pad>", "<unk>", "<start>", "<end>", "chat"]


def test_vocabulary_there_and_back():
    vocabulary = Vocabulary(["le", "chat", "noir"])
    assert len(vocabulary) == 7
    assert vocabulary.encode(["noir", "chien", "le", "<end>"]) == [6, UNK_ID, 4, END_ID]
    assert vocabulary.decode([6, UNK_ID, 4, END_ID]) == ["noir", "<unk>", "le", "<end>"]
    assert "chat" in vocabulary
    assert "chien" not in vocabulary


@pytest.mark.parametrize("tokens", [["le", "chat", "le"], ["le", "<unk>"]])
def test_a_token_listed_twice_is_refused(tokens):
    repeated = next(token for token in ["<unk>", "le"] if token in tokens)
    with pytest.raises(ValueError, match=f"must be distinct, but these repeat: .*{repeated}"):
        Vocabulary(tokens)


@pytest.mark.parametrize("index", [-1, 7, 10**6])
def test_an_id_out_of_range_is_refused(index):
    with pytest.raises(
        ValueError, match=f"id {index} is out of range: the vocabulary has 7 tokens"
    ):
        Vocabulary(["le", "chat", "noir"]).decode([4, index])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", [-1, 10**6])
def test_tokenizers_refuse_an_id_out_of_range_too(tokenizers, kind, index):
    tokenizer = tokenizers[kind]
    message = f"id {index} is out of range: the vocabulary has {len(tokenizer)} tokens"
    with pytest.raises(ValueError, match=message):
        tokenizer.decode([4, index])
    with pytest.raises(ValueError, match=message):
        tokenizer.tokens([4, index])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sentence", SENTENCES)
def test_training_sentences_round_trip(tokenizers, kind, sentence):
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode(sentence)
    assert ids[-1] == END_ID
    assert not set(ids[:-1]) & {PAD_ID, UNK_ID, START_ID, END_ID}
    assert tokenizer.decode(ids) == sentence


@given(st.lists(st.sampled_from(WORDS)))
def test_words_round_trip(words):
    tokenizer = WordTokenizer.train(SENTENCES)
    text = " ".join(words)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.tokens(tokenizer.encode(text)) == [*words, END]


BPE = train("bpe")
LETTERS = train("character")


@given(st.text(CHARACTERS))
def test_text_of_known_characters_round_trips_through_bpe(text):
    ids = BPE.encode(text)
    assert UNK_ID not in ids
    assert BPE.decode(ids) == " ".join(text.split())


@given(st.text(CHARACTERS))
def test_characters_round_trip_with_every_space_between_and_around_them(text):
    ids = LETTERS.encode(text)
    assert len(ids) == len(text) + 1
    assert LETTERS.decode(ids) == text
    assert LETTERS.tokens(ids) == [*text, END]


@given(st.text(min_size=1))
def test_a_text_round_trips_through_its_own_characters(text):
    tokenizer = CharacterTokenizer.train(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer) == len(SPECIAL_TOKENS) + len(set(text))


def test_characters_are_listed_in_the_order_of_unicode():
    tokenizer = CharacterTokenizer.train(["Ça b\n", "ab"])
    assert tokenizer.vocabulary.tokens[4:] == ["\n", " ", "a", "b", "Ç"]
    assert tokenizer.encode("ba") == [7, 6, END_ID]


@given(st.text())
def test_any_text_at_all_encodes_and_decodes(text):
    for tokenizer in (BPE, LETTERS, WordTokenizer.train(SENTENCES)):
        ids = tokenizer.encode(text)
        assert ids[-1] == END_ID
        assert all(0 <= index < len(tokenizer) for index in ids)
        assert not set(ids[:-1]) & {PAD_ID, START_ID, END_ID}
        assert len(tokenizer.tokens(ids)) == len(ids)
        tokenizer.decode(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_only_the_end(tokenizers, kind):
    for nothing in [""] if kind == "character" else ["", " ", "\n\t "]:
        assert tokenizers[kind].encode(nothing) == [END_ID]
    assert tokenizers[kind].decode([]) == ""
    assert tokenizers[kind].decode([START_ID, END_ID, PAD_ID]) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_leaves_special_tokens_out_and_tokens_shows_them(tokenizers, kind):
    tokenizer = tokenizers[kind]
    ids = [START_ID, *tokenizer.encode("the animal"), PAD_ID, PAD_ID]
    assert tokenizer.decode(ids) == "the animal"
    tokens = tokenizer.tokens(ids)
    assert tokens[0] == START
    assert tokens[-3:] == [END, PAD, PAD]


@pytest.mark.parametrize("kind", KINDS)
def test_the_unknown_is_shown(tokenizers, kind):
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode("the 猫 .")
    assert ids.count(UNK_ID) == 1
    assert UNK in tokenizer.decode(ids)


@pytest.mark.parametrize("reloaded", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("special", SPECIAL_TOKENS)
def test_a_special_token_spelled_out_is_text(tokenizers, kind, special, reloaded):
    tokenizer = tokenizers[kind]
    if reloaded:
        tokenizer = load_tokenizer(tokenizer.to_json())
    for text in (special, f"the {special} animal", f"the{special}animal", special * 3):
        ids = tokenizer.encode(text)
        assert not set(ids[:-1]) & {PAD_ID, START_ID, END_ID}, tokenizer.tokens(ids)
        assert ids[-1] == END_ID


@pytest.mark.parametrize("special", SPECIAL_TOKENS)
def test_a_special_token_in_the_corpus_is_text(special):
    corpus = [*SENTENCES, f"the {special} animal {special}"]
    words = WordTokenizer.train(corpus)
    assert len(words) == len(WordTokenizer.train(SENTENCES))
    pieces = BPETokenizer.train(corpus, 101)
    assert pieces.tokens(range(4)) == list(SPECIAL_TOKENS)
    ids = pieces.encode(f"the {special} animal")
    assert not set(ids[:-1]) & {PAD_ID, UNK_ID, START_ID, END_ID}
    assert pieces.decode(ids) == f"the {special} animal"  # its characters were in the corpus


def test_words_are_ranked_by_frequency_then_by_alphabet():
    tokenizer = WordTokenizer.train(["b a c a", "c b d a"])
    assert tokenizer.vocabulary.tokens[4:] == ["a", "b", "c", "d"]
    assert WordTokenizer.train(["b a c a", "c b d a"], min_count=2).vocabulary.tokens[4:] == [
        *"abc"
    ]
    assert WordTokenizer.train(["b b a", "b a"]).vocabulary.tokens[4:] == ["b", "a"]


def test_bpe_merges_what_is_frequent():
    tokenizer = BPETokenizer.train(["low low low low lower newest"] * 7, 25)
    assert tokenizer.tokens(tokenizer.encode("low")) == ["▁low", END]
    assert len(tokenizer.encode("newer")) > 2  # never seen: in pieces, but none unknown
    assert tokenizer.decode(tokenizer.encode("newer")) == "newer"


def test_bpe_cuts_elisions_and_marks_before_merging():
    tokenizer = BPETokenizer.train(["l'animal, l'animal. c'est l'animal!"] * 7, 101)
    assert tokenizer.tokens(tokenizer.encode("l'animal.")) == ["▁l'", "animal", ".", END]


def test_bpe_writes_one_apostrophe_one_space_and_composed_letters():
    tokenizer = train("bpe")
    plain = tokenizer.encode("l'animal était fatigué !")
    assert tokenizer.encode("  l’animal\u00a0était\tfatigué\u202f! \n") == plain
    assert tokenizer.encode(unicodedata.normalize("NFD", "l'animal était fatigué !")) == plain


@pytest.mark.parametrize("size", [47, 61, 101])
def test_bpe_has_at_most_the_size_asked_for(size):
    assert len(BPETokenizer.train(SENTENCES * 3, size)) == size


def test_bpe_too_small_for_its_characters_is_refused():
    with pytest.raises(ValueError, match=r"vocabulary_size=7 must be at least"):
        BPETokenizer.train(SENTENCES, 7)


@pytest.mark.parametrize("size", [-1, 0, 4])
def test_bpe_without_room_for_a_character_is_refused(size):
    message = f"vocabulary_size={size} must exceed the 4 special tokens"
    with pytest.raises(ValueError, match=message):
        BPETokenizer.train(SENTENCES, size)


@pytest.mark.parametrize("sentences", [[], ["", "  "]])
def test_an_empty_corpus_is_refused(sentences):
    with pytest.raises(ValueError, match="at least one non-empty sentence"):
        BPETokenizer.train(sentences, 101)
    with pytest.raises(ValueError, match="is the corpus empty"):
        WordTokenizer.train(sentences)
    with pytest.raises(ValueError, match="is the corpus empty"):
        CharacterTokenizer.train(sentence.strip() for sentence in sentences)


def test_a_min_count_beyond_every_word_is_refused():
    with pytest.raises(ValueError, match="no word occurs min_count=100 times"):
        WordTokenizer.train(SENTENCES, min_count=100)


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_deterministic(kind):
    assert train(kind).to_json() == train(kind).to_json()


def test_bpe_is_the_same_in_another_process():
    # Another process has other hash seeds, in Python and in the library.
    code = (
        "import json, sys; from attentively.tokens.vocabulary import BPETokenizer\n"
        "print(json.dumps(BPETokenizer.train(json.load(sys.stdin), 101).to_json()))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(SENTENCES),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(other.stdout) == train("bpe").to_json()


@pytest.mark.parametrize("kind", KINDS)
def test_json_round_trip(tokenizers, kind):
    tokenizer = tokenizers[kind]
    reloaded = load_tokenizer(tokenizer.to_json())
    assert type(reloaded) is type(tokenizer)
    assert reloaded.to_json() == tokenizer.to_json()
    assert len(reloaded) == len(tokenizer)
    for text in [*SENTENCES, "the 猫 <end> .", ""]:
        assert reloaded.encode(text) == tokenizer.encode(text)
        assert reloaded.tokens(reloaded.encode(text)) == tokenizer.tokens(tokenizer.encode(text))


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "null",
        "not JSON",
        '{"kind": "letters", "tokens": []}',
        '{"kind": "word"}',
        '{"kind": "word", "tokens": ["a", "a"]}',
        '{"kind": "word", "tokens": 7}',
        '{"kind": "word", "tokens": [7]}',
        '{"kind": "character"}',
        '{"kind": "character", "tokens": ["a", "a"]}',
        '{"kind": "character", "tokens": ["a", "bc"]}',
        '{"kind": "character", "tokens": ["a", ""]}',
        '{"kind": "character", "tokens": [7]}',
        '{"kind": "bpe", "library": {}}',
        '{"kind": "bpe", "library": {"model": {"type": "BPE"}}}',
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_json_of_something_else_is_refused(text):
    with pytest.raises(ValueError):
        load_tokenizer(text)


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_begins_with_start(tokenizers, kind):
    ids = target_ids(tokenizers[kind], "la rue")
    assert ids == [START_ID, *tokenizers[kind].encode("la rue")]
    assert ids[-1] == END_ID


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_words_are_named(tokenizers, kind):
    assert unknown_words(tokenizers[kind], "the 猫 did not cross 道 .") == ["猫", "道"]
    assert unknown_words(tokenizers[kind], SENTENCES[0]) == []


def test_white_space_that_is_unknown_is_told():
    letters = CharacterTokenizer.train(["ab"])
    assert note_unknown_words(letters, "a\tb") == "unknown white space"
    assert note_unknown_words(letters, "a\tb c c") == "unknown words: c"
    assert note_unknown_words(letters, "ab") == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("unchecked")
def test_an_id_out_of_range_is_refused_whatever_its_size(tokenizers, kind):
    size = len(tokenizers[kind])
    for index in (-1, size, 2**32, 2**40, 10**30):
        with pytest.raises(
            ValueError, match=f"id {index} is out of range: the vocabulary has {size}"
        ):
            tokenizers[kind].tokens([4, index])


def test_words_are_tidied_and_cut_before_merging():
    tokenizer = train("bpe")
    assert tokenizer.words(" l’animal  dort. ") == ["▁l'", "animal", "▁dort", "."]
    assert tokenizer.words("") == []


def test_merges_come_in_the_order_learned():
    first, second = train("bpe", 101).merges[:2]
    assert train("bpe", len(SPECIAL_TOKENS) + len(CHARACTERS) + 2).merges == [first, second]
