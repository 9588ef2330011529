/* Beam search with the rules of attentively.generation.search (chapter 05). */
"use strict";

var Attentively = window.Attentively || (window.Attentively = {});

/** Maximum length of a translation, as `attentively translate` chooses it. */
Attentively.maximumLength = (sourceLength) => 10 + 16 * Math.ceil(sourceLength / 8);

/** Log-probabilities of the next token, minus infinity for a token that must not occur. */
Attentively.nextLogProbabilities = (logits) => {
  const { PAD, UNKNOWN, START } = Attentively.SPECIAL;
  const logProbabilities = Attentively.logSoftmax(logits);
  for (const forbidden of [PAD, UNKNOWN, START]) logProbabilities[forbidden] = -Infinity;
  return logProbabilities;
};

/** The indices of the `count` largest values, the largest first. */
Attentively.largest = (values, count) => {
  const found = [];
  for (let index = 0; index < values.length; index++) {
    if (found.length === count && values[index] <= values[found[count - 1]]) continue;
    let at = found.length;
    while (at > 0 && values[found[at - 1]] < values[index]) at--;
    found.splice(at, 0, index);
    if (found.length > count) found.pop();
  }
  return found;
};

/** Search one step at a time: yields the steps, and returns the hypotheses, the best first.

    A hypothesis has `ids` (without start and end), `logProbability`, `score`, `finished`. A step
    has the kept `prefixes` and the hypotheses that `ended` in it. */
Attentively.beamSearch = function* (model, memory, { beamSize, lengthPenalty, maxLength }, how) {
  const { START, END } = Attentively.SPECIAL;
  const penalty = (length) => length ** lengthPenalty;
  const byScore = (a, b) => b.score - a.score;
  let beam = [{ ids: [], logProbability: 0, state: model.start(memory), parent: null }];
  let found = [];
  for (let length = 1; length <= maxLength; length++) {
    const extensions = beam.flatMap((prefix, parent) => {
      const step = model.step(prefix.ids.at(-1) ?? START, prefix.state, how);
      const logProbabilities = Attentively.nextLogProbabilities(step.logits);
      return Attentively.largest(logProbabilities, 2 * beamSize).map((id) => ({
        ids: [...prefix.ids, id],
        logProbability: prefix.logProbability + logProbabilities[id],
        state: step.state,
        parent,
      }));
    });
    extensions.sort((a, b) => b.logProbability - a.logProbability);
    const candidates = extensions.slice(0, 2 * beamSize);
    const ended = candidates.slice(0, beamSize).filter(({ ids }) => ids.at(-1) === END);
    for (const { ids, logProbability } of ended) {
      const score = logProbability / penalty(length);
      found.push({ ids: ids.slice(0, -1), logProbability, score, finished: true });
    }
    found = found.sort(byScore).slice(0, beamSize);
    beam = candidates.filter(({ ids }) => ids.at(-1) !== END).slice(0, beamSize);
    yield { prefixes: beam, ended };
    const best = beam.length ? beam[0].logProbability / penalty(length) : -Infinity;
    if (found.length === beamSize ? best <= found.at(-1).score : best === -Infinity) return found;
  }
  const unfinished = beam.map(({ ids, logProbability }) => (
    { ids, logProbability, score: logProbability / penalty(maxLength), finished: false }));
  return [...found, ...unfinished].slice(0, beamSize);
};

/** Run a search to its end; returns its hypotheses and its steps. */
Attentively.runSearch = (search) => {
  const steps = [];
  for (;;) {
    const { value, done } = search.next();
    if (done) return { hypotheses: value, steps };
    steps.push(value);
  }
};
