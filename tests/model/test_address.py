"""Network addresses: both versions in one number, prefixes and networks, text in and out."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.address import MAPPED, format_address, in_network, is_ipv4, parse_address, parse_network, prefix

v4 = st.integers(0, 2**32 - 1).map(lambda host: MAPPED | host)
v6 = st.integers(0, 2**128 - 1)


def test_an_ipv4_address_is_its_mapped_form() -> None:
    assert parse_address("10.0.0.1") == parse_address("::ffff:10.0.0.1") == parse_address(" ::FFFF:a00:1 ")
    assert format_address(parse_address("::ffff:10.0.0.1")) == "10.0.0.1"


@given(v4 | v6)
def test_a_printed_address_reads_back(address: int) -> None:
    assert parse_address(format_address(address)) == address


@pytest.mark.parametrize(
    "text", ["", "10.0.0", "10.0.0.256", "010.0.0.1", "fe80::1%eth0", "10.0.0.0/8", "::ffff:", "x"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is the standard library's
        parse_address(text)


@given(v4, st.integers(0, 128))
def test_prefixes_of_ipv4_count_its_own_bits(address: int, length: int) -> None:
    cut = prefix(address, length)
    assert is_ipv4(cut)
    network = ipaddress.ip_network((address & (2**32 - 1), min(length, 32)), strict=False)
    assert format_address(cut) == str(network.network_address)


@given(v6.filter(lambda address: not is_ipv4(address)), st.integers(0, 128))
def test_prefixes_of_ipv6(address: int, length: int) -> None:
    network = ipaddress.IPv6Network((address, length), strict=False)
    assert prefix(address, length) == int(network.network_address)


@given(v4, st.integers(0, 32))
def test_an_address_lies_in_its_own_networks(address: int, length: int) -> None:
    network = parse_network(f"{format_address(prefix(address, length))}/{length}")
    assert in_network(address, network)


def test_networks_hold_addresses_of_their_own_version_only() -> None:
    assert in_network(parse_address("10.1.2.3"), parse_network("10.0.0.0/8"))
    assert not in_network(parse_address("11.1.2.3"), parse_network("10.0.0.0/8"))
    assert not in_network(parse_address("10.1.2.3"), parse_network("::/0"))
    assert not in_network(parse_address("::1"), parse_network("0.0.0.0/0"))
    assert in_network(parse_address("2001:db8::5"), parse_network("2001:db8::/32"))


def test_a_bare_address_is_a_network_of_one() -> None:
    assert in_network(parse_address("10.0.0.1"), parse_network("10.0.0.1"))
    assert not in_network(parse_address("10.0.0.2"), parse_network("10.0.0.1"))


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/-1", "x/8", ""])
def test_what_is_no_network(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is the standard library's
        parse_network(text)


def test_a_network_of_mapped_addresses() -> None:
    """::ffff:10.0.0.0/104 is 10.0.0.0/8 in IPv6's words."""
    network = parse_network("::ffff:10.0.0.0/104")
    assert network == parse_network("10.0.0.0/8")
    assert in_network(parse_address("10.1.2.3"), network)
    assert not in_network(parse_address("11.1.2.3"), network)
    assert parse_network("::ffff:0:0/96") == parse_network("0.0.0.0/0")
