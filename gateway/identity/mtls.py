"""Callers known by the certificate that their connection was opened with.

Knows: which name of a certificate is theirs. Must not know: TLS, who verified it, other credentials.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import NameOID

from gateway.call import Call, ClientCertificate, Principal
from gateway.errors import IdentityUnavailable, Unidentified
from gateway.identity.groupsource import GroupSource, with_groups
from gateway.identity.names import plain
from gateway.identity.refused import INVALID, BadCertificate, BadLogin, Result
from gateway.settings import Mtls

#: What it is called in policies, metrics and logs, and as the issuer of its principals.
PROVIDER = "mtls"

# Certificates that were read, each about one KiB.
REMEMBERED_LIMIT = 10_000

#: Fields by which callers are known in another way; a certificate beside them may be a proxy's.
_OTHERS = frozenset((b"authorization", b"x-api-key"))


# What the library raises for certificates that say odd things.
_UNREADABLE = (ValueError, TypeError, x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType)


@dataclass(frozen=True, slots=True)
class _Known:
    """Whose certificate it is; `until` (of the steady clock) its groups count."""

    principal: Principal
    until: float


class CertificateIdentity:
    """The `Identity` for callers who show a certificate, and nothing else.

    `groups`: who knows their groups; None: they have none. `now` gives UNIX seconds, `steady` is a monotonic clock;
    `count` gets the provider's name and a `Result`.
    """

    def __init__(
        self,
        settings: Mtls,
        groups: GroupSource | None,
        now: Callable[[], float],
        steady: Callable[[], float],
        count: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._groups = groups
        self._now = now
        self._steady = steady
        self._count = count
        self._known: OrderedDict[str, _Known] = OrderedDict()

    @property
    def entries(self) -> int:
        """Certificates remembered."""
        return len(self._known)

    def recall(self, call: Call) -> Principal | None:
        """The caller of a head that was identified a moment ago, while the certificate holds."""
        known: _Known | None = call.derived.get(self)
        if known is None or self._steady() >= known.until or self._now() >= known.principal.expires:
            return None
        self._count(PROVIDER, Result.CACHED.value)
        return known.principal

    async def identify(self, call: Call) -> Principal | None:
        """None without a certificate, or beside another credential.

        Raises `BadCertificate` (401) or `IdentityUnavailable` (503).
        """
        certificate = call.certificate
        if certificate is None or any(name in _OTHERS for name, _ in call.fields):
            return None
        try:
            known, result = self._remembered(certificate), Result.CACHED
            if known is None:
                known, result = await self._read(certificate), Result.OK
            self._check_end(known.principal)
        except BadCertificate as error:
            self._count(PROVIDER, error.reason.value)
            raise
        except IdentityUnavailable:
            self._count(PROVIDER, Result.UNAVAILABLE.value)
            raise
        call.note(self, known)
        self._count(PROVIDER, result.value)
        return known.principal

    def revoked(self, _call: Call, why: str, /) -> Unidentified:
        """See `seams.Identity`."""
        return BadCertificate(Result.REVOKED, INVALID, f"{Result.REVOKED.value} {why}")

    def _check_end(self, principal: Principal) -> None:
        """TLS asks when a connection begins; it may go on for longer than the certificate."""
        if self._now() >= principal.expires:
            raise BadCertificate(Result.EXPIRED, "it has expired")

    def _remembered(self, certificate: ClientCertificate) -> _Known | None:
        known = self._known.get(certificate.thumbprint)
        return known if known is not None and self._steady() < known.until else None

    async def _read(self, certificate: ClientCertificate) -> _Known:
        subject, expires = named(certificate.der, self._settings.subject)
        until, thumbprint = float("inf"), certificate.thumbprint
        principal = Principal(subject, PROVIDER, PROVIDER, expires=expires, credential=thumbprint)
        if self._groups is not None:
            try:
                principal = await with_groups(principal, self._groups)
            except BadLogin as error:
                detail = error.detail
                raise BadCertificate(Result.REFUSED_ACCOUNT, "its owner has no account that holds", detail) from None
            until = self._steady() + self._groups.groups_hold(subject)
        known = self._known[thumbprint] = _Known(principal, until)
        self._known.move_to_end(thumbprint)
        if len(self._known) > REMEMBERED_LIMIT:
            self._known.popitem(last=False)
        return known


def named(der: bytes, which: str) -> tuple[str, float]:
    """The one name of this kind, and when the certificate ends (UNIX seconds).

    Raises `BadCertificate` when there is none, or several: nobody picks one.
    """
    try:
        certificate = x509.load_der_x509_certificate(der)
        names = _NAMES[which](certificate)
        expires = certificate.not_valid_after_utc.timestamp()
    except _UNREADABLE:
        raise BadCertificate(Result.MALFORMED, "it cannot be read") from None
    if len(names) != 1:
        how = "none" if not names else "several"
        raise BadCertificate(Result.BAD_CLAIMS, f"it has to name its owner once by {_CALLED[which]}, and has {how}")
    if not plain(names[0]) or (which == "san_dns" and "*" in names[0]):
        raise BadCertificate(Result.BAD_CLAIMS, f"its {_CALLED[which]} is not one plain name")
    return names[0], expires


def _uris(certificate: x509.Certificate) -> list[str]:
    return _alternatives(certificate).get_values_for_type(x509.UniformResourceIdentifier)


def _hosts(certificate: x509.Certificate) -> list[str]:
    """RFC 4343: upper and lower case are the same name."""
    return [name.lower() for name in _alternatives(certificate).get_values_for_type(x509.DNSName)]


def _mailboxes(certificate: x509.Certificate) -> list[str]:
    return _alternatives(certificate).get_values_for_type(x509.RFC822Name)


def _common_names(certificate: x509.Certificate) -> list[str]:
    values = [attribute.value for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return [value if isinstance(value, str) else "" for value in values]


def _alternatives(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    """RFC 5280 section 4.2.1.6; an empty one where there is none."""
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])


_NAMES: dict[str, Callable[[x509.Certificate], list[str]]] = {
    "san_uri": _uris,
    "san_dns": _hosts,
    "san_email": _mailboxes,
    "cn": _common_names,
}
_CALLED = {"san_uri": "URI", "san_dns": "host name", "san_email": "mail address", "cn": "common name"}
