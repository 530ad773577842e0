"""The example of intrusion detection: its files fit together, and the whole plays and finds its intruders."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.cli.agent_file import read_agent_file
from headrace.cli.job_file import read_job
from headrace.cli.jobs import load_script
from headrace.cli.relay_file import read_relay_file
from headrace.planner.placement.topology import parse_topology
from headrace.sql import format_query, parse_script
from tests.cli.test_hierarchy import free_address

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "intrusion"
SENSORS = ("campus", "clinic", "depot")


def test_the_files_fit_together() -> None:
    agents = [read_agent_file(path) for path in sorted(EXAMPLE.glob("edge-*.toml"))]
    relay, job = read_relay_file(EXAMPLE / "relay.toml"), read_job(EXAMPLE / "job.toml")
    assert tuple(agent.edge for agent in agents) == relay.edges == SENSORS
    assert {agent.destination.to for agent in agents} == {f"http://{relay.listen}"}
    assert job.edges["attempts"].names == (relay.relay,)
    assert relay.destination.to == f"http://{job.listen}"
    topology = parse_topology((EXAMPLE / "topology.toml").read_text(), "topology.toml")
    assert topology.above == {relay.relay: topology.root} | dict.fromkeys(SENSORS, relay.relay)


def test_the_page_shows_queries_of_the_example() -> None:
    (block,) = re.findall(r"^```sql\n(.*?)^```", (ROOT / "docs" / "intrusion.md").read_text(), re.MULTILINE | re.DOTALL)
    shown = {named.name: format_query(named.query) for named in parse_script(block).queries}
    script = load_script(read_job(EXAMPLE / "job.toml"))
    assert len(script.queries) == 16
    assert shown.items() <= {named.name: format_query(named.query) for named in script.queries}.items()


@pytest.mark.jvm
def test_the_whole_plays(tmp_path: Path) -> None:
    """Two minutes of attempts, at other addresses, so that nobody is in the way, and with less waiting."""
    copy, site = tmp_path / "intrusion", tmp_path / "site"
    shutil.copytree(EXAMPLE, copy)
    addresses = {"127.0.0.1:8760": free_address(), "127.0.0.1:8761": free_address()}
    for path in copy.glob("*.toml"):
        text = re.sub("|".join(addresses), lambda found: addresses[found[0]], path.read_text())
        path.write_text(text.replace("[ship]", '[ship]\nevery = "200 ms"\npoll = "200 ms"'))
    command = [sys.executable, str(copy / "play.py"), str(site), "2"]
    played = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    logs = "\n".join(path.read_text()[-1000:] for path in sorted(site.glob("*.log")))
    assert played.returncode == 0, f"{played.stderr}\n{logs}"
    assert "clinic was killed" in played.stdout
    assert "rows of results are the same as without a hierarchy" in played.stdout
    assert sources(site, "hosts_1m") == {"198.51.100.23"}, "seen in all networks together only"
    assert sources(site, "remote_desktop_1m") == {"192.0.2.99"}


def sources(site: Path, query: str) -> set[str]:
    return set(pq.read_table(site / "root" / "results" / query)["source"].to_pylist())
