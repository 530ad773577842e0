"""The window of a query: behind the stream's name, or as an item of GROUP BY."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from headrace.model.errors import QueryError, Span
from headrace.model.expressions import WINDOW_END, WINDOW_START, Call, Literal
from headrace.model.time import SECOND_US
from headrace.model.types import BIGINT
from headrace.model.windows import AnyWindow, Window
from headrace.sql.cursor import DURATION_HINT, read_duration
from headrace.sql.expressions import ExpressionBuilder
from headrace.sql.lift import Lifted
from headrace.sql.relations import FromClause
from headrace.sql.scope import Named
from headrace.sql.tokens import span_of, value_errors_at

WINDOW_HINT = "add one, like FROM stream [RANGE '12 min' SLIDE '5 min'], or GROUP BY window(time, '1 minute')"


class WindowReader:
    """Collects the windows that a query names, and insists on exactly one."""

    def __init__(self, builder: ExpressionBuilder, lifted: Lifted, source: FromClause) -> None:
        self.builder = builder
        self.spots = builder.spots
        self.scope = builder.scope
        self.source = source
        self.windows: list[tuple[AnyWindow, Span]] = []
        self.read_lifted(lifted)

    def only(self) -> AnyWindow:
        """The query's window; over results, unless it says otherwise, one for each window of these."""
        derived = self.source.stream.derived
        if not self.windows and derived is not None:
            window = derived.window
            return replace(window, range_us=window.slide_us) if isinstance(window, Window) else window
        if not self.windows:
            raise self.spots.fail("window", "the query has no window", self.source.stream_node, WINDOW_HINT)
        if len(self.windows) > 1:
            raise QueryError("window", "the query has two windows", hint="leave one out", span=self.windows[1][1])
        return self.windows[0][0]

    def add(self, make: Callable[[], AnyWindow], span: Span) -> None:
        with value_errors_at(span, "window"):
            self.windows.append((make(), span))

    def read_lifted(self, lifted: Lifted) -> None:
        alias = self.source.stream_node.args.get("alias")
        anchors = {self.spots.index(self.source.stream_node.this)}
        anchors |= {self.spots.index(alias.this)} if alias is not None else set()
        for window in lifted.windows:
            if window.anchor not in anchors:
                raise QueryError(
                    "window", "a window belongs behind the stream's name", hint=WINDOW_HINT, span=window.span
                )
            if window.time_column is not None:
                token = lifted.source[window.time_column]
                self.check_event_time(token.text, span_of(token))
            self.windows.append((window.window, window.span))

    def check_event_time(self, name: str, span: Span) -> None:
        stream = self.source.stream
        if name.lower() != stream.event_time.lower():
            message = f"windows run over the event time of {stream.name}, not over '{name}'"
            raise QueryError("window", message, hint=f"the event time is '{stream.event_time}'", span=span)

    def is_event_time(self, node: exp.Expression) -> bool:
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return False
        column = self.scope.find(node)
        event_time = (self.source.stream_relation.alias, self.source.stream.event_time)
        return column is not None and (column.relation, column.name) == event_time

    def take_group(self, node: exp.Expression, alias: str | None) -> bool:
        """True if this item of GROUP BY is a window, which is then noted."""
        return self.window_call(node, alias) or self.time_bucket(node, alias)

    def window_call(self, node: exp.Expression, alias: str | None) -> bool:
        """GROUP BY window(time, range [, slide [, start]]), as in Spark: the starts are aligned."""
        if not isinstance(node, exp.Anonymous) or self.spots.token(node).text.lower() != "window":
            return False
        first, *rest = node.expressions or [None]
        if first is None or not self.is_event_time(first):
            message = f"window() runs over the event time '{self.source.stream.event_time}'"
            raise self.spots.fail("window", message, first or node, "write window(time, '12 minutes', '5 minutes')")
        durations = [self.duration(argument) for argument in rest]
        if not 1 <= len(durations) <= 3:
            message = "window() takes the time, a length, and at most a slide and a start"
            raise self.spots.fail("window", message, node)
        range_us, slide_us, start_us = (*durations, *([durations[0], 0][len(durations) - 1 :]))
        self.add(lambda: Window.aligned_at_start(range_us, slide_us, start_us), self.spots.span(node))
        for name in {"window", alias or "window"}:
            self.scope.add_names(Named(f"{name}.start", WINDOW_START), Named(f"{name}.end", WINDOW_END))
        return True

    def time_bucket(self, node: exp.Expression, alias: str | None) -> bool:
        """GROUP BY time/60 AS tb, as in Gigascope: tumbling windows, and tb is the number of the window."""
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Div | exp.IntDiv) or not self.is_event_time(node.this):
            return False
        seconds = self.builder.build(node.expression)
        value = seconds.value if isinstance(seconds, Literal) and seconds.type == BIGINT else None
        if not isinstance(value, int) or value <= 0:
            message = "the event time is divided by a whole number of seconds above zero"
            raise self.spots.fail("window", message, node.expression, "write GROUP BY time/60 AS minute")
        length_us = value * SECOND_US
        self.add(lambda: Window(length_us, length_us), self.spots.span(node))
        if alias is not None:
            bucket = Call("div", (Call("unix_seconds", (WINDOW_START,), BIGINT), seconds), BIGINT)
            self.scope.add_names(Named(alias, bucket))
        return True

    def duration(self, node: exp.Expression) -> int:
        value = self.builder.build(node)
        if not isinstance(value, Literal) or value.value is None or isinstance(value.value, bool):
            raise self.spots.fail("window", "expected a duration", node, DURATION_HINT)
        return read_duration(str(value.value), self.spots.span(node))
