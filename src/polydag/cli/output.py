"""How commands speak: errors with exit codes, results to stdout, everything else to stderr."""

from __future__ import annotations

import functools
import json
import math
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from polydag.errors import PolydagError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPE_WIDTH = 200  # a pipe has no width: names must not be cut there


def told(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its errors told in words, and as exit codes; tracebacks only with --debug."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (PolydagError, KeyboardInterrupt, MemoryError) as error:
            if kwargs.get("debug"):
                traceback.print_exc()
            _say(error)
            raise typer.Exit(_code(error)) from None
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except Exception as error:
            if kwargs.get("debug") or type(error).__module__.partition(".")[0] in ("typer", "click"):
                raise
            typer.echo(f"Unexpected error: {type(error).__name__}: {error}", err=True)
            typer.echo(
                "This is a fault of polydag. Run it again with --debug to see where, and report it.", err=True
            )
            raise typer.Exit(1) from None

    return wrapped


def _code(error: BaseException) -> int:
    if isinstance(error, PolydagError):
        return error.exit_code
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _say(error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt):
        typer.echo("Interrupted.", err=True)
    elif isinstance(error, MemoryError):
        typer.echo(f"Error: there is not enough memory. {error}".rstrip(), err=True)
    else:
        typer.echo(f"Error: {error}", err=True)
    for note in getattr(error, "__notes__", ()):
        typer.echo(note, err=True)


def out() -> Console:
    """Where results go."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def say(console: Console, text: str) -> None:
    """A paragraph: broken into lines on a terminal, left in one piece in a pipe."""
    console.print(text, soft_wrap=not console.is_terminal)


def table(headers: Iterable[str], numbers: Iterable[str] = ()) -> Table:
    """An empty table; columns in `numbers` are flush right. Long names are folded, never cut."""
    from rich import box
    from rich.table import Table

    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    right = set(numbers)
    for header in headers:
        result.add_column(header, justify="right" if header in right else "left", overflow="fold")
    return result


def plain(text: object) -> str:
    """Text from outside, such as a column's name, as rich shows it literally."""
    from rich.markup import escape

    return escape(str(text))


def note(text: str, *, quiet: bool) -> None:
    """A word on the side."""
    if not quiet:
        typer.echo(text, err=True)


def as_json(document: Mapping[str, Any]) -> None:
    """One JSON document on stdout; what is not a number becomes null."""
    typer.echo(json.dumps(_finite(document), ensure_ascii=False, indent=2))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value
