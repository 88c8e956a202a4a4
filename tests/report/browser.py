"""A page in a real browser: a script presses its controls and writes down what can be seen.

The page stands in a frame of the width wanted, because no browser window is as narrow as a phone. The browser prints
the document around it, and the test reads it. Nothing is reached but the file itself.
"""

import json
import re
import shutil
import subprocess
from functools import cache
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")

COMMAND = (
    "--headless",
    "--no-sandbox",  # runs as root in containers; the page is our own
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# innerText leaves out what is hidden. A link inside the page would lead a frame like this one out of it.
STEPS = """
const seen = {};
try {
  document.addEventListener("click", event => event.preventDefault());
  const text = selector => [...document.querySelectorAll(selector)].map(each => each.innerText || each.textContent);
  %s
} catch (error) { seen.error = String(error.stack); }
const out = document.createElement("pre");
out.id = "seen";
out.textContent = JSON.stringify(seen);
document.body.append(out);
"""

AROUND = """<!doctype html>
<pre id="seen"></pre>
<script>
function loaded(frame) {
  document.getElementById("seen").textContent = frame.contentDocument.getElementById("seen").textContent;
}
</script>
<iframe onload="loaded(this)" style="width:%dpx;height:900px;border:0" srcdoc="%s"></iframe>
"""


def seen_in_browser(html: str, steps: str, *, folder: Path, width: int) -> dict[str, Any]:
    """What ``steps`` put into ``seen``; the test is skipped where no browser runs."""
    browser = found_browser()
    if browser is None:
        pytest.skip(f"none of {', '.join(NAMES)} runs here; on Debian: apt-get install chromium")
    page = folder / "page.html"
    inside = html.replace("</body>", f"<script>{STEPS % steps}</script></body>")
    page.write_text(AROUND % (width, escape(inside)), encoding="utf-8")
    command = [
        browser,
        *COMMAND,
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=1200,1000",
        "--dump-dom",
        page.as_uri(),
    ]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'<pre id="seen">(.+?)</pre>', dom, flags=re.DOTALL)
    assert found, "the page's script or the test's failed; the document was:\n" + dom[:2000]
    result: dict[str, Any] = json.loads(unescape(found[1]))
    assert "error" not in result, result
    return result


@cache
def found_browser() -> str | None:
    """One that runs: what a distribution puts in its place may only say how to install it."""
    for path in filter(None, map(shutil.which, NAMES)):
        if subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
            return path
    return None
