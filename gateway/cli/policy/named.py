"""Which models a name stands for, as the gateway takes it from callers.

Knows: names, aliases, and names that models share. Must not know: arguments, rules.
"""

from __future__ import annotations

from gateway.call import Principal
from gateway.resolve.shares import ranked
from gateway.settings import Settings


def models_named(name: str, settings: Settings) -> tuple[str, ...]:
    """The names of the models that may be meant, by which rules speak of them; none: it stands for nothing.

    Several where it is an alias for one protocol and another, or a name that models share.
    """
    served = [model for pool in settings.pools for model in pool.models]
    if any(model.name == name for model in served):
        return (name,)
    found = {model.name for model in served if name in model.aliases}
    found |= {target.model for alias in settings.aliases if alias.name == name for target in alias.targets}
    return tuple(sorted(found))


def drawn(name: str, settings: Settings, caller: Principal) -> tuple[str, ...]:
    """The models that share a name, in the order in which the caller takes them, which is that of the gateway: the
    first that is granted, else the first.

    Empty where no models share it, and where it is an alias for another protocol as well.
    """
    if any(name in model.aliases for pool in settings.pools for model in pool.models):
        return ()
    for alias in settings.aliases:
        shares = [(target.model, target.weight) for target in alias.targets if target.weight]
        if alias.name == name and shares:
            return tuple(shares[place][0] for place in ranked((caller.provider, caller.subject), name, shares))
    return ()
