"""Every store keeps the same promises: local disk, and S3 with and without faults."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headrace.model.errors import HeadraceError, UsageError
from headrace.storage.store import (
    Listed,
    MissingObjectError,
    Store,
    StoreError,
    known_store,
    open_store,
    put_all,
)
from tests.faults.s3 import BUCKET, Faults, proxy, s3_server, use_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3") / "data") as address:
        yield address


@pytest.fixture(params=["disk", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    if request.param == "disk":
        return open_store(str(tmp_path / "state"))
    use_server(request.getfixturevalue("server"), monkeypatch.setenv)
    return fresh_store()


def fresh_store() -> Store:
    known_store.cache_clear()
    return open_store(f"s3://{BUCKET}/{uuid4().hex}")


def test_what_is_put_can_be_read(store: Store) -> None:
    store.put("slices/1", b"one")
    store.put("slices/1", b"another")
    store.put("slices/empty", b"")
    assert store.get("slices/1") == b"another"
    assert store.get("slices/empty") == b""
    assert store.get_ranges("slices/1", [(0, 2), (3, 7)]) == [b"an", b"ther"]
    assert store.get_ranges("slices/1", []) == []


def test_what_is_missing_is_an_error_with_its_name(store: Store) -> None:
    for read in (lambda: store.get("plans/none"), lambda: store.get_ranges("plans/none", [(0, 1)])):
        with pytest.raises(MissingObjectError, match="plans/none is missing"):
            read()


def test_an_object_is_created_once(store: Store) -> None:
    assert store.create("commits/000000001.json", b"mine")
    assert not store.create("commits/000000001.json", b"theirs")
    assert store.get("commits/000000001.json") == b"mine"


def test_who_creates_the_same_bytes_again_is_not_refused(store: Store) -> None:
    assert store.create("epochs/1", b"process 1")
    assert store.create("epochs/1", b"process 1")


def test_of_those_who_race_for_a_name_one_wins(store: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        for number in range(20):
            texts = [f"{number} {writer}".encode() for writer in range(8)]
            won = list(threads.map(lambda text, name=f"epochs/{number}": store.create(name, text), texts))
            assert sum(won) == 1
            assert store.get(f"epochs/{number}") == texts[won.index(True)]


def test_names_are_listed_by_folder_in_order(store: Store) -> None:
    assert store.list("journal") == []
    for name in ("journal/2", "journal/10", "journal/1", "journals/3", "journal/more/4"):
        store.put(name, name.encode())
    assert store.list("journal") == [
        Listed(name, len(name)) for name in ("journal/1", "journal/10", "journal/2", "journal/more/4")
    ]


def test_deleting_twice_does_no_harm(store: Store) -> None:
    store.put("slices/1", b"1")
    store.put("slices/2", b"2")
    store.delete(["slices/1", "slices/none"])
    store.delete(["slices/1"])
    store.delete([])
    assert [name for name, _ in store.list("slices")] == ["slices/2"]


def test_many_objects_are_put_and_read_at_once(store: Store) -> None:
    objects = {f"results/{number}": os.urandom(100) for number in range(30)}
    put_all(store, objects)
    assert [store.get(name) for name in objects] == list(objects.values())


def test_a_large_object_is_put_whole(store: Store) -> None:
    data = os.urandom(12 << 20)
    store.put("slices/large", data)
    assert store.get("slices/large") == data


def test_only_known_schemes_are_stores() -> None:
    with pytest.raises(UsageError, match=r"ftp:// is not a store"):
        open_store("ftp://host/state")


# A store that fails


@pytest.fixture
def faulty(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Store, Faults]]:
    with proxy(server) as (address, faults):
        use_server(address, monkeypatch.setenv)
        yield fresh_store(), faults


def test_a_lost_answer_does_not_refuse_its_writer(faulty: tuple[Store, Faults]) -> None:
    store, faults = faulty
    faults.lose = 1
    assert store.create("commits/1", b"mine")
    assert faults.requests > 1
    assert not store.create("commits/1", b"theirs")


def test_errors_that_pass_are_waited_for(faulty: tuple[Store, Faults]) -> None:
    store, faults = faulty
    faults.refuse = 2
    store.put("slices/1", b"one")
    faults.refuse, faults.lose = 1, 1
    assert store.get("slices/1") == b"one"


def test_a_store_that_can_not_be_reached_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    from headrace.storage import object_store

    monkeypatch.setattr(object_store, "RETRY_S", 1)
    use_server("http://127.0.0.1:9", monkeypatch.setenv)
    with pytest.raises(StoreError, match=f"the store failed at s3://{BUCKET}/.*/commits/1"):
        fresh_store().get("commits/1")


def test_wrong_credentials_are_named(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_server(server, monkeypatch.setenv)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    wrong = fresh_store()
    for attempt in (lambda: wrong.get("x"), lambda: wrong.put("x", b""), lambda: wrong.list("x")):
        with pytest.raises(HeadraceError) as caught:
            attempt()
        assert caught.value.code == "store-access", caught.value


@pytest.fixture(autouse=True)
def forget_stores() -> Iterator[Any]:
    yield
    known_store.cache_clear()
