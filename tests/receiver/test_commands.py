"""``spillway receive`` and ``spillway send``, as processes."""

import argparse
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.certificates import Authority
from tests.files.full_disk import files_no_larger_than
from tests.receiver.test_server import read_all

from spillway.cli import receive, send
from spillway.errors import InputError, SetupError
from spillway.receiver import ItemReader
from spillway.receiver.options import TOKEN_VARIABLE, find_token

RECEIVE = """
import argparse, sys
from spillway.cli import receive
parser = argparse.ArgumentParser()
parser.add_argument("--json", action="store_true")
receive.add_options(parser)
sys.exit(receive.main(parser.parse_args(sys.argv[1:])))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("receive")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with receiving(folder) as running:
        yield running


@contextmanager
def receiving(folder: Path, *more: str) -> Iterator[str]:
    """The address of a receiver that is stopped by SIGTERM in the end, and says so."""
    options = [
        "--json",
        "--schema",
        "id:int64,note:string?",
        "--folder",
        str(folder),
        "--port",
        "0",
        "--http-port",
        "-1",
        *more,
    ]
    process = subprocess.Popen([sys.executable, "-c", RECEIVE, *options], stdout=subprocess.PIPE)
    assert process.stdout is not None
    listening = json.loads(process.stdout.readline())
    assert (listening["event"], listening["failures"]) == ("listening", 0)
    yield f"127.0.0.1:{listening['port']}"
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[0].splitlines()
    assert process.returncode == 0
    assert json.loads(said[-1])["event"] == "stopped"


def sent(file: str, address: str, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    send.add_options(parser)
    options = parser.parse_args([file, "--to", address, "--token-file", str(folder / "token"), "--json", *more])
    assert send.main(options) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_files_and_standard_input_are_sent(
    address: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "items.jsonl").write_text('{"id":1}\n\nbad\n{"id":2}')
    result = sent(str(tmp_path / "items.jsonl"), address, folder, capsys)
    assert (result["given"], result["taken"], result["refused"]) == (3, 2, 1)
    assert result["reasons"][0][0] == 2
    # Other columns are left out, and types that can be are made to fit.
    pq.write_table(
        pa.table({"more": [0, 0], "id": pa.array([3, 4], pa.int32()), "note": ["a", None]}), tmp_path / "i.parquet"
    )
    assert sent(str(tmp_path / "i.parquet"), address, folder, capsys)["taken"] == 2
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id":5}\n{"id":6}\n')))
    assert sent("-", address, folder, capsys)["taken"] == 2
    with ItemReader(address, find_token(folder / "token")) as reader:
        assert read_all(reader) == [1, 2, 3, 4, 5, 6]


def test_a_file_that_cannot_be_sent_is_named(
    address: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"other": [1]}), tmp_path / "i.parquet")
    with pytest.raises(InputError, match="no column 'id'"):
        sent(str(tmp_path / "i.parquet"), address, folder, capsys)
    with pytest.raises(InputError, match="cannot be read"):
        sent(str(tmp_path / "none"), address, folder, capsys)


def test_items_are_sent_with_tls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority(tmp_path / "authority")
    both, folder, file = authority.signs("both"), tmp_path / "items", tmp_path / "items.jsonl"
    tls = ["--tls-cert", str(both.cert), "--tls-key", str(both.key), "--tls-ca", str(authority.cert)]
    file.write_text('{"id":1}\n{"id":2}\n')
    with receiving(folder, *tls) as address:
        assert sent(str(file), address, folder, capsys, *tls)["taken"] == 2
        with pytest.raises(SetupError, match="wants a certificate of ours"):
            sent(str(file), address, folder, capsys, *tls[4:])
        with pytest.raises(InputError, match="wants TLS: say whom to believe"):
            sent(str(file), address, folder, capsys)
    for name in folder.iterdir():
        assert b"PRIVATE KEY" not in name.read_bytes()


def test_a_receiver_that_cannot_show_its_certificate_does_not_begin(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    old, folder = authority.signs("old", days=0), tmp_path / "items"
    parser = argparse.ArgumentParser()
    receive.add_options(parser)
    given = ["--schema", "id:int64", "--folder", str(folder), "--tls-cert", str(old.cert)]
    with pytest.raises(SetupError, match="got cert and no key"):
        receive.main(parser.parse_args(given))
    with pytest.raises(SetupError, match=r"old\.pem has expired"):
        receive.main(parser.parse_args([*given, "--tls-key", str(old.key)]))
    assert not folder.exists()


def test_a_token_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with pytest.raises(SetupError, match="--token-file"):
        find_token(None)
    made = find_token(None, make_in=tmp_path)
    assert made == find_token(None, make_in=tmp_path) == find_token(tmp_path / "token") and len(made) > 20
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv(TOKEN_VARIABLE, "from outside")
    assert find_token(None, make_in=tmp_path) == "from outside"
    assert find_token(tmp_path / "token") == made
    with pytest.raises(SetupError, match="cannot be read"):
        find_token(tmp_path / "none")


def test_a_token_that_cannot_be_kept_leaves_no_half_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with files_no_larger_than(10), pytest.raises(SetupError, match=r"No token can be kept in .*File too large"):
        find_token(None, make_in=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(find_token(None, make_in=tmp_path)) > 20
