"""Damage with a seed, and what is asked of whoever reads it: an answer or a refusal, in little time."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

from headrace.model.errors import HeadraceError
from tests.kernel.sketches.mutations import bounded_cpu

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, -(2**63), 10**30, 0.5, 1e308),
    *("", "x", "north", "../x", "\x00", "9" * 50, [], {}, [[]], [1, "x"], {"x": 1}, {"is": 0}, {"set": [1]}),
)


def survives(
    use: Callable[[Any], object],
    cases: Callable[[int], Any],
    rounds: int,
    refusal: type[HeadraceError] = HeadraceError,
) -> int:
    """Use `rounds` cases; return how many were refused. Nothing but a refusal may come of them, in little time."""
    refused = 0
    for number in range(rounds):
        case = cases(number)
        try:
            with bounded_cpu(case):
                use(case)
        except refusal:
            refused += 1
        except Exception as problem:
            problem.add_note(f"case {number}: {str(case)[:2_000]}")
            raise
    return refused


def mutated_json(document: Any, random: Random) -> Any:
    """With one to three values changed, taken out, or put in another's place."""
    changed = deepcopy(document)
    for _ in range(random.randint(1, 3)):
        places = list(places_in(changed))
        if not places:
            break
        holder, key = random.choice(places)
        way = random.randrange(4)
        if way == 0:
            del holder[key]
        elif way == 1:
            other, from_key = random.choice(places)
            holder[key] = deepcopy(other[from_key])
        elif way == 2 and isinstance(holder[key], int) and not isinstance(holder[key], bool):
            holder[key] += random.choice((-1, 1, -(2**40), 2**40))
        else:
            holder[key] = deepcopy(random.choice(VALUES))
    return changed


def places_in(document: Any) -> list[tuple[Any, Any]]:
    """Every value but the outermost: what holds it, and by which key."""
    found: list[tuple[Any, Any]] = []
    holders = [document]
    while holders:
        holder = holders.pop()
        keys = holder.keys() if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            found.append((holder, key))
            holders.append(holder[key])
    return found


def mutated_text(text: str, random: Random) -> str:
    """JSON with texts of JSON inside it, as orders hold plans: damage at any depth."""
    document = json.loads(text)
    texts = [(holder, key) for holder, key in places_in(document) if is_document(holder[key])]
    if texts and random.random() < 0.8:
        holder, key = random.choice(texts)
        holder[key] = json.dumps(mutated_json(json.loads(holder[key]), random))
        return json.dumps(document)
    return json.dumps(mutated_json(document, random))


def is_document(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("{")
