"""The proxy before a store, as a process: its faults are set from outside, and clients that retry see the truth."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.storage.store import Store, known_store, open_store
from tests.faults.job import PROJECT
from tests.faults.runs import wait_for
from tests.faults.s3 import BUCKET, ProxyControl, parse_address, s3_server, use_server


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProxyControl]:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with s3_server(tmp_path / "data") as server:
        control = ProxyControl(tmp_path / "control")
        command = [sys.executable, "-m", "tests.faults.s3", server, address, str(control.path)]
        with subprocess.Popen(command, cwd=PROJECT) as process:
            try:
                wait_for(control.is_ready, "the proxy")
                use_server(f"http://{address}", monkeypatch.setenv)
                known_store.cache_clear()
                yield control
            finally:
                known_store.cache_clear()
                process.terminate()


@pytest.fixture
def store(control: ProxyControl) -> Store:
    return open_store(f"s3://{BUCKET}/{uuid4().hex}")


def test_faults_are_set_from_outside_and_counted(control: ProxyControl, store: Store) -> None:
    control.change(refuse_every=2, lose_puts_every=3)
    names = [f"folder/{number}" for number in range(6)]
    for name in names:
        store.put(name, name.encode())
    assert [entry.name for entry in store.list("folder")] == names
    assert [store.get(name) for name in names] == [name.encode() for name in names]
    faults = control.read()
    assert faults.counts["refuse"] >= 6
    assert faults.counts["lose"] >= 2
    assert faults.requests > 13
    control.reset()
    store.put("folder/6", b"")
    assert control.read().counts == faults.counts


def test_an_object_whose_answer_was_lost_was_created_by_its_writer(control: ProxyControl, store: Store) -> None:
    control.change(lose=1)
    assert store.create("name", b"first")
    assert not store.create("name", b"second")
    assert control.read().counts["lose"] == 1


def test_a_request_that_hangs_holds_up_no_other(control: ProxyControl, store: Store) -> None:
    control.change(hang=1)
    with closing(socket.create_connection(parse_address(os.environ["AWS_ENDPOINT_URL"]))) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: store\r\n\r\n")
        wait_for(lambda: control.read().counts["hang"] == 1, "a request that hangs")
        store.put("name", b"")
