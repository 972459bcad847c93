"""`polydag fit --watch`: a page on this machine that follows a run and ends as its report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from polydag.computing.progress import Listener
from polydag.errors import DataError


@contextmanager
def watched(folder: Path, asked: bool) -> Iterator[Listener | None]:
    """A listener that sends progress to a page, if one is asked for; the page is served until Ctrl-C."""
    if not asked:
        yield None
        return
    from polydag.report import page, read_folder, view_of
    from polydag.report.server import serving
    from polydag.report.view import waiting

    over = False

    def text() -> str:
        try:
            return page([view_of(read_folder(folder))], live=not over)
        except DataError:  # nothing is written yet
            return page([waiting(str(folder))], live=not over)

    with serving(text) as server:
        typer.echo(f"Follow the run at {server.url}", err=True)
        try:
            yield lambda step: server.send("step", step._asdict(), keep=f"task {step.task}")
        except BaseException as error:
            server.send("end", f"The run has stopped: {error or type(error).__name__}", keep="end")
            raise
        over = True
        server.send("end", "", keep="end")
        typer.echo("The run has ended; its report stays at the same address until Ctrl-C.", err=True)
        try:
            server.wait()
        except KeyboardInterrupt:
            return
