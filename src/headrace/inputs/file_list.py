"""Which files there are, oldest first, and what the folders on the way to a file say about its rows."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from urllib.parse import unquote

from headrace.inputs.source import BadFile, Source
from headrace.model.errors import UsageError
from headrace.model.units import InputFile

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def list_files(source: Source) -> list[InputFile]:
    """List the files of a directory and its folders, oldest first; those of the same time by path.

    Names that begin with '.' or '_' are skipped, and so are empty files. A folder that is a symbolic link is not
    entered. A link to a file is taken if the file lies under the directory and is not listed itself.
    """
    root = os.path.abspath(source.path)
    if not os.path.isdir(root):
        problem = "is not a directory" if os.path.exists(root) else "does not exist"
        raise UsageError("file", f"the directory {source.path} {problem}")
    try:
        entries = list(walk(root))
    except OSError as problem:
        raise UsageError("file", f"can't list {problem.filename}: {problem.strerror}") from None
    return sorted(without_links(root, entries), key=lambda file: (file.modified_ns, file.path))


def walk(folder: str) -> Iterator[tuple[os.DirEntry[str], InputFile]]:
    """Yield the files below a folder. Those that vanish meanwhile are passed over."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from walk(entry.path)
            continue
        try:
            status = entry.stat()
        except FileNotFoundError:
            continue
        if stat.S_ISREG(status.st_mode) and status.st_size > 0:
            yield entry, InputFile(entry.path, status.st_size, status.st_mtime_ns)


def without_links(root: str, entries: list[tuple[os.DirEntry[str], InputFile]]) -> Iterator[InputFile]:
    """Yield no file twice, and none from elsewhere."""
    real_root = os.path.realpath(root)
    taken = {
        os.path.join(real_root, os.path.relpath(file.path, root)) for entry, file in entries if not entry.is_symlink()
    }
    for entry, file in entries:
        if entry.is_symlink():
            target = os.path.realpath(file.path)
            if target in taken or os.path.commonpath([target, real_root]) != real_root:
                continue
            taken.add(target)
        yield file


def folder_values(source: Source, path: str) -> dict[str, str | None]:
    """Return the values of the `key=value` folders between the directory and the file, by key in lower case."""
    below = os.path.relpath(os.path.abspath(path), os.path.abspath(source.path))
    values: dict[str, str | None] = {}
    for folder in os.path.dirname(below).split(os.sep):
        key, equals, value = folder.partition("=")
        if equals and key:
            values[decode_folder(path, key).lower()] = None if value == NULL_FOLDER else decode_folder(path, value)
    return values


def decode_folder(path: str, text: str) -> str:
    try:
        decoded_text = unquote(text, errors="strict")
        decoded_text.encode()
    except UnicodeError:
        raise BadFile(path, f"the name of its folder is not UTF-8: '{text}'") from None
    return decoded_text
