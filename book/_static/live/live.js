/* The controls and pictures of a live model, which computes in the page; nothing is sent. The
   recurrent model has one attention, so no layer or head is chosen, and no positional encodings. */
"use strict";

(function () {
  const { START, END, UNKNOWN } = Attentively.SPECIAL;
  const { Interventions } = Attentively;
  const MOST_TOKENS = 40;
  const MEAN = "mean"; // in place of the number of a head
  const KINDS = {
    encoder: "Encoder self-attention",
    decoder: "Masked decoder self-attention",
    cross: "Cross-attention",
  };
  const VIEWS = {
    attention: "Attention",
    next: "Next token",
    beam: "Beam search",
    embeddings: "Embeddings",
  };

  /** Make an element: attributes, then children (nodes or texts). */
  function make(tag, attributes = {}, ...children) {
    const svg = ["svg", "g", "path", "text", "title", "rect"].includes(tag);
    const element = svg
      ? document.createElementNS("http://www.w3.org/2000/svg", tag)
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
  const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
  const decimals = (value, digits = 2) => value.toFixed(digits).replace("-", "−");
  const pause = () => new Promise((resolve) => setTimeout(resolve));

  let count = 0;

  class Live {
    constructor(root) {
      this.root = root;
      this.name = `live-${++count}`;
      this.interventions = new Interventions();
      this.before = null; // the translation without interventions
      this.result = null;
      this.turn = 0;
      this.recurrent = root.dataset.model === "Seq2Seq";
      this.titles = { ...VIEWS };
      if (this.recurrent) delete this.titles.embeddings;
      this.chosen = { kind: "cross", layer: this.recurrent ? 0 : 2, head: 0 };
      this.position = 0;
      this.build();
    }

    build() {
      const { sentence, examples, megabytes } = this.root.dataset;
      this.root.querySelector(".live-fallback").hidden = true;
      this.input = make("input", {
        type: "text", id: `${this.name}-input`, value: sentence, autocomplete: "off",
        spellcheck: "false", lang: "en", maxlength: 300,
      });
      this.status = make("p", { class: "live-status", role: "status" });
      this.progress = make("progress", { max: 1, value: 0, hidden: true, "aria-label": "Loading" });
      this.button = make("button", { type: "submit", class: "live-main" }, "Translate");
      const form = make("form", { onsubmit: (event) => this.submit(event) },
        make("label", { for: this.input.id }, "English sentence"),
        make("div", { class: "live-row" }, this.input, this.button));
      const choices = JSON.parse(examples).filter(Boolean).map((example) =>
        make("button", { type: "button", class: "live-example", onclick: () => {
          this.input.value = example;
          form.requestSubmit();
        } }, example));
      this.output = make("div", { class: "live-output", hidden: true });
      this.root.append(form, make("div", { class: "live-examples" }, ...choices),
        this.progress, this.status, this.output);
      // The output takes the place of a recorded translation; what is above them stays where it is.
      const recorded = this.root.querySelector(".live-recorded");
      if (recorded) this.output.before(recorded);
      this.say(`The model loads at the first translation: ${megabytes} MB, once per page. ` +
        "It runs in this page, and nothing that you type leaves it.");
      this.buildOutput();
    }

    buildOutput() {
      this.translation = make("p", { class: "live-translation", lang: "fr", tabindex: -1 });
      this.original = make("div", { class: "live-original" });
      this.tokens = make("div", { class: "live-tokens" });
      const radios = Object.entries(this.titles).map(([view, title], index) => {
        const radio = make("input", {
          type: "radio", name: `${this.name}-view`, id: `${this.name}-${view}`, value: view,
          checked: index === 0, onchange: () => this.show(view),
        });
        return make("span", {}, radio, make("label", { for: radio.id }, title));
      });
      this.views = {};
      for (const view in this.titles) {
        this.views[view] = make("section", {
          class: "live-view", "aria-label": this.titles[view], hidden: view !== "attention",
        });
      }
      this.output.append(
        this.translation, this.original, this.tokens,
        make("fieldset", { class: "live-tabs" }, make("legend", {}, "Look inside"), ...radios),
        ...Object.values(this.views));
      this.buildSettings();
    }

    /** The settings of the search and of the distribution: they outlive a translation. */
    buildSettings() {
      const slider = (id, label, attributes, change) => {
        const input = make("input", { type: "range", id: `${this.name}-${id}`, ...attributes });
        const value = make("output", { for: input.id }, attributes.value);
        input.addEventListener("input", () => {
          value.textContent = input.value;
          change();
        });
        return [input, make("div", { class: "live-setting" },
          make("label", { for: input.id }, label), input, value)];
      };
      const again = () => this.translate();
      let rows = [];
      const add = (name, ...rest) => {
        const [input, row] = slider(name, ...rest);
        this[name] = input;
        rows.push(row);
      };
      add("beamSize", "Beam size", { min: 1, max: 10, step: 1, value: 5 }, again);
      add("lengthPenalty", "Length penalty α", { min: 0, max: 2, step: 0.1, value: 1 }, again);
      this.beamPicture = make("div", {});
      this.views.beam.append(...rows, this.beamPicture);
      rows = [];
      add("temperature", "Temperature", { min: 0.1, max: 3, step: 0.1, value: 1 },
        () => this.drawNext());
      this.distribution = make("div", {});
      this.views.next.append(...rows, this.distribution);
    }

    say(text, error = false) {
      this.status.textContent = text;
      this.status.classList.toggle("live-error", error);
    }

    show(view) {
      for (const name in this.views) this.views[name].hidden = name !== view;
    }

    async submit(event) {
      event.preventDefault();
      this.interventions = new Interventions();
      this.before = null;
      await this.translate();
    }

    /** Translate; meanwhile, what is shown of an earlier sentence is pale. */
    async translate() {
      const turn = ++this.turn;
      const stale = () => turn !== this.turn;
      this.root.dataset.busy = "";
      try {
        await this.compute(stale);
      } finally {
        if (!stale()) delete this.root.dataset.busy;
      }
    }

    /** Load if necessary, encode, search, decode the best hypothesis once more; then draw. */
    async compute(stale) {
      if (!this.input.value.trim()) {
        this.say("Type an English sentence first.", true);
        return;
      }
      try {
        if (!this.checkpoint) {
          this.progress.hidden = false;
          const { folder, checkpoint } = this.root.dataset;
          this.checkpoint = await Attentively.load(folder, checkpoint, (share) => {
            this.progress.value = share;
            this.say(`Loading the model: ${Math.round(100 * share)} %`);
          });
        }
      } catch (error) {
        this.say(`${error.message} Reload the page to try again.`, true);
        return;
      } finally {
        this.progress.hidden = true;
      }
      if (stale()) return;
      const { model, subwords } = this.checkpoint;
      const source = subwords.encode(this.input.value);
      if (source.length > MOST_TOKENS) {
        this.say(`This sentence has ${source.length} tokens; this page accepts at most ` +
          `${MOST_TOKENS}. Shorten the sentence.`, true);
        return;
      }
      const how = this.interventions;
      const memory = model.encode(source, how);
      const search = Attentively.beamSearch(model, memory, {
        beamSize: Number(this.beamSize.value),
        lengthPenalty: Number(this.lengthPenalty.value),
        maxLength: Attentively.maximumLength(source.length),
      }, how);
      const steps = [];
      let hypotheses;
      for (;;) {
        const { value, done } = search.next();
        if (done) {
          hypotheses = value;
          break;
        }
        steps.push(value);
        this.say(`Searching: ${steps.length} tokens`);
        await pause();
        if (stale()) return;
      }
      const target = hypotheses[0].ids;
      const decoded = model.decode([START, ...target], memory, how);
      const text = subwords.decode(target);
      const { logProbability } = hypotheses[0];
      if (how.empty) this.before = { text, logProbability };
      this.result = { source, memory, target, decoded, hypotheses, steps, text, logProbability };
      this.position = Math.min(this.position, target.length);
      this.output.hidden = false;
      this.root.querySelector(".live-recorded")?.remove();
      const unknown = source.filter((id) => id === UNKNOWN).length;
      this.say(unknown ? `${unknown} character${unknown > 1 ? "s are" : " is"} not in the ` +
        "vocabulary and became <unk>." : `Done. ${this.verdict()}`);
      this.draw();
    }

    /** What the interventions changed, in a sentence. */
    verdict() {
      if (this.interventions.empty || this.before === null) {
        return this.recurrent ? "Choose a target subword or a view below, or block an edge."
          : "Choose a target subword or a view below, or knock out a head.";
      }
      const { text, logProbability } = this.result;
      const from = decimals(this.before.logProbability), to = decimals(logProbability);
      return text === this.before.text
        ? `The translation is unchanged; its log-probability changes from ${from} to ${to}.`
        : `The translation changes from “${this.before.text}” to “${text}”.`;
    }

    /** Change the interventions, translate again, and return to the control that was used. */
    async intervene(change, control) {
      change();
      await this.translate();
      this.output.querySelector(control)?.focus();
    }

    /** Return a button; `back` is what has the focus when the translation is restored. */
    undoButton(name, back) {
      return make("button", {
        type: "button", class: name, disabled: this.interventions.empty,
        onclick: () => this.intervene(() => {
          this.interventions = new Interventions();
        }, back),
      }, "Undo all interventions");
    }

    /** The interventions in words. */
    described() {
      const { source, read } = this.names();
      const heads = [...this.interventions.heads].map((key) => {
        const [kind, layer, head] = key.split(":");
        return `${KINDS[kind].toLowerCase()}: head ${+layer + 1}.${+head + 1} knocked out`;
      });
      const edges = [...this.interventions.edges].map((key) => {
        const [kind, layer, head, query, place] = key.split(":");
        const queries = kind === "encoder" ? source : read;
        const keys = kind === "decoder" ? read : source;
        if (this.recurrent) {
          return `step ${+query + 1} → ${keys[place] ?? `position ${+place + 1}`} blocked`;
        }
        return `${KINDS[kind].toLowerCase()}: ${queries[query] ?? `position ${+query + 1}`} → ` +
          `${keys[place] ?? `position ${+place + 1}`} blocked in head ${+layer + 1}.${+head + 1}`;
      });
      return [...heads, ...edges].join("; ");
    }

    draw() {
      const { text } = this.result;
      const changed = !this.interventions.empty && this.before !== null;
      const known = new Set((changed ? this.before.text : text).split(" "));
      this.translation.replaceChildren(...(text || "(an empty translation)").split(" ")
        .flatMap((word) => [known.has(word) || !text ? word : make("mark", {}, word), " "]));
      this.original.replaceChildren();
      if (changed) {
        const same = this.before.text === text;
        this.original.append(
          make("p", {}, same ? this.verdict() : "Without interventions: ",
            same ? "" : make("span", { lang: "fr" }, this.before.text)),
          make("p", {}, `Interventions: ${this.described()}.`), this.undoButton("live-undo", ".live-translation"));
      }
      this.drawTokens();
      this.drawAttention();
      this.drawNext();
      this.drawBeam();
      if (!this.recurrent) this.drawEmbeddings();
    }

    names() {
      const { subwords } = this.checkpoint;
      const source = subwords.tokens(this.result.source).map(shown);
      const read = subwords.tokens([START, ...this.result.target]).map(shown);
      const written = subwords.tokens([...this.result.target, END]).map(shown);
      return { source, read, written };
    }

    drawTokens() {
      const { source, written } = this.names();
      const buttons = written.map((token, position) => make("button", {
        type: "button", class: "live-token live-target",
        "aria-pressed": String(position === this.position),
        onclick: () => {
          this.position = position;
          this.drawTokens();
          this.drawNext();
          this.drawAttention();
          this.tokens.querySelector('[aria-pressed="true"]').focus();
        },
      }, token));
      this.tokens.replaceChildren(
        make("p", {}, make("strong", {}, "Source subwords "),
          ...source.flatMap((token) =>
            [make("span", { class: "live-token live-source" }, token), " "])),
        make("p", {}, make("strong", {}, "Target subwords "),
          ...buttons.flatMap((button) => [button, " "])));
    }

    /** The weights of one head: rows are queries. */
    weightsOf({ kind, layer, head }) {
      const { memory, decoded } = this.result;
      const { num_heads: heads } = this.checkpoint.model.config;
      if (head === MEAN) {
        const maps = Array.from({ length: heads }, (_, each) =>
          this.weightsOf({ kind, layer, head: each }));
        return maps[0].map((row, query) => row.map((_, key) =>
          maps.reduce((sum, map) => sum + map[query][key], 0) / heads));
      }
      if (kind === "encoder") return memory.weights[layer][head];
      return decoded.map((step) => step[kind][layer][head]);
    }

    /** Attention weights as a table in which edges can be blocked, and what changed. */
    drawAttention() {
      this.readout = make("p", { class: "live-readout" }, this.summary());
      const effect = make("p", { class: "live-effect" },
        this.interventions.empty ? "" : this.verdict());
      const undo = this.undoButton("live-undo-here",
        this.recurrent ? '.live-cell[tabindex="0"]' : ".live-toggle");
      this.views.attention.replaceChildren(
        ...(this.recurrent ? this.oneAttention(undo) : this.attentionOfHeads(undo)), effect);
    }

    /** The table of the only attention. */
    oneAttention(undo) {
      return [
        make("p", {}, "Each row is a step, named by the subword that it outputs; columns are source " +
          "subwords. A row sums to 1. Click a cell to block its edge: its weight goes to the " +
          "other source subwords of the row (if there is no other, the row is zero)."),
        this.heatMap(false), this.readout, make("div", { class: "live-row" }, undo)];
    }

    headName({ layer, head }) {
      return head === MEAN ? `layer ${layer + 1}, mean of its heads`
        : `layer ${layer + 1}, head ${head + 1}`;
    }

    /** A choice of kind and head, the table of the head, and its knockout. */
    attentionOfHeads(undo) {
      const { num_layers: layers, num_heads: heads } = this.checkpoint.model.config;
      const { kind, layer, head } = this.chosen;
      const choose = make("select", { id: `${this.name}-kind`, onchange: (event) => {
        this.chosen = { ...this.chosen, kind: event.target.value };
        this.drawAttention();
        this.views.attention.querySelector("select").focus();
      } }, ...Object.entries(KINDS).map(([value, title]) =>
        make("option", { value, selected: value === kind }, title)));
      const columns = [...Array(heads).keys(), MEAN];
      const grid = make("div", { class: "live-grid", style: `--heads: ${columns.length}` });
      const select = (one) => {
        this.chosen = one;
        this.drawAttention();
        this.views.attention.querySelector('.live-small[aria-pressed="true"]').focus();
      };
      for (let row = 0; row < layers; row++) {
        columns.forEach((number, column) => {
          const one = { kind, layer: row, head: number };
          const out = this.interventions.heads.has(Interventions.head(kind, row, number));
          const name = number === MEAN ? `${row + 1} mean` : `${row + 1}.${number + 1}`;
          const pressed = row === layer && number === head;
          const small = make("button", {
            type: "button", class: out ? "live-small live-out" : "live-small",
            "aria-pressed": String(pressed), tabindex: pressed ? 0 : -1,
            "aria-label": `${name}: ${this.headName(one)}${out ? ", knocked out" : ""}`,
            onclick: () => select(one),
          }, this.thumbnail(this.weightsOf(one)), name);
          small.dataset.at = `${row},${column}`;
          grid.append(small);
        });
      }
      grid.addEventListener("keydown", (event) => this.moveIn(event, grid));
      const key = Interventions.head(kind, layer, head);
      const out = this.interventions.heads.has(key);
      const toggle = make("button", {
        type: "button", class: "live-toggle", "aria-pressed": String(out), disabled: head === MEAN,
        onclick: () => this.intervene(() => {
          if (!this.interventions.heads.delete(key)) this.interventions.heads.add(key);
        }, ".live-toggle"),
      }, head === MEAN ? "Knock out a head"
        : `${out ? "Restore" : "Knock out"} head ${layer + 1}.${head + 1}`);
      return [
        make("div", { class: "live-setting" },
          make("label", { for: choose.id }, "Kind of attention"), choose),
        make("p", {}, "Every head, as layer.head, and the mean of each layer. A stronger colour is " +
          "a larger weight. Heads differ, so try several:"), grid,
        make("h3", {}, `${KINDS[kind]}, ${this.headName(this.chosen)}`),
        make("p", {}, "Rows are queries, columns are keys. A row sums to 1. ",
          head === MEAN ? "Choose a single head to intervene." : out
            ? "This head is knocked out: its output is zero, so these weights have no effect, and its edges cannot be blocked."
            : "Click a cell to block its edge in this head: its weight goes to the other keys of " +
              "the row (if there is no other, the row is zero). A head that is knocked out has " +
              "the output zero."),
        this.heatMap(out), this.readout,
        make("div", { class: "live-row" }, toggle, undo)];
    }

    /** For the chosen target subword: the key with the largest weight. */
    summary() {
      const { source, read, written } = this.names();
      const { kind } = this.chosen;
      if (kind === "encoder") {
        return "Point at a cell, or move with the arrow keys, to read its weight.";
      }
      const weights = this.weightsOf(this.chosen)[this.position];
      const most = weights.indexOf(Math.max(...weights));
      const keys = kind === "decoder" ? read : source;
      return `At the step that outputs ${written[this.position]}, the largest weight is on ` +
        `${keys[most]} (${weights[most].toFixed(2)}).`;
    }

    thumbnail(weights) {
      const size = 56, rows = weights.length, columns = Math.max(...weights.map((w) => w.length));
      const svg = make("svg", {
        viewBox: `0 0 ${columns} ${rows}`, width: size, height: size, "aria-hidden": "true",
        preserveAspectRatio: "none", class: `live-${this.chosen.kind}`,
      });
      weights.forEach((row, y) => row.forEach((weight, x) => {
        if (weight > 0.02) {
          svg.append(make("rect", { x, y, width: 1, height: 1, "fill-opacity": weight.toFixed(2) }));
        }
      }));
      return svg;
    }

    heatMap(out) {
      const { source, read, written } = this.names();
      const { kind, layer, head } = this.chosen;
      const weights = this.weightsOf(this.chosen);
      const queries = kind === "encoder" ? source : this.recurrent ? written : read;
      const keys = kind === "decoder" ? read : source;
      const predicts = kind !== "encoder" && !this.recurrent;
      const table = make("table", {
        class: `live-map live-${kind}${out ? " live-silent" : ""}`,
      });
      const titles = this.recurrent ? ["outputs"] : predicts ? ["query", "predicts"] : ["query"];
      table.append(make("thead", {}, make("tr", {},
        ...titles.map((title) => make("th", { scope: "col" }, title)),
        ...keys.map((key) => make("th", { scope: "col" }, make("span", {}, key))))));
      const body = make("tbody", {});
      queries.forEach((query, row) => {
        const line = make("tr", {
          class: kind !== "encoder" && row === this.position ? "live-current" : null,
        }, make("th", { scope: "row" }, query));
        if (predicts) line.append(make("td", { class: "live-written" }, written[row]));
        keys.forEach((key, column) => {
          const weight = weights[row][column];
          if (weight === undefined) {
            line.append(make("td", { class: "live-masked" }));
            return;
          }
          const edge = Interventions.edge(kind, layer, head, row, column);
          const blocked = this.interventions.edges.has(edge);
          const text = `${query} → ${key}: weight ${weight.toFixed(3)}` +
            (blocked ? ", blocked" : "");
          const cell = make("button", {
            type: "button", class: blocked ? "live-cell live-out" : "live-cell",
            style: `--weight: ${weight.toFixed(3)}`, "aria-label": text,
            "aria-pressed": String(blocked), tabindex: row + column ? -1 : 0,
            onclick: () => head !== MEAN && !out && this.intervene(() => {
              if (!this.interventions.edges.delete(edge)) this.interventions.edges.add(edge);
            }, `.live-cell[data-at="${row},${column}"]`),
            onfocus: () => { this.readout.textContent = text; },
            onmouseenter: () => { this.readout.textContent = text; },
          });
          cell.dataset.at = `${row},${column}`;
          line.append(make("td", {}, cell));
        });
        body.append(line);
      });
      table.append(body);
      table.addEventListener("keydown", (event) => this.moveIn(event, table));
      return make("div", {
        class: "live-scroll", tabindex: 0, role: "region", "aria-label": "Attention weights",
      }, table);
    }

    /** Arrow keys move between the buttons of a grid, which is one stop of the Tab key. */
    moveIn(event, grid) {
      const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const at = event.target.dataset?.at;
      if (!(event.key in steps) || !at) return;
      event.preventDefault();
      const [row, column] = at.split(",").map(Number);
      const [down, right] = steps[event.key];
      const next = grid.querySelector(`[data-at="${row + down},${column + right}"]`);
      if (!next) return;
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }

    drawNext() {
      if (!this.result) return;
      const { subwords } = this.checkpoint;
      const { read, written } = this.names();
      const temperature = Number(this.temperature.value);
      const logits = Array.from(this.result.decoded[this.position].logits,
        (logit) => logit / temperature);
      const probabilities = Attentively.softmax(logits);
      const best = Attentively.largest(probabilities, 10);
      const entropy = probabilities.reduce((sum, p) => (p > 0 ? sum - p * Math.log(p) : sum), 0);
      const rows = best.map((id) => make("tr", {},
        make("th", { scope: "row" }, shown(subwords.vocabulary[id])),
        make("td", { class: "live-bar" }, make("span", {
          style: `--weight: ${probabilities[id].toFixed(4)}`,
        })),
        make("td", { class: "live-number" }, percent(probabilities[id]))));
      this.distribution.replaceChildren(
        make("p", {}, "After ", make("strong", { lang: "fr" }, read.slice(0, this.position + 1)
          .join(" ")), ", the search chose ",
          make("strong", { lang: "fr" }, written[this.position]),
          `. The entropy of the distribution is ${entropy.toFixed(2)} nats. ` +
          "Choose a target subword above to see its distribution."),
        make("table", { class: "live-bars" },
          make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Token"),
            make("th", { scope: "col", colspan: 2 }, "Probability"))),
          make("tbody", {}, ...rows)));
    }

    drawBeam() {
      const { steps, hypotheses } = this.result;
      const { subwords } = this.checkpoint;
      const slider = make("input", {
        type: "range", min: 1, max: steps.length, value: steps.length, step: 1,
        id: `${this.name}-steps`, oninput: () => show(Number(slider.value)),
      });
      const value = make("output", { for: slider.id });
      const tree = make("div", {
        class: "live-scroll", tabindex: 0, role: "region", "aria-label": "Tree of the beam search",
      });
      const list = make("div", {});
      const show = (upTo) => {
        value.textContent = `${upTo} of ${steps.length}`;
        tree.replaceChildren(this.beamTree(steps.slice(0, upTo)));
        const rows = steps[upTo - 1].prefixes.map((prefix) => make("tr", {},
          make("td", { lang: "fr" }, subwords.decode(prefix.ids)),
          make("td", { class: "live-number" }, decimals(prefix.logProbability))));
        list.replaceChildren(make("table", {},
          make("caption", {}, `Prefixes in the beam after step ${upTo}`),
          make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Prefix"),
            make("th", { scope: "col" }, "Log-probability"))),
          make("tbody", {}, ...rows)));
      };
      const play = make("button", { type: "button", onclick: async () => {
        for (let step = 1; step <= steps.length; step++) {
          if (!slider.isConnected) return;
          slider.value = step;
          show(step);
          await new Promise((resolve) => setTimeout(resolve, 600));
        }
      } }, "Play");
      const finished = hypotheses.map(({ ids, logProbability, score }) => make("tr", {},
        make("td", { lang: "fr" }, subwords.decode(ids)),
        make("td", { class: "live-number" }, decimals(logProbability)),
        make("td", { class: "live-number" }, decimals(score, 3))));
      this.beamPicture.replaceChildren(
        make("div", { class: "live-setting" }, make("label", { for: slider.id }, "Step"),
          slider, value, play),
        make("p", {}, "The tree scrolls sideways; the best hypothesis is marked. Its score is its " +
          "log-probability divided by its length to the power α, so a larger α favours longer " +
          "translations. The search continues until no prefix in the beam has a better score " +
          "than the worst hypothesis that it keeps."),
        tree, list,
        make("table", {},
          make("caption", {}, "Hypotheses, the best first"),
          make("thead", {}, make("tr", {}, ...["Hypothesis", "Log-probability", "Score"]
            .map((title) => make("th", { scope: "col" }, title)))),
          make("tbody", {}, ...finished)));
      show(steps.length);
    }

    /** Columns are steps; a node is a kept prefix or a hypothesis that ended. */
    beamTree(steps) {
      const { subwords } = this.checkpoint;
      const wide = 104, high = 30;
      const best = this.result.target;
      const onBest = (ids) => ids.every((id, at) => id === (best[at] ?? END));
      const most = Math.max(...steps.map(({ prefixes, ended }) => prefixes.length + ended.length));
      const svg = make("svg", {
        width: (steps.length + 1) * wide, height: (most + 0.5) * high, class: "live-tree",
        role: "img", "aria-label": `Beam search after ${steps.length} steps; the prefixes are ` +
          "listed in the table below",
      });
      let parents = [{ x: 50, y: high / 2 + 6 }];
      svg.append(make("text", { x: 0, y: high / 2 + 10 }, "<start>"));
      steps.forEach(({ prefixes, ended }, number) => {
        const x = (number + 1) * wide;
        const places = [];
        [...prefixes, ...ended].forEach((prefix, row) => {
          const y = row * high + high / 2 + 6;
          const from = parents[prefix.parent];
          const token = shown(subwords.vocabulary[prefix.ids.at(-1)]);
          const name = onBest(prefix.ids) ? "live-best" : "live-other";
          const middle = (from.x + x) / 2;
          svg.append(
            make("path", { class: name,
              d: `M ${from.x} ${from.y} C ${middle} ${from.y}, ${middle} ${y}, ${x - 4} ${y}` }),
            make("text", { x, y: y + 4, class: name }, token));
          if (row < prefixes.length) places.push({ x: x + Math.min(86, 9 * token.length + 4), y });
        });
        parents = places;
      });
      return svg;
    }

    drawEmbeddings() {
      const { source } = this.names();
      const { embeddings } = this.result.memory;
      const colour = (role) => getComputedStyle(this.root).getPropertyValue(`--live-${role}`).trim()
        .match(/[0-9a-f]{2}/gi).map((digits) => parseInt(digits, 16));
      const [positive, negative] = [colour("encoder"), colour("decoder")];
      const titles = {
        token: "Token embeddings, multiplied by √d_model",
        encoding: "Positional encodings",
        sum: "Their sum: the input of the first encoder layer",
      };
      const pictures = Object.entries(titles).map(([part, title]) => {
        const columns = embeddings[0][part].length;
        const canvas = make("canvas", {
          width: columns, height: source.length, role: "img", class: "live-strip",
          style: `height: ${1.35 * source.length}rem`,
          "aria-label": `${title}: one row of ${columns} values for each source subword`,
        });
        const context = canvas.getContext("2d");
        const picture = context.createImageData(columns, source.length);
        embeddings.forEach((embedding, row) => embedding[part].forEach((value, column) => {
          const at = 4 * (row * columns + column);
          picture.data.set(value < 0 ? negative : positive, at);
          picture.data[at + 3] = Math.min(255, 130 * Math.abs(value));
        }));
        context.putImageData(picture, 0, 0);
        const labels = make("div", { class: "live-labels", "aria-hidden": "true" },
          ...source.map((token) => make("span", {}, token)));
        return make("figure", {}, make("figcaption", {}, title),
          make("div", { class: "live-strips" }, labels, canvas));
      });
      this.views.embeddings.replaceChildren(
        make("p", {}, "Each row is a source subword, each column one of the model's dimensions. " +
          "The colour of the encoder is positive, that of the decoder negative; a stronger colour is a larger absolute value."),
        ...pictures);
    }
  }

  document.querySelectorAll(".live-transformer").forEach((root) => {
    root.live = new Live(root);
  });
})();
