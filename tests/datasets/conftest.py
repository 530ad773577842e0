"""Default data sets, generated once per run, and ways to look at them that know nothing of the generators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from headrace.datasets import KINDS, generate


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return the directory of a data set with seed 1, generated when first asked for."""
    made: dict[tuple[object, ...], Path] = {}

    def directory(kind: str, preset: str | None = None, flow_length: float | None = None) -> Path:
        key = (kind, preset, flow_length)
        if key not in made:
            made[key] = tmp_path_factory.mktemp(kind)
            generate(kind, None, 1, made[key], preset=preset, flow_length=flow_length)
        return made[key]

    return directory


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.fixture
def load(database: duckdb.DuckDBPyConnection, dataset: Callable[..., Path]) -> Callable[..., duckdb.DuckDBPyConnection]:
    """Return a database that holds a data set's stream and static tables under their own names."""

    def loaded(kind: str, preset: str | None = None, flow_length: float | None = None) -> duckdb.DuckDBPyConnection:
        directory = dataset(kind, preset, flow_length)
        for folder in sorted(path for path in directory.iterdir() if path.is_dir()):
            database.execute(f"CREATE TABLE \"{folder.name}\" AS SELECT * FROM read_parquet('{folder}/*.parquet')")
        assert database.execute(f"SELECT count(*) FROM {KINDS[kind].stream}").fetchone() == (KINDS[kind].default_rows,)
        return database

    return loaded
