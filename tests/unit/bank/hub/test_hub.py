"""The Hub through its real client, against a small server on loopback that speaks its protocol.

Run: .venv/bin/python -m pytest tests/unit/bank/hub
"""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from core.bank.hub import parse_address
from core.errors import BankError

ROOT = Path(__file__).resolve().parents[4]
COMMITS = {"main": "a" * 40}
STEPS = ("step-1", "step-2", "step-3")


def files_of(fill: float) -> dict[str, bytes]:
    files = {
        f"{one}/model.safetensors": save({"w": np.full((512, 1024), fill + at / 8, np.float16)})
        for at, one in enumerate(STEPS)
    }
    return files | {f"{one}/config.json": b"{}" for one in STEPS} | {"scores/dev.jsonl": b"{}"}


class Hub(ThreadingHTTPServer):
    """Repository o/n; `served` counts bytes of weights sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.commits = {"a" * 40: files_of(1), "b" * 40: files_of(2)}
        self.main, self.served, self.refusal = "a" * 40, 0, (0, "")
        self.moves, self.cut_after = False, 0


class Answer(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def say(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self) -> None:
        hub, path = self.server, self.path.partition("?")[0]
        if hub.refusal[0]:
            return self.say(hub.refusal[0], b"", X_Error_Code=hub.refusal[1])
        if path.startswith("/o/n/resolve/"):
            return self.file(*path.removeprefix("/o/n/resolve/").split("/", 1))
        if not path.startswith("/api/models/o/n"):
            return self.say(404, b"", X_Error_Code="RepoNotFound")
        kind, _, rest = path.removeprefix("/api/models/o/n").strip("/").partition("/")
        revision = rest.split("/")[0] or "main"
        commit = hub.main if revision == "main" else revision
        if hub.moves:
            hub.main = "b" * 40
        if kind != "refs" and commit not in hub.commits:
            return self.say(404, b"", X_Error_Code="RevisionNotFound")
        files = hub.commits.get(commit, {})
        found: Any = {"id": "o/n", "sha": commit, "siblings": [{"rfilename": one} for one in files]}
        if kind == "refs":
            refs = [{"name": "main", "ref": "refs/heads/main", "targetCommit": hub.main}]
            found = {"branches": refs, "converts": [], "tags": []}
        if kind == "tree":
            found = [{"type": "file", "path": one, "size": len(data), "oid": "0" * 40} for one, data in files.items()]
        return self.say(200, json.dumps(found).encode(), Content_Type="application/json")

    do_HEAD = do_GET

    def file(self, commit: str, name: str) -> None:
        data = self.server.commits[commit][name]
        tag = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X_Repo_Commit": commit}
        asked = self.headers.get("Range")
        first, last = asked.removeprefix("bytes=").split("-") if asked else ("0", "")
        part = data[int(first) : int(last) + 1 if last else None]
        if self.command == "GET" and name.endswith(".safetensors"):
            cut, self.server.cut_after = self.server.cut_after, 0
            self.server.served += cut or len(part)
            if cut:
                self.say(200, part[:cut], **(tag | {"Content_Length": str(len(part))}))
                self.close_connection = True
                return
        ranged = {"Content_Range": f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"} if asked else {}
        self.say(206 if asked else 200, part, **tag, **ranged)


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def shell(hub: Hub, home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(home)} | more
    command = [sys.executable, "-m", "core", "hub", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_listing_reads_headers_and_a_download_stays_at_its_commit(hub: Hub, tmp_path: Path) -> None:
    listed = shell(hub, tmp_path, "list", "hf://o/n", "--json")
    assert listed.returncode == 0, listed.stderr
    found = json.loads(listed.stdout)
    assert [(one["subfolder"], one["parameters"], one["dtypes"]) for one in found["checkpoints"]] == [
        (one, 512 * 1024, ["F16"]) for one in STEPS
    ]
    assert found["scores"] == ["scores/dev.jsonl"] and hub.served <= 3 * 100_100
    hub.main, hub.served = "b" * 40, 0
    done = shell(hub, tmp_path, "download", found["address"], "step-2", "--json")
    assert done.returncode == 0, done.stderr
    folder = Path(json.loads(done.stdout)["folders"]["step-2"])
    weights = hub.commits["a" * 40]["step-2/model.safetensors"]
    assert (folder / "model.safetensors").read_bytes() == weights and hub.served == len(weights)
    assert not (folder.parent / "step-1").exists()


def test_a_branch_that_moves_gives_files_of_one_commit(hub: Hub, tmp_path: Path) -> None:
    hub.moves = True
    done = shell(hub, tmp_path, "download", "hf://o/n", "step-1", "step-2", "--json")
    assert done.returncode == 0, done.stderr
    folders = json.loads(done.stdout)["folders"]
    for step in ("step-1", "step-2"):
        weights = (Path(folders[step]) / "model.safetensors").read_bytes()
        assert weights == hub.commits["a" * 40][f"{step}/model.safetensors"]


def test_a_file_that_was_cut_off_is_fetched_again_and_complete_ones_are_kept(hub: Hub, tmp_path: Path) -> None:
    pinned, weights = f"hf://o/n@{'a' * 40}", hub.commits["a" * 40]["step-1/model.safetensors"]
    hub.cut_after = 700_000
    done = shell(hub, tmp_path, "download", pinned, "step-1", "--json")
    assert done.returncode == 0, done.stderr
    assert (Path(json.loads(done.stdout)["folders"]["step-1"]) / "model.safetensors").read_bytes() == weights
    hub.served = 0
    assert shell(hub, tmp_path, "download", pinned, "step-1", "step-2").returncode == 0
    assert hub.served == len(weights)


def test_pickles_and_code_are_never_fetched(hub: Hub, tmp_path: Path) -> None:
    hub.commits["a" * 40] |= {"step-1/optimizer.pt": b"x", "step-1/modeling.py": b"x", "step-1/a.bin": b"x"}
    done = shell(hub, tmp_path, "download", f"hf://o/n@{'a' * 40}", "step-1", "--json")
    folder = Path(json.loads(done.stdout)["folders"]["step-1"])
    assert sorted(one.name for one in folder.iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (403, "GatedRepo", "access is gated"),
        (401, "RepoNotFound", "missing or private"),
        (404, "RevisionNotFound", "no such branch"),
    ],
)
def test_refusals_say_what_to_do(hub: Hub, tmp_path: Path, status: int, code: str, said: str) -> None:
    hub.refusal = (status, code)
    done = shell(hub, tmp_path, "list", "hf://o/n")
    assert done.returncode == 2 and said in done.stderr


@pytest.mark.parametrize(
    "text", ["hf://o", "hf://o/n/../x", "/etc", "hf://o/n@../x", "hf://ö/n", "hf://o/n//x", "hf://o/n/*"]
)
def test_hostile_addresses_are_refused(text: str) -> None:
    with pytest.raises(BankError):
        parse_address(text)


def test_the_cache_answers_offline_and_says_what_it_lacks(hub: Hub, tmp_path: Path) -> None:
    pinned = f"hf://o/n@{'a' * 40}"
    assert shell(hub, tmp_path, "download", pinned, "step-1").returncode == 0
    hub.served = 0
    again = shell(hub, tmp_path, "download", pinned, "step-1", "--json", HF_HUB_OFFLINE="1")
    assert again.returncode == 0, again.stderr
    assert (Path(json.loads(again.stdout)["folders"]["step-1"]) / "model.safetensors").is_file()
    lacking = shell(hub, tmp_path, "download", pinned, "step-3", HF_HUB_OFFLINE="1")
    assert lacking.returncode != 0 and "step-3" in lacking.stderr and "cache" in lacking.stderr
    assert hub.served == 0


def test_a_full_disk_is_said_before_anything_is_fetched(hub: Hub, tmp_path: Path) -> None:
    code = (
        "import shutil, collections, sys\n"
        "shutil.disk_usage = lambda _: collections.namedtuple('U', 'total used free')(1, 1, 0)\n"
        "from core.bank.hub import download, parse_address\n"
        "from core.errors import DiskError\n"
        f"try:\n    download(parse_address('hf://o/n@{'a' * 40}'), ['step-1'])\n"
        "except DiskError as problem:\n    print(problem)\n"
    )
    environment = os.environ | {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert "Free space" in done.stdout, done.stderr
    assert hub.served == 0
