/* Softmax of the scores of chapter 12's example: how the dimension d_k and a temperature T change
   the weights, and how much of a gradient the softmax passes to its scores. */
"use strict";

(function () {
  const { bars, chart, decimals, significant } = Attentively.tools;
  const WORDS = ["the", "cat", "sat", "on", "the", "mat"];
  const SCORES = { // of each query with the six keys, by hand, with d_k = 4
    the: [0, 4, 0, 0, 0, 4],
    cat: [0, 0, 6, 0, 0, 0],
    sat: [0, 8, 0, 0, 0, 2],
    on: [0, 2, 0, -1, 0, 4],
  };
  const DIMENSIONS = [1, 4, 16, 64, 256, 1024];
  const TEMPERATURES = [0.25, 0.5, 1, 2, 4, 8];

  function softmax(scores) {
    const most = Math.max(...scores); // subtracted, so that no exponential overflows
    const powers = scores.map((score) => Math.exp(score - most));
    const sum = powers.reduce((a, b) => a + b);
    return powers.map((power) => power / sum);
  }

  /** What enters the softmax: the scores of the example have d_k = 4, and grow with √d_k. */
  const enters = (scores, { dimension, scaled, temperature }) => scores.map((score) =>
    (score * Math.sqrt(dimension / 4)) / (scaled ? Math.sqrt(dimension) : 1) / temperature);

  const entropy = (weights) => weights.reduce((sum, w) => sum - (w > 0 ? w * Math.log(w) : 0), 0);

  /** The derivatives of weight k with respect to what enters the softmax: α_k (δ_kj − α_j). */
  const derivatives = (weights, k) => weights.map((w, j) => weights[k] * ((j === k) - w));

  function compute(scores, setting) {
    const weights = softmax(enters(scores, setting));
    const best = weights.indexOf(Math.max(...weights));
    return { entered: enters(scores, setting), weights, best, entropy: entropy(weights),
      derivatives: derivatives(weights, best) };
  }

  Attentively.widget("temperature", {
    title: "Softmax, temperature, and the division by √dₖ",
    compute,
    build(view) {
      const query = view.choice("Query", { the: "the", cat: "cat", sat: "sat", on: "on" }, "sat");
      const dimension = view.slider("Dimension dₖ", { values: DIMENSIONS, value: 4 });
      const temperature = view.slider("Temperature T", { values: TEMPERATURES, value: 1 });
      const scaled = view.check("Divide by √dₖ", true);
      const weightsAt = view.picture("Weights, and the scores that enter the softmax");
      const slopesAt = view.picture("Derivatives of the largest weight with respect to these scores");
      const curveAt = view.picture("Derivative with respect to its own score, at most 0.25");
      return () => {
        const scores = SCORES[query.value];
        const setting = { dimension: dimension.value, temperature: temperature.value,
          scaled: scaled.checked };
        const { entered, weights, best, entropy: spread, derivatives: slopes } =
          compute(scores, setting);
        weightsAt.replaceChildren(bars(view.width, WORDS.map((word, j) => ({
          name: `${word} ${decimals(entered[j], 1)}`, value: weights[j],
          text: decimals(weights[j], 3), role: j === best ? "query" : "neutral" })),
        { label: `Attention weights of the query ${query.value}`, max: 1 }));
        slopesAt.replaceChildren(bars(view.width, WORDS.map((word, j) => ({
          name: word, value: slopes[j], text: decimals(slopes[j], 4),
          role: slopes[j] < 0 ? "gold" : "value" })),
        { label: "Derivatives of the largest weight with respect to the six scores", max: 0.25 }));
        const curve = chart(view.width, { height: 230, x: [1, 1024], logX: true, y: [0, 0.25],
          xTitle: "dimension dₖ", yTitle: "derivative",
          label: "The derivative against the dimension: constant with the division by the root " +
            "of the dimension, falling to 0 without it" });
        const at = (each, divided) => {
          const found = compute(scores, { ...setting, dimension: each, scaled: divided });
          return found.derivatives[found.best];
        };
        const fine = Array.from({ length: 61 }, (_, n) => 2 ** (n / 6));
        curve.mark(setting.dimension);
        curve.line(fine.map((each) => [each, at(each, true)]), "query");
        curve.line(fine.map((each) => [each, at(each, false)]), "key");
        curve.dot(setting.dimension, slopes[best], setting.scaled ? "query" : "key");
        curve.text(1024, at(1024, true) + 0.008, "divided by √dₖ", "query", "end");
        curve.text(1024, 0.008, "not divided", "key", "end");
        curveAt.replaceChildren(curve.svg);
        return `The largest weight is ${decimals(weights[best], 3)}, on “${WORDS[best]}”; the ` +
          `entropy of the weights is ${decimals(spread, 3)} nats of at most ` +
          `${decimals(Math.log(6), 3)}. The derivative of the largest weight with respect ` +
          `to its own score is ${significant(slopes[best], 2)}` +
          (weights[best] > 0.99 ? ": the softmax is saturated." : ".");
      };
    },
  });
})();
