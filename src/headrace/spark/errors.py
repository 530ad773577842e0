"""Errors of Spark in Headrace's words: our own as they were raised in a worker, all others in one line."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from headrace.model.errors import HeadraceError, printable_lines
from headrace.storage.store import open_store

SPARK_ERRORS = (PySparkException, Py4JError)
LOST = "spark-lost"
LOST_SIGNS = (
    "JAVA_GATEWAY_EXITED",
    "Answer from Java side is empty",
    "SparkContext was shut down",
    "stopped SparkContext",
)
"""What Spark says in an error of no type of its own when the JVM is gone, or is going."""
OURS = re.compile(r"error\[(?P<code>[\w-]+)\]: (?P<message>.*)")
OUR_LINES = re.compile(r"  = |hint: | *\d* \| ")
"""Lines that belong to one of our errors: detail, hint, and the spot in the SQL."""
RAISED = re.compile(r"^(?:[\w.]+\.)?(?P<name>[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning))(?:: (?P<text>.*))?$")
CAUSED = re.compile(r"^Caused by: [\w.$]+: (?P<text>.+)$")
DETAILS = "last-error.txt"


class TaskError(HeadraceError):
    """An error of ours that was raised in a worker. Only its text comes back to the driver."""

    def __init__(self, code: str, message: str, text: str) -> None:
        super().__init__(code, message)
        self.text = text

    def __str__(self) -> str:
        return printable_lines(self.text)


def translate_error(problem: BaseException, state: str) -> BaseException:
    """Return the error to raise in place of one of Spark's. An error that is not Spark's is returned as it is.

    The whole text of an error that we do not know goes into an object in the store at `state`.
    """
    if isinstance(problem, HeadraceError):
        return problem
    if is_lost(problem):
        hint = "was it killed, or out of memory? start again: the step that ran is done once more"
        detail = str(problem).partition("\n")[0]
        return HeadraceError(LOST, "Spark's Java process is gone", detail=detail, hint=hint)
    if not isinstance(problem, SPARK_ERRORS):
        return problem
    text = str(problem)
    ours = find_own_error(text)
    if ours is not None:
        return ours
    return HeadraceError("spark", f"a step failed in Spark: {find_cause(text)}", hint=keep_details(text, state))


def is_lost(problem: BaseException) -> bool:
    """Return whether an error means that the JVM is gone, or is going."""
    if isinstance(problem, HeadraceError):
        return problem.code == LOST
    if isinstance(problem, ConnectionError | Py4JNetworkError):
        return True
    return isinstance(problem, SPARK_ERRORS) and any(sign in str(problem) for sign in LOST_SIGNS)


def find_own_error(text: str) -> TaskError | None:
    """Return the last of our errors in a stack trace of a worker: those before it are its causes."""
    lines = text.splitlines()
    for place in range(len(lines) - 1, -1, -1):
        match = OURS.search(lines[place])
        if match:
            own_lines = [match[0]]
            for line in lines[place + 1 :]:
                if not OUR_LINES.match(line):
                    break
                own_lines.append(line)
            return TaskError(match["code"], match["message"], "\n".join(own_lines))
    return None


def find_cause(text: str) -> str:
    """Return what Python raised at the end of a stack trace, else the cause that Java names, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    begin = next((place for place, line in enumerate(lines) if line.startswith("Traceback")), len(lines))
    raised = [line for line in lines[begin:] if RAISED.match(line) and not line.startswith("org.")]
    if raised:
        return raised[-1]
    causes = [match["text"] for match in map(CAUSED.match, lines) if match]
    return next(iter((*causes, *lines)), "it did not say why")


def keep_details(text: str, state: str) -> str:
    """Write the text into the state, and return a hint that names it."""
    place = f"{state}/{DETAILS}"
    try:
        open_store(state).put(DETAILS, f"{text}\n".encode())
    except HeadraceError:
        return f"Spark said more, and {place} can't be written"
    return f"all that Spark said is in {place}"
