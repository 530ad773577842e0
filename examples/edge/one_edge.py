"""One edge and what is above it, in one program: python examples/edge/one_edge.py

The upper side asks for the partials of a query, the edge reads its files and sends them.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa

from headrace.cli.main import main
from headrace.engine.answers import plan_for
from headrace.expressions.static_tables import Data
from headrace.model.arrow import conform
from headrace.sql import parse_query, parse_script
from headrace.wire.exchange import DirectoryExchange
from headrace.wire.frames import from_bytes
from headrace.wire.orders import Orders

HERE = Path(__file__).parent
QUERY = "SELECT Symbol, sum(Vol) AS volume FROM Trades [RANGE '30 s' SLIDE '10 s'] GROUP BY Symbol"

root = Path(tempfile.mkdtemp())
for name in ("agent.toml", "schema.sql"):
    shutil.copy(HERE / name, root)

# The data of the edge: 10,000 trades in JSON lines.
draw = random.Random(7)
trades = [
    {
        "Time": f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z",
        "Symbol": draw.choice("ABCDE"),
        "Price": draw.randrange(100) / 4,
        "Vol": draw.randrange(10) * 100,
    }
    for second in range(100)
    for _ in range(100)
]
(root / "data").mkdir()
(root / "data" / "trades.json").write_text("".join(json.dumps(trade) + "\n" for trade in trades))

# What is asked for: a plan, made here from a sample.
catalog = parse_script((HERE / "schema.sql").read_text()).catalog
queries = {"volume": parse_query(QUERY, catalog)}
sample = pa.table({"Time": [0], "Symbol": ["A"]}).set_column(0, "Time", pa.array([0]).cast(pa.timestamp("us", "UTC")))
data = Data(catalog, catalog.streams[0], conform(sample, catalog.streams[0].columns), {})
up = DirectoryExchange(root / "up")
up.publish(Orders("Trades", plan_for(data, queries), queries))

main(["edge", str(root / "agent.toml"), "--bounded", "--quiet"])

for path in up.waiting():
    frame = from_bytes(path.read_bytes())
    partials = sum(table.num_rows for table in frame.tables)
    print(f"{path.stat().st_size:,} bytes: {partials} partials of {frame.header.rows.read:,} rows")
