"""Certificates of a cluster on several machines: files that only their owner can read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from daskfs import errors

ConfigError = errors.ConfigError.about("clusters")

FILES = ("ca_file", "cert", "key")


def new_certificates(folder: Path) -> dict[str, str]:
    """Make certificates for one cluster, and return the paths of the files in a private folder.

    They allow anyone who has them to run code as their owner while the cluster exists.
    """
    from distributed import Security

    written = {}
    for name, text in Security.temporary().get_tls_config_for_role("scheduler").items():
        if name in FILES:
            path = folder / f"{name}.pem"
            path.touch(mode=0o600)
            path.write_text(text)
            written[name] = str(path)
    return written


def security_of(tls: Mapping[str, str]) -> Any:
    """Return the credentials of a client."""
    from distributed import Security

    absent = [f"cluster.tls.{name}" for name in FILES if not Path(tls.get(name, "")).is_file()]
    if absent:
        raise ConfigError("no such file", absent[0], "set the certificates with which the scheduler was started")
    for name in FILES:
        if "-----BEGIN " not in Path(tls[name]).read_text(encoding="ascii", errors="replace"):
            problem = f"expected a certificate or a key (PEM), found something else in {tls[name]}"
            raise ConfigError(problem, f"cluster.tls.{name}", "set the files with which the scheduler was started")
    files = {"tls_ca_file": tls["ca_file"]}
    for role in ("client", "worker", "scheduler"):
        files |= {f"tls_{role}_cert": tls["cert"], f"tls_{role}_key": tls["key"]}
    return Security(require_encryption=True, **files)
