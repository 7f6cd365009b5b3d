"""What stands for a text in the name of a file."""

import hashlib
from collections.abc import Iterable


def text_digest(documents: Iterable[str]) -> str:
    """16 hex digits that stand for these documents in this order."""
    hashed = hashlib.sha256()
    for document in documents:
        content = document.encode()
        hashed.update(len(content).to_bytes(8, "little"))
        hashed.update(content)
    return hashed.hexdigest()[:16]
