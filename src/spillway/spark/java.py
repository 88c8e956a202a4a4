"""Which Java Spark will use, and whether it is one Spark can use."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

JAVA_MIN = 17
MODULE = "jdk.incubator.vector"

_VERSION = re.compile(r'version "(\d+)')


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime, fit for Spark or not."""

    fine: bool
    found: str


def java_found() -> Java:
    """Look at the Java that Spark's scripts would start: JAVA_HOME's, else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not program or not os.access(program, os.X_OK):
        return Java(False, f"no java at {program}" if program else "no java on the PATH, and JAVA_HOME is not set")
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
        listed = subprocess.run([program, "--list-modules"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Java(False, f"{program} does not run ({error})")
    match = _VERSION.search(told)
    number = int(match[1]) if match else 0
    if number < JAVA_MIN:
        return Java(False, f"{program} is Java {number}, {JAVA_MIN} or newer is wanted")
    if MODULE not in listed.stdout:
        return Java(False, f"{program} is Java {number} without the module {MODULE}")
    return Java(True, f"{program}, Java {number}")
