/* BLEU of one sentence, with the rules of attentively.scoring.metrics (chapter 06). */
"use strict";

(function () {
  const MAX_ORDER = 4;
  const split = (text) => text.split(/\s+/).filter(Boolean);

  function ngrams(words, n) {
    return words.slice(n - 1).map((_, i) => words.slice(i, i + n).join(" "));
  }

  /** Whether each n-gram of `grams` has a partner in `others`; a partner is used only once. */
  function matched(grams, others) {
    const left = new Map();
    for (const gram of others) left.set(gram, (left.get(gram) ?? 0) + 1);
    return grams.map((gram) => {
      const rest = left.get(gram) ?? 0;
      left.set(gram, rest - 1);
      return rest > 0;
    });
  }

  function geometricMean(values) {
    if (values.includes(0)) return 0;
    return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
  }

  /** BLEU and its parts; precisions and scores from 0 to 100. Words are separated by spaces. */
  function score(hypothesis, reference) {
    const [ours, theirs] = [split(hypothesis), split(reference)];
    const orders = Array.from({ length: MAX_ORDER }, (_, i) => {
      const [grams, others] = [ngrams(ours, i + 1), ngrams(theirs, i + 1)];
      const hits = matched(grams, others);
      const hitsInReference = matched(others, grams);
      const matches = hits.filter(Boolean).length;
      return { n: i + 1, grams, others, hits, hitsInReference, matches, total: grams.length };
    });
    const plain = orders.map(({ matches, total }) => (total ? (100 * matches) / total : 0));
    let credit = 1;
    const smoothed = orders.map(({ matches, total }, i) => {
      if (!total || matches || !plain[0]) return plain[i];
      credit /= 2;
      return (100 * credit) / total;
    });
    const [c, r] = [ours.length, theirs.length];
    const brevityPenalty = c >= r ? 1 : c ? Math.exp(1 - r / c) : 0;
    return {
      orders, c, r, brevityPenalty, plain, smoothed,
      unsmoothedScore: brevityPenalty * geometricMean(plain),
      score: brevityPenalty * geometricMean(smoothed),
    };
  }

  function build(view) {
    const { make, table, bars, decimals } = Attentively.tools;
    const NAMES = { 1: "Single words", 2: "Bigrams", 3: "3-grams", 4: "4-grams" };
    const reference = view.text("Reference", "le chat a bu tout le lait",
      { lang: "fr", maxlength: 200 });
    const hypothesis = view.text("Hypothesis", "le le chat a bu le", { lang: "fr", maxlength: 200 });
    const chosen = view.choice("Show", NAMES);
    const smoothing = view.check("Smoothing", true);
    const [grams, parts] = [view.picture(), view.picture("Precisions and score")];
    const tokens = (all, hits, others) => make("span", { class: "widget-tokens" },
      ...all.map((gram, i) => make("span", {
        class: `widget-token ${hits[i] ? "widget-hit" : others.includes(gram) ? "widget-clipped" : ""}`,
      }, gram)), ...(all.length ? [] : ["none"]));

    return () => {
      const found = score(hypothesis.value, reference.value);
      const { n, grams: ours, others, hits, hitsInReference } = found.orders[chosen.value - 1];
      const clipped = ours.filter((gram, i) => !hits[i] && others.includes(gram));
      const values = smoothing.checked ? found.smoothed : found.plain;
      const bleu = smoothing.checked ? found.score : found.unsmoothedScore;
      grams.replaceChildren(table(`${NAMES[n]}: ${hits.filter(Boolean).length} of ${ours.length} match`,
        ["text", "n-grams"], [
          ["hypothesis", tokens(ours, hits, others)],
          ["reference", tokens(others, hitsInReference, [])]]));
      const rows = [
        ...found.orders.map(({ n: order, matches, total }, i) => {
          const changed = values[i] === found.plain[i] ? "" : ` → 1/${Math.round(100 / values[i])}`;
          return { name: `p${"₁₂₃₄"[i]} = ${matches}/${total}${changed}`, value: values[i],
            text: decimals(values[i], 1), role: order === n ? "query" : "neutral" };
        }),
        { name: "BP", value: 100 * found.brevityPenalty, text: decimals(found.brevityPenalty, 3),
          role: "neutral" },
        { name: "BLEU", value: bleu, text: decimals(bleu, 1), role: "value" },
      ];
      parts.replaceChildren(bars(view.width, rows, { max: 100, names: 125, numbers: 50,
        label: rows.map(({ name, text }) => `${name}: ${text}`).join(", ") }));
      const difference = Math.abs(found.score - found.unsmoothedScore) > 1e-9
        ? ` (${decimals(found.unsmoothedScore, 1)} without smoothing)` : ", with or without smoothing";
      return `BLEU is ${decimals(found.score, 1)}${difference}. The hypothesis has ${found.c} words and ` +
        `the reference ${found.r}, so the brevity penalty is ${decimals(found.brevityPenalty, 3)}.` +
        (clipped.length ? ` Clipped, because the reference has fewer: ${clipped.join("; ")}.` : "");
    };
  }

  Attentively.widget("bleu", { title: "BLEU of one sentence", score, build });
})();
