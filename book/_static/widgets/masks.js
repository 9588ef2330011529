/* A mask to paint: which keys each query may attend to, and what reaches it through more layers. */
"use strict";

(function () {
  const { make, table } = Attentively.tools;
  const TOKENS = ["the", "cat", "sat", "on", "the", "mat", "<pad>", "<pad>"];
  const PADDING = TOKENS.map((token) => token === "<pad>");
  const MOST_LAYERS = 4;

  /** May query i attend to key j? */
  const MASKS = {
    "No mask": () => true,
    "Padding": (i, j, padding) => !padding[j],
    "Causal": (i, j) => j <= i,
    "Causal and padding": (i, j, padding) => j <= i && !padding[j],
    "Causal window of 3": (i, j) => j <= i && i - j < 3,
  };

  const mask = (name, padding) =>
    padding.map((_, i) => padding.map((_, j) => MASKS[name](i, j, padding)));

  /** After how many layers the output of position i can depend on the input of position j; 0 if
      it never does within `most`. Residual connections keep what a position has already. */
  function layersNeeded(allowed, most) {
    const positions = allowed.map((_, i) => i);
    let reached = positions.map((i) => positions.map((j) => i === j));
    const needed = positions.map((i) => positions.map((j) => (i === j ? 1 : 0)));
    for (let layer = 1; layer <= most; layer++) {
      const before = reached;
      reached = positions.map((i) => positions.map((j) =>
        positions.some((k) => allowed[i][k] && before[k][j])));
      for (const i of positions) {
        for (const j of positions) if (reached[i][j]) needed[i][j] ||= layer;
      }
    }
    return needed;
  }

  const listed = (positions) => positions.map((j) => `${TOKENS[j]} (${j})`).join(", ");

  Attentively.widget("masks", {
    title: "A mask, and what reaches each position",
    mask,
    layersNeeded,
    build(view) {
      let allowed;
      let last;
      const names = TOKENS.map((token, i) => `${i} ${token}`);
      view.resets.push(() => {
        allowed = mask("Causal and padding", PADDING);
        last = 3;
      });
      view.resets.at(-1)();
      view.buttons(Object.fromEntries(Object.keys(MASKS).map((name) =>
        [name, () => { allowed = mask(name, PADDING); }])));
      const layers = view.slider("Layers", { min: 1, max: MOST_LAYERS, value: 1 });
      const grid = view.grid("Mask: rows are queries, columns are keys; ✓ may attend", names, names, {
        show: (i, j) => ({ text: allowed[i][j] ? "✓" : "", pressed: allowed[i][j],
          label: `query ${names[i]}, key ${names[j]}: ${allowed[i][j] ? "may attend" : "masked"}` }),
        press: (i, j) => {
          allowed[i][j] = !allowed[i][j];
          last = i;
        },
      });
      view.body.classList.add("widget-side");
      view.picture().append(grid.table);
      const reachAt = view.picture();
      return () => {
        grid.draw();
        const needed = layersNeeded(allowed, layers.value);
        const shown = table("Layers until the output (row) can depend on the input (column)",
          ["", ...names], names.map((name, i) =>
            [name, ...needed[i].map((each) => (each ? String(each) : "–"))]));
        for (const cell of shown.querySelectorAll("td")) {
          if (cell.textContent !== "–") cell.className = `widget-layer-${cell.textContent}`;
        }
        shown.querySelector("table").classList.add("widget-layers");
        shown.querySelectorAll("thead th").forEach((cell) =>
          cell.replaceChildren(make("span", {}, cell.textContent)));
        reachAt.replaceChildren(shown);
        const keys = TOKENS.flatMap((_, j) => (allowed[last][j] ? [j] : []));
        const inputs = TOKENS.flatMap((_, j) => (needed[last][j] ? [j] : []));
        const through = `${layers.value} ${layers.value > 1 ? "layers" : "layer"}`;
        const empty = allowed.flatMap((row, i) => (row.some(Boolean) ? [] : [i]));
        return `Query ${listed([last])} attends to ${keys.length} ` +
          `${keys.length === 1 ? "key" : "keys"}${keys.length ? `: ${listed(keys)}` : ""}. ` +
          `Through ${through}, its output depends on ${inputs.length} ` +
          `${inputs.length === 1 ? "input" : "inputs"}: ${listed(inputs)}.` +
          (empty.length ? ` Without any key: ${listed(empty)}; all weights are 0 there.` : "");
      };
    },
  });
})();
