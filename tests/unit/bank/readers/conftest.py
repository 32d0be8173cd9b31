"""Files as the evaluation tools write them, made small."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Put = Callable[[str, Any], Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Write a file below the test's folder: bytes and texts as they are, a list for .jsonl as lines, else JSON."""

    def write(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            content = content.encode()
        elif not isinstance(content, bytes):
            is_lines = name.endswith(".jsonl")
            lines = "".join(json.dumps(one) + "\n" for one in content) if is_lines else json.dumps(content)
            content = lines.encode()
        path.write_bytes(content)
        return path

    return write
