"""The engine on Spark."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.engine.engine import LocalEngine, Options
from headrace.engine.feeds import PathText
from headrace.engine.pipeline import Pipeline
from headrace.engine.quotas import Quotas
from headrace.engine.run import OnFailure
from headrace.engine.step.runner import Runner
from headrace.kernel.close.instances import MAX_RESULT_ROWS
from headrace.model.errors import UsageError
from headrace.spark.dataframes import empty_table
from headrace.spark.errors import translate_error
from headrace.spark.executors import is_connect, wait_for_cores
from headrace.spark.runner import SparkRunner
from headrace.spark.session import report_missing_settings
from headrace.spark.streaming_dataframes import StreamingDataFrame


class Engine(LocalEngine):
    """Answers continuous queries over streams with one shared plan per stream, on Spark.

    Example:
        >>> import pyarrow as pa, tempfile
        >>> from datetime import UTC, datetime
        >>> engine = headrace.Engine(spark, state=tempfile.mkdtemp())
        >>> rows = pa.table({"at": [datetime(2026, 1, 1, 9, 0, second, tzinfo=UTC) for second in (1, 7, 12)]})
        >>> engine.stream("clicks", spark.createDataFrame(rows), event_time="at")
        >>> engine.add("counts", "SELECT count(*) AS n FROM clicks [RANGE '10 s']")
        >>> with engine.bounded() as run:
        ...     run.results("counts")["n"].to_pylist()
        [2, 1]
    """

    def __init__(
        self,
        spark: SparkSession,
        state: PathText,
        *,
        reducers: int | None = None,
        on_bad_file: Literal["stop", "quarantine"] = "stop",
        max_empty: int = 1_000,
        max_result_rows: int = MAX_RESULT_ROWS,
        retain: str | None = None,
        results: str | None = None,
        step_bytes: int | None = None,
        take_over: bool = False,
        reset_results: bool = False,
        quotas: Quotas | None = None,
    ) -> None:
        """Make an engine without streams and queries. Nothing is read or written before it runs.

        Args:
            spark: A session: your own, or that of `headrace.spark.session.start_session()`.
            state: A directory that the engine owns, or a place in an object store, such as `s3://bucket/job`. Started
                again, the engine resumes from there.
            reducers: Parts that a new state is split into. Default: the number of cores. `headrace rescale` and
                `Run.rescale` change it later.
            on_bad_file: What to do with a file that can't be read as declared: stop, or leave it out.
            max_empty: Empty windows in a row that a query without groups answers. The rest is left out.
            max_result_rows: Result rows of one query in one step and reducer. A query that has more fails.
            retain: How long slices are kept for queries to come, such as `1 h`. Default: the longest window.
            results: How long results stay in the state after all sinks have them, such as `1 day`. Default: `1 h`.
            step_bytes: Bytes of input that one step takes. The rest waits for the next. Default: 32 MiB for each task
                that may run at once, and at least 1 GiB.
            take_over: Take the state from an engine that hangs and can't be stopped.
            reset_results: Move results aside that belong to another state, or to later steps than this state has.
            quotas: Limits of queries, state and groups.

        Raises:
            UsageError: There is no such store, or an option does not fit.
        """
        options = Options(
            reducers=reducers,
            on_bad_file=on_bad_file,
            max_empty=max_empty,
            max_result_rows=max_result_rows,
            retain=retain,
            results=results,
            step_bytes=step_bytes,
            take_over=take_over,
            reset_results=reset_results,
            quotas=quotas or Quotas(),
        )
        super().__init__(state, options)
        self.spark = spark

    def make_runner(self) -> Runner:
        return SparkRunner(self.spark)

    def count_cores(self) -> int:
        return wait_for_cores(self.spark)

    def check_session(self) -> None:
        if is_connect(self.spark):
            self.check_static()
        report_missing_settings(self.spark)

    def check_static(self) -> None:
        """Raise an error for a streaming DataFrame of Spark Connect."""
        for feed in self.feeds.values():
            if isinstance(feed.dataframe, DataFrame) and feed.dataframe.isStreaming:
                problem = "a streaming DataFrame of Spark Connect can't be read"
                detail = "Connect runs what handles a batch on the server, which does not have the state of the engine"
                hint = "read files, or use a session that is not remote"
                raise UsageError("connect", problem, detail=detail, hint=hint)

    def start_streaming(self, pipeline: Pipeline, trigger_us: int, on_failure: OnFailure) -> StreamingDataFrame:
        return StreamingDataFrame(pipeline, trigger_us, on_failure)

    def translate(self, problem: BaseException) -> BaseException:
        return translate_error(problem, self.state)

    def empty_table(self, dataframe: Any) -> pa.Table:
        return empty_table(dataframe) if isinstance(dataframe, DataFrame) else super().empty_table(dataframe)

    def collect(self, dataframe: Any) -> pa.Table:
        return dataframe.toArrow()
