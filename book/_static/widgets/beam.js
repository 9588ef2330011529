/* Beam search in a small language, with the rules of attentively.generation.search (chapter 05). */
"use strict";

(function () {
  const END = "<end>";
  /** The probabilities of the next word after each prefix; after any other prefix, the end. */
  const LANGUAGES = {
    two: {
      "": { a: 0.6, b: 0.4 },
      "a": { a: 0.55, b: 0.45 },
      "b": { a: 0.1, b: 0.9 },
    },
    varied: {
      "": { a: 0.6, b: 0.4 },
      "a": { [END]: 0.5, a: 0.3, b: 0.2 },
      "b": { [END]: 0.05, a: 0.15, b: 0.8 },
      "b b": { [END]: 0.25, b: 0.75 },
    },
  };

  /** The extensions of a prefix by every word with a probability, in the order of the table. */
  function extend(table, prefix) {
    return Object.entries(table[prefix.text] ?? { [END]: 1 }).map(([word, probability]) => ({
      word,
      probability,
      text: word === END ? prefix.text : `${prefix.text} ${word}`.trim(),
      ended: word === END,
      logProbability: prefix.logProbability + Math.log(probability),
    }));
  }

  /** The steps of a search: all extensions with what becomes of them, and the finished ones. */
  function search(table, beamSize, alpha) {
    let beam = [{ text: "", logProbability: 0 }];
    let finished = [];
    const steps = [];
    for (let length = 1; ; length++) {
      const penalty = length ** alpha;
      const extensions = beam.flatMap((prefix) => extend(table, prefix))
        .sort((a, b) => b.logProbability - a.logProbability);
      const ended = extensions.slice(0, beamSize).filter((each) => each.ended);
      for (const each of ended) each.score = each.logProbability / penalty;
      beam = extensions.filter((each) => !each.ended).slice(0, beamSize);
      finished = [...finished, ...ended].sort((a, b) => b.score - a.score).slice(0, beamSize);
      for (const each of extensions) {
        each.state = ended.includes(each) ? "finished" : beam.includes(each) ? "kept" : "removed";
      }
      const best = beam.length ? beam[0].logProbability / penalty : -Infinity;
      const last = finished.length === beamSize ? finished.at(-1).score : -Infinity;
      const stopped = best <= last;
      steps.push({ extensions, beam, finished, stopped });
      if (stopped) return steps;
    }
  }

  /** The prefixes and sentences of a language as a tree; `row` is the height of a node. */
  function tree(table) {
    let leaves = 0;
    const grow = (node, depth) => {
      const children = node.ended ? [] : extend(table, node).map((each) => grow(each, depth + 1));
      const row = children.length ? (children[0].row + children.at(-1).row) / 2 : leaves++;
      return { ...node, depth, children, row };
    };
    return grow({ text: "", logProbability: 0 }, 0);
  }

  const id = ({ text, ended }) => (ended ? `${text} ${END}` : text);

  function draw(width, table, states, output) {
    const { make, svg, decimals } = Attentively.tools;
    const root = tree(table);
    const flat = (node) => [node, ...node.children.flatMap(flat)];
    const nodes = flat(root);
    const [left, right, high] = [34, 92, 34];
    const across = (width - left - right) / Math.max(...nodes.map(({ depth }) => depth));
    const x = ({ depth }) => left + depth * across;
    const y = ({ row }) => 20 + row * high;
    const state = (node) => (node === root ? "kept" : states.get(id(node)) ?? "unseen");
    const height = 20 + high * nodes.filter(({ ended }) => ended).length;
    const said = [...states].map(([text, each]) => `${text}: ${each}`).join(", ");
    return svg(width, height, `Tree of all sentences. ${said || "No step so far"}.`,
      ...nodes.flatMap((node) => node.children.map((child) => make("path", {
        class: `widget-branch widget-${state(child)}${output?.startsWith(id(child)) ? " widget-output" : ""}`,
        d: `M${x(node)} ${y(node)}L${x(child)} ${y(child)}` }))),
      ...nodes.flatMap((node) => node.children.filter(({ probability }) => probability < 1)
        .map((child) => make("text", { class: "widget-chance", "text-anchor": "middle",
          x: x(child) - 0.45 * across, y: y(child) + 0.45 * (y(node) - y(child)) + 4,
        }, String(child.probability)))),
      ...nodes.map((node) => make("circle", { class: `widget-node widget-${state(node)}`,
        cx: x(node), cy: y(node), r: node.ended ? 5 : 11 })),
      ...nodes.slice(1).map((node) => (node.ended
        ? make("text", { class: `widget-${state(node)}`, x: x(node) + 11, y: y(node) + 4 },
          `end ${decimals(Math.exp(node.logProbability))}`)
        : make("text", { class: `widget-word widget-${state(node)}`, x: x(node), y: y(node) + 4,
          "text-anchor": "middle" }, node.word))));
  }

  function build(view) {
    const { make, table, decimals } = Attentively.tools;
    const language = view.choice("Language", { two: "every sentence has two words",
      varied: "sentences of one to three words" });
    const beamSize = view.slider("Beam size k", { min: 1, max: 4, value: 2 });
    const alpha = view.slider("Length penalty α", { max: 2, step: 0.1, value: 0,
      show: (value) => decimals(value, 1) });
    let [chosen, done] = [0, 0]; // the steps asked for, which may be more than there are
    view.buttons({
      "Next step": () => { chosen = done + 1; },
      "Back": () => { chosen = done - 1; },
      "Whole search": () => { chosen = Infinity; },
    });
    view.resets.push(() => { chosen = 0; });
    view.body.append(make("p", {}, ...["kept", "finished", "removed"].map((state) =>
      make("span", { class: `widget-legend widget-${state}` }, state)), "thick: the output"));
    const [picture, listed, results] = [view.picture(), view.picture(), view.picture()];
    const quoted = (each) => each.text + (each.ended ? ` ${END}` : "");

    return () => {
      const probabilities = LANGUAGES[language.value];
      const steps = search(probabilities, beamSize.value, alpha.value);
      done = Math.min(Math.max(chosen, 0), steps.length);
      const step = steps[done - 1];
      const states = new Map(steps.slice(0, done).flatMap(({ extensions }) =>
        extensions.map((each) => [id(each), each.state])));
      const output = step?.stopped ? id({ ...step.finished[0], ended: true }) : null;
      picture.replaceChildren(draw(view.width, probabilities, states, output));
      listed.replaceChildren(...(step ? [table(`Step ${done}: extensions`,
        ["extension", "state", "probability", "log-probability"], step.extensions.map((each) => (
          [quoted(each), each.state, decimals(Math.exp(each.logProbability), 3),
            decimals(each.logProbability, 3)])))] : []));
      results.replaceChildren(...(step?.finished.length ? [table("Finished hypotheses",
        ["hypothesis", "probability", "score"], step.finished.map((each) => (
          [each.text, decimals(Math.exp(each.logProbability), 3), decimals(each.score, 3)])))] : []));
      if (!step) return `The beam contains the empty prefix. Press “Next step” to extend it.`;
      const list = (state) => step.extensions.filter((each) => each.state === state).map(quoted)
        .join(", ") || "none";
      return `Step ${done} of ${steps.length}, k = ${beamSize.value}: kept ${list("kept")}; ` +
        `finished ${list("finished")}; removed ${list("removed")}.` + (step.stopped
        ? ` The search stops; the output is ${step.finished[0].text}, with the probability ` +
          `${decimals(Math.exp(step.finished[0].logProbability))}.` : "");
    };
  }

  Attentively.widget("beam", { title: "Beam search as a tree", search, languages: LANGUAGES, build });
})();
