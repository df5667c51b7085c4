"""A session with a directory server in words of our own; the only importer of `ldap3`.

Knows: binds, searches, result codes. Must not know: people, groups, which server is asked when.
Blocks: for worker threads only. Whatever goes wrong is a `ServerFailed`, never an answer.
"""

from __future__ import annotations

import ssl
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from gateway.identity.ldap.line import Address, Line, ServerFailed

with warnings.catch_warnings():  # it asks its own codec for names that were renamed
    warnings.simplefilter("ignore", DeprecationWarning)
    import ldap3
    from ldap3.core.exceptions import LDAPException
    from ldap3.utils import asn1

SUCCESS: Final = 0
SIZE_LIMIT_EXCEEDED: Final = 4
NO_SUCH_OBJECT: Final = 32
#: What a bind is answered with by a server that cannot be asked now (RFC 4511 appendix A): timeLimitExceeded,
#: adminLimitExceeded, busy, unavailable, other. No account is to blame, the gateway's own neither.
NO_JUDGEMENT: Final = frozenset({3, 11, 51, 52, 80})
#: The answers by which a server says no to this name or password: noSuchAttribute, constraintViolation (tried too
#: often), noSuchObject, invalidDNSyntax, inappropriateAuthentication, invalidCredentials.
SAYS_NO: Final = frozenset({16, 19, 32, 34, 48, 49})
#: Those by which it refuses without a look at the password, for the account or for how it is asked:
#: strongerAuthRequired, referral, confidentialityRequired, saslBindInProgress, insufficientAccessRights,
#: unwillingToPerform.
REFUSES: Final = frozenset({8, 10, 13, 14, 50, 53})

START_TLS: Final = "1.3.6.1.4.1.1466.20037"
PAGED: Final = "1.2.840.113556.1.4.319"
#: Password policy for LDAP directories (draft-behera-ldap-password-policy): how the account stands, in bind answers.
PASSWORD_POLICY: Final = "1.3.6.1.4.1.42.2.27.8.5.1"  # noqa: S105  the number of a control

# Entries in one answer; Active Directory gives a thousand at most.
PAGE: Final = 500
_REASON_LIMIT: Final = 200
_BYTES_AT_ONCE: Final = 64 * 1024


def _referral(encoded: bytes, start: int, stop: int) -> list[bytes]:
    return [url for _, _, _, url in asn1.decode_sequence(encoded, start, stop)]


# The library has forgotten that binds and extended requests may be answered with a referral (RFC 4511 section 4.1.10).
asn1.BIND_RESPONSE_CONTEXT.setdefault(3, _referral)
asn1.EXTENDED_RESPONSE_CONTEXT.setdefault(3, _referral)

Scope = Literal["BASE", "SUBTREE"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry: its name, and its attributes by their names in lower case."""

    dn: str
    attributes: Mapping[str, tuple[bytes, ...]]

    def values(self, attribute: str) -> tuple[bytes, ...]:
        """The values of an attribute; none where there is none."""
        return self.attributes.get(attribute.lower(), ())

    def texts(self, attribute: str) -> list[str]:
        """Those of its values that are text."""
        found = []
        for value in self.values(attribute):
            with suppress(UnicodeDecodeError):
                found.append(value.decode())
        return found

    def text(self, attribute: str) -> str | None:
        """Its one value; None where there is none, are several, or it is no text."""
        texts = self.texts(attribute)
        return texts[0] if len(texts) == len(self.values(attribute)) == 1 else None


@dataclass(frozen=True, slots=True)
class BindAnswer:
    """How a bind was answered. `policy`: the value of the password policy's control, if one came."""

    code: int
    description: str
    message: str
    policy: bytes = b""

    @property
    def good(self) -> bool:
        """True for the one answer that lets somebody in."""
        return self.code == SUCCESS


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found; `more`: the server has more than it gave, or than was wanted. `references`: URLs of where
    else the server would look."""

    entries: tuple[Entry, ...]
    more: bool
    references: tuple[str, ...] = ()


class SearchRefused(ServerFailed):
    """A search that was answered with something else than its end. `base`: where it was made, "" for a single entry."""

    def __init__(self, base: str, code: int, description: str) -> None:
        where = f" under '{base}'" if base else ""
        super().__init__(f"a search{where} was answered with {code} {description}")
        self.code = code


class Session:
    """One connection. Everything asked on it must be answered by `until` (`time.monotonic()`), the first search, and
    all before it, by `first_by`: a server that finds people at all may take its time."""

    def __init__(
        self, to: Address, tls: ssl.SSLContext | None, until: float, first_by: float, *, start_tls: bool
    ) -> None:
        """Raises `ServerFailed`; without TLS where none was asked for, and never because it failed."""
        try:
            self._line = Line(to, tls, min(until, first_by))
        except (OSError, ValueError) as error:
            raise ServerFailed(_reason(error)) from None
        self._until = until
        self.used_at = time.monotonic()
        self._ldap = _library_connection(self._line)
        if start_tls:
            self._start_tls(tls)

    def begin(self, until: float, first_by: float) -> None:
        """For another login or look-up."""
        self._until = until
        self._line.begin(min(until, first_by))

    def quiet(self) -> bool:
        """True while nothing has come that nobody asked for."""
        return self._line.quiet()

    def bind(self, dn: str, password: str) -> BindAnswer:
        """Say who we are; neither name nor password may be empty (RFC 4513 section 5.1.2). Raises `ServerFailed`."""
        if not dn or not password:
            raise ValueError("a bind without name or password would be anonymous")
        self._ldap.authentication = ldap3.SIMPLE
        self._ldap.user = dn
        # As bytes: the library would prepare text (RFC 4013), which may leave nothing of it, and binds anonymously.
        self._ldap.password = password.encode()
        with self._asking():
            self._ldap.bind(read_server_info=False, controls=[(PASSWORD_POLICY, False, None)])
        self._ldap.password = None
        result = self._result("bindResponse")
        controls = result.get("controls") or {}
        policy = controls.get(PASSWORD_POLICY, {}).get("value") or b""
        return BindAnswer(result["result"], str(result["description"]), str(result["message"]), bytes(policy))

    def search(
        self, base: str, filter_: str, attributes: Sequence[str], *, scope: Scope = "SUBTREE", limit: int = PAGE
    ) -> Found:
        """Entries that fit, at most `limit`, page by page. Referrals are not followed. Raises `ServerFailed` unless the
        server has answered to the end; `base` that is not there is an answer where only it was asked for."""
        entries: list[Entry] = []
        references: list[str] = []
        cookie: bytes | None = None
        while True:
            paged = min(PAGE, limit) if limit > 1 and scope != "BASE" else None
            with self._asking():
                self._ldap.search(
                    base,
                    filter_,
                    scope,
                    dereference_aliases=ldap3.DEREF_NEVER,
                    attributes=list(attributes) or [ldap3.NO_ATTRIBUTES],
                    size_limit=0 if paged else limit,
                    paged_size=paged,
                    paged_cookie=cookie,
                    auto_escape=False,
                )
            result = self._result("searchResDone")
            self._line.until = self._until
            response = self._ldap.response or []
            entries += map(_entry, [one for one in response if one["type"] == "searchResEntry"])
            references += [str(url) for one in response if one["type"] == "searchResRef" for url in one["uri"]]
            if result["result"] == NO_SUCH_OBJECT and scope == "BASE":
                return Found((), more=False)
            if result["result"] not in {SUCCESS, SIZE_LIMIT_EXCEEDED}:
                raise SearchRefused(base if scope != "BASE" else "", result["result"], str(result["description"]))
            cookie = _cookie(result)
            more = bool(cookie) or result["result"] == SIZE_LIMIT_EXCEEDED
            if len(entries) >= limit or not cookie:
                return Found(tuple(entries[:limit]), more or len(entries) > limit, tuple(references))

    def close(self) -> None:
        """Say farewell and hang up."""
        with suppress(Exception):  # it is over either way
            self._ldap.unbind()
        self._line.close()

    def _start_tls(self, tls: ssl.SSLContext | None) -> None:
        """RFC 4511 section 4.14; there is no going on without."""
        try:
            with self._asking():
                self._ldap.extended(START_TLS)
            answer = self._result("extendedResp")
            self._secure(tls, answer["result"], str(answer["description"]))
        except ServerFailed:
            self.close()
            raise

    def _secure(self, tls: ssl.SSLContext | None, code: int, description: str) -> None:
        if code != SUCCESS:
            raise ServerFailed(f"StartTLS was answered with {code} {description}")
        try:
            self._line.secure(tls)
        except (OSError, ValueError) as error:
            raise ServerFailed(_reason(error)) from None

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except ServerFailed:
            raise
        except LDAPException as error:
            raise ServerFailed(_reason(error)) from None
        except Exception as error:  # noqa: BLE001  whatever its decoder stumbles over is what a server sent
            raise ServerFailed(f"an answer that is no LDAP ({type(error).__name__})") from None
        finally:
            self.used_at = time.monotonic()

    def _result(self, kind: str) -> Mapping[str, Any]:
        """The answer to what was asked last. Raises `ServerFailed` where it is an answer to something else."""
        result = self._ldap.result
        if not isinstance(result, dict) or result.get("type") != kind or type(result.get("result")) is not int:
            raise ServerFailed("an answer to something else than what was asked")
        return result


def _library_connection(line: Line) -> ldap3.Connection:
    """A connection of the library that runs over `line`, and can open none of its own: that would be without TLS."""
    made = ldap3.Connection(
        ldap3.Server("line.invalid", get_info=ldap3.NONE),
        client_strategy=ldap3.SYNC,
        auto_bind=ldap3.AUTO_BIND_NONE,
        auto_referrals=False,
        auto_range=False,
        check_names=False,
        read_only=True,
        raise_exceptions=False,
        return_empty_attributes=False,
    )
    made.open = _never
    made.socket = line
    made.closed = False
    made.listening = True
    made.strategy.socket_size = _BYTES_AT_ONCE
    made.strategy._outstanding = {}
    return made


def _never(*_: object, **__: object) -> NoReturn:
    raise ServerFailed("the connection was closed")


def _entry(found: Mapping[str, Any]) -> Entry:
    try:
        dn = bytes(found["raw_dn"]).decode()
        attributes = {
            str(name).lower(): tuple(map(bytes, given or ())) for name, given in found["raw_attributes"].items()
        }
    except (ValueError, TypeError):
        raise ServerFailed("an entry that is no LDAP") from None
    return Entry(dn, attributes)


def _cookie(result: Mapping[str, Any]) -> bytes:
    value = (result.get("controls") or {}).get(PAGED, {}).get("value")
    cookie = value.get("cookie") if isinstance(value, dict) else None
    return bytes(cookie) if cookie else b""


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate does not hold: {error.verify_message}"
    words = error.strerror if isinstance(error, OSError) else ""
    return (words or str(error) or type(error).__name__)[:_REASON_LIMIT]
