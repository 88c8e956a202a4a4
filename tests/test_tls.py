"""What TLS is declared with: files that cannot be used are refused at once, each in a sentence."""

import pickle
import ssl
from pathlib import Path

import pytest
from tests.certificates import Authority, make_key, openssl

from spillway.errors import SetupError
from spillway.tls import TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates") / "authority")


def test_files_are_named_and_their_contents_are_nowhere(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = authority.signs("named")
    monkeypatch.chdir(host.cert.parent)
    tls = TLS(cert="named.pem", key="named.key", ca="authority.pem")
    assert tls == authority.tls(host), "whoever reads them may be in another folder"
    secret = host.key.read_text().splitlines()[1]
    assert secret not in repr(tls) and secret.encode() not in pickle.dumps(tls)
    assert pickle.loads(pickle.dumps(tls)) == tls


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({}, r"a server needs cert and key, and a client needs ca; got none"),
        ({"cert": "host.pem"}, r"got cert and no key"),
        ({"key": "host.key", "ca": "authority.pem"}, r"got key and no cert"),
        ({"ca": 3}, r"ca is the path of a file; got 3"),
        ({"ca": "none.pem"}, r"none\.pem cannot be read: No such file"),
        ({"ca": "."}, r"cannot be read: Is a directory"),
        ({"cert": "none.pem", "key": "host.key"}, r"none\.pem cannot be read"),
        ({"cert": "host.pem", "key": "none.key"}, r"none\.key cannot be read"),
        ({"cert": "host.key", "key": "host.key"}, r"host\.key holds no certificate in PEM"),
        ({"cert": "host.pem", "key": "host.pem"}, r"host\.pem holds no private key in PEM"),
        ({"ca": "host.key"}, r"host\.key holds no certificate of an authority in PEM"),
        ({"cert": "host.pem", "key": "other.key"}, r"the key in .*other\.key is not that of .*host\.pem\.$"),
        ({"cert": "host.pem", "key": "secret.key"}, r"secret\.key wants a passphrase"),
        ({"cert": "torn.pem", "key": "host.key"}, r"torn\.pem .*cannot be used"),
        ({"ca": "torn.pem"}, r"torn\.pem cannot be used"),
        ({"cert": "host.pem", "key": "torn.key"}, r"torn\.key cannot be used"),
        ({"cert": "old.pem", "key": "old.key"}, r"old\.pem has expired: ask its authority"),
        ({"cert": "mail.pem", "key": "mail.key"}, r"mail\.pem was not made to be used by anything"),
        ({"ca": "old.pem"}, r"the authorities in .*old\.pem have expired"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, given: dict[str, object], refusal: str
) -> None:
    folder = authority.cert.parent
    monkeypatch.chdir(folder)
    if not (folder / "torn.pem").exists():
        authority.signs("host")
        authority.signs("mail", use="emailProtection")
        authority.signs("old", days=0)
        make_key(folder / "other.key")
        openssl("ec", "-in", "other.key", "-aes256", "-passout", "pass:x", "-out", "secret.key")
        for name in ("host.key", "host.pem"):
            text = (folder / name).read_text()
            torn = name.replace("host", "torn")
            (folder / torn).write_text(text.replace(text.splitlines()[1], text.splitlines()[1][:-3]))
    if given.get("ca") == "old.pem":
        given = {"ca": Authority(folder / "former", days=0).cert.rename("former/old.pem")}
    with pytest.raises(SetupError, match=refusal) as refused:
        TLS(**given)  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)


def test_each_side_wants_what_it_needs(authority: Authority) -> None:
    host, client = authority.signs("web", use="serverAuth"), authority.signs("client", use="clientAuth")
    open_to_all, mutual = authority.tls(host, believed=False), authority.tls(authority.signs("both"))
    with pytest.raises(SetupError, match="a server shows a certificate"):
        authority.tls().server_context()
    with pytest.raises(SetupError, match="a client has to know whom to believe"):
        open_to_all.client_context()
    with pytest.raises(SetupError, match=r"client\.pem was not made to be used by servers"):
        authority.tls(client).server_context()
    with pytest.raises(SetupError, match=r"web\.pem was not made to be used by clients"):
        authority.tls(host).client_context()
    assert open_to_all.server_context().verify_mode == ssl.CERT_NONE
    assert mutual.server_context().verify_mode == mutual.client_context().verify_mode == ssl.CERT_REQUIRED
    assert mutual.client_context().check_hostname
    assert mutual.server_context().minimum_version == mutual.client_context().minimum_version == ssl.TLSVersion.TLSv1_2
