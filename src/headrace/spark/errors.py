"""What goes wrong inside Spark, told to people: our own errors as they are, anything else in one line."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.model.errors import HeadraceError, printable_lines

OURS = re.compile(r"error\[(?P<code>[\w-]+)\]: (?P<message>.*)")
MORE = re.compile(r"  = |hint: | *\d* \| ")
"""Lines that belong to one of our errors: detail, hint, and the spot in the SQL."""
RAISED = re.compile(r"^(?:[\w.]+\.)?(?P<name>[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning))(?:: (?P<text>.*))?$")
CAUSED = re.compile(r"^Caused by: [\w.$]+: (?P<text>.+)$")
FOREIGN = ("pyspark", "py4j")
LOST = ("JAVA_GATEWAY_EXITED", "Answer from Java side is empty", "SparkContext was shut down", "stopped SparkContext")
DETAILS = "last-error.txt"


class TaskError(HeadraceError):
    """An error of ours that was raised in a worker: what came over is its text."""

    def __init__(self, code: str, message: str, text: str) -> None:
        super().__init__(code, message)
        self.text = text

    def __str__(self) -> str:
        return printable_lines(self.text)


def translated(problem: BaseException, state: Path) -> BaseException:
    """The error to show in place of one of Spark's; one that is not of Spark stays what it is.

    The whole text of what we do not know goes into a file beside the state.
    """
    if is_lost(problem):
        hint = "was it killed, or out of memory? start again: the step that ran is done once more"
        return HeadraceError(
            "spark-lost", "Spark's Java process is gone", detail=str(problem).partition("\n")[0], hint=hint
        )
    if type(problem).__module__.partition(".")[0] not in FOREIGN:
        return problem
    told = str(problem)
    ours = our_error(told)
    if ours is not None:
        return ours
    return HeadraceError("spark", f"a step failed in Spark: {cause_of(told)}", hint=keep_details(told, state))


def is_lost(problem: BaseException) -> bool:
    """Whether it says that the JVM is gone, or is going."""
    if isinstance(problem, ConnectionError) or type(problem).__name__ == "Py4JNetworkError":
        return True
    return type(problem).__module__.partition(".")[0] in FOREIGN and any(sign in str(problem) for sign in LOST)


def our_error(told: str) -> TaskError | None:
    """The last of our errors in a stack trace: those before it are what it came of."""
    lines = told.splitlines()
    for place in range(len(lines) - 1, -1, -1):
        found = OURS.search(lines[place])
        if found:
            text = [found[0]]
            for line in lines[place + 1 :]:
                if not MORE.match(line):
                    break
                text.append(line)
            return TaskError(found["code"], found["message"], "\n".join(text))
    return None


def cause_of(told: str) -> str:
    """What Python said at the end of a stack trace; else what Java gives as the cause; else the first line."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    begun = next((place for place, line in enumerate(lines) if line.startswith("Traceback")), len(lines))
    raised = [line for line in lines[begun:] if RAISED.match(line) and not line.startswith("org.")]
    if raised:
        return raised[-1]
    causes = [found["text"] for found in map(CAUSED.match, lines) if found]
    return next(iter((*causes, *lines)), "it did not say why")


def keep_details(told: str, state: Path) -> str:
    path = state / DETAILS
    try:
        path.write_text(f"{told}\n", encoding="utf-8")
    except OSError:
        return f"Spark said more, and {path} can't be written"
    return f"all that Spark said is in {path}"
