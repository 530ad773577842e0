"""Bytes that are no states, or those of others: refused or read, but never a crash, a hang or another exception."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from headrace.kernel.sketches.packed_bytes import STATE
from headrace.model.errors import DataError
from headrace.model.types import MAX_BIGINT

HEAD = 48
"""Bytes in which damage does most."""
ROUNDS = 10_000
MAX_CPU_S = 2.0
"""For one case: most take less than a millisecond."""
NUMBERS = (0, 1, -1, 2**31, 2**32 - 1, MAX_BIGINT, -MAX_BIGINT)
ROOT = Path(__file__).parents[3]
needs_limit = pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of memory")


def changed(state: bytes, at: int, new: bytes) -> bytes:
    return state[:at] + new + state[at + len(new) :]


def check_refused(what: str, states: Sequence[bytes], *uses: Callable[[pa.Array], object]) -> None:
    """The last one, by all that read it."""
    message = f"the bytes of state {len(states) - 1} are not those of a {what}"
    for use in uses:
        with pytest.raises(DataError, match=message) as refused:
            use(pa.array(states, STATE))
        assert refused.value.code == "sketch-state"


def mutated(state: bytes, other: bytes, random: Random) -> bytes:
    """Flips, in front or anywhere, cuts, extensions, splices, other numbers, or noise behind nothing or a head."""
    bad, at = bytearray(state), random.randrange(len(state))
    way = random.randrange(7)
    if way <= 1:
        for _ in range(random.randint(1, 4)):
            bad[random.randrange(min(len(bad), HEAD) if way else len(bad))] ^= 1 << random.randrange(8)
    elif way == 2:
        del bad[at:]
    elif way == 3:
        bad += random.randbytes(random.randint(1, 64))
    elif way == 4:
        bad[at:] = other[at if random.random() < 0.5 else random.randrange(len(other)) :]
    elif way == 5:
        bad[at : at + 8] = random.choice([*NUMBERS, random.randrange(300)]).to_bytes(8, "little", signed=True)
    else:
        del bad[random.choice((0, 4, 8, 16, 24)) :]
        bad += random.randbytes(random.choice((max(len(state) - len(bad), 1), random.randrange(1, 200))))
    return bytes(bad)


def limit_memory() -> None:
    """To what the process has now, and 1 GiB: a wrong length would exceed it at once."""
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30),) * 2)


@contextmanager
def bounded_cpu(case: object) -> Iterator[None]:
    """By the time of the processor: a busy machine changes nothing."""
    begin_s = time.process_time()
    yield
    took_s = time.process_time() - begin_s
    assert took_s < MAX_CPU_S, f"{took_s:.1f} s for {str(case)[:2_000]}"


def attack(pools: Sequence[Sequence[bytes]], use: Callable[[int, bytes], object]) -> None:
    """States of several kinds, by their number, are used as they are, and then with damage."""
    random, refused = Random(5), 0
    every = [state for pool in pools for state in pool]
    for kind, pool in enumerate(pools):
        for state in pool:
            use(kind, state)
    limit_memory()
    for _ in range(ROUNDS):
        kind = random.randrange(len(pools))
        state = mutated(random.choice(pools[kind]), random.choice(every), random)
        try:
            with bounded_cpu(state):
                use(kind, state)
        except DataError as error:
            if error.code != "sketch-state":
                raise
            refused += 1
    assert 0.02 * ROUNDS < refused < 0.98 * ROUNDS, "both must have been tried"


def check_survived(module: str, **environment: str) -> None:
    """`survive` of a module of tests, in a process of its own."""
    command = [sys.executable, "-W", "error", "-c", f"from {module} import survive; survive()"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, cwd=ROOT, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
