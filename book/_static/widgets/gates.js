/* The gates of a GRU over a sentence, as attentively.layers.recurrent_cells computes it (chapter 03). */
"use strict";

(function () {
  /** What the network reads of each word: is it a noun, a number for the word, is it a full stop. */
  const WORDS = {
    the: [0, 0, 0], dog: [1, 0.9, 0], bird: [1, 0.4, 0], mouse: [1, -0.4, 0], cat: [1, -0.9, 0],
    sees: [0, 0.6, 0], hears: [0, -0.6, 0], ".": [0, 0, 1],
  };
  const ENTRIES = ["the subject", "recent words", "a noun has occurred"];
  /** Parameters chosen by hand, in the layout of torch.nn.GRUCell: three rows each of r, z and n. */
  const PARAMETERS = {
    weight_ih: [
      [0, 0, 0], [0, 0, -12], [0, 0, 0],
      [-12, 0, 0], [0, 0, 0], [-12, 0, -12],
      [0, 1.5, 0], [0, 1, 0], [3, 0, 0],
    ],
    weight_hh: [
      [0, 0, 0], [0, 0, 0], [0, 0, 0],
      [0, 0, 12], [0, 0, 0], [0, 0, 0],
      [0, 0, 0], [0, 0.5, 0], [0, 0, 0],
    ],
    bias_ih: [0, 6, 0, 6, -6, 6, 0, 0, 0],
    bias_hh: [0, 0, 0, 0, 0, 0, 0, 0, 0],
  };
  const SIZE = ENTRIES.length;
  const sigmoid = (x) => 1 / (1 + Math.exp(-x));

  function project(matrix, vector, bias) {
    return matrix.map((row, i) => row.reduce((sum, w, j) => sum + w * vector[j], bias[i]));
  }

  /** The gates, the candidate and the hidden state after each word; an unknown word is an error.

      `forced` replaces gates of one entry: {entry: 0, z: 1} keeps entry 0 unchanged. */
  function run(words, forced = {}) {
    let hidden = Array(SIZE).fill(0);
    return words.map((word) => {
      if (!Object.hasOwn(WORDS, word)) throw new RangeError(word);
      const fromInput = project(PARAMETERS.weight_ih, WORDS[word], PARAMETERS.bias_ih);
      const fromState = project(PARAMETERS.weight_hh, hidden, PARAMETERS.bias_hh);
      const gate = (name, first) => hidden.map((_, i) => (
        (i === forced.entry ? forced[name] : null) ?? sigmoid(fromInput[first + i] + fromState[first + i])));
      const [r, z] = [gate("r", 0), gate("z", SIZE)];
      const n = r.map((reset, i) => Math.tanh(fromInput[2 * SIZE + i] + reset * fromState[2 * SIZE + i]));
      hidden = n.map((candidate, i) => (1 - z[i]) * candidate + z[i] * hidden[i]);
      return { word, r, z, n, h: hidden };
    });
  }

  function build(view) {
    const { make, table, decimals } = Attentively.tools;
    const FORCED = { computed: "as computed", zero: "0 everywhere", one: "1 everywhere" };
    const VALUES = { computed: null, zero: 0, one: 1 };
    const text = view.text("Sentences", "the dog sees the cat. the bird hears the mouse",
      { maxlength: 120 });
    const chosen = view.choice("Entry of the hidden state",
      Object.fromEntries(ENTRIES.map((name, i) => [i, `${i + 1}: ${name}`])));
    const update = view.choice("Update gate z", FORCED);
    const reset = view.choice("Reset gate r", FORCED);
    const picture = view.picture();
    const gauge = (value) => make("span", {
      class: `widget-gauge widget-${value < 0 ? "gold" : "query"}`,
      style: `--share: ${Math.abs(value)}`,
    }, decimals(value));

    return () => {
      const words = text.value.trim().toLowerCase().replace(/\./g, " . ").split(/\s+/).filter(Boolean);
      const unknown = words.find((word) => !Object.hasOwn(WORDS, word));
      if (unknown !== undefined || !words.length) {
        picture.replaceChildren();
        return `${unknown === undefined ? "No word" : `“${unknown}” is not a word of this example`}: ` +
          `type some of ${Object.keys(WORDS).join(" ")}`;
      }
      const entry = Number(chosen.value);
      const forced = { entry, z: VALUES[update.value], r: VALUES[reset.value] };
      const [computed, changed] = [run(words), run(words, forced)];
      const isForced = forced.z !== null || forced.r !== null;
      const headings = ["word", "r", "z", "n", "h", ...(isForced ? ["h as computed"] : [])];
      picture.replaceChildren(table(`Entry ${entry + 1}: ${ENTRIES[entry]}`, headings,
        changed.map((step, t) => [make("span", {}, step.word), ...["r", "z", "n", "h"].map((name) =>
          gauge(step[name][entry])), ...(isForced ? [gauge(computed[t].h[entry])] : [])])));
      const states = (steps) => steps.at(-1).h.map((value) => decimals(value)).join(", ");
      const others = ENTRIES.filter((_, i) => i !== entry &&
        changed.some(({ h }, t) => Math.abs(h[i] - computed[t].h[i]) > 0.005));
      const differs = changed.some(({ h }, t) => Math.abs(h[entry] - computed[t].h[entry]) > 0.005);
      const said = [`The last hidden state is (${states(changed)}).`];
      if (isForced) said.push(`As computed, it is (${states(computed)}).`);
      if (isForced && !differs) said.push(`This gate does not change entry ${entry + 1} noticeably.`);
      said.push(...others.map((name) => `The change also reaches another entry: ${name}.`));
      return said.join(" ");
    };
  }

  Attentively.widget("gates", { title: "The gates of a GRU over a sentence",
    run, parameters: PARAMETERS, words: WORDS, build });
})();
