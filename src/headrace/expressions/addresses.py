"""Addresses, 16 bytes each, as two words of 64 bits. Masks are laid out as the bytes are: none is turned around."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.expressions.columns import (
    ColumnFunction,
    Evaluated,
    Values,
    booleans,
    build_column,
    patch_by_distinct,
    raw,
)
from headrace.expressions.numbers import literal_int
from headrace.model.address import BITS, IPV4_BITS, MAPPED, format_address, is_ipv4, parse_network
from headrace.model.arrays import Mask
from headrace.model.arrow import ADDRESS_BYTES, address_bytes
from headrace.model.expressions import Call, Literal
from headrace.model.types import ADDRESS, STRING

Words = NDArray[np.uint64]


def words_of(number: int) -> Words:
    return np.frombuffer(address_bytes(number), np.uint64)


def mask(kept: int) -> int:
    """The first `kept` bits."""
    return (1 << BITS) - (1 << (BITS - kept))


def kept_bits(length: int, *, ipv4: bool) -> int:
    return BITS - IPV4_BITS + min(length, IPV4_BITS) if ipv4 else length


def lies_in(words: Words, first: int, kept: int) -> Mask:
    """Where the first `kept` bits are those of `first`. A word whose bits are all kept is compared as it is."""
    answer: Mask | None = None
    for position in range(2):
        bits, wanted = words_of(mask(kept))[position], words_of(first)[position]
        if bits:
            column = words[:, position]
            equal = (column if bits == np.uint64(2**64 - 1) else column & bits) == wanted
            answer = equal if answer is None else answer & equal
    return np.ones(len(words), np.bool_) if answer is None else answer


def is_mapped(words: Words) -> Mask:
    return lies_in(words, MAPPED, BITS - IPV4_BITS)


def in_network(call: Call, values: list[Values]) -> Evaluated:
    network = call.arguments[1]
    if not isinstance(network, Literal):
        raise TypeError("the network is a constant")
    first, length = parse_network(str(network.value))
    kept = kept_bits(length, ipv4=is_ipv4(first))
    words = raw(values[0], np.uint64, 2)
    answer = lies_in(words, first, kept)
    if not is_ipv4(first) and MAPPED & mask(kept) == first:
        answer &= ~is_mapped(words)
    return Evaluated(booleans(answer, values[0]))


def network_prefix(call: Call, values: list[Values]) -> Evaluated:
    length = literal_int(call, 1)
    words = raw(values[0], np.uint64, 2)
    plain, mapped = (words_of(mask(kept_bits(length, ipv4=ipv4))) for ipv4 in (False, True))
    cut = np.empty_like(words)
    cut[:, 0] = words[:, 0] & plain[0]  # of an IPv4 address this word is 0
    cut[:, 1] = words[:, 1] & np.where(is_mapped(words), mapped[1], plain[1])
    return Evaluated(build_column(cut, pa.binary(ADDRESS_BYTES), values[0]))


def to_text(values: pa.Array) -> pa.Array:
    """IPv4 byte by byte from a table of numbers; IPv6 address by address, each distinct one once."""
    octets = raw(values, np.uint8, ADDRESS_BYTES)[:, -4:]
    numbers = pa.array([str(number) for number in range(256)])
    text = pc.binary_join_element_wise(*(numbers.take(pa.array(octets[:, place])) for place in range(4)), ".")
    ipv6 = ~is_mapped(raw(values, np.uint64, 2))
    if ipv6.any():
        text = patch_by_distinct(text, ipv6, format_address, values, ADDRESS, STRING).values
    return pc.if_else(pc.is_valid(values), text, pa.scalar(None, pa.string())) if values.null_count else text


STRICT: dict[str, ColumnFunction] = {"ip_in": in_network, "ip_prefix": network_prefix}
