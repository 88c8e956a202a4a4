"""The options of TLS, the same for all commands that serve or connect."""

import argparse
from pathlib import Path

from spillway.tls import TLS


def add_tls_options(parser: argparse.ArgumentParser, *, believed: str) -> None:
    """The three files; ``believed`` says what the third is for, which differs."""
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="PEM: the certificate to show, for TLS")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="PEM: its private key, without a passphrase")
    parser.add_argument("--tls-ca", type=Path, metavar="FILE", help=f"PEM: {believed}")


def given_tls(options: argparse.Namespace) -> TLS | None:
    """What the options say; None if no file is named, and so nothing is encrypted."""
    if options.tls_cert is None and options.tls_key is None and options.tls_ca is None:
        return None
    return TLS(cert=options.tls_cert, key=options.tls_key, ca=options.tls_ca)
