"""What a pull may take, and which addresses it may go to."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

import httpx

from pytest_ngram.corpus.selection import MB
from pytest_ngram.errors import CorpusError


@dataclass(frozen=True, slots=True)
class Limits:
    """What one pull may take.

    Args:
        silence_s: to connect, and between two bytes of an answer.
        total_s: the whole pull, pauses and repeated requests included.
        retries: how often one request is sent again after a 5xx or a broken transfer.
        first_pause_s: before the first of them; doubled for each further one, times a random 0.5 to 1.
        longest_pause_s: no pause is longer; a server that asks for more is not waited for.
        max_bytes: of the encrypted export, and of its text once unpacked.
    """

    silence_s: float = 30.0
    total_s: float = 1800.0
    retries: int = 4
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    max_bytes: int = 4000 * MB


def base_url(text: str, *, allow_http: bool) -> httpx.URL:
    """Return the address below which the export lies, without a slash at its end.

    Raises:
        CorpusError: it is no http or https address, holds a user, a query or a fragment, or would send the
            token in the clear over a network.
    """
    try:
        url = httpx.URL(text.rstrip("/"))
        url.host.encode("idna")  # as the system's look-up of names does, which fails in its own way
    except (httpx.InvalidURL, UnicodeError):
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host or (url.port or 1) > 65_535:
        # Not shown: what somebody pastes in place of an address may be a secret.
        raise CorpusError(
            "the export's address is no http or https URL",
            fix="write it as https://host or https://host/path",
        )
    if url.userinfo or url.query or url.fragment:
        raise CorpusError(
            "the export's address holds more than scheme, host, port and path",
            checked=[f"host {url.host}: a user, a query or a fragment stands in it"],
            fix="leave them out; the token comes from its file. What stands on a command line, all can see: "
            "if it was a secret, have a new one made",
        )
    if not allow_http and url.scheme == "http" and not is_loopback(url.host):
        raise CorpusError(
            "the token would travel in the clear",
            checked=[f"the address is http, and {url.host} is not this machine"],
            fix="use https, or a tunnel to the server (`ssh -L 8080:localhost:8080 host`) and "
            "http://localhost:8080; where the way there is encrypted anyway, such as a VPN: --allow-http",
        )
    return url


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by name or number; other names are not looked up."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_redirect(base: httpx.URL, url: httpx.URL) -> None:
    """Refuse to be sent from the export's address to one that is less safe.

    httpx sends the token on to the same scheme, host and port alone, and from http to https of one host.

    Raises:
        CorpusError: the new address is neither https nor of the same origin, nor is all on this machine.
    """
    same = (url.scheme, url.host, url.port) == (base.scheme, base.host, base.port)
    here = base.scheme == url.scheme == "http" and is_loopback(base.host) and is_loopback(url.host)
    if same or here or url.scheme == "https":
        return
    raise CorpusError(
        "the server sends to an address that is not safe",
        checked=[f"from {base.scheme}://{base.host} to {url.scheme}://{url.host}"],
        fix="name the export's final address, or have the server mended",
    )
