"""The experiment on recall: its tasks, what each reader can see, and how it is scored."""

import pytest
import torch

from attentively.experiments import recall


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def test_first_asks_at_the_end_for_the_first_value(generator):
    items, answers, places = recall.sequences("first", 5, 7, generator)
    assert items.shape == (7, 6, 2)
    assert torch.equal(answers[:, -1], items[:, 0, 1])
    assert (answers[:, :-1] == recall.NOT_ASKED).all()
    assert (places[:, -1] == 0).all()
    assert (items[:, -1] == torch.tensor([recall.NO_KEY, recall.NO_VALUE])).all()


def test_lookup_asks_for_the_values_of_its_keys(generator):
    items, answers, places = recall.sequences("lookup", 11, 7, generator)
    assert items.shape == (7, 11 + recall.QUESTIONS, 2)
    for row, said, where in zip(items.tolist(), answers.tolist(), places.tolist(), strict=True):
        database = dict(row[:11])
        assert len(database) == 11  # no key twice
        for (key, value), answer, place in zip(row[11:], said[11:], where[11:], strict=True):
            assert value == recall.NO_VALUE
            assert answer == database[key]
            assert row[place] == [key, answer]
        assert set(said[:11]) == {recall.NOT_ASKED}


def test_parity_asks_at_every_position(generator):
    items, answers, _ = recall.sequences("parity", 13, 7, generator)
    ones = items[..., 1]
    assert set(ones.flatten().tolist()) == {0, 1}
    for position in range(13):
        odd = ones[:, : position + 1].sum(dim=1) % 2
        assert torch.equal(answers[:, position], odd)


@pytest.mark.parametrize("kind", recall.KINDS)
def test_no_reader_looks_ahead(kind, generator):
    torch.manual_seed(0)
    reader = recall.Reader(kind, 8)
    items = recall.sequences("lookup", 11, 3, generator).items
    changed = items.clone()
    changed[:, 6:, 1] = (changed[:, 6:, 1] + 1) % recall.VALUES
    before, after = reader(items), reader(changed)
    assert torch.allclose(before[:, :6], after[:, :6], atol=1e-6)
    assert not torch.allclose(before[:, 6:], after[:, 6:], atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "sees"), [("convolution", 8), ("dilated", 80), ("GRU", 99), ("Transformer", 99)]
)
def test_how_far_back_anything_comes_through(kind, sees, generator):
    """At most, that is: a gradient that fades is smaller than any number in the end."""
    torch.manual_seed(0)
    reader = recall.Reader(kind, 8).double()
    items = recall.sequences("parity", 100, 3, generator).items
    found = recall.reach(reader, items, generator)
    assert len(found) == 100
    assert int(found.nonzero().max()) == sees


def test_reach_is_the_length_of_a_gradient(generator):
    """Where the output is the last vector, that of the direction; where it is twice that, twice."""
    found = {}
    items = recall.sequences("parity", 5, 3, generator).items
    for factor in (1, 2):
        reader = recall.Reader("GRU", recall.VALUES)
        reader.layers = torch.nn.Identity()
        reader.output = torch.nn.Linear(recall.VALUES, recall.VALUES, bias=False)
        torch.nn.init.eye_(reader.output.weight).data.mul_(factor)
        found[factor] = recall.reach(reader, items, torch.Generator().manual_seed(1))
    direction = torch.randn(3, recall.VALUES, generator=torch.Generator().manual_seed(1))
    expected = direction.pow(2).sum(dim=1).mean().sqrt().item()
    assert found[1].tolist() == pytest.approx([expected, 0, 0, 0, 0])
    assert found[2].tolist() == pytest.approx([2 * expected, 0, 0, 0, 0])


def test_answers_are_counted_by_distance():
    """Right where the item stood one step back, wrong where it stood twenty back."""

    class Short(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, items):
            said = torch.zeros(*items.shape[:2], recall.VALUES)
            said[..., 3] = 1
            return said

    answers = torch.full((1, 25), recall.NOT_ASKED)
    places = torch.full((1, 25), -1)
    answers[0, 23], places[0, 23] = 3, 22
    answers[0, 24], places[0, 24] = 5, 4
    given = recall.Sequences(torch.zeros(1, 25, 2, dtype=torch.long), answers, places)
    assert recall.by_distance(Short(), given) == [
        {"from": 1, "to": 8, "accuracy": 1.0},
        {"from": 17, "to": 32, "accuracy": 0.0},
    ]


def test_training_teaches(monkeypatch):
    monkeypatch.setattr(recall, "LEARNING_RATE", 1e-2)
    torch.manual_seed(0)
    reader = recall.Reader("GRU", 16)
    recall.train(reader, "first", 2, 150, seed=0)
    given = recall.sequences("first", 2, 100, torch.Generator().manual_seed(9))
    assert recall.right(reader, given)[:, -1].float().mean() > 0.9


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="'LSTM' is unknown"):
        recall.Reader("LSTM")


def test_intermediate_answers_are_inputs_of_the_next_position():
    given = recall.sequences("parity", 7, 5, torch.Generator().manual_seed(0))
    items, answers, _ = recall.with_intermediate_answers(given)
    assert torch.equal(items[:, 1:, 0], answers[:, :-1])
    assert (items[:, 0, 0] == recall.NO_KEY).all()
    assert torch.equal(items[..., 1], given.items[..., 1])
    assert (given.items[..., 0] == recall.NO_KEY).all()  # a copy


def test_generated_answers_are_read_at_the_next_position():
    class OneStep(torch.nn.Module):
        """The preceding answer plus the bit, modulo 2, and no look at other positions."""

        def forward(self, items):
            before = items[..., 0].where(items[..., 0] != recall.NO_KEY, 0)
            return torch.nn.functional.one_hot((before + items[..., 1]) % 2, 2).float()

    given = recall.sequences("parity", 11, 3, torch.Generator().manual_seed(1))
    answers = recall.generate_answers(OneStep(), given.items)
    assert torch.equal(answers, given.answers)
