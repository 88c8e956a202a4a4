"""``spillway doctor``: what is installed, what is missing, what to do."""

import argparse
import os
import re
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.padding import Padding

from spillway.cli.kept import amount, offer
from spillway.cli.output import PEOPLE, print_json
from spillway.records.figures import size
from spillway.spark.java import java_found
from spillway.spark.settings import FOR_SPEED, missing_settings
from spillway.state.folders import default_root, kept_memory

_PACKAGES = ("pyspark", "pyarrow", "numpy", "numba", "pandas", "fsspec", "xxhash", "rich")
_SHARED_MEMORY_MIN_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    what: str
    fine: bool
    found: str
    to_do: str = ""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--conf",
        type=Path,
        metavar="FILE",
        help="settings of your own Spark sessions, as in spark-defaults.conf (default: the one Spark would read)",
    )


def main(options: argparse.Namespace) -> int:
    findings = [_python(), *map(_package, _PACKAGES), _java(), _shared_memory(), _kept(), _cores(), _kernel_cache()]
    findings += _own_sessions(options.conf)
    fine = all(finding.fine for finding in findings)
    if options.json:
        print_json({"fine": fine, "findings": [asdict(finding) for finding in findings]})
        return 0 if fine else 1
    for finding in findings:
        mark = "[green]ok[/]     " if finding.fine else "[red]missing[/]"
        PEOPLE.print(f"{mark}  {finding.what}: {finding.found}")
        if finding.to_do:
            PEOPLE.print(Padding(finding.to_do, (0, 0, 0, 9)))
    PEOPLE.print("All is well." if fine else "Something is missing; see above.")
    return 0 if fine else 1


def _python() -> Finding:
    found = sys.version.split()[0]
    return Finding("Python", sys.version_info >= (3, 11), found, "" if sys.version_info >= (3, 11) else "Use 3.11+.")


def _package(name: str) -> Finding:
    try:
        found = version(name)
    except PackageNotFoundError:
        return Finding(name, False, "not installed", "Run './run help', which installs everything, or pip install it.")
    if name == "pandas" and int(found.split(".")[0]) >= 3:
        return Finding(name, False, found, "PySpark 4.3 does not work with pandas 3: install one below 3.")
    return Finding(name, True, found)


def _java() -> Finding:
    java = java_found()
    to_do = "" if java.fine else "Install one: apt-get install openjdk-17-jre-headless, then set JAVA_HOME if needed."
    return Finding("Java 17+ with the module jdk.incubator.vector", java.fine, java.found, to_do)


def _shared_memory() -> Finding:
    root = default_root()
    place = root if root.exists() else root.parent
    if not os.access(place, os.W_OK):
        return Finding("Memory for state", False, f"{place} is not writable", "Name a folder with state=.")
    free_bytes = shutil.disk_usage(place).free
    enough = free_bytes >= _SHARED_MEMORY_MIN_BYTES
    to_do = "" if enough else "Free some ('spillway clean'), mount a larger one, or name another folder with state=."
    return Finding("Memory for state", enough, f"{place}, {size(free_bytes)} free", to_do)


def _kept() -> Finding:
    kept = kept_memory(default_root())
    return Finding("Memory kept by runs that have ended", True, amount(kept), offer() if kept.much else "")


def _cores() -> Finding:
    return Finding("Cores", True, str(os.cpu_count()))


def _kernel_cache() -> Finding:
    from spillway.engine.warm import is_warm

    place = os.environ.get("NUMBA_CACHE_DIR", "") or "beside the sources, where that is writable"
    there = "there" if is_warm() else "not there yet: the first batch waits for them, a minute or so"
    return Finding("Compiled kernels", True, f"{there}; kept {f'in {place}' if os.sep in place else place}")


def _own_sessions(named: Path | None) -> list[Finding]:
    """What Spark sessions lack that are made without ``sw.session()``; they run all the same, only slower."""
    conf = named or _defaults()
    what = "Spark sessions of your own"
    if named is not None and not named.is_file():
        return [Finding(what, False, f"there is no file {named}", "Name a file like spark-defaults.conf.")]
    settings = _read_conf(conf) if conf is not None else {}
    where = f"set in {conf}" if conf is not None else "no spark-defaults.conf, so Spark's defaults"
    missing = missing_settings(settings)
    if not missing:
        return [Finding(what, True, f"all that makes batches quick is {where}")]
    told = " ".join(f"Without {one.name}={one.value} {one.costs}" for one in missing)
    to_do = f"{told} sw.session() sets them; for a session you build yourself, sw.session_settings() has them."
    return [Finding(what, True, f"{len(missing)} of {len(FOR_SPEED)} settings for speed are not set ({where})", to_do)]


def _defaults() -> Path | None:
    """The file that Spark reads its settings from, if there is one."""
    folder, home = os.environ.get("SPARK_CONF_DIR"), os.environ.get("SPARK_HOME")
    place = Path(folder) if folder else Path(home, "conf") if home else None
    conf = place / "spark-defaults.conf" if place is not None else None
    return conf if conf is not None and conf.is_file() else None


def _read_conf(path: Path) -> dict[str, str]:
    """Names and values, parted by blanks, ``=`` or ``:`` as Spark takes them."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    pairs = (re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}
