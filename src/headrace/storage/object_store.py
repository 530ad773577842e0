"""A store in an object store: S3 and what speaks its protocol, Google Cloud Storage, Azure, through obstore.

Credentials, region and endpoint come from the environment, as the tools of each cloud read them (`AWS_REGION`,
`AWS_ENDPOINT_URL`, ...). The store must honour conditional puts: exactly one of those who create an object wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from headrace.model.errors import UsageError
from headrace.storage.store import Listed, MissingObjectError, StoreError

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
except ImportError:
    raise UsageError("extra", "an object store needs the package obstore", hint='pip install "headrace[s3]"') from None

RETRY_S = 60
"""How long a request is repeated that fails for reasons that pass."""
REQUEST_S = 20
"""How long one request may take: a put is at most some 100 MB."""
DELETED_AT_ONCE = 1_000
NO_ACCESS = "see that the credentials in the environment may list, read, write and delete there"
UNREACHED = "see that the store can be reached; then start again: it continues where it stopped"


class ObjectStore:
    """Objects below a prefix of a bucket."""

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")
        try:
            self.store = obstore.store.from_url(
                self.location,
                retry_config={"max_retries": 10, "retry_timeout": timedelta(seconds=RETRY_S)},
                client_options={"timeout": timedelta(seconds=REQUEST_S), "allow_http": True},
            )
        except (BaseError, ValueError) as reason:
            raise UsageError("store", f"can't use {location} as a store", detail=str(reason)) from None

    def create(self, name: str, data: bytes) -> bool:
        with self.translate_errors(name):
            try:
                obstore.put(self.store, name, data, mode="create", use_multipart=False)
                return True
            except AlreadyExistsError:
                pass
        return self.get(name) == data

    def put(self, name: str, data: bytes) -> None:
        with self.translate_errors(name):
            obstore.put(self.store, name, data)

    def get(self, name: str) -> bytes:
        with self.translate_errors(name):
            return bytes(obstore.get(self.store, name).bytes())

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if not ranges:
            return []
        starts, ends = zip(*ranges, strict=True)
        with self.translate_errors(name):
            return [bytes(data) for data in obstore.get_ranges(self.store, name, starts=starts, ends=ends)]

    def list(self, prefix: str) -> list[Listed]:
        with self.translate_errors(prefix):
            chunks = obstore.list(self.store, prefix, chunk_size=1_000)
            return sorted(Listed(entry["path"], entry["size"]) for chunk in chunks for entry in chunk)

    def delete(self, names: Iterable[str]) -> None:
        paths = list(names)
        for begin in range(0, len(paths), DELETED_AT_ONCE):
            with self.translate_errors(paths[begin]):
                obstore.delete(self.store, paths[begin : begin + DELETED_AT_ONCE])

    @contextmanager
    def translate_errors(self, name: str) -> Iterator[None]:
        place = f"{self.location}/{name}"
        try:
            yield
        except FileNotFoundError:
            raise MissingObjectError("missing-object", f"{place} is missing") from None
        except BaseError as reason:
            if is_refusal(reason):
                code, problem, hint = "store-access", f"no access to {place}", NO_ACCESS
            else:
                code, problem, hint = "store", f"the store failed at {place}", UNREACHED
            raise StoreError(code, problem, detail=first_line(reason), hint=hint) from None


def is_refusal(reason: BaseError) -> bool:
    """Return whether credentials are to blame; for listings the library has no error of its own."""
    return isinstance(reason, PermissionDeniedError | UnauthenticatedError) or "403 Forbidden" in str(reason)


def first_line(reason: BaseException) -> str:
    return str(reason).partition("\n")[0][:300]
