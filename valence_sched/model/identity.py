# SPDX-License-Identifier: Apache-2.0
"""Identity: which service a pod manager is, whatever its name, its address and its port.

An identity is ``uuid:…``, the UUID that the service tells of itself, else ``address:…``, the
address that its URL resolves to. By its address alone a service is known only together with its
blocks: one that has none of the blocks that were there before is another service.
"""

import uuid
from collections.abc import Collection

UUID_KIND, ADDRESS_KIND = "uuid:", "address:"

#: UUIDs that stand for none: RFC 9562 calls them nil and max.
_NO_UUIDS = (uuid.UUID(int=0), uuid.UUID(int=2**128 - 1))


def uuid_identity(text: object) -> str | None:
    """Return the identity that a UUID in any spelling is, None for what is no UUID."""
    try:
        found = uuid.UUID(text.strip()) if isinstance(text, str) else None
    except ValueError:
        return None
    return None if found is None or found in _NO_UUIDS else f"{UUID_KIND}{found}"


def is_address(identity: str | None) -> bool:
    """Return whether a service is known by its address and its blocks alone."""
    return identity is not None and identity.startswith(ADDRESS_KIND)


def address_of(identity: str) -> str:
    """Return the host of an identity by address, without its port."""
    return identity.removeprefix(ADDRESS_KIND).rpartition(":")[0]


def contradicts(known: str | None, found: str | None) -> bool:
    """Return whether two identities cannot be of one service; an unknown one can be of any.

    A service that was known by its address may tell its UUID later.
    """
    if known is None or found is None or known == found:
        return False
    return not (is_address(known) and not is_address(found))


def has_other_blocks(known: Collection[str], found: Collection[str]) -> bool:
    """Return whether none of the blocks that a service had is among those it has now."""
    return bool(known) and bool(found) and set(known).isdisjoint(found)


def conflict_text(name: str, identity: str, other: str) -> str:
    """Return the line about a service that has another name already, and how to go on."""
    return (
        f"{name!r} is the same service as {other!r} (identity {identity}): keep one name, and take "
        "the other out (podm delete); a clone needs a UUID of its own"
    )


def change_text(name: str, known: str, found: str) -> str:
    """Return the line about a name that leads to another service than before."""
    now = "has none of the blocks it had" if known == found else f"is now {found}"
    return (
        f"{name!r} is another service than before: its identity was {known} and {now}: look at its "
        f"URL, or accept it (podm unset {name} --identity)"
    )
