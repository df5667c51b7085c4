"""Who asks for what, as the arguments of a command say it; and the policy that is asked.

Knows: arguments, configuration, claims of tokens. Must not know: how an explanation is printed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from gateway import identities
from gateway.call import ModelRef, Operation, Principal
from gateway.cli.policy.named import drawn, models_named
from gateway.cli.policy.place import add_policies, place
from gateway.cli.saying import CannotSay
from gateway.identity.credentials.bearer import TOKEN_LIMIT
from gateway.identity.narrowed import GroupsAllowed
from gateway.identity.refused import BadToken
from gateway.identity.signatures.jwt import Claims, split
from gateway.identity.tokens.mapping import ClaimMapping
from gateway.identity.tokens.own import logins
from gateway.policy.asked import Asked
from gateway.policy.cases import BY_NAME
from gateway.policy.conditions import address_of
from gateway.policy.engine import Policy
from gateway.policy.explain import listed
from gateway.policy.files import Written, read
from gateway.policy.moments import moment
from gateway.settings import OidcIssuer, Settings

#: Of the arguments that make a question those that say what is asked for; the others say who asks, when, from where.
OF_MODEL: Final = {
    "--model": "model",
    "--operation": "operation",
    "--explicit": "explicit",
    "--version": "model_version",
}

_OF_CALL: Final = {
    "--user": "user",
    "--groups": "groups",
    "--groups-unknown": "groups_unknown",
    "--client": "client",
    "--issuer": "issuer",
    "--scopes": "scopes",
    "--token": "token",
    "--at": "at",
    "--from": "peer",
}


class BadCall(CannotSay):
    """The arguments do not make a question. The text says why, in one line."""


@dataclass(frozen=True, slots=True)
class Site:
    """The policy that is asked, where its files lie, and the configuration around it, if there is one."""

    written: Written
    place: Path
    settings: Settings | None = None

    def policy(self) -> Policy:
        """As the gateway has it."""
        hide = self.settings is not None and self.settings.hide_models
        return Policy(self.written.rules, hide_models=hide, digest=self.written.digest)


@dataclass
class Notes:
    """What has to be said beside the answer."""

    lines: list[str] = field(default_factory=list)

    def __call__(self, line: str) -> None:
        self.lines.append(line)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The policy, the caller, and what is asked for."""
    add_policies(parser)
    parser.add_argument("--user", default="", help="the caller's subject")
    parser.add_argument("--groups", help="the caller's groups, with commas between them")
    parser.add_argument("--groups-unknown", action="store_true", help="there are more groups than those")
    parser.add_argument("--client", help="the OAuth client that the caller comes through")
    parser.add_argument("--issuer", help="the configured name of the provider that vouches for the caller")
    parser.add_argument("--scopes", help="scopes of the token, with commas between them")
    parser.add_argument("--token", metavar="FILE", help="take all that from a token, unchecked ('-': standard input)")
    parser.add_argument("--model", help="name or alias of the model")
    parser.add_argument("--operation", choices=[each.value for each in Operation], help="default: infer")
    parser.add_argument("--explicit", action="store_true", help="as on a route for which rules list it by name")
    parser.add_argument("--version", dest="model_version", help="version of a Triton model")
    parser.add_argument(
        "--at", metavar="TIME", help="RFC 3339 with a zone, like 2026-03-02T09:30:00+01:00; default: now"
    )
    parser.add_argument("--from", dest="peer", metavar="ADDRESS", help="the caller's address")


def given(args: argparse.Namespace) -> list[str]:
    """Which of the arguments that make a question are there."""
    return [option for option, name in (_OF_CALL | OF_MODEL).items() if getattr(args, name) not in (None, "", False)]


def site(args: argparse.Namespace) -> Site:
    """The policy that the arguments name. Raises `Mistakes` or `CannotStart`."""
    found = place(args)
    return Site(read(found.policies), found.policies, found.settings)


def asked(args: argparse.Namespace, site: Site, note: Notes) -> Asked:
    """The question. Raises `BadCall`."""
    if not args.model:
        raise BadCall("--model is needed: for which model is it to be explained?")
    principal = _caller(args, site, note)
    try:
        at = time.time() if args.at is None else moment(args.at)
    except ValueError as error:
        raise BadCall(f"--at: {error}") from None
    if args.peer is not None and address_of(args.peer) is None:
        raise BadCall(f"--from: {args.peer!r} is no address")
    if args.peer is None and any(rule.networks for rule in site.written.rules):
        note("no address was given with --from: rules for networks do not let in, and deny")
    model = _drawn(args, site, principal, at, note) or model_of(args, site.settings, note)
    return Asked(principal, model, at, args.peer)


def served(args: argparse.Namespace, site: Site) -> bool:
    """Whether anything is called as `--model` says, as far as is known."""
    return site.settings is None or bool(models_named(args.model, site.settings))


def _drawn(args: argparse.Namespace, site: Site, caller: Principal, at: float, note: Notes) -> ModelRef | None:
    """As `model_of`, of a name that models share the one that this caller gets; None: it is another name."""
    models = () if site.settings is None else drawn(args.model, site.settings, caller)
    if not models:
        return None
    policy = site.policy()
    holding = policy.holding(at, args.peer)
    asked = [replace(_ref(args, model), asked=args.model) for model in models]
    taken = next((model for model in asked if policy.may(caller, model, holding)), asked[0])
    others = f"{args.model} is an alias of several models, {listed(models)}"
    if len(models) == 1:
        note(f"{args.model} is an alias of {taken.name}")
    elif not (caller.subject and caller.provider):
        note(f"{others}; which of them a caller draws hangs on --user and --issuer, and this is about {taken.name}")
    elif taken is asked[0]:
        note(f"{others}; this caller draws {taken.name}")
    else:
        note(f"{others}; this caller draws {models[0]}, may not use it, and gets {taken.name}")
    return taken


def _ref(args: argparse.Namespace, name: str) -> ModelRef:
    operation = Operation(args.operation or Operation.INFER)
    return ModelRef(name, operation, args.model_version, args.explicit or operation in BY_NAME)


def model_of(args: argparse.Namespace, settings: Settings | None, note: Notes) -> ModelRef:
    """What is asked for, aliases resolved. Raises `BadCall`."""
    return _ref(args, args.model if settings is None else _resolved(args.model, settings, note))


def _resolved(name: str, settings: Settings, note: Notes) -> str:
    models = models_named(name, settings)
    if not models:
        return name
    if len(models) > 1:
        raise BadCall(f"{name} stands for several models: {', '.join(models)}; name one of them")
    (model,) = models
    pools = ", ".join(pool.name for pool in settings.pools if any(each.name == model for each in pool.models))
    note(f"served by pool {pools}" if model == name else f"{name} is an alias of {model}, served by pool {pools}")
    return model


def _caller(args: argparse.Namespace, site: Site, note: Notes) -> Principal:
    if args.token is not None:
        if args.user or args.client or args.scopes:
            raise BadCall("--token says who calls; leave out --user, --client and --scopes")
        principal = _of_token(args, site.settings, note)
    else:
        if not (args.user or args.groups or args.client or args.issuer or args.groups_unknown):
            raise BadCall("say who calls: --user, --groups, --client and --issuer, or --token")
        provider = _provider(args.issuer, site, note)
        scopes = frozenset(_split(args.scopes))
        principal = Principal(args.user, "", provider, client=args.client, scopes=scopes)
    if args.groups is not None:
        principal = replace(principal, groups=frozenset(_split(args.groups)))
    return replace(principal, groups_known=False) if args.groups_unknown else principal


def _split(text: str | None) -> list[str]:
    return [name for part in (text or "").split(",") if (name := part.strip())]


def _provider(named: str | None, site: Site, note: Notes) -> str:
    """Who vouches for the caller; the only one there is, if nobody is named. Raises `BadCall`."""
    known = [] if site.settings is None else sorted(identities.names(site.settings))
    if named is not None:
        if site.settings is not None and named not in known:
            raise BadCall(f"--issuer: no provider is called {named!r}; there is {', '.join(known)}")
        return named
    if len(known) == 1:
        return known[0]
    if any(rule.issuers for rule in site.written.rules):
        note("no provider was given with --issuer: rules that name issuers do not match")
    return ""


def _of_token(args: argparse.Namespace, settings: Settings | None, note: Notes) -> Principal:
    """Whom a token is about, by the configuration of its provider. Raises `BadCall`, never with a part of the token."""
    if settings is None:
        raise BadCall("--token needs --config: what its claims mean is configured")
    claims = _claims(args.token)
    issuer = claims.get("iss")
    note("signature not checked: whoever wrote the token may have written anything")
    expires = claims.get("exp")
    if isinstance(expires, int | float) and expires <= time.time():
        note("the token has expired: the gateway answers 401, whatever rules say")
    try:
        if (own := _own(claims, settings)) is not None:
            return GroupsAllowed(settings)(own)
        provider = _issuer(settings.oidc, args.issuer, issuer)
        mapping = ClaimMapping(provider)
        principal = mapping.principal(claims, mapping.subject(claims), float("inf"))
    except BadToken as error:
        raise BadCall(f"--token: {error.text}") from None
    if provider.groups_from is None:
        return principal
    if args.groups is None:
        note(f"its groups come from {provider.groups_from}, which was not asked: give them with --groups")
    return replace(principal, groups=frozenset(), groups_known=args.groups is not None)


def _claims(file: str) -> Claims:
    try:
        if file == "-":
            text = sys.stdin.read(TOKEN_LIMIT + 1)
        else:
            with Path(file).open(encoding="ascii", errors="replace") as opened:
                text = opened.read(TOKEN_LIMIT + 1)
    except OSError as error:
        raise BadCall(f"--token: {file} cannot be read: {error.strerror}") from None
    try:
        return split(text.strip())[1]
    except (BadToken, ValueError):
        raise BadCall("--token: this is no JWT; of another token say --user, --groups and so on") from None


def _issuer(issuers: Sequence[OidcIssuer], named: str | None, issuer: object) -> OidcIssuer:
    for one in issuers:
        if named == one.name or (named is None and issuer == one.issuer):
            return one
    what = f"no OpenID provider is called {named!r}" if named else "no configured provider has issued this token"
    raise BadCall(f"--token: {what}; there is {', '.join(one.name for one in issuers) or 'none'}")


def _own(claims: Claims, settings: Settings) -> Principal | None:
    """Of a token of the gateway's own, which says who vouched for its holder."""
    vouching = claims.get("idp")
    provider = logins(settings).get(vouching) if isinstance(vouching, str) else None
    groups, subject = claims.get("groups"), claims.get("sub")
    if settings.tokens is None or provider is None or not isinstance(groups, list) or not isinstance(subject, str):
        return None
    client, scope = claims.get("client_id"), claims.get("scope")
    return Principal(
        subject=subject,
        issuer=str(vouching),
        provider=provider,
        groups=frozenset(group for group in groups if isinstance(group, str)),
        client=client if isinstance(client, str) else None,
        scopes=frozenset(_split(scope.replace(" ", ","))) if isinstance(scope, str) else frozenset(),
        groups_known=claims.get("groups_known", True) is True,
    )
