"""Put a report together: the data of the runs, the script and the styles in one HTML file.

The Content-Security-Policy admits this script and these styles by their hashes, and nothing else: no request
leaves the page, and names from the data cannot become code.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib import resources

from polydag.report.view import View


def asset(name: str) -> str:
    """A file of the built front end."""
    return resources.files("polydag.report").joinpath("assets", name).read_text(encoding="utf-8")


def page(views: Sequence[View], *, live: bool = False) -> str:
    """The report of one or more runs as HTML; `live` pages follow a run and may ask their own server."""
    title = ", ".join(view["name"] for view in views) or "report"
    script, style = asset("report.js"), asset("report.css")
    policy = [
        "default-src 'none'",
        f"script-src '{_digest(script)}'",
        f"style-src '{_digest(style)}'",
        "img-src data: blob:",
        *(["connect-src 'self'"] if live else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    data = {"live": live, "runs": list(views)}
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape("; ".join(policy))}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)} – polydag report</title>",
            f'<style id="__________cytoscape_stylesheet">{style}</style>',
            "</head>",
            "<body>",
            "<noscript>This report needs JavaScript. The same results are in the other files of the run "
            "folder: summary.txt, edges.csv and graph.svg.</noscript>",
            f'<script type="application/json" id="polydag-data">{_inert(data)}</script>',
            f'<script type="module">{script}</script>',
            "</body>",
            "</html>",
            "",
        )
    )


def _inert(data: object) -> str:
    """JSON that cannot end the script element it is in, whatever names the data have."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
