"""Credentials and callers that hold no more, whoever vouches for them.

Knows: names of tokens, subjects, keys and providers. Pure. Must not know: files, how a credential is shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.call import Principal
from gateway.identity.apikeys.apikey import PROVIDER as API_KEYS


@dataclass(frozen=True, slots=True)
class Revoked:
    """`tokens` (their `jti`) and `subjects` are pairs of the provider, or "" for any, and the name; `keys` are ids."""

    tokens: frozenset[tuple[str, str]] = frozenset()
    subjects: frozenset[tuple[str, str]] = frozenset()
    keys: frozenset[str] = frozenset()

    def why(self, principal: Principal) -> str:
        """What of this caller is revoked, in words for operators; nothing if nothing is."""
        provider, subject, credential = principal.provider, principal.subject, principal.credential
        if ("", subject) in self.subjects or (provider, subject) in self.subjects:
            return f"subject={subject} provider={provider}"
        if credential is None:
            return ""
        if provider == API_KEYS:
            return f"key={credential}" if credential in self.keys else ""
        if ("", credential) in self.tokens or (provider, credential) in self.tokens:
            return f"token={credential} provider={provider}"
        return ""

    @property
    def providers(self) -> frozenset[str]:
        """Names of providers that it speaks of."""
        return frozenset(provider for provider, _ in (*self.tokens, *self.subjects) if provider)
