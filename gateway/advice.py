"""What a configuration allows but its author hardly meant: said as a warning, refused by nobody.

Knows: settings, lists, modes of files, which names stand beside the policies, what `policy lint` finds.
Must not know: how anything is built or logged.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from gateway.config.folder import is_policy
from gateway.generation import Source
from gateway.policy.fitting import fitting
from gateway.policy.lint import Finding, lint
from gateway.policy.rules import Rule
from gateway.policy.surroundings import surroundings
from gateway.settings import Settings

#: These say that a policy could be shorter, or guess.
LEFT_TO_LINT: Final = frozenset({"redundant", "misspelt_name", "unopened_model"})


def advice(source: Source) -> Iterator[str]:
    """One line for each; blocks on files and the policy folder."""
    settings = source.settings
    yield from _unfitting(source, source.rules)
    yield from _unread(settings.policies.enforce)
    yield from of_candidate(source)
    yield from _unused(settings)
    yield from _not_kept(settings.policies.history)
    yield from _unlisted(source)
    yield from _open_files(source)


def of_candidate(source: Source) -> Iterator[str]:
    """What of it is about the shadow policy; blocks on its folder."""
    shadow = source.settings.policies.shadow
    if source.candidate is not None and shadow is not None and not source.candidate.mistakes:
        yield from _unfitting(source, source.candidate.written.rules)
        yield from _unread(shadow)


def _unused(settings: Settings) -> Iterator[str]:
    for issuer in settings.oidc:
        if issuer.introspection is not None and issuer.verify == "jwt":
            yield f"identity.oidc: {issuer.name}: its introspection is not used until verify is introspect or both"
    if settings.mtls is not None and settings.listen.tls.client_ca is None:
        yield "identity.mtls: nobody is known by a certificate until listen.tls.client_ca says who vouches for them"


def _not_kept(history: Path | None) -> Iterator[str]:
    """Where policies cannot be kept. No mistake: a full disk must not hold up a rule that takes a right away."""
    if history is None:
        return
    there = history.exists()
    if there and not history.is_dir():
        yield f"policies.history: {history} is not a folder; no policy is kept"
    elif not there and not history.parent.is_dir():
        yield f"policies.history: the folder that {history} would be made in does not exist; no policy is kept"
    elif not os.access(history if there else history.parent, os.W_OK | os.X_OK):
        yield f"policies.history: {history} cannot be written to; no policy is kept"


def _unlisted(source: Source) -> Iterator[str]:
    """Keys that are revoked and not there: a misspelt id would revoke nothing. One that was taken out may stay."""
    revoked, file = source.listed.revoked, source.settings.revoked
    if revoked is not None and file is not None:
        for key_id in sorted(revoked.keys - {key.id for key in source.listed.keys}):
            yield f"{file.file}: keys: no API key has the id {key_id}"


def _open_files(source: Source) -> Iterator[str]:
    """Files by which others on this machine could let themselves in."""
    private = {source.settings.listen.tls.key, *source.secrets}
    for file in source.files:
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
        except OSError:
            continue  # read a moment ago; whoever looks next will say that it is gone
        if mode & stat.S_IWOTH:
            yield f"{file}: everybody on this machine may change it (mode {mode:04o}); take that right away: chmod o-w"
        elif mode & stat.S_IROTH and file in private:
            yield f"{file}: everybody on this machine may read this secret (mode {mode:04o}); set 0600, or 0640"


def thorough(source: Source) -> Iterator[str]:
    """What `advice` leaves out, because it takes seconds for thousands of rules."""
    yield from _told(lint(source.rules))


def _unfitting(source: Source, rules: Iterable[Rule]) -> Iterator[str]:
    groups = frozenset[str]().union(*(key.groups for key in source.listed.keys))
    yield from _told(fitting(tuple(rules), surroundings(source.settings, groups)))


def _told(found: Iterable[Finding]) -> Iterator[str]:
    """What `policy lint` finds, but for what may well be meant."""
    for finding in found:
        if finding.code not in LEFT_TO_LINT:
            yield str(finding)


def _unread(policies: Path) -> Iterator[str]:
    """Files that look like policies and are none: a rule that denies would be missed in silence."""
    if not policies.is_dir():
        return
    for entry in sorted(policies.iterdir()):
        if entry.name.startswith(".") or is_policy(entry):
            continue
        if entry.is_dir() and entry.name != "tests" and any(entry.glob("*.y*ml")):
            yield f"{entry}: policies in subfolders are not read"
        elif entry.suffix in {".yml", ".json"}:
            yield f"{entry}: not read; policies are files called *.yaml"
