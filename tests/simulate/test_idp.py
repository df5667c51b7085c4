"""A simulated identity provider: who gets a token, what is in it, which keys it can be checked with."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import aiohttp
import pytest
from joserfc import jwk, jwt
from joserfc.errors import JoseError

from gateway.simulate import idp, idp_accounts
from gateway.simulate.idp_accounts import Account, Accounts
from gateway.simulate.idp_tokens import Signer
from tests.simulate.conftest import listening

CLIENT = Account("demo client", "s:cret&more")
SERVICE = Account("service", "other", ("services",))
ALICE = Account("alice", "pässword", ("data-science", "staff"))
ACCOUNTS = Accounts({CLIENT.name: CLIENT, SERVICE.name: SERVICE}, {ALICE.name: ALICE})
BY_PASSWORD = {"grant_type": "password", "username": ALICE.name, "password": ALICE.secret}


class Clock:
    """UNIX time that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class Issuer:
    """The provider under test, and a client for it."""

    def __init__(self, url: str, session: aiohttp.ClientSession, clock: Clock) -> None:
        self.url, self.session, self.clock = url, session, clock

    async def token(self, form: dict[str, str], client: Account = CLIENT) -> tuple[int, Any]:
        """Status and JSON of the token endpoint."""
        pair = f"{quote_plus(client.name)}:{quote_plus(client.secret)}".encode()
        headers = {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return await self.post("/token", headers=headers, data=form)

    async def post(self, path: str, **more: Any) -> tuple[int, Any]:
        async with self.session.post(self.url + path, **more) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str) -> Any:
        async with self.session.get(self.url + path) as answer:
            assert answer.status == 200
            return await answer.json()

    async def checked(self, token: str) -> jwt.Token:
        """The token, if one of the published keys signed it."""
        keys = jwk.KeySet.import_key_set(await self.get("/jwks"))
        return jwt.decode(token, keys, algorithms=["RS256", "ES256"])


@pytest.fixture
async def issuer(request: pytest.FixtureRequest) -> AsyncIterator[Issuer]:
    """Signs with ES256, whose keys are made quickly, unless a test asks for another algorithm."""
    clock, algorithm = Clock(), getattr(request, "param", "ES256")
    signer = Signer("http://issuer.test", clock, (algorithm,))
    app = idp.build(idp.Provider(signer, ACCOUNTS, "nim-gateway", algorithm, 600), rotation=True)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(listening(app))
        yield Issuer(url, await stack.enter_async_context(aiohttp.ClientSession()), clock)


@pytest.mark.parametrize("issuer", ["ES256", "RS256"], indirect=True)
async def test_a_user_with_the_right_password_gets_a_token_with_their_groups(issuer: Issuer) -> None:
    status, answer = await issuer.token(BY_PASSWORD)
    assert (status, answer["token_type"], answer["expires_in"]) == (200, "Bearer", 600)
    token = await issuer.checked(answer["access_token"])
    assert token.header["typ"] == "at+jwt"
    claims = dict(token.claims)
    assert claims.pop("jti")
    assert claims == {
        "iss": "http://issuer.test", "sub": "alice", "aud": "nim-gateway", "iat": 1_700_000_000, "exp": 1_700_000_600,
        "client_id": CLIENT.name, "scope": "openid", "groups": ["data-science", "staff"],
    }  # fmt: skip


async def test_a_client_gets_a_token_for_itself_and_for_the_resource_it_names(issuer: Issuer) -> None:
    form = {"grant_type": "client_credentials", "client_id": SERVICE.name, "client_secret": SERVICE.secret}
    status, answer = await issuer.post("/token", data={**form, "scope": "infer", "resource": "elsewhere"})
    assert status == 200
    claims = (await issuer.checked(answer["access_token"])).claims
    assert (claims["sub"], claims["aud"], claims["scope"]) == ("service", "elsewhere", "infer")
    assert claims["groups"] == ["services"]


async def test_two_tokens_are_never_the_same(issuer: Issuer) -> None:
    assert (await issuer.token(BY_PASSWORD))[1] != (await issuer.token(BY_PASSWORD))[1]


@pytest.mark.parametrize(
    ("client", "form", "status", "error"),
    [
        (Account(CLIENT.name, "wrong"), BY_PASSWORD, 401, "invalid_client"),
        (Account("nobody", CLIENT.secret), BY_PASSWORD, 401, "invalid_client"),
        (Account("alice", ALICE.secret), BY_PASSWORD, 401, "invalid_client"),
        (CLIENT, {**BY_PASSWORD, "password": "wrong"}, 400, "invalid_grant"),
        (CLIENT, {**BY_PASSWORD, "username": "mallory"}, 400, "invalid_grant"),
        (CLIENT, {**BY_PASSWORD, "password": ""}, 400, "invalid_grant"),
        (CLIENT, {"grant_type": "authorization_code"}, 400, "unsupported_grant_type"),
        (CLIENT, {}, 400, "unsupported_grant_type"),
    ],
)
async def test_who_does_not_prove_themselves_gets_no_token(
    issuer: Issuer, client: Account, form: dict[str, str], status: int, error: str
) -> None:
    got, answer = await issuer.token(form, client)
    assert (got, answer["error"]) == (status, error)
    assert "access_token" not in answer


@pytest.mark.parametrize("header", ["Basic !!!", "Basic /w==", "Bearer x", "Basic"])
async def test_a_malformed_client_credential_is_a_401(issuer: Issuer, header: str) -> None:
    got, answer = await issuer.post("/token", headers={"Authorization": header}, data=BY_PASSWORD)
    assert (got, answer["error"]) == (401, "invalid_client")


async def test_a_field_that_stands_twice_is_refused(issuer: Issuer) -> None:
    twice = [*BY_PASSWORD.items(), ("username", "alice"), ("client_id", CLIENT.name)]
    got, answer = await issuer.post("/token", data=aiohttp.FormData(twice))
    assert (got, answer["error"]) == (400, "invalid_request")


async def test_discovery_names_endpoints_that_work(issuer: Issuer) -> None:
    told = await issuer.get("/.well-known/openid-configuration")
    assert told["issuer"] == "http://issuer.test"
    assert {told["jwks_uri"], told["token_endpoint"]} == {"http://issuer.test/jwks", "http://issuer.test/token"}


@pytest.mark.parametrize("issuer", ["ES256", "RS256"], indirect=True)
async def test_published_keys_hold_nothing_private(issuer: Issuer) -> None:
    for key in (await issuer.get("/jwks"))["keys"]:
        assert not {"d", "p", "q", "dp", "dq", "qi"} & key.keys()
        assert key["use"] == "sig"


async def test_after_a_rotation_old_tokens_hold_until_their_key_is_dropped(issuer: Issuer) -> None:
    old = (await issuer.token(BY_PASSWORD))[1]["access_token"]
    await issuer.post("/sim/rotate")
    new = (await issuer.token(BY_PASSWORD))[1]["access_token"]
    assert (await issuer.checked(old)).header["kid"] != (await issuer.checked(new)).header["kid"]
    await issuer.post("/sim/rotate?drop=1")
    for token in (old, new):
        with pytest.raises(JoseError):
            await issuer.checked(token)


async def test_introspection_knows_living_tokens_only_and_answers_clients_only(issuer: Issuer) -> None:
    token = (await issuer.token(BY_PASSWORD))[1]["access_token"]
    form = {"client_id": SERVICE.name, "client_secret": SERVICE.secret}
    _, alive = await issuer.post("/introspect", data={**form, "token": token})
    assert (alive["active"], alive["sub"]) == (True, "alice")
    for other in (token[:-4] + "AAAA", "nonsense", ""):
        assert (await issuer.post("/introspect", data={**form, "token": other}))[1] == {"active": False}
    assert (await issuer.post("/introspect", data={"token": token}))[0] == 401
    issuer.clock.now += 600
    assert (await issuer.post("/introspect", data={**form, "token": token}))[1] == {"active": False}


def test_accounts_are_made_once_with_secrets_of_their_own(tmp_path: Path) -> None:
    first, second = tmp_path / "deep" / "a.json", tmp_path / "b.json"
    made = idp_accounts.kept(first)
    assert idp_accounts.kept(first) == made
    assert first.stat().st_mode & 0o777 == 0o600
    assert made.users["alice"].groups == ("data-science",)
    assert made.users["bob"].groups == ("guests",)
    assert idp_accounts.kept(second).users["alice"].secret != made.users["alice"].secret


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"clients": 1, "users": []}',
        '{"clients": [], "users": [{"name": "x"}]}',
        '{"clients": [], "users": [{"name": "x", "secret": "y", "groups": "z"}]}',
    ],
)
def test_an_accounts_file_that_holds_something_else_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "accounts.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"."):
        idp_accounts.kept(path)
    assert path.read_text() == content


def test_secrets_do_not_print() -> None:
    assert CLIENT.secret not in repr(ACCOUNTS)
    assert json.dumps(CLIENT.secret) not in repr(CLIENT)
