"""The `polydag` command: its subcommands, one line each."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from polydag.cli.commands import (
    check,
    compare,
    coordinator,
    demo,
    export,
    federation,
    fit,
    ledger,
    plot,
    report,
    reproduce,
    simulate,
    site,
)
from polydag.cli.terminal.output import with_explained_errors

app = typer.Typer(
    name="polydag",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from polydag import __version__

        typer.echo(f"polydag {__version__}")
        raise typer.Exit


@app.callback()
def polydag(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Learn Bayesian networks from data that is not one i.i.d. table.

    Start with: [bold]polydag demo[/bold], or [bold]polydag check data.csv[/bold] and
    [bold]polydag fit data.csv[/bold].

    Exit codes: 0 success, 2 usage, 3 data, 4 not converged, 130 interrupted.
    """


for _command in (demo, check, fit, report, plot, simulate, compare, export, ledger, reproduce):
    app.command(_command.NAME, epilog=getattr(_command, "EPILOG", None))(
        with_explained_errors(_command.command)
    )

for _group in (federation, site, coordinator):
    _commands = typer.Typer(no_args_is_help=True, help=_group.HELP)
    for _name, _function in _group.COMMANDS.items():
        _commands.command(_name)(with_explained_errors(_function))
    app.add_typer(_commands, name=_group.NAME)


def _stop(number: int, frame: FrameType | None) -> None:
    """Clean up when the process is terminated, as after Ctrl-C."""
    sys.exit(128 + number)


def run() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, _stop)
    app()
