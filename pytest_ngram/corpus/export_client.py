"""The client of a corpus export: `GET /export/v1/manifest`, then `GET /export/v1/messages`.

The token goes to the named host and nowhere else: not to a proxy of the environment, not along a redirect
to another host. What the server writes into an error is never shown, since it may repeat what was sent.
"""

from __future__ import annotations

import contextlib
import hashlib
import ssl
from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeVar

import httpx
import msgspec

from pytest_ngram import __version__
from pytest_ngram.corpus import export_logs
from pytest_ngram.corpus.export_limits import Limits, check_redirect
from pytest_ngram.corpus.export_patience import Deadline, PassingError, retried, wanted_pause_s
from pytest_ngram.errors import CorpusError

T = TypeVar("T")

MANIFEST_PATH = "/export/v1/manifest"
MESSAGES_PATH = "/export/v1/messages"
_MAX_MANIFEST_BYTES = 65_536
_MAX_WORD = 1000  # characters of an id or an ETag
_MAX_REDIRECTS = 5
_SERVER_FIX = "name the export's final address, or have the server mended"
_FIXES = {
    401: "check the token file: the server does not know this token",
    403: "ask whoever runs the export: the token is known, but may not read it",
    404: "check the address: it is what stands before /export/v1",
}


class Manifest(msgspec.Struct, frozen=True):
    """What the server has. `bytes` and `sha256` are of the encrypted body, `rows` of the text within."""

    content_id: str
    rows: int
    bytes: int
    sha256: str


class ChangedError(CorpusError):
    """The messages that came are not those of the manifest."""


class ExportClient:
    """Talks to one export.

    Args:
        base: what stands before `/export/v1`.
        token: sent as a bearer token.
        limits: what all requests together may take.
        tell: told a line before each pause.

    Every method raises `CorpusError`, after retries where they can help.
    """

    def __init__(self, base: httpx.URL, token: str, limits: Limits, tell: Callable[[str], None]) -> None:
        self._base = base
        self._token = token
        self._limits = limits
        self._tell = tell
        self._deadline = Deadline(limits.total_s)
        self._http = httpx.Client(
            headers={
                "Authorization": f"Bearer {token}",
                "Accept-Encoding": "identity",  # the hash is of the bytes that travel
                "User-Agent": f"pytest-ngram/{__version__}",
            },
            timeout=limits.silence_s,
            trust_env=False,
            verify=_certificates(),  # for http too: a redirect may lead to https
            event_hooks={"request": [lambda request: check_redirect(base, request.url)]},
        )

    def __enter__(self) -> ExportClient:
        self._deadline.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._deadline.stop()
        self._http.close()

    def manifest(self) -> Manifest:
        """Return what the server has to give."""
        return self._retried(self._manifest)

    def messages(self, manifest: Manifest, etag: str | None, into: BinaryIO) -> str | None:
        """Write the encrypted body, checked against the manifest, and return its ETag (empty: none told).

        Args:
            manifest: what has to come.
            etag: of what is held already; None asks for the body in any case.
            into: emptied before each attempt; left at its end.

        Returns:
            None where the server says that what is held is what it has (304).

        Raises:
            ChangedError: other bytes came than the manifest tells.
        """
        return self._retried(lambda: self._messages(manifest, etag, into))

    def _retried(self, once: Callable[[], T]) -> T:
        return retried(once, self._limits, self._deadline, self._tell)

    def _manifest(self) -> Manifest:
        with self._answer(MANIFEST_PATH) as response:
            body = b""
            for piece in response.iter_raw():
                body += piece
                if len(body) > _MAX_MANIFEST_BYTES:
                    raise _no_manifest(f"it is longer than {_MAX_MANIFEST_BYTES} bytes")
        try:
            manifest = msgspec.json.decode(body, type=Manifest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            what = str(error) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
            raise _no_manifest(what) from None
        _check_manifest(manifest, self._limits.max_bytes)
        if self._token in manifest.content_id:
            raise _no_manifest("content_id repeats the token")
        return manifest

    def _messages(self, manifest: Manifest, etag: str | None, into: BinaryIO) -> str | None:
        with self._answer(MESSAGES_PATH, {"If-None-Match": etag} if etag else {}) as response:
            if response.status_code == httpx.codes.NOT_MODIFIED:
                return None
            into.seek(0)
            into.truncate()
            digest = hashlib.sha256()
            n_bytes = 0
            for piece in response.iter_raw():
                n_bytes += len(piece)
                if n_bytes > manifest.bytes:
                    raise _changed(f"{manifest.bytes} bytes were announced, and more came")
                digest.update(piece)
                into.write(piece)
            told = response.headers.get("etag", "")
        if n_bytes != manifest.bytes:
            raise _changed(f"{manifest.bytes} bytes were announced, and {n_bytes} came")
        if digest.hexdigest() != manifest.sha256.lower():
            raise _changed("as many bytes came as were announced, with another SHA-256")
        return told if _is_word(told) and self._token not in told else ""

    @contextlib.contextmanager
    def _answer(self, path: str, headers: dict[str, str] | None = None) -> Iterator[httpx.Response]:
        """Yield a usable answer, its body unread; `PassingError` where a second attempt may help."""
        url = self._base.copy_with(path=self._base.path.rstrip("/") + path)
        trace = {"trace": self._deadline.note_socket}
        request = self._http.build_request("GET", url, headers=headers, extensions=trace)
        try:
            with contextlib.closing(self._followed(request)) as response:
                self._judge(response, path, conditional=bool(headers))
                yield response
        except UnicodeError:  # a name that no look-up takes; our own was checked
            raise CorpusError(
                "the server sends to an address that is none", checked=[f"GET {path}"], fix=_SERVER_FIX
            ) from None
        except httpx.TransportError as error:
            raise self._broken(path, error) from None

    def _followed(self, request: httpx.Request) -> httpx.Response:
        """Return the answer at the end of redirects, whose own bodies are not read."""
        wanted: httpx.Request | None = request
        for _ in range(_MAX_REDIRECTS + 1):
            response = self._http.send(wanted or request, stream=True)
            wanted = response.next_request
            if wanted is None:
                return response
            response.close()
        raise CorpusError(
            f"the server sends from one address to the next, more than {_MAX_REDIRECTS} times",
            checked=[f"GET {request.url}"],
            fix=_SERVER_FIX,
        )

    def _judge(self, response: httpx.Response, path: str, *, conditional: bool) -> None:
        status = response.status_code
        if status == httpx.codes.OK:
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise CorpusError(
                    f"the server encoded GET {path} once more",
                    checked=["Accept-Encoding: identity was sent, and Content-Encoding came back"],
                    fix="have compression switched off for the export: its body is gzip already",
                )
            return
        if status == httpx.codes.NOT_MODIFIED and conditional:
            return
        cause = (
            f"the server answered GET {path} with {status} {httpx.codes.get_reason_phrase(status)}".strip()
        )
        if httpx.codes.is_server_error(status):
            pause_s = wanted_pause_s(response.headers.get("retry-after"))
            raise PassingError(cause, base=str(self._base), pause_s=pause_s)
        moved = [f"by way of {response.url.host}"] if response.url.host != self._base.host else []
        raise CorpusError(
            cause,
            checked=[f"{self._base}, token sent; such an answer is not asked for again", *moved],
            fix=_FIXES.get(status, "ask whoever runs the export"),
        )

    def _broken(self, path: str, error: httpx.TransportError) -> CorpusError:
        if self._deadline.passed:
            return self._deadline.error()
        what = str(error).replace(self._token, export_logs.HIDDEN) or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in what:
            return CorpusError(
                "the server's certificate is not trusted",
                checked=[ascii(what), "the system's certificates, and those of SSL_CERT_FILE if it is set"],
                fix="check the address; for an authority of your own, name its certificate in SSL_CERT_FILE",
            )
        if isinstance(error, httpx.TimeoutException):
            cause = f"GET {path}: nothing came for {self._limits.silence_s:g} s"
        else:
            cause = f"GET {path}: the connection broke: {what!a}"
        return PassingError(cause, base=str(self._base))


def _certificates() -> ssl.SSLContext:
    """Trust what httpx trusts (or SSL_CERT_FILE, SSL_CERT_DIR), and the system's own certificates."""
    try:
        context = httpx.create_ssl_context(trust_env=True)
        context.load_default_certs()
    except OSError as error:
        raise CorpusError(
            "the certificates to trust cannot be read",
            checked=[f"SSL_CERT_FILE, SSL_CERT_DIR: {error.strerror or error}"],
            fix="set them to what is there, or not at all",
        ) from error
    return context


def _is_word(text: str) -> bool:
    """Whether a word of the server can be kept and shown: it may not move a terminal's cursor."""
    return 0 < len(text) <= _MAX_WORD and text.isascii() and text.isprintable()


def _check_manifest(manifest: Manifest, max_bytes: int) -> None:
    if not _is_word(manifest.content_id):
        raise _no_manifest(f"content_id is not 1 to {_MAX_WORD} printable ASCII characters")
    if manifest.rows < 0 or manifest.bytes < 1:
        raise _no_manifest("rows is below 0, or bytes below 1")
    if len(manifest.sha256) != 64 or not set(manifest.sha256.lower()) <= set("0123456789abcdef"):
        raise _no_manifest("sha256 is not 64 hexadecimal digits")
    if manifest.bytes > max_bytes:
        raise CorpusError(
            "the export is larger than allowed",
            checked=[f"{manifest.bytes} bytes are announced, and {max_bytes} allowed"],
            fix="raise --max-mb if you expect as much",
        )


def _no_manifest(what: str) -> CorpusError:
    return CorpusError(
        "the server's manifest cannot be used",
        checked=[f"{MANIFEST_PATH}: {what}"],
        fix="check the address; a manifest is JSON with content_id, rows, bytes and sha256",
    )


def _changed(what: str) -> ChangedError:
    return ChangedError(
        "the messages are not those of the manifest",
        checked=[what],
        fix="try again later; if it stays so, have the server mended",
    )
