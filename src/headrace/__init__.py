"""Headrace answers hundreds of continuous aggregate queries over one stream with one shared plan."""

from headrace.model.functions import user_function

__version__ = "0.1.0.dev0"

__all__ = ["__version__", "user_function"]
