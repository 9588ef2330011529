/* Sinusoidal positional encodings: the pairs as waves, all components as a heat map, and the dot
   product of one position with all others. */
"use strict";

(function () {
  const { chart, decimals, heatMap, legend, significant } = Attentively.tools;
  const LENGTH = 100; // positions of the curves
  const ROWS = 24; // positions of the heat map

  const frequency = (pair, d) => 1 / 10000 ** ((2 * pair) / d);
  const wavelength = (pair, d) => (2 * Math.PI) / frequency(pair, d);

  function encoding(p, d) {
    return Array.from({ length: d }, (_, component) => {
      const angle = frequency(Math.floor(component / 2), d) * p;
      return component % 2 ? Math.cos(angle) : Math.sin(angle);
    });
  }

  /** The dot product of the encoding of position p with those of positions 0, 1, ... */
  function dotProducts(p, d, length) {
    const own = encoding(p, d);
    return Array.from({ length }, (_, q) =>
      encoding(q, d).reduce((sum, each, component) => sum + each * own[component], 0));
  }

  Attentively.widget("positions", {
    title: "Sinusoidal encodings and their dot products",
    encoding,
    wavelength,
    dotProducts,
    build(view) {
      const position = view.slider("Position p", { max: LENGTH - 1, value: 1 });
      const dimension = view.slider("Dimension d", { values: [4, 8, 16, 32, 64], value: 4 });
      const chosen = view.slider("Pair i", { max: 1, value: 0 });
      const wavesAt = view.picture("Sine and cosine of pair i");
      const productsAt = view.picture("Dot product of the encoding of p with that of each position q");
      const mapAt = view.picture("All components: positive ones blue, negative ones red and smaller");
      return () => {
        const [p, d] = [position.value, dimension.value];
        chosen.max = d / 2 - 1;
        const i = chosen.value;
        const positions = Array.from({ length: LENGTH }, (_, q) => q);
        const waves = chart(view.width, { height: 200, x: [0, LENGTH - 1], y: [-1, 1],
          xTitle: "position", yTitle: "component", label:
            `Sine and cosine of pair ${i}, wavelength ${significant(wavelength(i, d))} positions` });
        const fine = Array.from({ length: 4 * LENGTH - 3 }, (_, n) => n / 4);
        for (const [offset, role] of [[0, "query"], [1, "key"]]) {
          waves.line(fine.map((q) => [q, encoding(q, d)[2 * i + offset]]), role);
        }
        waves.mark(p);
        const own = encoding(p, d);
        waves.dot(p, own[2 * i], "query");
        waves.dot(p, own[2 * i + 1], "key");
        wavesAt.replaceChildren(waves.svg, legend({ query: `component ${2 * i} (sine)`,
          key: `component ${2 * i + 1} (cosine, dashed)` }));
        const products = dotProducts(p, d, LENGTH);
        const lowest = Math.min(0, ...products);
        const plot = chart(view.width, { height: 200, x: [0, LENGTH - 1], y: [lowest, d / 2],
          xTitle: "position q", yTitle: "dot product",
          label: `Dot products with position ${p}; the largest, ${d / 2}, is at q = ${p}` });
        plot.mark(p);
        plot.line(positions.map((q) => [q, products[q]]), "value");
        plot.dot(p, products[p], "value");
        productsAt.replaceChildren(plot.svg);
        const first = Math.min(Math.max(p - ROWS / 2, 0), LENGTH - ROWS);
        const shown = positions.slice(first, first + ROWS);
        mapAt.replaceChildren(heatMap(view.width, shown.map((q) => encoding(q, d)), {
          label: `Encodings of positions ${first} to ${first + ROWS - 1}; position ${p} is framed`,
          rows: shown.map((q) => ((q - first) % 4 && q !== p ? "" : `p = ${q}`)), chosen: p - first,
          cell: 18 }));
        const listed = d > 4 ? "" : ` The encoding of position ${p} is ` +
          `(${own.map((each) => decimals(each, 3)).join(", ")}).`;
        const next = p < LENGTH - 1 ? p + 1 : p - 1;
        return `Pair ${i} of ${d / 2} has the wavelength ${significant(wavelength(i, d))} positions.` +
          `${listed} Position ${p} has the dot product ${d / 2} with itself and ` +
          `${decimals(products[next], 3)} with position ${next}.`;
      };
    },
  });
})();
