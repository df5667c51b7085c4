"""Which header fields cross the gateway, which are stripped, which are added, and which are believed.

Knows: RFC 9110 §7.6, the fields by which engines are steered, trusted proxies.
Must not know: sockets, how a caller was identified, backends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address

from gateway.call import AnswerHead, Call, FieldBlock, Fields, ModelRef, Principal
from gateway.settings import Network

# RFC 9110 §7.6.1, and those that frame one hop's message.
_HOP_BY_HOP = frozenset(
    (
        b"connection", b"content-length", b"expect", b"host", b"http2-settings", b"keep-alive", b"proxy-authenticate",
        b"proxy-authorization", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    )
)  # fmt: skip

# Who the caller is and what it was given to prove it, as told by the caller: consumed here or not believed.
_IDENTITY = frozenset(
    (
        b"api-key", b"apikey", b"authorization", b"client-cert", b"client-cert-chain", b"cookie", b"cf-connecting-ip",
        b"cf-connecting-ipv6", b"dpop", b"fastly-client-ip", b"forwarded", b"token", b"true-client-ip", b"via",
        b"x-apigateway-api-userinfo", b"x-api-key", b"x-client-ip", b"x-cluster-client-ip", b"x-decision-id",
        b"x-endpoint-api-userinfo", b"x-functions-key", b"x-goog-api-key", b"x-real-ip", b"x-request-id",
        b"x-scope-orgid",
    )
)  # fmt: skip

# Fields that steer an engine or its router behind the gateway's back: its scheduler, its adapters, its files
# (vLLM, SGLang, Triton, NIM).
_ENGINE = frozenset(
    (
        b"endpoint-load-metrics-format", b"x-session-id", b"x-session-params", b"x-tenant-id",
        b"x-vertex-ai-triton-redirect",
    )
)  # fmt: skip

# Families whose members nobody can list. What proxies say of a caller to the server behind them: such a server would
# believe it of us.
_IDENTITY_PREFIXES = (
    b"cf-access-", b"iv-", b"ocp-apim-", b"oidc-", b"remote-", b"shib-", b"ssl-client-", b"tailscale-user-", b"x-amz-",
    b"x-amzn-mtls-", b"x-amzn-oidc-", b"x-anonymous-consumer", b"x-auth", b"x-client-cert",
    b"x-consumer-", b"x-credential-", b"x-forwarded", b"x-gateway-", b"x-goog-authenticated-user-",
    b"x-goog-iap-", b"x-groups", b"x-jwt", b"x-ms-client-principal", b"x-ms-token-", b"x-oidc-", b"x-pomerium-",
    b"x-remote-", b"x-ssl-", b"x-user", b"x-webauth-",
)  # fmt: skip

# Those that make a server take another path or method than the one that was authorized.
_PATH_PREFIXES = (
    b"x-envoy-", b"x-http-method", b"x-method-override", b"x-original-", b"x-override-", b"x-rewrite-",
    b"x-script-name",
)  # fmt: skip

_ENGINE_PREFIXES = (
    b"nvcf-", b"triton-grpc-protocol-", b"x-amzn-sagemaker-", b"x-data-parallel-", b"x-dynamo-", b"x-prefiller-",
    b"x-sglext-", b"x-smg-", b"x-vllm-", b"x-worker-",
)  # fmt: skip

# What says how a body is to be read crosses in this spelling only: with a `_` it would say so once more to servers that
# fold the two.
_OF_BODIES = frozenset((b"content-encoding", b"content-type", b"inference-header-content-length"))

# Whose turn a call is and where it runs, whoever's engine it is said to.
_ENGINE_SUFFIXES = (b"-dp-rank", b"-priority", b"-routing-key", b"-target-worker")

_PREFIXES = _IDENTITY_PREFIXES + _PATH_PREFIXES + _ENGINE_PREFIXES

# A field that ends so holds a credential, whoever thought of its beginning.
_CREDENTIAL_SUFFIXES = (
    b"-access-key", b"-api-key", b"-apikey", b"-password", b"-secret", b"-subscription-key", b"-token",
)  # fmt: skip

# Of an answer: the backend's cookies, its load report, its idea of CORS and of our names for the call stay behind, and
# what is ours to say.
_ANSWER_DROPS = frozenset(
    (b"alt-svc", b"endpoint-load-metrics", b"set-cookie", b"set-cookie2", b"x-decision-id", b"x-request-id")
)
_ANSWER_PREFIXES = (b"access-control-", b"x-gateway-")

# What the gateway's own pages read of a request, and what of their answers stays behind.
_PAGE_FIELDS = frozenset(
    (
        b"accept", b"accept-language", b"authorization", b"content-type", b"cookie", b"if-none-match", b"origin",
        b"sec-fetch-dest", b"sec-fetch-mode", b"sec-fetch-site",
    )
)  # fmt: skip
_PAGE_DROPS = frozenset((b"server", b"x-decision-id", b"x-gateway-told", b"x-request-id"))

# Where an answer says that something else is; a backend's own address would be told and be of no use.
_PLACES = frozenset((b"location", b"content-location"))
_ORIGIN = re.compile(rb"(?:https?:)?//[^/?#]*", re.IGNORECASE)

# RFC 9110 §7.6.3; a pseudonym, so that no host name of the inside is told.
_VIA = (b"via", b"1.1 nim-gateway")

# An address with a port (RFC 7239 section 6 has both forms).
_WITH_PORT = re.compile(r"([0-9.]+):[0-9]{1,5}|\[([0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?")

# How many field names are remembered as dropped or kept; callers invent names, so the memory is bounded.
_NAMES_KEPT = 4096

# https://www.w3.org/TR/trace-context/#traceparent-header
_TRACEPARENT = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class Crossing:
    """Decides by name, once per name: `_` counts as `-`, because some servers fold the two."""

    __slots__ = ("_drops", "_exact", "_known", "_prefixes", "_suffixes")

    def __init__(
        self,
        drops: frozenset[bytes],
        prefixes: tuple[bytes, ...],
        suffixes: tuple[bytes, ...] = (),
        exact: frozenset[bytes] = frozenset(),
    ) -> None:
        """`exact`: names that cross only as they are written here."""
        self._drops = drops
        self._exact = exact
        self._prefixes = prefixes
        self._suffixes = suffixes
        self._known: dict[bytes, bool] = {}

    def crosses(self, name: bytes) -> bool:
        """True if a field of this (lower-case) name is passed on."""
        known = self._known.get(name)
        if known is None:
            folded = name.replace(b"_", b"-")
            known = (
                folded not in self._drops
                and (folded == name or folded not in self._exact)
                and not folded.startswith(self._prefixes)
                and not folded.endswith(self._suffixes)
            )
            if len(self._known) >= _NAMES_KEPT:
                self._known.clear()
            self._known[name] = known
        return known


def _nominated(fields: Fields) -> frozenset[bytes]:
    """RFC 9110 §7.6.1: names that `Connection` lists; they end at this hop too."""
    listed = [value for name, value in fields if name == b"connection"]
    if not listed:
        return frozenset()
    return frozenset(option.strip().lower() for value in listed for option in value.split(b",")) - _OF_BODIES


@dataclass(frozen=True, slots=True)
class _Crossed:
    """`traced`: the caller brought a trace."""

    block: FieldBlock
    traced: bool


class RequestCrossing:
    """The fields of a request as they go on to a backend: stripped first, then ours added."""

    def __init__(self, credential: bytes | None = None) -> None:
        """`credential`: name of the field for the pool's own credential; a caller's of that name ends here."""
        ours = frozenset() if credential is None else frozenset((credential.lower().replace(b"_", b"-"),))
        drops, suffixes = _HOP_BY_HOP | _IDENTITY | _ENGINE | ours, _CREDENTIAL_SUFFIXES + _ENGINE_SUFFIXES
        self._crossing = Crossing(drops, _PREFIXES, suffixes, _OF_BODIES)

    def outbound(self, call: Call, principal: Principal, *, name_caller: bool) -> tuple[FieldBlock, Fields]:
        """End-to-end fields of the caller and of ours that come again with the next request, and those of this one.

        Host, framing and the backend's credential are the wire's. `name_caller`: tell the backend who called
        (`X-Gateway-Subject`, `X-Gateway-Groups`).
        """
        crossing: _Crossed | None = call.derived.get(self)
        if crossing is None:
            crossing = self._crossed(call)
            call.note(self, crossing)
        identifier = call.id.encode("ascii")
        fields: Fields = ((b"x-request-id", identifier),)
        if not crossing.traced:
            fields = (*fields, (b"traceparent", b"00-%b-%b-00" % (identifier, identifier[16:])))
        return crossing.block, (*fields, *_identity_fields(principal)) if name_caller else fields

    def _crossed(self, call: Call) -> _Crossed:
        """What follows from the head and the caller's address alone."""
        crosses, nominated = self._crossing.crosses, _nominated(call.fields)
        fields = [field for field in call.fields if crosses(field[0]) and field[0] not in nominated]
        traces = [value for name, value in fields if name == b"traceparent"]
        traced = len(traces) == 1 and _TRACEPARENT.fullmatch(traces[0]) is not None
        if not traced:
            fields = [field for field in fields if field[0] not in (b"traceparent", b"tracestate")]
        fields += (
            (b"x-forwarded-for", call.peer.encode("ascii")),
            (b"x-forwarded-proto", b"https"),
            (b"x-forwarded-host", call.value(b"host") or b""),
            _VIA,
        )
        return _Crossed(FieldBlock(tuple(fields)), traced)


class PageCrossing:
    """The fields of a request as they go on to the gateway's own pages: those that the pages read, and ours."""

    def outbound(self, call: Call) -> tuple[FieldBlock, Fields]:
        """As `RequestCrossing.outbound`. The address is the caller's, whatever the caller wrote."""
        passed = tuple(field for field in call.fields if field[0] in _PAGE_FIELDS)
        block = FieldBlock((*passed, (b"x-forwarded-for", call.peer.encode("ascii"))))
        return block, ((b"x-request-id", call.id.encode("ascii")),)


def _identity_fields(principal: Principal) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    """Percent-encoding keeps line ends, commas and other scripts out of a field value."""
    groups = b",".join(_field_text(group) for group in sorted(principal.groups))
    return ((b"x-gateway-subject", _field_text(principal.subject)), (b"x-gateway-groups", groups))


def _field_text(text: str) -> bytes:
    plain = set(b"!#$&'()*+-./:;<=>?@[]^_`{|}~")
    return b"".join(
        bytes((byte,)) if (chr(byte).isalnum() and byte < 128) or byte in plain else b"%%%02X" % byte
        for byte in text.encode("utf-8")
    )


class AnswerCrossing:
    """The fields of a backend's answer as they go on to the caller."""

    def __init__(self, *, ours: bool = False) -> None:
        """`ours`: the answer is of the gateway's own pages, whose cookies and places are meant for the caller."""
        self._ours = ours
        if ours:
            self._crossing = Crossing(_HOP_BY_HOP | _PAGE_DROPS, ())
        else:
            self._crossing = Crossing(_HOP_BY_HOP | _ANSWER_DROPS, _ANSWER_PREFIXES)

    def outbound(self, head: AnswerHead) -> FieldBlock:
        """End-to-end fields, in order, repeated ones kept; framing is the door's."""
        block: FieldBlock | None = head.derived.get(self)
        if block is None:
            crosses, nominated = self._crossing.crosses, _nominated(head.fields)
            passed = (field for field in head.fields if crosses(field[0]) and field[0] not in nominated)
            if self._ours:
                block = FieldBlock(tuple(passed))
            else:
                block = FieldBlock(tuple((name, _place(value) if name in _PLACES else value) for name, value in passed))
            head.note(self, block)
        return block


def beside(model: ModelRef, changed: tuple[str, ...]) -> Fields:
    """What the caller is told beside an answer: which model it is of, where another was asked for, and what of the
    call was lowered, filled in or left out."""
    served = ((b"X-Gateway-Model", model.name.encode()),) if model.asked else ()
    return (*served, (b"x-gateway-clamped", ", ".join(changed).encode())) if changed else served


def _place(value: bytes) -> bytes:
    """The path of a URL: on this gateway, as far as the caller is concerned."""
    origin = _ORIGIN.match(value)
    if origin is None:
        return value
    rest = value[origin.end() :]
    return rest if rest.startswith(b"/") else b"/" + rest


def client_address(peer: str, fields: Iterable[tuple[bytes, bytes]], trusted: tuple[Network, ...]) -> str:
    """The caller's address: the nearest hop of `X-Forwarded-For` that is not a trusted proxy, if `peer` is one."""
    if not trusted or not _within(peer, trusted):
        return peer
    hops = [
        hop.strip()
        for name, value in fields
        if name == b"x-forwarded-for"
        for hop in value.decode("latin-1").split(",")
    ]
    address = peer
    for hop in reversed(hops):
        try:
            address = str(ip_address(_without_port(hop)))
        except ValueError:
            break  # what cannot be read is not believed, nor what stands before it
        if not _within(address, trusted):
            break
    return address


def _without_port(hop: str) -> str:
    """Some proxies write the port too, and put IPv6 addresses in brackets. Nothing where Python takes any text."""
    if "%" in hop:  # behind it stands a scope
        return ""
    written = _WITH_PORT.fullmatch(hop)
    return hop if written is None else written[1] or written[2]


def _within(address: str, networks: tuple[Network, ...]) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return any((mapped or parsed) in network for network in networks)
