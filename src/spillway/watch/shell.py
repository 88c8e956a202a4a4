"""The page that a browser is given: it holds no figures itself, fetches them with the token, and shows them.

The token comes in the address behind ``#``, which browsers never send; the script takes it out of the address bar.
"""

from importlib.resources import files

from spillway.report.look import SCRIPT, STYLE

# What is fetched comes from this server alone. Charts have widths of their own as attributes, which is all the style
# that is not in the style sheet; no script is in the page.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src-elem 'self'; style-src-attr 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_SHELL = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Spillway</title>
<link rel="stylesheet" href="page.css">
</head>
<body class="page wide">
<p id="trouble" role="alert" hidden></p>
<div id="content"><main><p>Looking at the run.</p></main></div>
<footer>Refreshed as the run goes, while this page is in sight.</footer>
<script src="page.js"></script>
<script src="live.js"></script>
</body>
</html>
"""

HTML, CSS, JAVASCRIPT = "text/html; charset=utf-8", "text/css; charset=utf-8", "text/javascript; charset=utf-8"


def files_served() -> dict[str, tuple[str, bytes]]:
    """What anybody who can connect may have: by address, its content type and itself."""
    live = files("spillway.watch").joinpath("live.js").read_text(encoding="utf-8")
    return {
        "/": (HTML, _SHELL.encode()),
        "/page.css": (CSS, STYLE.encode()),
        "/page.js": (JAVASCRIPT, SCRIPT.encode()),
        "/live.js": (JAVASCRIPT, live.encode()),
    }
