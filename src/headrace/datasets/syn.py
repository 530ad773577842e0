"""TCP SYN packets that a Snort sensor logs in 24 hours, with the distinct source counts that HIFI's figures imply.

523,761 packets from 04:00 on 2005-05-01 [HIFI 6.1]. Dividing the tuples that grouped plans ship by the intervals that
they ship for [HIFI 6.2] gives about 5.3, 96, 490 and 1,080 distinct sources per 1, 45, 500 and 2,050 seconds.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from headrace.datasets.kinds import Chunk, Columns, DataKind, Recipe, RowGenerator
from headrace.datasets.random_values import Weighted, format_addresses, generator, hosts

SCHEMA_SQL = """\
CREATE STREAM Snort (Time TIMESTAMP, SrcIP ADDRESS) EVENT TIME Time LATENESS '5 s';
"""

SOURCES = (1, 45, 660, 20_000)
PACKETS_PER_THOUSAND = (227, 580, 160, 33)
"""One flooding source, regular ones (a packet in 13 s each), occasional ones (11 minutes) and strangers (28 hours).

If packets of a source are a Poisson process, `sum(n * (1 - exp(-rate * t)))` sources are seen in `t` seconds. These
four classes are the least-squares fit of that sum to the four figures and to 6.06 packets per second.
"""


class Syn(RowGenerator):
    """Each packet draws a class of sources, then a source of that class."""

    def __init__(self, recipe: Recipe) -> None:
        rng = generator(recipe.seed, 1)
        self._addresses = format_addresses(hosts(rng, sum(SOURCES)))
        self._classes = Weighted.by(PACKETS_PER_THOUSAND)
        self._sizes = np.array(SOURCES)
        self._first = np.cumsum(self._sizes) - self._sizes

    def columns(self, chunk: Chunk) -> Columns:
        """Return the source of each packet."""
        group = self._classes.draw(chunk.rng, chunk.count)
        member = (chunk.rng.random(chunk.count) * self._sizes[group]).astype(np.int64)
        return {"SrcIP": self._addresses.take(self._first[group] + member)}


KIND = DataKind(
    name="syn",
    summary="source addresses of TCP SYN packets at one sensor, 24 hours [HIFI 6.1]",
    stream="Snort",
    schema_sql=SCHEMA_SQL,
    default_rows=523_761,
    default_span_s=86_400,
    default_start=datetime(2005, 5, 1, 4, 0, tzinfo=UTC),
    default_file_span_s=3_600,
    prepare=Syn,
)
