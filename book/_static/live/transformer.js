/* The forward pass of the Transformer (pre-norm, sinusoidal positions), one position at a time.

   The names are those of the Python package: encode, start, step. A vector is a Float32Array, a
   matrix the weight of a PyTorch Linear layer: [outputs, inputs], row after row. */
"use strict";

var Attentively = window.Attentively || (window.Attentively = {});

(function () {
  /** y = x Wᵀ + b */
  function linear(x, { weight, bias }) {
    const outputs = weight.length / x.length;
    const y = new Float32Array(outputs);
    for (let row = 0, at = 0; row < outputs; row++) {
      let sum = bias ? bias[row] : 0;
      for (let i = 0; i < x.length; i++) sum += weight[at++] * x[i];
      y[row] = sum;
    }
    return y;
  }

  function layerNorm(x, { gain, shift }) {
    const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
    const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
    const deviation = Math.sqrt(variance + 1e-5);
    return x.map((value, i) => (gain[i] * (value - mean)) / deviation + shift[i]);
  }

  function add(x, y) {
    return x.map((value, i) => value + y[i]);
  }

  /** Minus infinity gets weight 0; if every score is minus infinity, all weights are 0. */
  function softmax(scores) {
    const largest = Math.max(...scores);
    if (largest === -Infinity) return scores.map(() => 0);
    const exponentials = scores.map((score) => Math.exp(score - largest));
    const total = exponentials.reduce((sum, value) => sum + value, 0);
    return exponentials.map((value) => value / total);
  }

  function logSoftmax(logits) {
    let largest = -Infinity, total = 0;
    for (const value of logits) largest = Math.max(largest, value);
    for (const value of logits) total += Math.exp(value - largest);
    const shift = largest + Math.log(total);
    return Float32Array.from(logits, (value) => value - shift);
  }

  /** The encoding of one position: sines and cosines in turn. */
  function sinusoid(position, dModel) {
    return Float32Array.from({ length: dModel }, (_, i) => {
      const angle = position / 10000 ** ((i - (i % 2)) / dModel);
      return i % 2 ? Math.cos(angle) : Math.sin(angle);
    });
  }

  /** Changes of the computation: heads without output, and edges from a query to a key. */
  class Interventions {
    constructor() {
      this.heads = new Set();
      this.edges = new Set();
    }
    static head(kind, layer, head) {
      return [kind, layer, head].join(":");
    }
    static edge(kind, layer, head, query, key) {
      return [kind, layer, head, query, key].join(":");
    }
    get empty() {
      return this.heads.size + this.edges.size === 0;
    }
  }
  const NONE = new Interventions();

  class Transformer {
    /** `tensors` has the names of the checkpoint, without "model.". */
    constructor(config, tensors) {
      this.config = config;
      this.embedding = tensors["encoder.input.embedding.table.weight"];
      const find = (prefix) => {
        const found = {};
        for (const name in tensors) {
          if (name.startsWith(prefix)) found[name.slice(prefix.length)] = tensors[name];
        }
        return found;
      };
      const attention = (prefix) => ({
        query: find(prefix + ".query_projection."),
        key: find(prefix + ".key_projection."),
        value: find(prefix + ".value_projection."),
        output: find(prefix + ".output_projection."),
      });
      const feedForward = (prefix) => ({
        inner: find(prefix + ".inner."),
        outer: find(prefix + ".outer."),
      });
      this.encoderLayers = [];
      this.decoderLayers = [];
      for (let layer = 0; layer < config.num_layers; layer++) {
        const encoder = `encoder.layers.${layer}`, decoder = `decoder.layers.${layer}`;
        this.encoderLayers.push({
          self: attention(`${encoder}.self_attention`),
          selfNorm: find(`${encoder}.around_attention.layer_norm.`),
          feedForward: feedForward(`${encoder}.feed_forward`),
          feedForwardNorm: find(`${encoder}.around_feed_forward.layer_norm.`),
        });
        this.decoderLayers.push({
          self: attention(`${decoder}.self_attention`),
          selfNorm: find(`${decoder}.around_self_attention.layer_norm.`),
          cross: attention(`${decoder}.cross_attention`),
          crossNorm: find(`${decoder}.around_cross_attention.layer_norm.`),
          feedForward: feedForward(`${decoder}.feed_forward`),
          feedForwardNorm: find(`${decoder}.around_feed_forward.layer_norm.`),
        });
      }
      this.encoderNorm = find("encoder.last_norm.");
      this.decoderNorm = find("decoder.last_norm.");
    }

    /** The scaled embedding of a token, the encoding of its position, and their sum. */
    embed(id, position) {
      const d = this.config.d_model, scale = Math.sqrt(d);
      const token = this.embedding.slice(id * d, (id + 1) * d).map((value) => scale * value);
      const encoding = sinusoid(position, d);
      return { token, encoding, sum: add(token, encoding) };
    }

    /** Multi-head attention of one query; returns the output and the weights of each head. */
    attend(attention, x, keys, values, { kind, layer, position, interventions }) {
      const heads = this.config.num_heads, dHead = this.config.d_model / heads;
      const query = linear(x, attention.query);
      const blocked = (head, place) => interventions.edges.size > 0 &&
        interventions.edges.has(Interventions.edge(kind, layer, head, position, place));
      const contexts = new Float32Array(query.length);
      const weights = [];
      for (let head = 0; head < heads; head++) {
        const first = head * dHead;
        const scores = keys.map((key, place) => {
          if (blocked(head, place)) return -Infinity;
          let score = 0;
          for (let i = first; i < first + dHead; i++) score += query[i] * key[i];
          return score / Math.sqrt(dHead);
        });
        weights.push(softmax(scores));
        if (interventions.heads.has(Interventions.head(kind, layer, head))) continue;
        values.forEach((value, place) => {
          const weight = weights[head][place];
          for (let i = first; i < first + dHead; i++) contexts[i] += weight * value[i];
        });
      }
      return [linear(contexts, attention.output), weights];
    }

    feedForward({ inner, outer }, x) {
      return linear(linear(x, inner).map((value) => Math.max(0, value)), outer);
    }

    /** Encode the source; the weights are [layer][head][query][key]. */
    encode(ids, interventions = NONE) {
      const embeddings = ids.map((id, position) => this.embed(id, position));
      let xs = embeddings.map(({ sum }) => sum);
      const weights = [];
      this.encoderLayers.forEach((layer, number) => {
        const entered = xs.map((x) => layerNorm(x, layer.selfNorm));
        const keys = entered.map((x) => linear(x, layer.self.key));
        const values = entered.map((x) => linear(x, layer.self.value));
        const maps = Array.from({ length: this.config.num_heads }, () => []);
        xs = xs.map((x, position) => {
          const [output, of] = this.attend(layer.self, entered[position], keys, values, {
            kind: "encoder", layer: number, position, interventions,
          });
          of.forEach((row, head) => maps[head].push(row));
          return add(x, output);
        });
        xs = xs.map((x) =>
          add(x, this.feedForward(layer.feedForward, layerNorm(x, layer.feedForwardNorm))));
        weights.push(maps);
      });
      return { outputs: xs.map((x) => layerNorm(x, this.encoderNorm)), embeddings, weights };
    }

    /** The state before the first token: the source's keys and values, and no target. */
    start(memory) {
      return this.decoderLayers.map((layer) => ({
        keys: [],
        values: [],
        memoryKeys: memory.outputs.map((x) => linear(x, layer.cross.key)),
        memoryValues: memory.outputs.map((x) => linear(x, layer.cross.value)),
      }));
    }

    /** Read one token; return the next one's logits, the new state, and the weights. */
    step(id, state, interventions = NONE) {
      const position = state[0].keys.length;
      let x = this.embed(id, position).sum;
      const newState = [], decoder = [], cross = [];
      this.decoderLayers.forEach((layer, number) => {
        const old = state[number];
        let entered = layerNorm(x, layer.selfNorm);
        const keys = [...old.keys, linear(entered, layer.self.key)];
        const values = [...old.values, linear(entered, layer.self.value)];
        const where = { layer: number, position, interventions };
        let [output, weights] =
          this.attend(layer.self, entered, keys, values, { kind: "decoder", ...where });
        decoder.push(weights);
        x = add(x, output);
        entered = layerNorm(x, layer.crossNorm);
        [output, weights] = this.attend(
          layer.cross, entered, old.memoryKeys, old.memoryValues, { kind: "cross", ...where });
        cross.push(weights);
        x = add(x, output);
        x = add(x, this.feedForward(layer.feedForward, layerNorm(x, layer.feedForwardNorm)));
        newState.push({ ...old, keys, values });
      });
      const logits = linear(layerNorm(x, this.decoderNorm), { weight: this.embedding });
      return { logits, state: newState, decoder, cross };
    }

    /** Read a whole target; return each step's logits and weights. */
    decode(ids, memory, interventions = NONE) {
      let state = this.start(memory);
      return ids.map((id) => {
        const step = this.step(id, state, interventions);
        state = step.state;
        return step;
      });
    }
  }

  Object.assign(Attentively, { Transformer, Interventions, linear, softmax, logSoftmax });
})();
