/* Byte-pair encoding with the normalisation of the package's tokenizer (chapter 02). */
"use strict";

var Attentively = window.Attentively || (window.Attentively = {});

Attentively.SPECIAL = { PAD: 0, UNKNOWN: 1, START: 2, END: 3 };

Attentively.Subwords = class {
  /** `vocabulary` lists the subwords by id, `merges` the pairs in the order of learning. */
  constructor(vocabulary, merges) {
    this.vocabulary = vocabulary;
    this.ids = new Map(vocabulary.map((subword, id) => [subword, id]));
    this.ranks = new Map(merges.map(([left, right], rank) => [left + " " + right, rank]));
  }

  /** The ids of a text, the end token included. */
  encode(text) {
    const normalised = text.normalize("NFC").replace(/’/g, "'").replace(/\s+/gu, " ").trim();
    if (!normalised) return [Attentively.SPECIAL.END];
    const marked = "▁" + normalised.replace(/ /g, "▁");
    const pattern = /▁?[\p{L}\p{N}]+'?|▁?[^▁\p{L}\p{N}]|▁/gu;
    const subwords = (marked.match(pattern) || []).flatMap((piece) => this.merge([...piece]));
    return [...subwords.map((subword) => this.ids.get(subword)), Attentively.SPECIAL.END];
  }

  /** Apply the earliest learned merge, as long as there is one; unknown characters stay apart. */
  merge(pieces) {
    pieces = pieces.map((piece) => (this.ids.has(piece) ? piece : "<unk>"));
    for (;;) {
      let best = Infinity, at = -1;
      for (let i = 0; i + 1 < pieces.length; i++) {
        const rank = this.ranks.get(pieces[i] + " " + pieces[i + 1]) ?? Infinity;
        if (rank < best) [best, at] = [rank, i];
      }
      if (at < 0) return pieces;
      pieces.splice(at, 2, pieces[at] + pieces[at + 1]);
    }
  }

  tokens(ids) {
    return ids.map((id) => this.vocabulary[id]);
  }

  /** The text of ids, without start, end and padding. */
  decode(ids) {
    const { PAD, START, END } = Attentively.SPECIAL;
    const kept = ids.filter((id) => ![PAD, START, END].includes(id));
    return this.tokens(kept).join("").replace(/▁/g, " ").trim();
  }
};
