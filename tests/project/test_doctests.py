"""The public API: what it holds, that each part says how it is used, and that the examples in it run."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headrace
from headrace import testing
from headrace.datasets import generate
from headrace.engine.engine import LocalEngine, Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VOLUME = "SELECT Symbol, sum(Vol) AS volume FROM Trades [RANGE '30 s' SLIDE '10 s'] GROUP BY Symbol"
INNER = {
    headrace.Run: set(
        "start once bounded loop record_failure check_streaming streaming_failed run_until_idle check_bounded "
        "run_steps waits_for_edges close request may_step check_live check_failed".split()
    ),
    LocalEngine: set(
        "release_state make_runner count_cores check_session start_streaming translate empty_table collect "
        "columns_of add_script".split()
    ),
}
"""Methods that are not for users."""


def public_methods() -> dict[str, Callable[..., Any]]:
    return {
        f"{kind.__name__}.{name}": method
        for kind, inner in INNER.items()
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and name not in inner
    }


def examples(documented: Any) -> list[doctest.DocTest]:
    return [found for found in doctest.DocTestFinder().find(documented) if found.examples]


def check(example: doctest.DocTest, **known: Any) -> None:
    example.globs = {"headrace": headrace, **known}
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example)
    assert outcome.failed == 0, f"{example.name}: see standard output"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    generate("trades", 500, 7, folder / "trades")
    return folder


def test_the_public_names() -> None:
    names = "aggregate Engine Run HeadraceError RowErrorWarning user_function UserAggregate user_aggregate extractor"
    assert set(headrace.__all__) == {*names.split(), "declare_aggregates", "__version__"}
    assert all(getattr(headrace, name) is not None for name in headrace.__all__)
    with pytest.raises(AttributeError, match="no attribute 'engines'"):
        _ = headrace.engines


@pytest.mark.parametrize("name", public_methods())
def test_a_public_method_documents_its_use(name: str) -> None:
    method = public_methods()[name]
    text = inspect.getdoc(method) or ""
    assert "Example:\n" in text
    parameters = [each for each in inspect.signature(method).parameters if each != "self"]
    documented = text.partition("Args:\n")[2].partition("\n\n")[0]
    assert [each for each in parameters if f"    {each}: " not in documented] == []
    if inspect.signature(method).return_annotation != "None":
        assert "Returns:\n" in text or text.startswith("Return ")


def test_the_options_of_an_engine() -> None:
    """Each is documented, and has the same default everywhere."""
    signature = inspect.signature(headrace.Engine.__init__)
    defaults = {each.name: getattr(Options(), each.name) for each in fields(Options)} | {"quotas": None}
    given = {name: each.default for name, each in signature.parameters.items() if each.kind == each.KEYWORD_ONLY}
    assert given == defaults
    text = inspect.getdoc(headrace.Engine.__init__) or ""
    assert [name for name in given if f"    {name}: " not in text] == []


@pytest.mark.parametrize(
    "documented",
    [headrace.aggregate, testing, testing.FakeClock, testing.check_laws],
    ids=lambda documented: documented.__name__,
)
def test_an_example_runs(documented: Any) -> None:
    found = examples(documented)
    assert found
    for example in found:
        check(example, FakeClock=testing.FakeClock)


@pytest.mark.parametrize("name", [found.name for kind in INNER for found in examples(kind)])
def test_an_example_runs_in_this_process(name: str, root: Path, tmp_path: Path) -> None:
    (example,) = (found for kind in INNER for found in examples(kind) if found.name == name)
    engine = LocalEngine(tmp_path / "state")
    engine.stream("Trades", root / "trades" / "Trades", event_time="Time", lateness="5 s")
    engine.add("volume", VOLUME)
    check(example, engine=engine, root=root)


def test_the_example_of_the_engine_runs_on_spark(spark: SparkSession) -> None:
    (example,) = examples(headrace.Engine)
    check(example, spark=spark)
