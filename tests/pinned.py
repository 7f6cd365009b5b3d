"""Files that pin what a reader would notice. PARTWISE_PIN=1 python -m pytest writes them anew, for review to see."""

import json
import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def pinned(name: str, found: Any) -> Any:
    """What the pinned file holds; with PARTWISE_PIN=1, `found` is written first."""
    path = HERE / name
    if os.environ.get("PARTWISE_PIN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))
