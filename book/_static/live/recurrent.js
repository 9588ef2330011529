/* The forward pass of the recurrent model with additive attention (chapter 08): a bidirectional
   GRU encoder, and a GRU decoder whose query is its state before it reads a token.

   The interface is that of the Transformer: encode, start, step, decode. The one attention is
   layer 0, head 0 of kind "cross". */
"use strict";

var Attentively = window.Attentively || (window.Attentively = {});

(function () {
  const { linear, softmax, Interventions } = Attentively;
  const NONE = new Interventions();

  const sigmoid = (x) => 1 / (1 + Math.exp(-x));

  function concatenate(x, y) {
    const both = new Float32Array(x.length + y.length);
    both.set(x);
    both.set(y, x.length);
    return both;
  }

  /** One step of a GRU; the rows are those of PyTorch: reset gate, update gate, candidate. */
  function gru(x, hidden, cell) {
    const fromInput = linear(x, cell.input), fromState = linear(hidden, cell.state);
    const d = hidden.length;
    return hidden.map((old, i) => {
      const reset = sigmoid(fromInput[i] + fromState[i]);
      const update = sigmoid(fromInput[d + i] + fromState[d + i]);
      const candidate = Math.tanh(fromInput[2 * d + i] + reset * fromState[2 * d + i]);
      return (1 - update) * candidate + update * old;
    });
  }

  /** The hidden state at every position, from the first vector to the last. */
  function runGru(xs, cell, dimension) {
    let hidden = new Float32Array(dimension);
    return xs.map((x) => (hidden = gru(x, hidden, cell)));
  }

  class Seq2Seq {
    /** `tensors` has the names of the checkpoint, without "model.". */
    constructor(config, tensors) {
      this.config = config;
      this.embedding = tensors["src_embedding.table.weight"]; // of both languages
      const layer = (name) => (
        { weight: tensors[`${name}.weight`], bias: tensors[`${name}.bias`] });
      const cell = (name, suffix = "") => ({
        input: { weight: tensors[`${name}.weight_ih${suffix}`],
          bias: tensors[`${name}.bias_ih${suffix}`] },
        state: { weight: tensors[`${name}.weight_hh${suffix}`],
          bias: tensors[`${name}.bias_hh${suffix}`] },
      });
      this.forwardCell = cell("encoder.gru", "_l0");
      this.backwardCell = cell("encoder.gru", "_l0_reverse");
      this.bridge = layer("decoder.bridge"); // W_s
      this.query = layer("decoder.attention.query_projection"); // W
      this.key = layer("decoder.attention.key_projection"); // U
      this.energy = layer("decoder.attention.energy"); // v
      this.cell = cell("decoder.cell");
      this.readout = layer("decoder.readout"); // R
      this.output = { weight: this.embedding, bias: tensors["decoder.output.bias"] }; // V
    }

    embed(id) {
      const d = this.config.embedding_dim;
      return this.embedding.subarray(id * d, (id + 1) * d);
    }

    /** Encode the source: the states of both directions, and the last state of the backward GRU. */
    encode(ids) {
      const xs = ids.map((id) => this.embed(id)), d = this.config.encoder_dim;
      const forwards = runGru(xs, this.forwardCell, d);
      const backwards = runGru([...xs].reverse(), this.backwardCell, d).reverse();
      const outputs = forwards.map((state, position) => concatenate(state, backwards[position]));
      return { outputs, state: backwards[0] };
    }

    /** The state before the first token. */
    start(memory) {
      return {
        hidden: linear(memory.state, this.bridge).map(Math.tanh),
        position: 0,
        outputs: memory.outputs,
        keys: memory.outputs.map((x) => linear(x, this.key)),
      };
    }

    /** e_j = v · tanh(W s + U h_j); returns the context and the weight of each source position. */
    attend({ hidden, position, outputs, keys }, interventions) {
      const query = linear(hidden, this.query);
      const scores = keys.map((key, place) => {
        const edge = Interventions.edge("cross", 0, 0, position, place);
        if (interventions.edges.has(edge)) return -Infinity;
        return linear(key.map((value, i) => Math.tanh(query[i] + value)), this.energy)[0];
      });
      const weights = softmax(scores);
      const context = outputs[0].map((_, i) =>
        outputs.reduce((sum, output, place) => sum + weights[place] * output[i], 0));
      return [context, weights];
    }

    /** Read one token; return the next one's logits, the new state, and the weights. */
    step(id, state, interventions = NONE) {
      const [context, weights] = this.attend(state, interventions);
      const hidden = gru(concatenate(this.embed(id), context), state.hidden, this.cell);
      const readout = linear(concatenate(hidden, context), this.readout).map(Math.tanh);
      const newState = { ...state, hidden, position: state.position + 1 };
      return { logits: linear(readout, this.output), state: newState, cross: [[weights]] };
    }
  }
  Seq2Seq.prototype.decode = Attentively.Transformer.prototype.decode;

  Object.assign(Attentively, { Seq2Seq });
})();
