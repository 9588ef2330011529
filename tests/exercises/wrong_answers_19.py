"""Plausible wrong answers to 19_heads_for_other_tasks, with words of the message of each."""

import inspect

import right_answers_19 as right
import torch
from answer_sources import source
from right_answers_19 import (
    Classifier,
    LanguageModel,
    audit,
    best_span,
    choose,
    compare,
    head,
    hide,
    next_word_loss,
    write,
)
from torch import nn

from attentively import heads, language_model
from attentively.checks.heads_for_other_tasks.planted_batches import FAULTS
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
    (chosen_with((WORDS, "ordinary = ids >= 0")), "Padding and special tokens may be chosen"),
    (chosen_with((WORDS, "ordinary = ids != PAD_ID")), "START, END or the unknown word"),
    ((choose_each_by_itself, hide), "Each word is chosen by itself"),
    (chosen_with((WORDS, "ordinary = ids >= END_ID")), "START, END or the unknown word"),
    (chosen_with(("rank < number", "rank <= number")), "one too many is chosen"),
    (chosen_with(("rank < number", "rank + 1 < number")), "one too few is chosen"),
    (chosen_with(("ordinary.sum(dim=1)", "torch.full((len(ids),), ids.size(1))")),
     "The share is taken of the whole width"),
    (chosen_with((".round()", ".floor()")), "The number is rounded down"),
    (chosen_with((".round()", ".ceil()")), "The number is rounded up"),
    (chosen_with((".clamp(min=1)", "")), "A short text has no word chosen"),
    (chosen_with(("lottery.masked", "(1 - lottery).masked")), "The highest lottery numbers win"),
    ((choose_from_all, hide), "All texts are drawn from as one"),
    (chosen_with((".argsort(dim=1).argsort(dim=1)", ".argsort(dim=1)")), "argsort of that"),
    ((lambda ids, *_: None, hide), "is there a `return`?"),
    ((lambda ids, *_: torch.zeros_like(ids).bool(), hide), "not the expected value of what"),
    ((choose_into_ids, hide), "Your code changes its input ids"),
    (hidden_with((MASKED, "read[chosen] = mask_id"), (SWAPPED, "swapped = chosen & False")),
     "Every chosen token becomes the mask"),
    (hidden_with((SWAPPED, "swapped = chosen & (fate >= 0.8)")),
     "No chosen token is left as it is"),
    (hidden_with((SWAPPED, "swapped = chosen & (fate < 0.9)")), "Below 0.8 it stays the mask"),
    (hidden_with((SWAPPED, "swapped = chosen & False")), "No chosen token becomes another word"),
    (hidden_with((SWAPPED, "swapped = chosen & (fate >= 0.9)")), "'another word' and 'stays'"),
    (hidden_with((MASKED, "read[chosen & (fate >= 0.8) & (fate < 0.9)] = mask_id"),
                 (SWAPPED, "swapped = chosen & (fate < 0.8)")),
     "The mask and the other words have changed places"),
    (hidden_with(("0.9", "0.2"), ("0.8", "0.1")), "It is the other way round"),
    (hidden_with(("chosen & (fate", "(fate")), "Tokens that were not chosen are changed too"),
    (hidden_with(("return read", "return ids")), "Nothing is hidden"),
    (hidden_with(("return read, wanted", "return wanted, read")), "the two have changed places"),
    (hidden_with((WANTED, "ids")), "Every token is asked for"),
    (hidden_with((WANTED, "torch.where(read == mask_id, ids, PAD_ID)")),
     "Only what became the mask is asked for"),
    (hidden_with((WANTED, "torch.where(chosen & (fate < 0.9), ids, PAD_ID)")),
     "What was changed is asked for, what stayed is not"),
    (hidden_with((WANTED, "torch.where(chosen, read, PAD_ID)")), "This is what is read at these"),
    (hidden_with((WANTED, "torch.where(chosen, PAD_ID, ids)")), "What was not chosen is asked for"),
    (hidden_with((WANTED, "torch.where(chosen, ids, -100)")), "Where nothing is asked stands -100"),
    (hidden_with((WANTED, "chosen")), "This says where something is asked"),
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
    (judged_with((MEAN, "vectors.mean(dim=1)")), "Padding is averaged too"),
    (judged_with((MEAN, "(vectors * real).mean(dim=1)")), "Padding adds nothing above the line"),
    (judged_with(("mask.transpose(1, 2)", "(ids > END_ID).unsqueeze(2)")),
     "Special tokens are left out"),
    (judged_with((MEAN, "(vectors * real).sum(dim=1) / real.sum()")), "of the whole batch"),
    (judged_with((MEAN, "(vectors * real).sum(dim=1)")), "This is the sum of the vectors"),
    (judged_with((MEAN, "vectors[:, 0]")), "The first token's vector is classified"),
    (judged_with((MEAN, "vectors[:, -1]")), "The last vector is classified"),
    (judged_with((MEAN, "vectors.masked_fill(~real, -1e9).amax(dim=1)")),
     "The largest number of each component"),
    (judged_with(("self.encoder(ids, mask)", "self.encoder(ids, torch.ones_like(mask))")),
     "The encoder is not given the mask, so that"),
    (judged_with(("self.encoder(ids, mask)", "self.encoder(ids, torch.ones_like(mask))"),
                 (MEAN, "vectors.mean(dim=1)")),
     "Padding is averaged too"),
    (judged_with(("num_labels)\n\n", "num_labels, bias=False)\n\n")),
     "has no parameter output.bias"),
    (judged_with(("self.output(mean)", "mean @ self.output.weight.T")), "The bias is missing"),
    (judged_with(("self.output(mean)", "self.output(mean).softmax(dim=-1)")), "A softmax is taken"),
    (judged_with(("self.output(mean)", "self.output(mean).sigmoid()")), "A sigmoid is taken"),
    (judged_with(("self.output", "self.head")), "has no parameter output.weight"),
    (judged_with(("(d_model, num_labels)", "(num_labels, d_model)")), "the shape of output.weight"),
    (judged_with((MEAN, "(vectors * real).sum(dim=2) / real.sum(dim=1)")), "Your code raises"),
    (WithoutEncoder, "has no parameter encoder."),
    (Cut, "no gradient reaches encoder."),
    (heads.Classifier, "This is the package's own class"),
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
     "the causal mask is missing"),
    (modelled_with((MASK, "causal_mask(ids.size(1)).mT")), "The mask is turned round"),
    (modelled_with((MASK, "causal_mask(ids.size(1)).tril(-1)")), "A word may not look at itself"),
    (modelled_with((MASK, "torch.ones(1, ids.size(1), ids.size(1)).bool().tril(1)")),
     "one further than itself"),
    (modelled_with((MASK, "torch.eye(ids.size(1)).bool()[None]")), "A word looks at itself alone"),
    (modelled_with(("vectors @ table.T", "(vectors @ table.T).softmax(dim=-1)")),
     "A softmax is taken"),
    (modelled_with(("@ table.T", "@ table.T / table.size(1) ** 0.5")),
     "The scores are divided by the root"),
    (modelled_with(("@ table.T", "@ table.T * table.size(1) ** 0.5")),
     "The scores are multiplied by the root"),
    (modelled_with(("@ table.T", "@ table.T[:, 1:]")), "The shape of the scores"),
    (modelled_with(("return vectors", "return vectors[:, -1]")), "The scores of the last place"),
    ((WithItsOwnOutput, next_word_loss, write), "has a parameter of its own, output.weight"),
    ((WithoutReader, next_word_loss, write), "does not hold its encoder"),
    ((lambda encoder: encoder.layers, next_word_loss, write), "does not hold its encoder"),
    ((lambda encoder: None, next_word_loss, write), "should be a class whose parent is nn.Module"),
    ((language_model.LanguageModel, next_word_loss, write), "This is the package's own class"),
    (modelled_with(("embedding.table.weight", "embedding.table.weight.detach()"),
                   ("return vectors", "return vectors.detach()")),
     "no gradient flows through them"),
    (modelled_with(("embedding.table.weight", "embedding.table.weight.detach()")),
     "no gradient reaches the table from the head"),
    ((WithACopy, next_word_loss, write), "no gradient reaches the table from the head"),
    (lost_with(("texts[:, :-1]", "texts"), ("texts[:, 1:]", "texts")), "Nothing is shifted"),
    (lost_with(("texts[:, 1:]", "texts[:, :-1]"), ("model(texts[:, :-1])", "model(texts[:, 1:])")),
     "The shift goes the wrong way"),
    (lost_with(("scores.mT", "scores[:, :-1].mT"), ("texts[:, 1:]", "texts[:, 2:]")),
     "The shift is made twice"),
    (lost_with(("texts[:, 1:]", "texts[:, :-1]")), "Both are cut at the same end"),
    (lost_with(("scores.mT", "scores.softmax(dim=-1).mT")), "takes a softmax itself"),
    (lost_with(("scores.mT", "scores.reshape(len(scores), -1, scores.size(1))")),
     "does not exchange axes"),
    (lost_with((", ignore_index=PAD_ID", "")), "Padding is counted like a word"),
    (loss_over(lambda losses, real: (losses * real).mean()), "but is counted below"),
    (lost_with(("=PAD_ID", '=PAD_ID, reduction="sum"')), "This is a sum"),
    (loss_over(lambda losses, real: ((losses * real).sum(1) / real.sum(1)).mean()),
     "the mean of the texts' means"),
    (loss_over(lambda losses, real: (losses * real).sum() / len(real)),
     "divided by the number of texts"),
    (loss_over(lambda losses, real: -losses[real].mean()), "The sign is turned"),
    ((LanguageModel, without_the_ends, write), "The end of a text is not predicted"),
    (lost_with(("return F", "return 2 * F")), "The values of what next_word_loss returns"),
    (lost_with(("PAD_ID)", "PAD_ID).detach()")), "no gradient flows through them"),
    (written_with(("        if ids[-1] == END_ID:\n            break\n", "")),
     "It goes on after END"),
    (written_with(("ids[-1] == END_ID", "ids[-1] <= END_ID")), "It stops at another special token"),
    ((LanguageModel, next_word_loss, write_the_likeliest), "The highest score is taken"),
    ((LanguageModel, next_word_loss, write_and_ask_twice), "times for"),
    (written_with(("return ids", "return [i for i in ids if i != END_ID]")), "END is left out"),
    (written_with(("return ids", "return ids[len(prompt):]")), "The prompt is missing"),
    (written_with(("[ids]", "[ids[-1:]]")), "The model reads the last token only"),
    (written_with(("[0, -1]", "[0, 0]")), "read off at the first place"),
    (written_with(("range(steps)", "range(steps + 1)")), "One token too many"),
    (written_with(("range(steps)", "range(steps - 1)")), "One token too few"),
    (written_with(("[ids]", "[prompt]")), "reads the prompt alone"),
    (written_with(("[0, -1]", "[0, -1:]")), "`choose` gets scores of shape"),
    (written_with(("[0, -1]", "[0, -1].softmax(dim=-1)")), "are not the scores as the model gives"),
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
     "have no axis of tokens"),
    (head_with(("(batch, length, outputs[task])", "(batch, outputs[task])"),
               ("(batch, length, vocab_size)", "(batch, vocab_size)")),
     "are told for every token"),
    (head_with(("2 * kinds + 1", "kinds + 1")), "one for its first token and one for the others"),
    (head_with(("2 * kinds + 1", "2 * kinds")), "one for its first token and one for the others"),
    (head_with(("return (batch, length, vocab_size), ",
                "return (batch, length, vocab_size + (task == 'hidden')), ")),
     "The mask is read and never predicted"),
    (head_with(('if task in ("label", "pair"):\n',
                'if task in ("label", "pair", "answer"):\n')),
     "Of an answer, two scores"),
    (head_with(("return (batch, outputs[task]), added", "return added, (batch, outputs[task])"),
               ("return (batch, length, outputs[task]), added",
                "return added, (batch, length, outputs[task])"),
               ('return (batch, length, vocab_size), d_model if task == "hidden" else 0',
                'return d_model if task == "hidden" else 0, (batch, length, vocab_size)')),
     "The two have changed places"),
    (head_with(("(d_model + 1)", "d_model")), "A linear layer has a bias"),
    (head_with(("(d_model + 1) * outputs[task]",
                '(d_model + 1) * (kinds if task == "entities" else outputs[task])')),
     "2 · kinds + 1 outputs"),
    (head_with(('d_model if task == "hidden" else 0', "(d_model + 1) * vocab_size")),
     "products with the rows of the table"),
    (head_with(('d_model if task == "hidden" else 0', "0")), "The mask is a new token"),
    (head_with(("added += 2 * d_model", "added += d_model")), "Two texts in one need a vector"),
    (head_with(("added = (d_model + 1) * outputs[task]",
                'added = (d_model + 1) * outputs[task] * (length if task in '
                '("entities", "answer") else 1)')),
     "does not grow with the text"),
    ((lambda *given: head(*given)[1], best_span), "Expected a pair"),
    ((head, spans_apart), "are looked for apart"),
    ((head, spans_sorted), "the two were exchanged"),
    ((head, spans_from_the_first), "First the best beginning is fixed"),
    ((head, spans_from_the_last), "First the best end is fixed"),
    (span_with((ENDS, "range(i, len(first))")), "`longest` is not looked at"),
    (span_with((ENDS, "range(i, min(i + longest + 1, len(first)))")),
     "This answer has one token too many"),
    (span_with((ENDS, "range(i, min(i + max(1, longest - 1), len(first)))")),
     "An answer of exactly `longest` tokens"),
    (span_with((ENDS, "range(i + 1, min(i + longest, len(first)))")), "An answer may be one token"),
    ((head, spans_of_any_order), "An answer may end before it begins"),
    (span_with(("if allowed[i] and allowed[j]", "if True")), "`allowed` is not looked at"),
    (span_with(("if allowed[i] and allowed[j]", "if allowed[i : j + 1].all()")),
     "All tokens of the answer have to be allowed"),
    (span_with(("return best[1], best[2]", "return best[1], best[2] + 1")),
     "This j is the token after the answer"),
    (span_with(("first[i] + last[j]", "first[i] * last[j]")), "The scores are multiplied"),
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
    return (audit(rounds, mask_id) - {"same places"}) | ({"same places"} if same else set())


SIGHT = "if in_sight > 0.2 * asked:"
SAME = "if all(torch.equal(first, wanted != PAD_ID) for _, _, wanted in rounds):"
AUDIT = [
    (audited_with(("asked += places.sum()", "asked += (ids != PAD_ID).sum()"),
                  ("hidden == asked", "hidden == sum((w != PAD_ID).sum() for _, _, w in rounds)")),
     "A share of all tokens is taken"),
    (audited_with((SIGHT, "if in_sight > 0:")), "One in ten of the tokens asked for stays"),
    (audited_with(("(read == ids)).sum()", "(read != mask_id)).sum()")),
     "Other words are counted as if they were in sight"),
    (audited_with(("hidden == asked", "hidden > 0.7 * asked")),
     "Eight in ten are hidden by design"),
    (audited_with(("places = wanted != PAD_ID", "places = read == mask_id")),
     "are looked for by the mask"),
    (audited_with(("places = wanted != PAD_ID", "places = read != ids")),
     "taken to be those that are changed"),
    (audited_with(("(~places & (read != ids))", "(read != ids)")),
     "is compared with the text everywhere"),
    (audited_with(("wanted != ids", "wanted != read")), "What is wanted is compared with what is"),
    (audited_with(("ids <= END_ID", "ids == END_ID")), "Not every special token is looked for"),
    (audited_with((SAME, "if torch.equal(first, rounds[1][2] != PAD_ID):")),
     "Two rounds alone are compared"),
    (audited_with(("rounds[0][2] != PAD_ID", "rounds[0][1] == mask_id"),
                  (SAME, "if all(torch.equal(first, read == mask_id) for _, read, _ in rounds):")),
     "The places of the mask are compared"),
    (audited_with(("first = rounds[0][2] != PAD_ID", "first = rounds[0][2]"),
                  (SAME, SAME.replace("wanted != PAD_ID", "wanted"))),
     "What is wanted is compared"),
    (audited_with(("in rounds:\n        places", "in rounds[:1]:\n        places")),
     "Only the first round is looked at"),
    (lambda rounds, mask_id: [n for n in FAULTS if n in audit(rounds, mask_id)][:1],
     "Only the first fault is named"),
    (audited_with((SIGHT, "if in_sight < 0:")), "'in sight' is missing. Its sign"),
    (audited_with(("(~places & (read != ids)).any()", "len(ids) < 9")),
     "'damaged' is missing. Its"),
    (audited_with(('"same places"', '"the same places"')), "is no name of a fault"),
    (audit_if_any_round_is("in sight"), "'in sight' is named, but"),
    (audit_if_any_round_is("always hidden"), "'always hidden' is named, but"),
    (audit_by_counts, "'same places' is named, but"),
    (audited_with((SAME, SAME.replace("wanted != PAD_ID", "wanted[0] != PAD_ID")),
                  ("rounds[0][2] != PAD_ID", "rounds[0][2][0] != PAD_ID")),
     "'same places' is named, but"),
    (audited_with((SIGHT, "if in_sight > 0.3 * asked:")), "'in sight' is missing"),
    (audited_with(("hidden == asked", "in_sight == 0")), "'always hidden' is named, but"),
    (audited_with(("(read != ids))", "(read == mask_id))")), "'damaged' is missing"),
    (audited_with(("(read != ids))", "(read != ids) & (ids > END_ID))")), "'damaged' is missing"),
    (lambda rounds, mask_id: None, "is there a `return`?"),
    (lambda rounds, mask_id: "in sight", "Expected a list of names of faults, got a str"),
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
     "The row with the best *test* accuracy"),
    (compared_with((RESULT, 'max(row["test"] for row in run)')), "is no test any more"),
    (compared_with((RESULT, 'max(row["validation"] for row in run)')),
     "The validation accuracy is compared"),
    (compared_with((RESULT, 'max(run, key=lambda row: row["epoch"])["test"]')),
     "The last epoch is taken"),
    (compared_with((RESULT, 'sum(row["test"] for row in run) / len(run)')),
     "All rows of a run are averaged"),
    (compared_with((RESULT, 'sorted(run, key=lambda row: row["validation"])[-1]["test"]')),
     "Of rows with the same validation accuracy"),
    (compared_with(UNPAIRED), "has no partner"),
    (compared_with(BEST), "The best seed of each beginning"),
    (compared_with(('results["pretrained", seed] - results["random", seed]',
                    'results["random", seed] - results["pretrained", seed]')),
     "The sign is turned"),
    (compared_with(("if len(tries) > 1:", "if False:")), "is not looked at"),
    (compared_with((f"frozenset({TRIES} for row in run)", "len(run)")), "The tries are counted"),
    (compared_with(("for run in its.values()}", "for (_, s), run in its.items() if all("
                    "(b, s) in its for b in ('pretrained', 'random'))}")),
     "Only the tries of the pairs"),
    (compared_with(("if len(tries) > 1:", "if len(tries) > 1 and len(differences) >= 5:")),
     "before the tries are looked at"),
    (compared_with(("for run in its.values()}", "for run in runs.values()}")),
     "the readings, by labels"),
    (compared_with((f"frozenset({TRIES}", f"tuple({TRIES}")), "the readings, by labels"),
    (compared_with((TRIES, 'row["rate"]')), "Only the rates are compared"),
    (compared_with((TRIES, 'row["epoch"]')), "Only the epochs are compared"),
    (compared_with(TOGETHER), "are thrown together"),
    (compared_with(("min(differences) > 0", "sum(differences) > 0"),
                   ("max(differences) < 0", "sum(differences) < 0")), "The mean decides"),
    (compared_with(("min(differences) > 0", "sorted(differences)[len(differences) // 2] > 0"),
                   ("max(differences) < 0", "sorted(differences)[len(differences) // 2] < 0")),
     "Most pairs decide"),
    (compared_with((LITTLE, "elif len(differences) < 3:")), "Few pairs are read as if they were"),
    (compared_with((LITTLE, "elif len(differences) <= 5:")), "Five pairs are enough"),
    (compared_with(('"helps"', '"hurt"'), ('"hurts"', '"helps"'), ('"hurt"', '"hurts"')),
     "'helps' and 'hurts' have changed places"),
    (compared_with(('"open"', '"unclear"')), "This is not the expected value of the readings"),
    (compared_with(("return answer", "return list(answer.values())")), "Expected a dict"),
    (compared_with((", reading\n", "\n")), "Expected a pair"),
    (compared_with(("    answer = {}\n", "    answer = {}\n    rows = rows[:1]\n")),
     "This is not the expected value of the differences"),
]  # fmt: skip

WRONG = {
    "masking": MASKING,
    "classifier": CLASSIFIER,
    "language_model": LANGUAGE_MODEL,
    "shapes": SHAPES,
    "audited": AUDIT,
    "comparison": COMPARISON,
}

HANDED_IN = {
    "padding_averaged": (
        {"classifier": source(Classifier, mean=(MEAN, "vectors.mean(dim=1)"))},
        ["classifier-check"],
        "Padding is averaged too",
    ),
    "chosen_by_the_test": (
        {"comparison": source(compare, by=(RESULT, 'max(row["test"] for row in run)'))},
        ["comparison-check"],
        "The row with the best *test* accuracy is taken",
    ),
}
