/* What the widgets share: controls, a status line, and pictures in SVG. A script of a widget says

     Attentively.widget("name", {
       title: "Its name in the page",
       add: (a, b) => a + b,            // pure functions, which tests call
       build(view) {                    // make the controls and places for pictures, once;
         const size = view.slider("Size", { min: 1, max: 9, value: 3 });
         const picture = view.picture();
         return () => {                 // then draw: at first, and after every change
           picture.replaceChildren(...);
           return "The size is 3.";     // the status: what the picture shows, in words
         };
       },
     });

   Pictures are drawn in pixels for the width at hand, so their text keeps its size. */
"use strict";

var Attentively = window.Attentively || (window.Attentively = {});

(function () {
  const SVG = ["svg", "g", "path", "rect", "circle", "line", "text", "tspan", "title"];

  /** Make an element: attributes, then children (nodes or texts). */
  function make(tag, attributes = {}, ...children) {
    const element = SVG.includes(tag)
      ? document.createElementNS("http://www.w3.org/2000/svg", tag)
      : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) {
        element.setAttribute(name, value);
      }
    }
    element.append(...children);
    return element;
  }

  const decimals = (value, digits = 2) => {
    const text = value.toFixed(digits);
    return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
  };

  /** A number with this many significant digits, such as 0.000349, 4,000 or 3.78 · 10^−11. */
  function significant(value, digits = 3) {
    const size = Math.abs(value);
    if (value !== 0 && (size >= 1e9 || size < 1e-6)) {
      const [factor, power] = value.toExponential(digits - 1).split("e");
      return `${factor} · 10^${Number(power)}`.replaceAll("-", "−");
    }
    return Number(value.toPrecision(digits)).toLocaleString("en-US", { maximumFractionDigits: 20 })
      .replace("-", "−");
  }

  let count = 0;

  /** What a widget builds in: its controls, its pictures, and its status. */
  class View {
    constructor(root, { title, build }) {
      this.root = root;
      this.name = `widget-${++count}`;
      this.controls = make("div", { class: "widget-controls" });
      this.body = make("div", { class: "widget-body" });
      this.status = make("p", { class: "widget-status", role: "status" });
      this.resets = [];
      this.draw = build(this);
      const heading = make("p", { class: "widget-title", id: `${this.name}-title` }, title);
      const reset = make("button", { type: "button", onclick: () => this.reset() }, "Reset");
      const still = make("details", { class: "widget-details" },
        make("summary", {}, "Static version"));
      root.setAttribute("role", "group");
      root.setAttribute("aria-labelledby", heading.id);
      root.classList.add("widget-built");
      const [trial, fallback] = [".widget-trial", ".widget-static"].map((each) =>
        root.querySelector(each));
      root.prepend(heading, trial, this.controls, this.body, this.status,
        make("div", { class: "widget-end" }, reset), still);
      still.append(fallback);
      this.update();
      let width = this.width;
      new ResizeObserver(() => {
        if (this.width === width) return;
        width = this.width;
        this.update();
      }).observe(this.body);
    }

    /** The room for pictures; where the widget is not laid out yet, the least that they need. */
    get width() { return Math.max(this.body.clientWidth, 260); }

    /** Draw again, and say what is shown. */
    update() {
      const text = this.draw();
      if (this.status.textContent !== text) this.status.textContent = text;
    }

    /** Bring back the first state; a widget adds to `resets` what is not a control. */
    reset() {
      for (const each of this.resets) each();
      this.update();
    }

    place(label, input, ...rest) {
      input.id = `${this.name}-${this.controls.children.length}`;
      this.controls.append(make("div", { class: "widget-control" },
        make("label", { for: input.id }, label), input, ...rest));
    }

    /** A slider over min..max, or over the items of `values`; `show` writes a value. */
    slider(label, { min = 0, max, step = 1, values, value, show = String }) {
      const all = values ? { min: 0, max: values.length - 1, step: 1 } : { min, max, step };
      const input = make("input", { type: "range", ...all });
      const written = make("output", {});
      const control = {
        input,
        get value() { return values ? values[Number(input.value)] : Number(input.value); },
        set value(next) {
          input.value = values ? values.indexOf(next) : next;
          written.textContent = show(control.value);
          input.setAttribute("aria-valuetext", written.textContent);
        },
        set max(most) { // a value above it becomes the maximum
          input.max = most;
          control.value = Number(input.value);
        },
      };
      this.place(label, input, written);
      written.htmlFor = input.id;
      input.addEventListener("input", () => { control.value = control.value; this.update(); });
      (this.resets[this.resets.length] = () => { control.value = value; })();
      return control;
    }

    /** A choice among {value: text}. */
    choice(label, options, value = Object.keys(options)[0]) {
      const input = make("select", { onchange: () => this.update() },
        ...Object.entries(options).map(([each, text]) => make("option", { value: each }, text)));
      this.place(label, input);
      (this.resets[this.resets.length] = () => { input.value = value; })();
      return input;
    }

    /** A box to tick: `checked` says whether it is. */
    check(label, value = false) {
      const input = make("input", { type: "checkbox", onchange: () => this.update() });
      this.place(label, input);
      (this.resets[this.resets.length] = () => { input.checked = value; })();
      return input;
    }

    /** A field for text; with `rows`, of several lines. */
    text(label, value, { rows, ...rest } = {}) {
      const input = make(rows ? "textarea" : "input", { type: rows ? null : "text", rows,
        autocomplete: "off", spellcheck: "false", oninput: () => this.update(), ...rest });
      this.place(label, input);
      (this.resets[this.resets.length] = () => { input.value = value; })();
      return input;
    }

    /** Buttons {text: function}; after a press the widget is drawn again. */
    buttons(actions) {
      const all = Object.entries(actions).map(([text, act]) =>
        make("button", { type: "button", onclick: () => { act(); this.update(); } }, text));
      this.controls.append(make("div", { class: "widget-control" }, ...all));
      return all;
    }

    /** A place for a picture, or for whatever else is drawn. */
    picture(heading = "") {
      const inside = make("div", {});
      this.body.append(make("div", { class: "widget-picture" },
        ...(heading ? [make("p", { class: "widget-heading" }, heading)] : []), inside));
      return inside;
    }

    /** A table of buttons: arrow keys move in it, Tab leaves it. `show(row, column)` returns
        {text, label, pressed}, and `press(row, column)` changes the state. */
    grid(label, rows, columns, { show, press }) {
      const at = [0, 0];
      const buttons = rows.map((_, i) => columns.map((_, j) => make("button",
        { type: "button", class: "widget-cell", onclick: () => { focus(i, j); press(i, j);
          this.update(); } })));
      const focus = (i, j) => {
        buttons[at[0]][at[1]].tabIndex = -1;
        [at[0], at[1]] = [i, j];
        buttons[i][j].tabIndex = 0;
        buttons[i][j].focus();
      };
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const table = make("table", { class: "widget-grid", onkeydown: (event) => {
        const move = moves[event.key];
        if (!move) return;
        event.preventDefault();
        const [i, j] = [at[0] + move[0], at[1] + move[1]];
        if (buttons[i]?.[j]) focus(i, j);
      } }, make("caption", {}, label),
      make("thead", {}, make("tr", {}, make("td", {}),
        ...columns.map((each) => make("th", { scope: "col" }, make("span", {}, each))))),
      make("tbody", {}, ...rows.map((each, i) => make("tr", {}, make("th", { scope: "row" }, each),
        ...buttons[i].map((button) => make("td", {}, button))))));
      for (const button of buttons.flat()) button.tabIndex = -1;
      buttons[0][0].tabIndex = 0;
      const draw = () => buttons.forEach((row, i) => row.forEach((button, j) => {
        const { text, label: said, pressed } = show(i, j);
        button.textContent = text;
        button.setAttribute("aria-label", said);
        button.setAttribute("aria-pressed", pressed);
      }));
      return { table: scroll(table, label), draw };
    }
  }

  /** A box that scrolls by itself, so that the page does not; by keyboard, too. */
  const scroll = (inside, label) =>
    make("div", { class: "widget-scroll", tabindex: 0, role: "region", "aria-label": label }, inside);

  /** A table: the first cell of a row is its heading; texts that are numbers stand at the right. */
  function table(caption, headings, rows) {
    const cell = (tag, attributes) => (each) => make(tag,
      { class: /^[−\d.,\s%]+$/.test(each) ? "widget-number" : null, ...attributes }, each);
    return scroll(make("table", { class: "widget-table" }, make("caption", {}, caption),
      make("thead", {}, make("tr", {}, ...headings.map(cell("th", { scope: "col" })))),
      make("tbody", {}, ...rows.map(([first, ...rest]) => make("tr", {},
        cell("th", { scope: "row" })(first), ...rest.map(cell("td")))))), caption);
  }

  /** An SVG of this size in pixels; `label` says what it shows to those who do not see it. */
  const svg = (width, height, label, ...children) => make("svg", { width, height, role: "img",
    viewBox: `0 0 ${width} ${height}`, "aria-label": label }, ...children);

  /** About five round numbers in the range, or the powers of ten. */
  function ticks([low, high], log) {
    if (log) {
      const powers = [];
      for (let n = Math.ceil(Math.log10(low) - 1e-9); 10 ** n <= high * (1 + 1e-9); n++) {
        powers.push(10 ** n);
      }
      return powers;
    }
    const rough = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((each) => each * power >= rough) * power;
    const found = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) {
      found.push(Number((n * step).toPrecision(12)));
    }
    return found;
  }

  /** Axes: `x` and `y` are [lowest, highest]. Returns the SVG and what draws into it. */
  function chart(width, { height = 260, x, y, logX = false, logY = false, xTitle, yTitle, label }) {
    const [left, right, top, bottom] = [58, 30, 26, 46];
    const along = (range, log, from, to) => {
      const [low, high] = log ? range.map(Math.log10) : range;
      return (value) => from + (((log ? Math.log10(value) : value) - low) / (high - low)) * (to - from);
    };
    const px = along(x, logX, left, width - right);
    const py = along(y, logY, height - bottom, top);
    const text = (at, below, words, anchor, role = "") => make("text",
      { x: at, y: below, "text-anchor": anchor, class: role && `widget-${role}` }, words);
    const few = (all) => all.filter((_, n) => n % Math.ceil(all.length / (width < 420 ? 4 : 8)) === 0);
    const picture = svg(width, height, label,
      ...ticks(y, logY).flatMap((value) => [
        make("path", { class: "widget-rule", d: `M${left} ${py(value)}H${width - right}` }),
        text(left - 7, py(value) + 4, significant(value), "end")]),
      ...few(ticks(x, logX)).flatMap((value) => [
        make("path", { class: "widget-axis", d: `M${px(value)} ${height - bottom}v5` }),
        text(px(value), height - bottom + 19, significant(value), "middle")]),
      make("path", { class: "widget-axis", d: `M${left} ${top}V${height - bottom}H${width - right}` }),
      text((left + width - right) / 2, height - 6, xTitle, "middle"),
      text(4, 14, yTitle, "start"));
    const draw = (element) => picture.appendChild(element);
    return {
      svg: picture,
      /** A line through [x, y] points; `role` gives its colour and dashes. */
      line: (points, role) => draw(make("path", { class: `widget-line widget-${role}`,
        d: points.map(([a, b], n) => `${n ? "L" : "M"}${px(a).toFixed(1)} ${py(b).toFixed(1)}`).join("") })),
      dot: (a, b, role) => draw(make("circle", { class: `widget-dot widget-${role}`,
        cx: px(a), cy: py(b), r: 5 })),
      /** A vertical line, for a chosen x. */
      mark: (a) => draw(make("path", { class: "widget-mark", d: `M${px(a)} ${top}V${height - bottom}` })),
      text: (a, b, words, role, anchor = "start") => draw(text(px(a), py(b), words, anchor, role)),
    };
  }

  /** Bars from left to right: rows of {name, value, text, role}; negative ones go to the left. */
  function bars(width, rows, { label, max, role = "query", names = 90, numbers = 62 }) {
    const height = 26;
    const low = Math.min(0, ...rows.map(({ value }) => value));
    const zero = names + (low < 0 ? (width - names - numbers) / 2 : 0);
    const scale = (width - numbers - zero) / max;
    return svg(width, rows.length * height + 4, label, ...rows.flatMap((row, n) => {
      const long = Math.min(Math.abs(row.value) / max, 1) * max * scale;
      return [
        make("text", { x: names - 8, y: n * height + 18, "text-anchor": "end" }, row.name),
        make("rect", { class: `widget-bar widget-${row.role ?? role}`, y: n * height + 4, rx: 2,
          x: row.value < 0 ? zero - long : zero, width: Math.max(long, 1), height: height - 8 }),
        make("text", { x: width, y: n * height + 18, "text-anchor": "end" }, row.text),
      ];
    }), make("path", { class: "widget-axis", d: `M${zero} 0V${rows.length * height + 4}` }));
  }

  /** Cells of a matrix: 0 is the background, `most` the full colour; negative cells are smaller. */
  function heatMap(width, values, { label, role = "query", negative = "gold", most = 1, rows = [],
    columns = [], cell = 22, names = 64, chosen = -1 }) {
    const top = columns.length ? 22 : 2;
    const wide = Math.min(cell, (width - names - 2) / values[0].length);
    const high = Math.min(cell, Math.max(wide, 8));
    return svg(width, top + values.length * high + 2, label, ...values.flatMap((row, i) => [
      ...(rows[i] ? [make("text", { x: names - 6, y: top + (i + 0.5) * high + 5,
        "text-anchor": "end" }, rows[i])] : []),
      ...row.map((value, j) => {
        const [h, v] = value < 0 ? [0.15 * wide, 0.15 * high] : [0, 0];
        return make("rect", { x: names + j * wide + h, y: top + i * high + v, width: wide - 2 * h,
          height: high - 2 * v, class: `widget-heat widget-${value < 0 ? negative : role}`,
          "fill-opacity": Math.min(Math.abs(value) / most, 1).toFixed(3) });
      }),
    ]), ...columns.map((each, j) => make("text", { x: names + (j + 0.5) * wide, y: 15,
      "text-anchor": "middle" }, each)), ...(chosen < 0 ? [] : [make("rect", { class: "widget-chosen",
      x: names, y: top + chosen * high, width: wide * values[0].length, height: high })]));
  }

  /** What the colours mean: {role: text}. */
  const legend = (roles) => make("p", {}, ...Object.entries(roles).map(
    ([role, text]) => make("span", { class: `widget-legend widget-${role}` },
      make("svg", { width: 30, height: 10, "aria-hidden": "true" },
        make("path", { class: `widget-line widget-${role}`, d: "M0 5H30" })), text)));

  Attentively.widgets = {};
  Attentively.tools = { make, decimals, significant, scroll, table, svg, chart, bars, heatMap,
    legend };

  /** Register a widget and build it where the page has it. Scripts of pages run after parsing. */
  Attentively.widget = (name, definition) => {
    Attentively.widgets[name] = definition;
    for (const root of document.querySelectorAll(`.widget[data-widget="${name}"]`)) {
      new View(root, definition);
    }
  };
})();
