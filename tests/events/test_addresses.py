"""Addresses that deliveries must never reach, however they are written."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from bursar.events.addresses import Refused, Rules, check_address, parse

LIVE = Rules()
TEST = Rules(plain_http=True, loopback=True, ports=None)

HOSTILE_URLS = (
    # not HTTPS, or not HTTP at all
    "http://example.com/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com:70/_x",
    "javascript:alert(1)",
    "data:text/plain,x",
    "//example.com/",
    "example.com/hook",
    "https:example.com",
    "https:/example.com",
    "https://",
    "https:///hook",
    "",
    # credentials, fragments, confusing separators
    "https://user@example.com/",
    "https://user:secret@example.com/",
    "https://example.com@127.0.0.1/",
    "https://127.0.0.1#@example.com/",
    "https://example.com#fragment",
    "https://example.com\\@127.0.0.1/",
    "https:\\\\example.com",
    "https://example.com/\\..",
    # line breaks, spaces, control and non-ASCII characters
    "https://example.com/ x",
    "https://example.com/\r\nX-Injected: yes",
    "https://example.com\n.internal/",
    "https://example.com/\x00",
    "https://exa\tmple.com/",
    " https://example.com/",
    "https://ⓔxample.com/",
    "https://１２７.0.0.1/",
    "https://127。0。0。1/",
    # ports
    "https://example.com:0/",
    "https://example.com:80/",
    "https://example.com:22/",
    "https://example.com:5432/",
    "https://example.com:65536/",
    "https://example.com:-1/",
    "https://example.com:x/",
    "https://example.com:/",
    # loopback, private, link-local and metadata addresses
    "https://127.0.0.1/",
    "https://127.255.255.254/",
    "https://0.0.0.0/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.168.1.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://100.64.0.1/",
    "https://100.100.100.200/",
    "https://192.0.0.192/",
    "https://198.18.0.1/",
    "https://192.88.99.1/",
    "https://224.0.0.1/",
    "https://239.255.255.250/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    # the same in spellings that some resolvers understand
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0x7f.1/",
    "https://017700000001/",
    "https://0177.0.0.1/",
    "https://127.1/",
    "https://127.0.1/",
    "https://1.1.1/",
    "https://08.8.8.8/",
    "https://127.0.0.1./",
    "https://example.0x1/",
    "https://example.127/",
    # IPv6
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:169.254.169.254]/",
    "https://[::127.0.0.1]/",
    "https://[::ffff:0:127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[64:ff9b:1::a00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[2001:0:7f00:1::]/",
    "https://[2001:db8::1]/",
    "https://[3fff::1]/",
    "https://[100::1]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fc00::1]/",
    "https://[fd00:ec2::254]/",
    "https://[fec0::1]/",
    "https://[ff02::1]/",
    "https://[5f00::1]/",
    "https://[::1",
    "https://[127.0.0.1]/",
    "https://[not-an-address]/",
    "https://::1/",
    # host names that cannot be
    "https://-example.com/",
    "https://example-.com/",
    "https://exa mple.com/",
    "https://exam%70le.com/",
    "https://example..com/",
    "https://.example.com/",
    "https://" + "a" * 64 + ".com/",
    "https://" + "a." * 130 + "com/",
    "https://example.com/" + "x" * 2000,
)

GOOD_URLS = {
    "https://example.com": ("example.com", 443, "/"),
    "https://example.com/hooks/1?a=b&c=%20": ("example.com", 443, "/hooks/1?a=b&c=%20"),
    "https://EXAMPLE.com:443/": ("example.com", 443, "/"),
    "https://xn--bcher-kva.example/": ("xn--bcher-kva.example", 443, "/"),
    "https://hooks_2.shop-1.example/x": ("hooks_2.shop-1.example", 443, "/x"),
    "https://8.8.8.8/": ("8.8.8.8", 443, "/"),
    "https://[2606:4700::1111]/": ("2606:4700::1111", 443, "/"),
    "https://127.0.0.1.example.com/": ("127.0.0.1.example.com", 443, "/"),
}


def test_there_are_enough_of_them() -> None:
    assert len(set(HOSTILE_URLS)) == len(HOSTILE_URLS) >= 60


@pytest.mark.parametrize("url", HOSTILE_URLS)
def test_hostile_urls_are_refused(url: str) -> None:
    with pytest.raises(Refused):
        parse(url, LIVE)


@pytest.mark.parametrize("url", GOOD_URLS)
def test_good_urls_are_taken_as_they_are(url: str) -> None:
    target = parse(url, LIVE)
    assert (target.host, target.port, target.path) == GOOD_URLS[url]
    assert target.secure


def test_a_test_instance_allows_this_machine_and_nothing_else_that_is_private() -> None:
    assert parse("http://127.0.0.1:3000/hook", TEST).authority == "127.0.0.1:3000"
    assert parse("http://[::1]:3000/hook", TEST).authority == "[::1]:3000"
    assert parse("http://localhost/hook", TEST).authority == "localhost"
    for url in ("http://10.0.0.1/", "http://169.254.169.254/", "http://[::ffff:127.0.0.1]/", "http://0.0.0.0/"):
        with pytest.raises(Refused):
            parse(url, TEST)


def test_an_operator_can_name_more_ports_and_refuse_more_networks() -> None:
    rules = Rules(ports=frozenset({443, 8443}), refused=(ip_network("8.8.8.0/24"),))
    assert parse("https://example.com:8443/", rules).origin == "https://example.com:8443"
    with pytest.raises(Refused):
        parse("https://8.8.8.8/", rules)
    with pytest.raises(Refused):
        check_address(ip_address("8.8.8.4"), rules)


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "2a00:1450:4009::200e"])
def test_public_addresses_are_allowed(address: str) -> None:
    check_address(ip_address(address), LIVE)
