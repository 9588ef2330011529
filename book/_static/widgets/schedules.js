/* Learning-rate schedules: the share of the peak learning rate at each step of a run, as in
   attentively.training.schedules, and two more that are common elsewhere. */
"use strict";

(function () {
  const { chart, legend, significant } = Attentively.tools;

  const rise = (step, warmUp) => (step + 1) / (warmUp + 1);
  const progress = (step, steps, warmUp) => (step - warmUp) / Math.max(1, steps - warmUp);
  const cosine = (share) => 0.5 * (1 + Math.cos(Math.PI * share));

  /** The share of the peak at a step, which is counted from 0. */
  const SCHEDULES = {
    inverse_square_root: (step, steps, warmUp) => {
      const [number, peak] = [step + 1, Math.max(1, warmUp)]; // the paper counts steps from 1
      return Math.min(number / peak, Math.sqrt(peak / number));
    },
    one_cycle: (step, steps, warmUp) =>
      step < warmUp ? rise(step, warmUp) : cosine(progress(step, steps, warmUp)),
    linear: (step, steps, warmUp) =>
      step < warmUp ? rise(step, warmUp) : 1 - progress(step, steps, warmUp),
    cosine: (step, steps) => cosine(progress(step, steps, 0)),
    constant: () => 1,
  };
  const NAMES = { inverse_square_root: "inverse square root", one_cycle: "one cycle",
    linear: "linear", cosine: "cosine", constant: "constant" };
  const ROLES = { inverse_square_root: "query", one_cycle: "key", linear: "value",
    cosine: "decoder", constant: "gold" };
  const PEAKS = [0.0001, 0.0002, 0.0005, 0.0007, 0.001, 0.002, 0.005, 0.01];

  const whole = (value) => value.toLocaleString("en-US");

  const share = (name, step, steps, warmUp) => SCHEDULES[name](step, steps, warmUp);

  /** The equation at step n, counted from 1, with the numbers in it. */
  function equation(name, n, steps, warmUp) {
    const step = n - 1;
    if (name === "constant") return "1";
    if (name === "cosine") return `½ (1 + cos(π · ${whole(step)} / ${whole(steps)}))`;
    if (name === "inverse_square_root") {
      const w = Math.max(1, warmUp);
      return n <= w ? `${whole(n)} / ${whole(w)}` : `√(${whole(w)} / ${whole(n)})`;
    }
    if (step < warmUp) return `${whole(n)} / (${whole(warmUp)} + 1)`;
    const part = `(${whole(step)} − ${whole(warmUp)}) / (${whole(steps)} − ${whole(warmUp)})`;
    return name === "linear" ? `1 − ${part}` : `½ (1 + cos(π · ${part}))`;
  }

  Attentively.widget("schedules", {
    title: "Learning-rate schedules",
    share,
    equation,
    names: Object.keys(NAMES),
    build(view) {
      const chosen = view.choice("Schedule", NAMES);
      const peak = view.slider("Peak learning rate", { values: PEAKS, value: 0.0007 });
      const steps = view.slider("Steps of the run", { min: 10000, max: 100000, step: 5000,
        value: 100000, show: whole });
      const warmUp = view.slider("Warm-up steps w", { min: 0, max: 10000, step: 500, value: 4000,
        show: whole });
      const at = view.slider("Step n", { min: 250, max: 100000, step: 250, value: 16000, show: whole });
      const curvesAt = view.picture();
      return () => {
        at.max = steps.value;
        const [name, n, w, all] = [chosen.value, at.value, warmUp.value, steps.value];
        const picture = chart(view.width, { x: [0, all], y: [0, peak.value], xTitle: "step n",
          yTitle: "learning rate", label: `Learning rate of five schedules over ${whole(all)} steps; ` +
            `${NAMES[name]} is the bold one` });
        const fine = Array.from({ length: 241 }, (_, k) => Math.max(1, Math.round((k * all) / 240)));
        fine.push(Math.max(1, w)); // the peak
        fine.sort((a, b) => a - b);
        for (const other of Object.keys(NAMES)) {
          const line = picture.line(fine.map((k) => [k, peak.value * share(other, k - 1, all, w)]),
            ROLES[other]);
          if (other !== name) line.classList.add("widget-faint");
        }
        const found = share(name, n - 1, all, w);
        picture.mark(n);
        picture.dot(n, peak.value * found, ROLES[name]);
        curvesAt.replaceChildren(picture.svg, legend(Object.fromEntries(
          Object.entries(NAMES).map(([each, text]) => [ROLES[each], text]))));
        return `${NAMES[name][0].toUpperCase()}${NAMES[name].slice(1)}, step ${whole(n)} of ${whole(all)}: ` +
          `${significant(peak.value)} · ${equation(name, n, all, w)} = ` +
          `${significant(peak.value)} · ${significant(found)} = ` +
          `${significant(peak.value * found)}.`;
      };
    },
  });
})();
