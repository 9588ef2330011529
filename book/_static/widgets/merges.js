/* Byte-pair merges step by step, with the rules of attentively.tokens.byte_pair (chapter 02). */
"use strict";

(function () {
  const pairs = (pieces) => pieces.slice(1).map((right, i) => [pieces[i], right]);
  const key = (pair) => pair.join(" ");

  /** `pieces` with each occurrence of `pair` merged, from left to right. */
  function join(pieces, [left, right]) {
    const joined = [];
    for (let i = 0; i < pieces.length; i++) {
      const merged = pieces[i] === left && pieces[i + 1] === right;
      joined.push(merged ? left + right : pieces[i]);
      if (merged) i++;
    }
    return joined;
  }

  /** The steps of learning: the pairs before each merge, the most frequent first, and the words.

      The last step has no pairs, because every word is a single subword. */
  function learn(wordCounts) {
    let words = [...wordCounts].map(([word, count]) => ({ count, pieces: [...word] }));
    const characters = new Set(words.flatMap(({ pieces }) => pieces));
    const order = [...characters].sort((a, b) => a.codePointAt(0) - b.codePointAt(0));
    const created = new Map(order.map((character, index) => [character, index]));
    const steps = [];
    for (;;) {
      const counts = new Map();
      for (const { count, pieces } of words) {
        for (const pair of pairs(pieces)) {
          const before = counts.get(key(pair))?.count ?? 0;
          counts.set(key(pair), { pair, count: before + count });
        }
      }
      const rank = (piece) => created.get(piece);
      const found = [...counts.values()].sort((a, b) => b.count - a.count ||
        rank(a.pair[0]) - rank(b.pair[0]) || rank(a.pair[1]) - rank(b.pair[1]));
      steps.push({ words, pairs: found });
      if (!found.length) return steps;
      const [{ pair }] = found;
      created.set(pair.join(""), created.size);
      words = words.map(({ count, pieces }) => ({ count, pieces: join(pieces, pair) }));
    }
  }

  /** The subwords of `word`: the merge learned first is applied, until none applies. */
  function segment(word, merges) {
    const ranks = new Map(merges.map((pair, rank) => [key(pair), rank]));
    let pieces = [...word];
    for (;;) {
      const found = pairs(pieces).map((pair, at) => [ranks.get(key(pair)) ?? Infinity, at]);
      const [rank, at] = found.reduce((a, b) => (b[0] < a[0] ? b : a), [Infinity, 0]);
      if (rank === Infinity) return pieces;
      pieces = [...pieces.slice(0, at), pieces[at] + pieces[at + 1], ...pieces.slice(at + 2)];
    }
  }

  /** The words and counts in a text: `low:5` is the word *low*, 5 times. */
  function count(text) {
    const counts = new Map();
    for (const item of text.split(/\s+/).filter(Boolean)) {
      const [, word, number] = item.match(/^(.+):([1-9]\d*)$/u) ?? [null, item, 1];
      counts.set(word, (counts.get(word) ?? 0) + Number(number));
    }
    return counts;
  }

  function build(view) {
    const { make, table, bars } = Attentively.tools;
    const corpus = view.text("Words and their counts", "the:4 cat:2 at:2 hat:1 that:1",
      { maxlength: 300 });
    const field = view.text("Word to segment", "chat", { maxlength: 30 });
    let [chosen, done] = [0, 0]; // the merges asked for, which may be more than there are
    view.buttons({
      "Merge": () => { chosen = done + 1; },
      "Undo": () => { chosen = done - 1; },
      "All merges": () => { chosen = Infinity; },
    });
    view.resets.push(() => { chosen = 0; });
    const candidates = view.picture("Pairs and their counts");
    const [words, segmented] = [view.picture(), view.picture()];
    const written = (pair) => pair.join(" + ");
    const times = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
    const tokens = (pieces, last) => make("span", { class: "widget-tokens" }, ...pieces.map((each) =>
      make("span", { class: `widget-token${each === last ? " widget-hit" : ""}` }, each)));

    return () => {
      const counts = count(corpus.value);
      const steps = learn(counts);
      done = Math.min(Math.max(chosen, 0), steps.length - 1);
      const merges = steps.slice(0, done).map(({ pairs: [{ pair }] }) => pair);
      const last = merges.at(-1)?.join("");
      const { pairs: left, words: now } = steps[done];
      const word = field.value.trim().split(/\s+/)[0];
      const pieces = segment(word, merges);
      const [first, second] = left;
      candidates.replaceChildren(left.length ? bars(view.width, left.slice(0, 8).map((each, i) => (
        { name: written(each.pair), value: each.count, text: String(each.count),
          role: i ? "neutral" : "query" })), {
        label: `The most frequent pairs: ${left.slice(0, 8).map((each) =>
          `${written(each.pair)} ${each.count}`).join(", ")}`,
        max: steps[0].pairs[0].count, names: 130, numbers: 34 }) : "No pair is left.");
      words.replaceChildren(table(`Words after ${times(done, "merge")}`, ["word", "count", "subwords"],
        [...counts].map(([each, number], i) => (
          [each, String(number), tokens(now[i].pieces, last)]))));
      segmented.replaceChildren(
        make("p", {}, `${word || "No word"}: `, tokens(pieces, last)),
        make("p", {}, "Merges in the order of learning: ", merges.length
          ? merges.map((pair, i) => `${i + 1}. ${written(pair)}`).join(", ") : "none", "."));
      if (!counts.size) return "The corpus is empty: type words with their counts, such as low:5.";
      const size = new Set([...counts.keys()].join("")).size;
      const tie = second?.count === first?.count ? ", chosen by the rule for equal counts" : "";
      const next = first ? `The next merge is ${written(first.pair)}, which occurs ` +
        `${times(first.count, "time")}${tie}.` : "Each word is a single subword.";
      const segments = word ? ` ${word} is segmented as ${pieces.join(" ")}.` : "";
      return `${done} of ${times(steps.length - 1, "merge")}. The vocabulary has ` +
        `${times(size, "character")} and ${times(done, "merged subword")}. ${next}${segments}`;
    };
  }

  Attentively.widget("merges", { title: "Byte-pair merges", learn, segment, count, build });
})();
