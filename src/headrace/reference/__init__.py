"""The naive interpreter: the executable specification of what queries mean. Small, obvious and slow."""

from headrace.reference.interpreter import Gap, Interpreter, Rejected, RowCounts, StepResult, WindowResult

__all__ = ["Gap", "Interpreter", "Rejected", "RowCounts", "StepResult", "WindowResult"]
