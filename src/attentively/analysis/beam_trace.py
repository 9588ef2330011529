"""The steps of a beam search: which hypotheses are kept, and from which each was extended."""

from typing import Any, NamedTuple

from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attentively.generation.search import Hypothesis, LengthPenalty, beam_search
from attentively.models.interface import DecoderOutput, EncoderDecoder, Memory


class Prefix(NamedTuple):
    """A partial hypothesis in the beam."""

    ids: list[int]
    """Its tokens, without the start token."""
    parent: int | None
    """The index, in the step before, of the hypothesis that it extends; None at the start."""
    log_probability: float


class Trace(NamedTuple):
    """The result of a beam search, and the partial hypotheses of each step."""

    finished: list[Hypothesis]
    steps: list[list[Prefix]]
    """For each step, the hypotheses that the decoder extends; the first is the empty one."""


class _State(NamedTuple):
    """The state of a model, with the rows of the step before from which it was selected."""

    inner: Any
    rows: list[int]

    def select(self, rows: Int[Tensor, " chosen"]) -> "_State":
        return _State(self.inner.select(rows), [self.rows[row] for row in rows.tolist()])


class _Recorder(EncoderDecoder[_State]):
    """A model that predicts what another one predicts, and records each step."""

    def __init__(self, model: EncoderDecoder[Any]) -> None:
        super().__init__()
        self.model = model
        self.steps: list[list[Prefix]] = []
        self.next: Float[Tensor, "rows vocab"]

    def encode(self, src: Shaped[Tensor, "batch ..."], src_mask: Any = None) -> Memory:
        return self.model.encode(src, src_mask)

    def decode(self, tgt: Any, memory: Memory, need_weights: bool = False) -> DecoderOutput:
        return self.model.decode(tgt, memory, need_weights)

    def start(self, memory: Memory) -> _State:
        return _State(self.model.start(memory), list(range(len(memory.outputs))))

    def step(
        self, token: Int[Tensor, " batch"], state: _State
    ) -> tuple[Float[Tensor, "batch vocab"], _State]:
        tokens = token.tolist()
        if not self.steps:
            self.steps.append([Prefix([], None, 0.0) for _ in tokens])
        else:
            before = self.steps[-1]
            self.steps.append(
                [
                    Prefix(
                        [*before[row].ids, new],
                        row,
                        before[row].log_probability + self.next[row, new].item(),
                    )
                    for new, row in zip(tokens, state.rows, strict=True)
                ]
            )
        logits, inner = self.model.step(token, state.inner)
        self.next = logits.float().log_softmax(dim=-1)
        return logits, _State(inner, list(range(len(tokens))))


def trace_beam(
    model: EncoderDecoder[Any],
    src: Shaped[Tensor, "1 ..."],
    max_len: int,
    beam_size: int,
    length_penalty: float | LengthPenalty = 1.0,
) -> Trace:
    """Run `beam_search` for one source; return its hypotheses and its steps.

    Raises `ValueError` for a batch of several sources.
    """
    if len(src) != 1:
        raise ValueError(f"src contains {len(src)} sources: trace the beam of one at a time")
    recorder = _Recorder(model)
    (finished,) = beam_search(recorder, src, max_len, beam_size, length_penalty)
    return Trace(finished, recorder.steps)
