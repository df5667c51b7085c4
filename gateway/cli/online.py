"""Ask everybody whom the gateway would depend on, as calls would, and say who fails, where that is configured.

Knows: providers and backends of a generation, where their settings stand. Must not know: arguments, exit codes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from gateway import tls
from gateway.config import yamlfile
from gateway.fetch import Fetch
from gateway.generation import Generation
from gateway.identity.ldap.trial import troubles
from gateway.identity.provider.introspection import Introspector
from gateway.identity.provider.keys import KeySet
from gateway.pools.backends import Backend, Pool
from gateway.pools.readiness import Readiness, ask, ready_path
from gateway.settings import ClientTls, Ldap, OidcIssuer

# Providers and backends asked at the same time: a site of hundreds is through in seconds, and no resolver is flooded.
_AT_ONCE = 32

Failure = tuple[tuple[str | int, ...], str]
"""The path of a setting in the file, and what is wrong."""


async def unreachable(made: Generation, fetch: Fetch, config: Path) -> list[str]:
    """All are asked at once, or nearly so; what is wrong is said in their order, with its place in the file `config`.

    Raises `Mistakes` if that cannot be read any more.
    """
    gate = asyncio.Semaphore(_AT_ONCE)

    async def asked(question: Coroutine[Any, Any, list[Failure]]) -> list[Failure]:
        async with gate:
            return await question

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(asked(question)) for question in _questions(made, fetch)]
    made.identities.close()
    failures = [failure for task in tasks for failure in task.result()]
    document = yamlfile.read_file(config) if failures else None
    return [
        f"{config}:{':'.join(map(str, document.place(path)))}: {text}" if document and path else text
        for path, text in failures
    ]


def _questions(made: Generation, fetch: Fetch) -> Iterator[Coroutine[Any, Any, list[Failure]]]:
    settings, identities = made.source.settings, made.identities
    for issuer, keys in identities.key_sets.items():
        yield _provider(settings.oidc.index(issuer), issuer, keys)
    for number, directory in enumerate(settings.ldap):
        yield asyncio.to_thread(_directory, number, directory)
    for issuer, one in identities.introspectors.items():
        yield _introspection(settings.oidc.index(issuer), one)
    for pool in made.pools:
        for backend in pool.backends:
            yield _backend(fetch, pool, backend)


async def _provider(number: int, issuer: OidcIssuer, keys: KeySet) -> list[Failure]:
    await keys.refresh()
    if keys.ready:
        return []
    source, setting = (issuer.jwks_uri, "jwks_uri") if issuer.jwks_uri else (issuer.issuer, "issuer")
    why = f": {keys.reason}" if keys.reason else ""
    if "certificate" in why and issuer.ca is None:
        why += "; ca names the authorities to trust, in place of the system's"
    text = f"identity provider {keys.name}: its signing keys cannot be had from {source}{why}"
    return [(("identity", "oidc", number, setting), text)]


def _directory(number: int, settings: Ldap) -> list[Failure]:
    context = tls.client_context(ClientTls(ca=settings.ca), protocols=())
    return [
        (
            ("identity", "ldap", number, *trouble.setting),
            f"identity provider {settings.name}: {trouble.server}: {trouble.why}",
        )
        for trouble in troubles(settings, context)
    ]


async def _introspection(number: int, introspector: Introspector) -> list[Failure]:
    why = await introspector.try_out()
    text = f"identity provider {introspector.name}: it cannot be asked about tokens: {why}"
    return [(("identity", "oidc", number, "introspection"), text)] if why else []


async def _backend(fetch: Fetch, pool: Pool, backend: Backend) -> list[Failure]:
    seen = await ask(fetch, pool.settings, backend)
    return [((), f"pool {pool.name}: backend {backend.name}: {text}") for text in _lacks(pool, seen)]


def _lacks(pool: Pool, seen: Readiness) -> Iterator[str]:
    """What keeps calls away; a server that serves some models is not blamed for the others twice."""
    if not seen.serving:
        yield f"{ready_path(pool.settings)}: {seen.server.why}"
    for name, model in seen.models.items():
        if not model.ready:
            yield f"model {name}: {model.why}"
