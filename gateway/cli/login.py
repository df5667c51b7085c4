"""`nim-gateway login`: get a token on the command line, from a gateway or from an OpenID provider."""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import getpass
import ssl
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from gateway import tls
from gateway.config.units import is_loopback, url
from gateway.fetch import Fetch, Fetched, FetchFailed
from gateway.identity.provider.device import DeviceLogin, NotLoggedIn, plain
from gateway.identity.provider.discovery import Discovery, Unusable
from gateway.identity.provider.oauth import Client, DeviceCode, Request
from gateway.settings import ClientTls, OAuthClient, OidcIssuer

EXAMPLES: Final = """examples:
  export OPENAI_API_KEY=$(nim-gateway login --url https://gw.example.com:8443)
  nim-gateway login --issuer https://idp.example.com/realms/ml --client-id cli --scope "openid groups"
"""

T = TypeVar("T")

# Seconds for one answer: a gateway waits for its directory.
_PATIENCE: Final = 30.0
_ANSWER_LIMIT: Final = 64 * 1024
_PASSWORD_LIMIT: Final = 4096


class _Failed(Exception):  # noqa: N818  named for what happened
    """It cannot be done. One line that says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--url URL` or `--issuer URL --client-id ID`, and what goes with either."""
    parser.description = (
        "Get a token and print it, alone, on standard output: from a gateway for a name\n"
        "and a password, or from an OpenID provider by logging in with a browser on any\n"
        "device (RFC 8628)."
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", type=_place, help="the gateway, such as https://gw.example.com:8443")
    where.add_argument("--issuer", type=_place, help="an OpenID provider, exactly as its tokens name it")
    parser.add_argument("--ca", type=Path, help="PEM file of the authorities to trust, instead of the system's")
    gateway = parser.add_argument_group("with --url")
    gateway.add_argument("--user", help="the name to log in with (default: your name on this machine)")
    gateway.add_argument(
        "--password-stdin", action="store_true", help="read the password from standard input, not from the terminal"
    )
    provider = parser.add_argument_group("with --issuer")
    provider.add_argument("--client-id", help="the public client that is registered for this command (needed)")
    provider.add_argument("--scope", help="what to ask for (default: %(default)s)", default="openid")
    provider.add_argument("--resource", help="the API that the token is for (RFC 8707)")
    provider.add_argument("--audience", help="the same, for providers that call it so")
    parser.set_defaults(refuse=parser.error)


def run(args: argparse.Namespace) -> int:
    """Exit 0 with the token on standard output, 1 when there is none to be had, 2 on a bad call."""
    _check(args)
    try:
        context = tls.client_context(ClientTls(ca=args.ca))
        if args.url is not None:
            name, password = _name_and_password(args)
            token = asyncio.run(_from_gateway(args.url, name, password, context))
        else:
            token = asyncio.run(_from_provider(args, context))
    except tls.TlsError as error:
        return _say(f"{error.file} {error}", 2)
    except (_Failed, NotLoggedIn) as error:
        return _say(str(error), 1)
    except KeyboardInterrupt:
        print(file=sys.stderr)  # noqa: T201  the terminal wrote ^C
        return _say("interrupted", 1)
    print(token)  # noqa: T201  the command's answer
    return 0


def _check(args: argparse.Namespace) -> None:
    """Ends the program, with 2, where the arguments do not go together."""
    refuse: Callable[[str], None] = args.refuse
    if args.url is not None and (args.client_id or args.resource or args.audience):
        refuse("--client-id, --resource and --audience go with --issuer")
    if args.issuer is not None and (args.user or args.password_stdin):
        refuse("--user and --password-stdin go with --url")
    if args.issuer is not None and not args.client_id:
        refuse("--issuer needs --client-id")


def _place(text: str) -> str:
    """A URL that a password or a token may travel to. Raises `ArgumentTypeError`."""
    try:
        url(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if text.startswith("http://") and not is_loopback(text):
        raise argparse.ArgumentTypeError("must be https://, because what proves who you are would go there")
    return text


def _name_and_password(args: argparse.Namespace) -> tuple[str, str]:
    """Raises `_Failed`."""
    try:
        name = args.user or getpass.getuser()
    except (OSError, KeyError):
        raise _Failed("your name is not known here; give it with --user") from None
    if ":" in name:  # RFC 7617 section 2: it would end there
        raise _Failed("a name with a colon cannot be sent; log in with another form of it")
    if args.password_stdin:
        password = sys.stdin.readline(_PASSWORD_LIMIT + 1).removesuffix("\n").removesuffix("\r")
    elif sys.stdin.isatty():
        password = getpass.getpass(f"Password of {name} at {args.url}: ")
    else:
        raise _Failed("there is no terminal to ask for the password on; use --password-stdin")
    if not password or len(password) > _PASSWORD_LIMIT:
        raise _Failed("the password is empty or too long")
    return name, password


async def _from_gateway(base: str, name: str, password: str, context: ssl.SSLContext) -> str:
    """Raises `_Failed`."""
    pair = base64.b64encode(f"{name}:{password}".encode())
    request = Request(base.rstrip("/") + "/auth/token", ((b"authorization", b"Basic " + pair),), b"")
    async with Fetch() as fetch:
        answer = await _reached(base, _posted(fetch, context, request))
    members = _members(answer)
    token = members.get("access_token")
    if answer.status == 200 and isinstance(token, str) and token.isprintable():
        return token
    if answer.status == 404:
        raise _Failed(f"{base} gives no tokens: it is no gateway, or one without identity.tokens")
    text = members.get("error_description")
    wait = next((value.decode("latin-1") for name, value in answer.fields if name == b"retry-after"), None)
    why = plain(text) if isinstance(text, str) else f"it answered with status {answer.status}"
    raise _Failed(f"{base}: {why}" + (f" (again in {plain(wait)} s)" if wait else ""))


async def _from_provider(args: argparse.Namespace, context: ssl.SSLContext) -> str:
    """Raises `_Failed` or `NotLoggedIn`."""
    issuer: str = args.issuer
    more = {"scope": args.scope, "resource": args.resource, "audience": args.audience}
    asked = {name: value for name, value in more.items() if value}
    async with Fetch() as fetch:
        discovery = Discovery(OidcIssuer("login", issuer, ()), fetch, context, _PATIENCE)
        try:
            codes = await _reached(issuer, discovery.address("device_authorization_endpoint", None))
            tokens = await _reached(issuer, discovery.address("token_endpoint", None))
        except Unusable as error:
            raise _Failed(f"{issuer}: {error}") from None
        login = DeviceLogin(
            Client(OAuthClient(args.client_id)),
            lambda request: _posted(fetch, context, request),
            time.monotonic,
            _wait,
        )
        code = await _reached(issuer, login.begin(codes, asked))
        _show(code)
        return await login.token(tokens, code, {name: asked[name] for name in ("resource",) if name in asked})


def _show(code: DeviceCode) -> None:
    lines = [f"Open {plain(code.uri)} in a browser and type {plain(code.user_code)}"]
    if code.uri_with_code:
        lines.append(f"or open {plain(code.uri_with_code)}")
    lines.append(f"Waiting for you to log in, {code.lifetime / 60:.0f} minutes at most ...")
    print(*lines, sep="\n", file=sys.stderr, flush=True)  # noqa: T201  standard output is for the token


async def _wait(seconds: float) -> None:
    """Somebody at a terminal sees that it goes on."""
    if sys.stderr.isatty():
        print(".", end="", file=sys.stderr, flush=True)  # noqa: T201  see above
    await asyncio.sleep(seconds)


async def _posted(fetch: Fetch, context: ssl.SSLContext, request: Request) -> Fetched:
    return await fetch.post(
        request.url, request.body, timeout=_PATIENCE, limit=_ANSWER_LIMIT, fields=request.fields, tls=context
    )


async def _reached(place: str, question: Coroutine[Any, Any, T]) -> T:
    """Raises `_Failed` where `FetchFailed` is raised."""
    try:
        return await question
    except FetchFailed as error:
        hint = "; give its authority with --ca" if "not trusted" in str(error) else ""
        raise _Failed(f"{place} cannot be asked: {error}{hint}") from None


def _members(answer: Fetched) -> dict[str, object]:
    with contextlib.suppress(orjson.JSONDecodeError):
        members = orjson.loads(answer.body)
        if isinstance(members, dict):
            return members
    return {}


def _say(text: str, code: int) -> int:
    print(f"nim-gateway: {text}", file=sys.stderr)  # noqa: T201  the command's answer
    return code
