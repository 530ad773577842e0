"""Network addresses as 128-bit integers: IPv6 as it is, IPv4 as its mapped form ::ffff:a.b.c.d, so both compare."""

from __future__ import annotations

import ipaddress

BITS = 128
IPV4_BITS = 32
MAPPED = 0xFFFF << IPV4_BITS


def parse_address(text: str) -> int:
    """Return the address in `text`; ValueError if it is none. IPv6 zone ids ('%eth0') are not part of an address."""
    address = ipaddress.ip_address(text.strip())
    if isinstance(address, ipaddress.IPv4Address):
        return MAPPED | int(address)
    if address.scope_id is not None:
        raise ValueError(f"'{text}' has a zone id")
    return int(address)


def is_ipv4(address: int) -> bool:
    return address >> IPV4_BITS == MAPPED >> IPV4_BITS


def format_address(address: int) -> str:
    if is_ipv4(address):
        return str(ipaddress.IPv4Address(address & (2**IPV4_BITS - 1)))
    return str(ipaddress.IPv6Address(address))


def prefix(address: int, length: int) -> int:
    """Clear all but the first `length` bits of an address; an IPv4 address has 32 bits, an IPv6 address 128."""
    kept = BITS - IPV4_BITS + min(length, IPV4_BITS) if is_ipv4(address) else length
    return address >> (BITS - kept) << (BITS - kept)


def parse_network(text: str) -> tuple[int, int]:
    """Return (first address, prefix length) of '10.0.0.0/8'. Host bits must be zero; a bare address is a network."""
    network = ipaddress.ip_network(text.strip())
    first = parse_address(str(network.network_address))
    is_mapped = network.version == 6 and is_ipv4(first)
    return first, network.prefixlen - (BITS - IPV4_BITS if is_mapped else 0)


def in_network(address: int, network: tuple[int, int]) -> bool:
    first, length = network
    return is_ipv4(address) == is_ipv4(first) and prefix(address, length) == first
