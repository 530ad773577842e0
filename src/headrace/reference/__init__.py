"""The naive interpreter: the executable specification of what queries mean. Small, obvious and slow."""

from headrace.reference.interpreter import Counts, Gap, Interpreter, Rejected, StepResult, WindowResult

__all__ = ["Counts", "Gap", "Interpreter", "Rejected", "StepResult", "WindowResult"]
