"""Plausible wrong answers to 19_heads_for_other_tasks, with words of the message of each."""

import inspect

import right_answers_19 as right
import torch
from answer_sources import source
from right_answers_19 import (
    Classifier,
    LanguageModel,
    LowRankLinear,
    audit,
    best_span,
    choose,
    compare,
    head,
    hide,
    merged_weight,
    next_word_loss,
    plan,
    write,
)
from torch import nn

from attentively import heads, language_model
from attentively.checks.heads_for_other_tasks.planted_batches import FAULTS
from attentively.layers import low_rank
from attentively.masks import causal_mask
from attentively.vocabulary import END_ID, PAD_ID


def changed(answer, *pairs):
    """Return a right answer with some words of its source replaced: (old, new), (old, new), ..."""
    text = inspect.getsource(answer)
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    namespace = dict(vars(right))
    exec(compile(text, f"<{answer.__name__}, changed>", "exec"), namespace)
    return namespace[answer.__name__]


# Part 1


def chosen_with(*pairs):
    return changed(choose, *pairs), hide


def hidden_with(*pairs):
    return choose, changed(hide, *pairs)


def choose_each_by_itself(ids, lottery, share):
    return (lottery < share) & (ids > END_ID)


def choose_from_all(ids, lottery, share):
    flat = ids.reshape(1, -1), lottery.reshape(1, -1)
    return choose(*flat, share).reshape(ids.shape)


def choose_into_ids(ids, lottery, share):
    ids[ids == END_ID] = PAD_ID
    return choose(ids, lottery, share)


def hide_in_place(ids, chosen, fate, others, mask_id):
    ids[chosen & (fate < 0.8)] = mask_id
    return ids, ids


WORDS = "ordinary = ids > END_ID"
MASKED = "read[chosen & (fate < 0.8)] = mask_id"
SWAPPED = "swapped = chosen & (fate >= 0.8) & (fate < 0.9)"
WANTED = "torch.where(chosen, ids, PAD_ID)"
MASKING = [
    (chosen_with((WORDS, "ordinary = ids >= 0")), "Padding or special tokens are chosen"),
    (chosen_with((WORDS, "ordinary = ids != PAD_ID")), "START, END or the unknown word is chosen"),
    ((choose_each_by_itself, hide), "Each word is chosen independently, if its"),
    (chosen_with((WORDS, "ordinary = ids >= END_ID")), "START, END or the unknown word is chosen"),
    (chosen_with(("rank < number", "rank <= number")), "One word too many is chosen in each text"),
    (chosen_with(("rank < number", "rank + 1 < number")),
     "One word too few is chosen in each text"),
    (chosen_with(("ordinary.sum(dim=1)", "torch.full((len(ids),), ids.size(1))")),
     "The share is taken of all positions, including"),
    (chosen_with((".round()", ".floor()")), "The number of chosen words is rounded down"),
    (chosen_with((".round()", ".ceil()")), "The number of chosen words is rounded up"),
    (chosen_with((".clamp(min=1)", "")), "No word of a short text is chosen"),
    (chosen_with(("lottery.masked", "(1 - lottery).masked")),
     "The words with the highest lottery values are"),
    ((choose_from_all, hide), "The words are chosen from all texts together"),
    (chosen_with((".argsort(dim=1).argsort(dim=1)", ".argsort(dim=1)")),
     "A single argsort gives the position of each rank"),
    ((lambda ids, *_: None, hide), "is there a `return`?"),
    ((lambda ids, *_: torch.zeros_like(ids).bool(), hide), "not the expected value of the result"),
    ((choose_into_ids, hide), "Your code changes its input ids"),
    (hidden_with((MASKED, "read[chosen] = mask_id"), (SWAPPED, "swapped = chosen & False")),
     "All chosen tokens are masked"),
    (hidden_with((SWAPPED, "swapped = chosen & (fate >= 0.8)")),
     "No chosen token stays unchanged"),
    (hidden_with((SWAPPED, "swapped = chosen & (fate < 0.9)")),
     "Masked tokens are overwritten by those of"),
    (hidden_with((SWAPPED, "swapped = chosen & False")),
     "No chosen token is replaced by the one in"),
    (hidden_with((SWAPPED, "swapped = chosen & (fate >= 0.9)")),
     "The cases 'replaced' and 'unchanged' are"),
    (hidden_with((MASKED, "read[chosen & (fate >= 0.8) & (fate < 0.9)] = mask_id"),
                 (SWAPPED, "swapped = chosen & (fate < 0.8)")),
     "The mask and the tokens of `others` are"),
    (hidden_with(("0.9", "0.2"), ("0.8", "0.1")), "10 % of the chosen tokens are masked and 80 %"),
    (hidden_with(("chosen & (fate", "(fate")), "Tokens that are not chosen are changed too"),
    (hidden_with(("return read", "return ids")), "Nothing is masked, so the model can copy the"),
    (hidden_with(("return read, wanted", "return wanted, read")), "The two results are exchanged"),
    (hidden_with((WANTED, "ids")), "Every token is a target, including those that"),
    (hidden_with((WANTED, "torch.where(read == mask_id, ids, PAD_ID)")),
     "Only masked tokens are targets"),
    (hidden_with((WANTED, "torch.where(chosen & (fate < 0.9), ids, PAD_ID)")),
     "Chosen tokens that stay unchanged are not"),
    (hidden_with((WANTED, "torch.where(chosen, read, PAD_ID)")),
     "These are the tokens of the inputs"),
    (hidden_with((WANTED, "torch.where(chosen, PAD_ID, ids)")),
     "The tokens that are not chosen are the targets"),
    (hidden_with((WANTED, "torch.where(chosen, ids, -100)")),
     "Positions without a target have -100, PyTorch's"),
    (hidden_with((WANTED, "chosen")), "This says at which positions there is a target"),
    (hidden_with(("return read, wanted", "return read")), "Expected a pair"),
    ((choose, hide_in_place), "Your code changes its input ids"),
]  # fmt: skip

# Part 2


class WithoutEncoder(nn.Module):
    def __init__(self, encoder, d_model, num_labels):
        super().__init__()
        self.encoder = [encoder]
        self.output = nn.Linear(d_model, num_labels)


class Cut(Classifier):
    def forward(self, ids, mask):
        with torch.no_grad():
            vectors = self.encoder(ids, mask)
        real = mask.transpose(1, 2)
        return self.output((vectors * real).sum(dim=1) / real.sum(dim=1))


def judged_with(*pairs):
    return changed(Classifier, *pairs)


MEAN = "(vectors * real).sum(dim=1) / real.sum(dim=1)"
CLASSIFIER = [
    (judged_with((MEAN, "vectors.mean(dim=1)")), "The mean includes padding, so the scores of a"),
    (judged_with((MEAN, "(vectors * real).mean(dim=1)")), "The vectors of padding are set to 0"),
    (judged_with(("mask.transpose(1, 2)", "(ids > END_ID).unsqueeze(2)")),
     "The mean leaves out special tokens"),
    (judged_with((MEAN, "(vectors * real).sum(dim=1) / real.sum()")),
     "The sum of each text is divided by the number of"),
    (judged_with((MEAN, "(vectors * real).sum(dim=1)")),
     "This is the sum of the vectors, which grows with"),
    (judged_with((MEAN, "vectors[:, 0]")), "The scores are computed from the first token, as"),
    (judged_with((MEAN, "vectors[:, -1]")), "The scores are computed from the last token"),
    (judged_with((MEAN, "vectors.masked_fill(~real, -1e9).amax(dim=1)")),
     "The maximum of each component is used (max"),
    (judged_with(("self.encoder(ids, mask)", "self.encoder(ids, torch.ones_like(mask))")),
     "The padding mask is not passed to the encoder,"),
    (judged_with(("self.encoder(ids, mask)", "self.encoder(ids, torch.ones_like(mask))"),
                 (MEAN, "vectors.mean(dim=1)")),
     "The mean includes padding, so the scores of a"),
    (judged_with(("num_labels)\n\n", "num_labels, bias=False)\n\n")),
     "has no parameter output.bias"),
    (judged_with(("self.output(mean)", "mean @ self.output.weight.T")),
     "The bias of the output layer is missing"),
    (judged_with(("self.output(mean)", "self.output(mean).softmax(dim=-1)")),
     "A softmax is applied. Return"),
    (judged_with(("self.output(mean)", "self.output(mean).sigmoid()")), "A sigmoid is applied"),
    (judged_with(("self.output", "self.head")), "has no parameter output.weight"),
    (judged_with(("(d_model, num_labels)", "(num_labels, d_model)")), "the shape of output.weight"),
    (judged_with((MEAN, "(vectors * real).sum(dim=2) / real.sum(dim=1)")), "Your code raises"),
    (WithoutEncoder, "has no parameter encoder."),
    (Cut, "no gradient reaches encoder."),
    (heads.Classifier, "not accepted. Your code uses"),
]  # fmt: skip

# Part 3


class WithItsOwnOutput(LanguageModel):
    def __init__(self, encoder):
        super().__init__(encoder)
        vocab_size, d_model = encoder.input.embedding.table.weight.shape
        self.output = nn.Linear(d_model, vocab_size, bias=False)


class WithoutReader(LanguageModel):
    def __init__(self, encoder):
        super().__init__(encoder)
        self.encoder = nn.Identity()
        self.kept = [encoder]


class WithACopy(LanguageModel):
    def __init__(self, encoder):
        super().__init__(encoder)
        self.table = encoder.input.embedding.table.weight.detach().clone()

    def forward(self, ids):
        return self.encoder(ids, causal_mask(ids.size(1))) @ self.table.T


def write_the_likeliest(model, prompt, steps, choose):
    def likeliest(scores):
        choose(scores)
        return scores.argmax()

    return write(model, prompt, steps, likeliest)


def write_and_ask_twice(model, prompt, steps, choose):
    return write(model, prompt, steps, lambda scores: [choose(scores), choose(scores)][1])


def modelled_with(*pairs):
    return changed(LanguageModel, *pairs), next_word_loss, write


def lost_with(*pairs):
    return LanguageModel, changed(next_word_loss, *pairs), write


def written_with(*pairs):
    return LanguageModel, next_word_loss, changed(write, *pairs)


def loss_over(losses_to_loss):
    """The losses of all places, put together otherwise."""

    def next_word_loss(model, texts):
        targets = texts[:, 1:]
        losses = nn.functional.cross_entropy(model(texts[:, :-1]).mT, targets, reduction="none")
        return losses_to_loss(losses, targets != PAD_ID)

    return LanguageModel, next_word_loss, write


def without_the_ends(model, texts):
    no_ends = texts.where(texts != END_ID, PAD_ID)
    return nn.functional.cross_entropy(model(texts[:, :-1]).mT, no_ends[:, 1:], ignore_index=PAD_ID)


MASK = "causal_mask(ids.size(1))"
LANGUAGE_MODEL = [
    (modelled_with((MASK, "torch.ones_like(causal_mask(ids.size(1)))")),
     "A position attends to later ones"),
    (modelled_with((MASK, "causal_mask(ids.size(1)).mT")), "The causal mask is transposed"),
    (modelled_with((MASK, "causal_mask(ids.size(1)).tril(-1)")),
     "A position does not attend to itself"),
    (modelled_with((MASK, "torch.ones(1, ids.size(1), ids.size(1)).bool().tril(1)")),
     "A position attends to the next one, which"),
    (modelled_with((MASK, "torch.eye(ids.size(1)).bool()[None]")),
     "A position attends to itself only, and not to"),
    (modelled_with(("vectors @ table.T", "(vectors @ table.T).softmax(dim=-1)")),
     "A softmax is applied. Return"),
    (modelled_with(("@ table.T", "@ table.T / table.size(1) ** 0.5")),
     "The scores are divided by the square root of"),
    (modelled_with(("@ table.T", "@ table.T * table.size(1) ** 0.5")),
     "The scores are multiplied by the square root of"),
    (modelled_with(("@ table.T", "@ table.T[:, 1:]")), "The shape of the scores"),
    (modelled_with(("return vectors", "return vectors[:, -1]")),
     "Only the scores of the last position are"),
    ((WithItsOwnOutput, next_word_loss, write), "has a parameter of its own, output.weight"),
    ((WithoutReader, next_word_loss, write), "does not store its encoder"),
    ((lambda encoder: encoder.layers, next_word_loss, write), "does not store its encoder"),
    ((lambda encoder: None, next_word_loss, write), "must be a class derived from nn.Module"),
    ((language_model.LanguageModel, next_word_loss, write), "not accepted. Your code uses"),
    (modelled_with(("embedding.table.weight", "embedding.table.weight.detach()"),
                   ("return vectors", "return vectors.detach()")),
     "no gradient flows through them"),
    (modelled_with(("embedding.table.weight", "embedding.table.weight.detach()")),
     "no gradient reaches the embedding"),
    ((WithACopy, next_word_loss, write), "no gradient reaches the embedding"),
    (lost_with(("texts[:, :-1]", "texts"), ("texts[:, 1:]", "texts")), "Targets are not shifted"),
    (lost_with(("texts[:, 1:]", "texts[:, :-1]"), ("model(texts[:, :-1])", "model(texts[:, 1:])")),
     "The shift has the wrong direction"),
    (lost_with(("scores.mT", "scores[:, :-1].mT"), ("texts[:, 1:]", "texts[:, 2:]")),
     "The shift is applied twice"),
    (lost_with(("texts[:, 1:]", "texts[:, :-1]")),
     "Inputs and targets are cut at the same end, so"),
    (lost_with(("scores.mT", "scores.softmax(dim=-1).mT")), "A softmax is applied twice"),
    (lost_with(("scores.mT", "scores.reshape(len(scores), -1, scores.size(1))")),
     "A reshape does not exchange axes"),
    (lost_with((", ignore_index=PAD_ID", "")), "Padding is a target"),
    (loss_over(lambda losses, real: (losses * real).mean()), "The loss at padding is 0"),
    (lost_with(("=PAD_ID", '=PAD_ID, reduction="sum"')), "The loss is a sum"),
    (loss_over(lambda losses, real: ((losses * real).sum(1) / real.sum(1)).mean()),
     "The loss is the mean of one mean per text"),
    (loss_over(lambda losses, real: (losses * real).sum() / len(real)),
     "The sum of the losses is divided by the number"),
    (loss_over(lambda losses, real: -losses[real].mean()), "The sign of the loss is wrong"),
    ((LanguageModel, without_the_ends, write), "END is not a target"),
    (lost_with(("return F", "return 2 * F")), "The values of the loss of next_word_loss"),
    (lost_with(("PAD_ID)", "PAD_ID).detach()")), "no gradient flows through them"),
    (written_with(("        if ids[-1] == END_ID:\n            break\n", "")),
     "Generation continues after END"),
    (written_with(("ids[-1] == END_ID", "ids[-1] <= END_ID")),
     "Generation stops at a special token other than"),
    ((LanguageModel, next_word_loss, write_the_likeliest),
     "The token with the highest score is generated"),
    ((LanguageModel, next_word_loss, write_and_ask_twice), "times for"),
    (written_with(("return ids", "return [i for i in ids if i != END_ID]")), "END is missing"),
    (written_with(("return ids", "return ids[len(prompt):]")), "The prompt is missing"),
    (written_with(("[ids]", "[ids[-1:]]")), "The model is called with the last token only"),
    (written_with(("[0, -1]", "[0, 0]")), "The scores of the first position are used"),
    (written_with(("range(steps)", "range(steps + 1)")), "One token too many is generated"),
    (written_with(("range(steps)", "range(steps - 1)")), "One token too few is generated"),
    (written_with(("for _ in range(steps):", "while len(ids) < steps:")),
     "The tokens of the prompt are counted as steps"),
    (written_with(("[ids]", "[prompt]")), "The model is always called with the prompt only"),
    (written_with(("[0, -1]", "[0, -1:]")), "`choose` gets scores of shape"),
    (written_with(("[0, -1]", "[0, -1].softmax(dim=-1)")), "does not get the unchanged scores"),
    (written_with(("int(choose(scores))", "int(scores.argmax())")), "`choose` is never called"),
    (written_with(("list(prompt)", "prompt")), "Your code changes its input prompt"),
]  # fmt: skip

# Part 4


def head_with(*pairs):
    return changed(head, *pairs), best_span


def span_with(*pairs):
    return head, changed(best_span, *pairs)


def of_able(scores, allowed):
    return int(scores.masked_fill(~allowed, -torch.inf).argmax())


def spans_apart(first, last, allowed, longest):
    return of_able(first, allowed), of_able(last, allowed)


def spans_sorted(*given):
    return sorted(spans_apart(*given))


def spans_from_the_first(first, last, allowed, longest):
    i = of_able(first, allowed)
    ends = [j for j in range(i, min(i + longest, len(last))) if allowed[j]]
    return i, max(ends, key=lambda j: last[j])


def spans_from_the_last(first, last, allowed, longest):
    j = of_able(last, allowed)
    begins = [i for i in range(max(0, j - longest + 1), j + 1) if allowed[i]]
    return max(begins, key=lambda i: first[i]), j


def spans_of_any_order(first, last, allowed, longest):
    n = range(len(first))
    pairs = [(i, j) for i in n for j in n if allowed[i] and allowed[j] and abs(i - j) < longest]
    return max(pairs, key=lambda pair: first[pair[0]] + last[pair[1]])


ENDS = "range(i, min(i + longest, len(first)))"
SHAPES = [
    (head_with(("return (batch, outputs[task]), added",
                "return (batch, length, outputs[task]), added")),
     'The tasks "label" and "pair" have one label for'),
    (head_with(("(batch, length, outputs[task])", "(batch, outputs[task])"),
               ("(batch, length, vocab_size)", "(batch, vocab_size)")),
     "have scores for every token"),
    (head_with(("2 * kinds + 1", "kinds + 1")), "Entities have two tags for each kind, B and I,"),
    (head_with(("2 * kinds + 1", "2 * kinds")), "Entities have two tags for each kind, B and I,"),
    (head_with(("return (batch, length, vocab_size), ",
                "return (batch, length, vocab_size + (task == 'masked')), ")),
     "The mask token is an input and never a"),
    (head_with(('if task in ("label", "pair"):\n',
                'if task in ("label", "pair", "answer"):\n')),
     "An answer needs two scores for every token, one"),
    (head_with(("return (batch, outputs[task]), added", "return added, (batch, outputs[task])"),
               ("return (batch, length, outputs[task]), added",
                "return added, (batch, length, outputs[task])"),
               ('return (batch, length, vocab_size), d_model if task == "masked" else 0',
                'return d_model if task == "masked" else 0, (batch, length, vocab_size)')),
     "The two results are exchanged"),
    (head_with(("(d_model + 1)", "d_model")), "The biases are missing"),
    (head_with(("(d_model + 1) * outputs[task]",
                '(d_model + 1) * (kinds if task == "entities" else outputs[task])')),
     "The number of outputs for entities is wrong"),
    (head_with(('d_model if task == "masked" else 0', "(d_model + 1) * vocab_size")),
     "The output layer of a language model adds"),
    (head_with(('d_model if task == "masked" else 0', "0")),
     "The embedding of the mask token is missing"),
    (head_with(("added += 2 * d_model", "added += d_model")), "The segment embeddings are wrong"),
    (head_with(("added = (d_model + 1) * outputs[task]",
                'added = (d_model + 1) * outputs[task] * (length if task in '
                '("entities", "answer") else 1)')),
     "The number of parameters depends on the length"),
    ((lambda *given: head(*given)[1], best_span), "Expected a pair"),
    (head_with(("(d_model + 1) * outputs[task]",
                '(d_model + (task != "answer")) * outputs[task]')),
     'The biases of the task "answer" are missing'),
    *[(head_with(("(d_model + 1) * outputs[task]",
                  f'(d_model + (task != "{only}")) * outputs[task]')),
       f'The biases of the task "{only}" are missing')
      for only in ("label", "pair", "entities")],
    (head_with(('d_model if task == "masked" else 0',
                '(d_model * vocab_size if task == "masked" else 0)')),
     "The output layer of a language model adds"),
    (head_with(('d_model if task == "masked" else 0',
                '(d_model if task == "masked" else 0) + vocab_size')),
     "The scores of a language model have no bias here"),
    ((head, spans_apart), "The best start and the best end are chosen"),
    ((head, lambda first, last, *_: (int(first.argmax()), int(last.argmax()))),
     "may end before it starts"),
    ((head, spans_sorted), "A start after its end is exchanged with it"),
    ((head, spans_from_the_first), "The best start is chosen first, and then an end"),
    ((head, spans_from_the_last), "The best end is chosen first, and then a start"),
    (span_with((ENDS, "range(i, len(first))")), "The limit `longest` is ignored"),
    (span_with((ENDS, "range(i, min(i + longest + 1, len(first)))")),
     "The answer has one token too many"),
    (span_with((ENDS, "range(i, min(i + max(1, longest - 1), len(first)))")),
     "An answer of exactly `longest` tokens is"),
    (span_with((ENDS, "range(i + 1, min(i + longest, len(first)))")),
     "An answer of one token is excluded"),
    ((head, spans_of_any_order), "The answer may end before it starts"),
    (span_with(("if allowed[i] and allowed[j]", "if True")), "The argument `allowed` is ignored"),
    (span_with(("if allowed[i] and allowed[j]", "if allowed[i : j + 1].all()")),
     "All tokens of the answer are required to be"),
    (span_with(("return best[1], best[2]", "return best[1], best[2] + 1")),
     "The result j is the position after the answer"),
    (span_with(("first[i] + last[j]", "first[i] * last[j]")), "The two scores are multiplied"),
    (span_with(("return best[1], best[2]", "return best[0], best[1]")), "not the expected value"),
    (span_with(("return best[1], best[2]", "return best")), "Expected a pair"),
]  # fmt: skip

# Part 5


def audited_with(*pairs):
    return changed(audit, *pairs)


def audit_if_any_round_is(name):
    """A fault of all rounds together is named as soon as one round has it."""

    def audited(rounds, mask_id):
        anywhere = any(name in audit([one], mask_id) for one in rounds)
        return (audit(rounds, mask_id) - {name}) | ({name} if anywhere else set())

    return audited


def audit_by_counts(rounds, mask_id):
    same = len({int((wanted != PAD_ID).sum()) for _, _, wanted in rounds}) == 1
    return (audit(rounds, mask_id) - {"same positions"}) | ({"same positions"} if same else set())


SIGHT = "if in_sight > 0.2 * asked:"
SAME = "if all(torch.equal(first, wanted != PAD_ID) for _, _, wanted in rounds):"
AUDIT = [
    (audited_with(("asked += places.sum()", "asked += (ids != PAD_ID).sum()"),
                  ("hidden == asked", "hidden == sum((w != PAD_ID).sum() for _, _, w in rounds)")),
     "The share of unchanged tokens is computed over"),
    (audited_with((SIGHT, "if in_sight > 0:")), "10 % of the tokens with a target are unchanged"),
    (audited_with(("(read == ids)).sum()", "(read != mask_id)).sum()")),
     "Tokens that were replaced by another one are"),
    (audited_with(("hidden == asked", "hidden > 0.7 * asked")),
     "80 % of the tokens with a target are masked by"),
    (audited_with(("places = wanted != PAD_ID", "places = read == mask_id")),
     "The positions with a target are searched by the"),
    (audited_with(("places = wanted != PAD_ID", "places = read != ids")),
     "The positions with a target are taken to be"),
    (audited_with(("(~places & (read != ids))", "(read != ids)")),
     "The inputs are compared with the text at all"),
    (audited_with(("wanted != ids", "wanted != read")), "The targets are compared with the inputs"),
    (audited_with(("ids <= END_ID", "ids == END_ID")), "Some special tokens are missing"),
    (audited_with((SAME, "if torch.equal(first, rounds[1][2] != PAD_ID):")),
     "Only two rounds are compared"),
    (audited_with(("rounds[0][2] != PAD_ID", "rounds[0][1] == mask_id"),
                  (SAME, "if all(torch.equal(first, read == mask_id) for _, read, _ in rounds):")),
     "The masked positions are compared"),
    (audited_with(("first = rounds[0][2] != PAD_ID", "first = rounds[0][2]"),
                  (SAME, SAME.replace("wanted != PAD_ID", "wanted"))),
     "The targets themselves are compared"),
    (audited_with(("in rounds:\n        places", "in rounds[:1]:\n        places")),
     "Only the first round is examined"),
    (lambda rounds, mask_id: [n for n in FAULTS if n in audit(rounds, mask_id)][:1],
     "Only the first fault is reported"),
    (audited_with((SIGHT, "if in_sight < 0:")), "'unchanged' is missing. Its sign"),
    (audited_with(("(~places & (read != ids)).any()", "len(ids) < 9")),
     "'corrupted input' is missing. Its"),
    (audited_with(('"same positions"', '"the same positions"')), "is not the name of a fault"),
    (audit_if_any_round_is("unchanged"), "'unchanged' is reported, but"),
    (audit_if_any_round_is("always masked"), "'always masked' is reported, but"),
    (audit_by_counts, "'same positions' is reported, but"),
    (audited_with((SAME, SAME.replace("wanted != PAD_ID", "wanted[0] != PAD_ID")),
                  ("rounds[0][2] != PAD_ID", "rounds[0][2][0] != PAD_ID")),
     "'same positions' is reported, but"),
    (audited_with((SIGHT, "if in_sight > 0.3 * asked:")), "'unchanged' is missing"),
    (audited_with(("hidden == asked", "in_sight == 0")), "'always masked' is reported, but"),
    (audited_with(("(read != ids))", "(read == mask_id))")), "'corrupted input' is missing"),
    (audited_with(("(read != ids))", "(read != ids) & (ids > END_ID))")),
     "'corrupted input' is missing"),
    (lambda rounds, mask_id: None, "is there a `return`?"),
    (lambda rounds, mask_id: "unchanged", "Expected a list of names of faults, got a str"),
    (lambda rounds, mask_id: audit(rounds[0], mask_id), "Your code raises"),
]  # fmt: skip

# Part 6


def compared_with(*pairs):
    return changed(compare, *pairs)


RESULT = 'max(run, key=lambda row: row["validation"])["test"]'
DIFFERENCES = "differences = ["
TRIES = '(row["rate"], row["epoch"])'
LITTLE = "elif len(differences) < 5:"
UNPAIRED = (
    "sum(differences) / len(differences)",
    "sum(r for (b, _), r in results.items() if b == 'pretrained') / "
    "sum(b == 'pretrained' for b, _ in results) - "
    "sum(r for (b, _), r in results.items() if b == 'random') / "
    "sum(b == 'random' for b, _ in results)",
)
BEST = (
    "sum(differences) / len(differences)",
    "max(r for (b, _), r in results.items() if b == 'pretrained') - "
    "max(r for (b, _), r in results.items() if b == 'random')",
)
TOGETHER = (
    f"tries = {{frozenset({TRIES} for row in run) for run in its.values()}}",
    f"tries = {{frozenset({TRIES} for (b, _), run in its.items() if b == begins for row in run)\n"
    "                 for begins in ('pretrained', 'random')}",
)
COMPARISON = [
    (compared_with((RESULT, 'max(run, key=lambda row: row["test"])["test"]')),
     "The row with the best *test* accuracy is chosen"),
    (compared_with((RESULT, 'max(row["test"] for row in run)')),
     "The row with the best *test* accuracy is chosen"),
    (compared_with((RESULT, 'max(row["validation"] for row in run)')),
     "The validation accuracy is compared"),
    (compared_with((RESULT, 'max(run, key=lambda row: row["epoch"])["test"]')),
     "The row of the last epoch is chosen"),
    (compared_with((RESULT, 'sum(row["test"] for row in run) / len(run)')),
     "All rows of a run are averaged"),
    (compared_with((RESULT, 'sorted(run, key=lambda row: row["validation"])[-1]["test"]')),
     "Among rows with the same validation accuracy,"),
    (compared_with(UNPAIRED), "The results of all seeds are averaged"),
    (compared_with(BEST), "The best seeds are compared"),
    (compared_with(('results["pretrained", seed] - results["random", seed]',
                    'results["random", seed] - results["pretrained", seed]')),
     "The sign of the difference is wrong"),
    (compared_with(("if len(tries) > 1:", "if False:")), "The tried settings are ignored"),
    (compared_with((f"frozenset({TRIES} for row in run)", "len(run)")),
     "Only the number of tries is compared"),
    (compared_with(("for run in its.values()}", "for (_, s), run in its.items() if all("
                    "(b, s) in its for b in ('pretrained', 'random'))}")),
     "Only the tries of runs with a partner are"),
    (compared_with(("if len(tries) > 1:", "if len(tries) > 1 and len(differences) >= 5:")),
     "With fewer than five pairs the reading is 'open'"),
    (compared_with(("for run in its.values()}", "for run in runs.values()}")),
     "the readings, by labels"),
    (compared_with((f"frozenset({TRIES}", f"tuple({TRIES}")), "the readings, by labels"),
    (compared_with((TRIES, 'row["rate"]')), "Only the rates are compared"),
    (compared_with((TRIES, 'row["epoch"]')), "Only the epochs are compared"),
    (compared_with(TOGETHER), "The tries of all seeds are pooled"),
    (compared_with(("min(differences) > 0", "sum(differences) > 0"),
                   ("max(differences) < 0", "sum(differences) < 0")),
     "The sign of the mean decides"),
    (compared_with(("min(differences) > 0", "sorted(differences)[len(differences) // 2] > 0"),
                   ("max(differences) < 0", "sorted(differences)[len(differences) // 2] < 0")),
     "The majority of the pairs decides"),
    (compared_with(("if len(tries) > 1:", "if False:"), (LITTLE, "elif False:"),
                   ("min(differences) > 0", "sum(differences) > 0"),
                   ("max(differences) < 0", "sum(differences) < 0")),
     "The sign of the mean alone decides"),
    (compared_with((LITTLE, "elif len(differences) < 3:")),
     "A small number of pairs is read like a large one"),
    (compared_with((LITTLE, "elif len(differences) <= 5:")), "Five pairs are read as too few"),
    (compared_with(('"helps"', '"hurt"'), ('"hurts"', '"helps"'), ('"hurt"', '"hurts"')),
     "The readings 'helps' and 'hurts' are exchanged"),
    (compared_with(('"open"', '"unclear"')), "This is not the expected value of the readings"),
    (compared_with(("return answer", "return list(answer.values())")), "Expected a dict"),
    (compared_with((", reading\n", "\n")), "Expected a pair"),
    (compared_with(("    answer = {}\n", "    answer = {}\n    rows = rows[:1]\n")),
     "This is not the expected value of the differences"),
]  # fmt: skip

# Part 7


def layer_with(*pairs):
    return changed(LowRankLinear, *pairs), merged_weight, plan


def merged_with(*pairs):
    return LowRankLinear, changed(merged_weight, *pairs), plan


def planned_with(*pairs):
    return LowRankLinear, merged_weight, changed(plan, *pairs)


class Child(low_rank.LowRankLinear):
    pass


class NoModule:
    def __init__(self, linear, rank, alpha):
        self.linear = linear


class OtherShapes(LowRankLinear):
    def __init__(self, linear, rank, alpha):
        super().__init__(linear, rank, alpha)
        self.down, self.up = self.up, self.down


class OtherLayer(LowRankLinear):
    def __init__(self, linear, rank, alpha):
        super().__init__(nn.Linear(linear.in_features, linear.out_features), rank, alpha)


def merge_in_place(weight, down, up, alpha):
    weight += alpha / len(down) * (up @ down)
    return weight


FROZEN = "linear.requires_grad_(False)"
DOWN = "nn.Parameter(torch.randn(rank, d_in) / rank)"
UP = "nn.Parameter(torch.zeros(d_out, rank))"
FORWARD = "self.linear(x) + self.factor"
LIMIT = "min(min(shape) for shape in shapes)"
EACH = "sum(d_out + d_in for d_out, d_in in shapes)"

LORA = [
    ((low_rank.LowRankLinear, merged_weight, plan), "not accepted. Your code uses"),
    ((Child, merged_weight, plan), "not accepted. Your code uses"),
    ((NoModule, merged_weight, plan), "should be a class whose parent is nn.Module"),
    ((OtherShapes, merged_weight, plan), "the shape of down is (2, 2), expected (2, 3)"),
    (layer_with((DOWN, DOWN.replace("randn", "zeros")), (UP, UP.replace("zeros", "randn"))),
     "`down` is zero and `up` is random"),
    ((OtherLayer, merged_weight, plan), "has other weights than the given layer"),
    (layer_with((FROZEN, "linear")), "The original layer is not frozen"),
    (layer_with((DOWN, f"{DOWN}.requires_grad_(False)")), "`down` or `up` is frozen"),
    (layer_with((UP, UP.replace("zeros", "ones"))), "`up` must be zero at first"),
    (layer_with((DOWN, DOWN.replace("randn", "zeros"))), "`down` and `up` are both zero"),
    (layer_with(("alpha / rank", "1")), "The factor alpha / rank is missing"),
    (layer_with(("alpha / rank", "alpha")), "The update is multiplied by alpha."),
    (layer_with(("alpha / rank", "rank / alpha")), "The update is multiplied by rank / alpha"),
    (layer_with(("alpha / rank", "1 / rank")), "The update is multiplied by 1 / rank"),
    (layer_with((FORWARD, "self.factor")), "The output of the original layer is missing"),
    (layer_with((FORWARD, f"{FORWARD} * 0")), "The update is missing"),
    (layer_with((FORWARD, f"self.linear.bias + {FORWARD}")), "The bias is added twice"),
    (layer_with(("self.linear(x)", "x @ self.linear.weight.T")), "The bias is missing"),
    (layer_with((FORWARD, "self.linear(x) - self.factor")), "The update is subtracted"),
    (layer_with(("@ self.up.T)", "@ self.up.T).detach()")), "no gradient flows through them"),
    (merged_with(("alpha / len(down) * ", "")), "merged_weight: The factor alpha / rank is"),
    (merged_with((" / len(down)", "")), "merged_weight: The update is multiplied by alpha."),
    (merged_with(("weight + ", "")), "This is the update alone"),
    (merged_with(("(up @ down)", "(up @ down).T")), "A and B are exchanged"),
    (merged_with(("len(down)", "len(up)")), "by the number of inputs or outputs"),
    ((LowRankLinear, merge_in_place, plan), "changes its input weight"),
    (planned_with(("16 * each", "4 * each")), "Only the parameters are counted"),
    (planned_with(("16 * each", "8 * each")), "8 bytes are counted"),
    (planned_with(("16 * each", "12 * each")), "12 bytes are counted"),
    (planned_with((f"min(budget // (16 * each), {LIMIT})", "budget // (16 * each)")),
     "The rank has a limit besides the budget"),
    (planned_with((LIMIT, "max(map(max, shapes))")), "The limit is the largest dimension"),
    (planned_with((LIMIT, "min(shapes[0])")), "The limit of the first layer alone"),
    (planned_with((EACH, EACH.replace("+", "*"))), "A whole matrix is counted"),
    (planned_with((EACH, EACH.replace("d_out + d_in", "2 * d_out + d_in"))),
     "A bias is counted"),
    (planned_with((EACH, EACH.replace("d_out + ", ""))), "Only one of the two matrices"),
    (planned_with((EACH, "sum(shapes[0])")), "Only the first layer is counted"),
    (planned_with(("budget // (16 * each)", "-(-budget // (16 * each))")), "rounded up"),
    (planned_with(("return rank, rank * each", "return rank * each, rank")), "plan: The two"),
    (planned_with(("return rank, rank * each", "return rank, rank * each * 16")), "is in bytes"),
    (planned_with((", rank * each", "")), "Expected a pair"),
]  # fmt: skip

WRONG = {
    "masking": MASKING,
    "classifier": CLASSIFIER,
    "language_model": LANGUAGE_MODEL,
    "shapes": SHAPES,
    "audited": AUDIT,
    "comparison": COMPARISON,
    "lora": LORA,
}

HANDED_IN = {
    "padding_averaged": (
        {"classifier": source(Classifier, mean=(MEAN, "vectors.mean(dim=1)"))},
        ["classifier-check"],
        "The mean includes padding, so the scores of a",
    ),
    "chosen_by_the_test": (
        {"comparison": source(compare, by=(RESULT, 'max(row["test"] for row in run)'))},
        ["comparison-check"],
        "The row with the best *test* accuracy is chosen",
    ),
}
