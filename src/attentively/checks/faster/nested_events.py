"""Self times of nested events, and the known mistakes in computing them.

`fault` names a mistake; without one, the answer is right.
"""

from collections.abc import Callable, Sequence

import torch

from attentively.checks import Twin, known
from attentively.checks.faster.recorded_profiles import Event

Trace = Sequence[Event]


def _children(events: Trace, fault: str = "") -> dict[Event, list[Event]]:
    """Return the events directly inside each event; with the fault "all below", all inside it."""
    found: dict[Event, list[Event]] = {event: [] for event in events}
    around: list[Event] = []
    late = -1 if fault == "short first" else 1
    ordered = sorted(events, key=lambda event: (event[1], -late * event[2]))
    if fault == "begin alone":
        ordered = sorted(events, key=lambda event: event[1])
    for event in events if fault == "as given" else ordered:
        while around and around[-1][2] <= event[1]:
            if fault == "touching" and around[-1][2] == event[1]:
                break
            around.pop()
            if fault == "one out":
                break
        for outer in around if fault == "all below" else around[-1:]:
            found[outer].append(event)
        around.append(event)
    return found


def _length(event: Event) -> float:
    return event[2] - event[1]


def own_times(events: Trace, fault: str = "") -> dict[str, float]:
    """Return the self time of each name, and the idle time."""
    children = _children(events, fault)
    outer = set(events) - {each for inner in children.values() for each in inner}
    found: dict[str, float] = {}
    for event in events:
        inner = [_length(each) for each in children[event]]
        if fault == "first child":
            inner = inner[:1]
        if fault == "longest child":
            inner = [max(inner, default=0.0)]
        time = _length(event) - (0 if fault == "whole" else sum(inner))
        if fault == "leaves" and inner:
            time = 0.0
        known_ = 0.0 if fault == "last call" else found.get(event[0], 0.0)
        found[event[0]] = max(known_, time) if fault == "longest call" else known_ + time
    if fault == "mean":
        names = [event[0] for event in events]
        found = {name: time / names.count(name) for name, time in found.items()}
    begin = 0.0 if fault == "from 0" else min(event[1] for event in events)
    idle = max(event[2] for event in events) - begin - sum(map(_length, outer))
    if fault == "no idle":
        return found
    if fault == "whole idle":
        idle = max(event[2] for event in events) - begin - sum(found.values())
    return found | {"idle": 0.0 if fault == "never idle" else idle}


_OWN_FAULTS = {
    "whole": "own_times: Time is counted twice: the duration of an event includes the events "
    "inside it. Subtract their durations.",
    "all below": "own_times: Too much is subtracted: only the events directly inside count. An "
    "event further inside is already part of the duration of one of these.",
    "as given": "own_times: The events can be in any order: sort them by begin.",
    "short first": "own_times: If two events begin together, the longer one contains the other: "
    "sort it first.",
    "begin alone": "own_times: If two events begin together, the longer one contains the other: "
    "sort it first. Here only the begins are compared.",
    "touching": "own_times: An event that begins exactly when another ends is not inside it.",
    "one out": "own_times: When an event begins, several earlier events can have ended: remove "
    "all of them.",
    "first child": "own_times: Several events can run directly inside one event; only the first "
    "is subtracted.",
    "longest child": "own_times: Several events can run directly inside one event; only the "
    "longest is subtracted.",
    "leaves": "own_times: An event that contains others has a self time too: the rest of its "
    "duration.",
    "last call": "own_times: A name can occur several times; only its last event is counted. Add "
    "them.",
    "longest call": "own_times: A name can occur several times; only its longest event is "
    "counted. Add them.",
    "mean": "own_times: This is the mean over the events of a name. Return the sum.",
    "from 0": "own_times: The total time starts at the first begin, not at time 0.",
    "no idle": 'own_times: The time in which nothing runs is missing under the key "idle".',
    "whole idle": "own_times: The idle time is what no event covers. Do not subtract nested "
    "events twice.",
    "never idle": "own_times: The time between two events in which nothing runs is idle time.",
}
OWN_TWINS = [
    Twin(said, lambda events, fault=fault: own_times(events, fault))
    for fault, said in _OWN_FAULTS.items()
]  # fmt: skip


def _whole(events: Trace) -> float:
    return max(event[2] for event in events) - min(event[1] for event in events)


def _worst(own: dict[str, float]) -> str:
    return max(own, key=lambda name: own[name])


def bottleneck(
    events: Trace, factor: float, own: Callable[[Trace], dict[str, float]] = own_times
) -> tuple[str, float]:
    times = own_times(events)
    name = _worst(times)
    whole = _whole(events)
    return name, whole / (whole - times[name] * (1 - 1 / factor))


NAME_TWINS = [
    *known(
        "bottleneck: This is the name with the longest duration, which includes other events. "
        "Return the name with the largest self time.",
        lambda events, factor: _worst(own_times(events, "whole")),
        lambda events, factor: _worst({name: end - begin for name, begin, end in events}),
        lambda events, factor: max(events, key=_length)[0],
    ),
    *known(
        "bottleneck: The idle time can be the largest. Then return 'idle'.",
        lambda events, factor: _worst(own_times(events, "no idle")),
    ),
    *known(
        "bottleneck: This is the most frequent name, not the one with the largest self time.",
        lambda events, factor: max((e[0] for e in events), key=[e[0] for e in events].count),
    ),
    *known(
        "bottleneck: This is the name with the largest mean. Use the sum over its events.",
        lambda events, factor: _worst(own_times(events, "mean")),
    ),
]


def _gain(of: Callable[[float, float], float]) -> Callable[..., float]:
    """Return a wrong speed-up, computed from the bottleneck's share and the factor."""

    def answer(events: Trace, factor: float) -> float:
        own = own_times(events)
        return of(own[_worst(own)] / _whole(events), factor)

    return answer


GAIN_TWINS = [
    *known(
        "bottleneck: Only the self time of the bottleneck is divided by the factor; the rest "
        "takes as long as before.",
        _gain(lambda share, factor: factor),
        _gain(lambda share, factor: factor / share),
        _gain(lambda share, factor: share * factor),
    ),
    *known(
        "bottleneck: This is the speed-up if the bottleneck took no time at all.",
        _gain(lambda share, factor: 1 / (1 - share)),
    ),
    *known(
        "bottleneck: This is the new total time as a share of the old one. The speed-up is its "
        "inverse.",
        _gain(lambda share, factor: 1 - share * (1 - 1 / factor)),
    ),
    *known(
        "bottleneck: This averages the speed-ups 1 and `factor`. Add times instead: times add, "
        "speeds do not.",
        _gain(lambda share, factor: 1 - share + share * factor),
    ),
    *known(
        "bottleneck: This is the time that is saved, or its share. Return the old total time "
        "divided by the new one.",
        _gain(lambda share, factor: share * (1 - 1 / factor)),
    ),
]


def drawn(number: int, seed: int) -> list[Event]:
    """Return random nested events, in random order."""
    generator = torch.Generator().manual_seed(seed)
    names = ["load", "attend", "copy", "update"]

    def draw(high: int) -> int:
        return int(torch.randint(high, (), generator=generator))

    found: list[Event] = []

    def fill(begin: int, end: int, depth: int) -> None:
        at = begin + draw(4)
        while at + 2 < end and len(found) < number:
            until = min(end - 1, at + 2 + draw(max(1, (end - begin) // 2)))
            found.append((names[draw(len(names))], float(at), float(until)))
            if depth < 4:
                fill(at, until, depth + 1)
            at = until + draw(5)

    fill(3, 300, 0)
    order = torch.randperm(len(found), generator=generator).tolist()
    return [found[place] for place in order]
