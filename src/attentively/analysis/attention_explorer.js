"use strict";

(() => {
  const ROW = 30; // height of a token in the figure, in its own units
  const MEAN = "mean"; // in place of a layer and a head
  const SVG = "http://www.w3.org/2000/svg";
  const DRAWN = ["svg", "g", "path", "rect", "text", "title"];

  /** Make an element: attributes, then children (nodes or texts). */
  function make(tag, attributes = {}, ...children) {
    const element = DRAWN.includes(tag)
      ? document.createElementNS(SVG, tag)
      : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  const shown = (token) => token.replace(/▁/g, "") || "␣";
  const percent = (weight) => `${(weight / 10).toFixed(weight && weight < 10 ? 1 : 0)} %`;
  const pen = document.createElement("canvas").getContext("2d");

  function widthOf(text) {
    pen.font = "15px system-ui, sans-serif";
    return pen.measureText(text).width;
  }

  /** The mean of all layers and heads. */
  function mean(layers) {
    const all = layers.flat();
    return all[0].map((row, query) =>
      row.map((_, key) => all.reduce((sum, map) => sum + map[query][key], 0) / all.length));
  }

  let count = 0;

  class Explorer {
    constructor(root) {
      this.root = root;
      this.name = `explorer-${++count}`;
      this.attentions = JSON.parse(root.querySelector("script").textContent);
      this.pinned = null; // {side, index} of a token
      this.asTable = false;
      root.querySelector(".without-script").remove();
      this.overview = make("div", { class: "overview" });
      this.readout = make("p", { class: "readout", "aria-live": "polite" });
      this.figure = make("div", { class: "figure scroll" });
      if (this.attentions.length > 1) root.append(this.choice());
      this.form = make("button", { type: "button", "aria-pressed": "false",
        onclick: () => this.toggle() }, "Show as a table");
      this.export = make("button", { type: "button", onclick: () => this.save() }, "Save as SVG");
      const actions = make("div", { class: "actions" }, this.form, this.export);
      root.append(make("div", { class: "columns" }, this.overview,
        make("div", { class: "main" }, this.readout, this.figure, actions)));
      root.addEventListener("keydown", (event) => {
        if (event.key === "Escape") this.pin(null);
      });
      this.choose(0);
      let width = this.figure.clientWidth;
      new ResizeObserver(() => {
        if (this.figure.clientWidth === width) return;
        width = this.figure.clientWidth;
        this.draw();
      }).observe(this.figure);
    }

    choice() {
      const radios = this.attentions.map(({ name }, index) => {
        const id = `${this.name}-${index}`;
        const radio = make("input", { type: "radio", name: this.name, id, checked: index === 0,
          onchange: () => this.choose(index) });
        return make("span", {}, radio, make("label", { for: id }, ` ${name}`));
      });
      return make("fieldset", { "aria-label": "Attention" }, ...radios);
    }

    /** Show another attention, first as the mean of its heads. */
    choose(index) {
      this.attention = this.attentions[index];
      this.root.classList.remove("cross", "encoder", "decoder");
      this.root.classList.add(this.attention.role);
      const { weights } = this.attention;
      this.pinned = null;
      this.several = weights.length * weights[0].length > 1;
      this.layer = this.head = this.several ? MEAN : 0;
      this.drawOverview();
      this.draw();
    }

    get weights() {
      const { weights } = this.attention;
      return this.layer === MEAN ? mean(weights) : weights[this.layer][this.head];
    }

    get title() {
      const part = this.layer === MEAN
        ? "mean of all layers and heads"
        : `layer ${this.layer + 1}, head ${this.head + 1}`;
      return this.several ? `${this.attention.name}, ${part}` : this.attention.name;
    }

    // The overview: one small map per head

    drawOverview() {
      this.overview.hidden = !this.several;
      this.overview.replaceChildren();
      if (!this.several) return;
      const { weights } = this.attention;
      this.tiles = weights.map((heads, layer) => heads.map((map, head) =>
        this.tile(`${layer + 1}.${head + 1}`, `layer ${layer + 1}, head ${head + 1}`, map,
          layer, head)));
      this.meanTile = this.tile("mean", "of all layers and heads", mean(weights), MEAN, MEAN);
      const grid = make("div", { class: "grid", role: "group", "aria-label":
        "Layers (rows) and heads (columns): arrow keys move", style: `--heads: ${weights[0].length}` },
        ...this.tiles.flat());
      this.overview.append(this.meanTile, grid);
      this.markTile();
    }

    tile(text, label, map, layer, head) {
      const squares = map.flatMap((row, query) => row.map((weight, key) => [weight, query, key]))
        .filter(([weight]) => weight >= 20)
        .map(([weight, y, x]) => make("rect", { x, y, width: 1, height: 1,
          "fill-opacity": (weight / 1000).toFixed(2) }));
      const picture = make("svg", { viewBox: `0 0 ${map[0].length} ${map.length}`,
        "aria-hidden": "true" }, ...squares);
      return make("button", { type: "button", class: "tile", "aria-label": `${text}: ${label}`,
        onclick: () => this.select(layer, head),
        onkeydown: (event) => this.move(event, layer, head) }, picture, text);
    }

    select(layer, head) {
      this.layer = layer;
      this.head = head;
      this.markTile();
      this.draw();
    }

    markTile() {
      const first = this.tiles[0][0];
      for (const [tile, layer, head] of [[this.meanTile, MEAN, MEAN], ...this.tiles.flatMap(
        (heads, layer) => heads.map((tile, head) => [tile, layer, head]))]) {
        const chosen = layer === this.layer && head === this.head;
        tile.setAttribute("aria-pressed", chosen);
        // One stop for the tab key in the grid, and one for the mean.
        const stop = chosen || tile === this.meanTile || (this.layer === MEAN && tile === first);
        tile.tabIndex = stop ? 0 : -1;
      }
    }

    move(event, layer, head) {
      const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const step = steps[event.key];
      if (!step || layer === MEAN) return;
      const tile = this.tiles[layer + step[0]]?.[head + step[1]];
      if (!tile) return;
      event.preventDefault();
      this.select(layer + step[0], head + step[1]);
      tile.focus();
    }

    // The figure: queries on the left, keys on the right, a line for each weight

    draw() {
      this.export.disabled = this.asTable;
      if (this.asTable) this.drawTable();
      else this.drawLines();
      this.show(this.pinned);
    }

    drawLines() {
      const { queries, keys } = this.attention;
      const room = 52; // for a percentage outside
      const widest = (tokens) => Math.max(...tokens.map((token) => widthOf(shown(token))), 40) + 16;
      const left = room + widest(queries);
      const around = left + widest(keys) + room;
      const width = around + Math.max(60, Math.min(260, this.figure.clientWidth - around));
      const right = width - room - widest(keys);
      const height = 24 + ROW * Math.max(queries.length, keys.length) + 4;
      this.lines = this.weights.map((row, query) => row.map((weight, key) => {
        if (weight < 5) return null;
        const [from, to] = [query, key].map((index) => 24 + ROW * (index + 0.5));
        const middle = (left + right) / 2;
        return make("path", { d: `M${left},${from} C${middle},${from} ${middle},${to} ${right},${to}`,
          "stroke-width": (0.5 + weight / 250).toFixed(2) });
      }));
      this.tokens = {
        query: queries.map((token, index) => this.token("query", token, index, room, left)),
        key: keys.map((token, index) => this.token("key", token, index, right, width - room)),
      };
      const side = (text, x, anchor) =>
        make("text", { x, y: 15, "text-anchor": anchor, class: "side" }, text);
      this.svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group",
        "aria-label": `${this.title}: queries on the left, keys on the right` },
        side("query", left - 8, "end"), side("key", right + 8, "start"),
        make("g", {}, ...this.lines.flat().filter(Boolean)),
        ...this.tokens.query, ...this.tokens.key);
      this.figure.replaceChildren(this.svg);
    }

    token(side, text, index, start, end) {
      const y = 24 + ROW * index;
      const box = { x: start + 2, y: y + 2, width: end - start - 4, height: ROW - 4, rx: 4 };
      const isQuery = side === "query";
      const me = { side, index };
      const element = make("g", { class: "token", tabindex: 0, role: "button",
        "aria-pressed": "false", "aria-label": `${side} ${index + 1}: ${shown(text)}`,
        onclick: () => this.pin(this.isPinned(me) ? null : me),
        onkeydown: (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          this.pin(this.isPinned(me) ? null : me);
        },
        onpointerenter: () => this.show(me), onpointerleave: () => this.show(this.pinned),
        onfocus: () => this.show(me), onblur: () => this.show(this.pinned) },
        make("rect", { ...box, class: "weight", "fill-opacity": 0 }),
        make("rect", { ...box, class: "frame" }),
        make("text", { x: isQuery ? end - 8 : start + 8, y: y + ROW / 2 + 5,
          "text-anchor": isQuery ? "end" : "start" }, shown(text)),
        make("text", { x: isQuery ? start - 4 : end + 4, y: y + ROW / 2 + 4, class: "percent",
          "text-anchor": isQuery ? "end" : "start" }));
      return element;
    }

    isPinned(token) {
      return this.pinned && this.pinned.side === token.side && this.pinned.index === token.index;
    }

    pin(token) {
      this.pinned = token;
      this.show(token);
    }

    /** Show the weights of one token, or of all. */
    show(active) {
      const { queries, keys } = this.attention;
      const weights = this.weights;
      this.readout.textContent = active ? this.describe(active, weights)
        : `${this.title}. Point at a token to see its weights; click to pin it.`;
      if (this.asTable) return;
      const isActive = (query, key) =>
        !active || (active.side === "query" ? query === active.index : key === active.index);
      this.lines.forEach((row, query) => row.forEach((line, key) => {
        line?.setAttribute("stroke-opacity",
          isActive(query, key) ? (0.1 + 0.0009 * weights[query][key]).toFixed(2) : 0.03);
      }));
      const other = active && (active.side === "query" ? "key" : "query");
      for (const side of ["query", "key"]) {
        this.tokens[side].forEach((element, index) => {
          const weight = side !== other ? null : side === "key"
            ? weights[active.index][index] : weights[index][active.index];
          const [background, , , label] = element.children;
          background.setAttribute("fill-opacity", weight ? (0.0006 * weight).toFixed(2) : 0);
          label.textContent = weight === null ? "" : percent(weight);
          const pinned = Boolean(this.isPinned({ side, index }));
          element.setAttribute("aria-pressed", pinned);
        });
      }
    }

    describe({ side, index }, weights) {
      const { queries, keys } = this.attention;
      const isQuery = side === "query";
      const values = isQuery ? weights[index] : weights.map((row) => row[index]);
      const others = isQuery ? keys : queries;
      const largest = values.map((weight, at) => [weight, others[at]])
        .filter(([weight]) => weight >= 5).sort((a, b) => b[0] - a[0]).slice(0, 4)
        .map(([weight, token]) => `${shown(token)} ${percent(weight)}`).join(", ");
      const token = shown((isQuery ? queries : keys)[index]);
      const verb = isQuery ? "attends to" : "receives weight from";
      return `${this.title}. The ${side} “${token}” ${verb}: ${largest || "nothing above 0.5 %"}.`;
    }

    toggle() {
      this.asTable = !this.asTable;
      this.form.setAttribute("aria-pressed", this.asTable);
      this.draw();
    }

    drawTable() {
      const { queries, keys } = this.attention;
      const cell = (weight) => make("td", { style: `--weight: ${weight / 1000}` },
        Math.round(weight / 10));
      const rows = this.weights.map((row, query) =>
        make("tr", {}, make("th", { scope: "row" }, shown(queries[query])), ...row.map(cell)));
      const head = keys.map((key) => make("th", { scope: "col" }, shown(key)));
      this.figure.replaceChildren(make("table", {},
        make("caption", {}, `${this.title}, in percent`),
        make("thead", {}, make("tr", {}, make("td", {}, "query ↓ key →"), ...head)),
        make("tbody", {}, ...rows)));
    }

    /** Save the figure as it looks now, with its colours. */
    save() {
      const copy = this.svg.cloneNode(true);
      const properties = ["fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width",
        "font-family", "font-size", "font-weight"];
      const originals = this.svg.querySelectorAll("*");
      copy.querySelectorAll("*").forEach((element, index) => {
        const style = getComputedStyle(originals[index]);
        for (const name of properties) element.setAttribute(name, style.getPropertyValue(name));
        for (const name of ["class", "tabindex", "role", "aria-pressed", "aria-label"])
          element.removeAttribute(name);
      });
      const paper = getComputedStyle(document.body).backgroundColor;
      copy.prepend(make("title", {}, this.title),
        make("rect", { width: "100%", height: "100%", fill: paper }));
      copy.setAttribute("xmlns", SVG);
      const text = new XMLSerializer().serializeToString(copy);
      const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
      const file = `${this.title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.svg`;
      make("a", { href: address, download: file }).click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);
    }
  }

  for (const root of document.querySelectorAll(".explorer")) {
    if (root.querySelector("script")) new Explorer(root);
  }

  if (window.frameElement) { // inside another page: its theme, and as high as needed
    const around = frameElement.ownerDocument;
    const follow = () => {
      const lab = around.body.dataset.jpThemeLight; // JupyterLab
      const theme = around.documentElement.dataset.theme;
      document.documentElement.dataset.theme =
        theme ?? (lab ? (lab === "true" ? "light" : "dark") : "");
    };
    const watch = new MutationObserver(follow);
    watch.observe(around.documentElement, { attributeFilter: ["data-theme"] });
    watch.observe(around.body, { attributeFilter: ["data-jp-theme-light"] });
    follow();
    new ResizeObserver(() => {
      frameElement.style.height = `${document.body.scrollHeight + 8}px`;
    }).observe(document.body);
  }
})();
