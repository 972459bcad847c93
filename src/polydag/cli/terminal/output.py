"""What commands print: results to stdout; errors, with exit codes, and all else to stderr."""

from __future__ import annotations

import functools
import json
import math
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from polydag.cli.terminal.interruption import INTERRUPTED, tell, was_asked
from polydag.errors import PolydagError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPE_WIDTH = 200  # of a pipe, which has no width of its own: names must not be cut there


def with_explained_errors(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with errors as messages and exit codes; tracebacks only with --debug."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (PolydagError, KeyboardInterrupt, MemoryError) as error:
            if kwargs.get("debug"):
                traceback.print_exc()
            _explain(error)
            raise typer.Exit(_code(error)) from None
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except Exception as error:
            if was_asked():  # workers that were stopped, a half-loaded module: a consequence
                _explain(KeyboardInterrupt())
                raise typer.Exit(INTERRUPTED) from None
            if kwargs.get("debug") or type(error).__module__.partition(".")[0] in ("typer", "click"):
                raise
            typer.echo(f"Unexpected error: {type(error).__name__}: {error}", err=True)
            typer.echo(
                "This is a bug in polydag. Run the command again with --debug to see where, and report it.",
                err=True,
            )
            raise typer.Exit(1) from None

    return wrapped


def _code(error: BaseException) -> int:
    if isinstance(error, PolydagError):
        return error.exit_code
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _explain(error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt):
        tell()
    elif isinstance(error, MemoryError):
        typer.echo(f"Error: there is not enough memory. {error}".rstrip(), err=True)
    else:
        typer.echo(f"Error: {error}", err=True)
    for note in getattr(error, "__notes__", ()):
        typer.echo(note, err=True)


def out() -> Console:
    """The console for results."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def say(console: Console, text: str) -> None:
    """Print a paragraph: wrapped on a terminal, in one line in a pipe."""
    console.print(text, soft_wrap=not console.is_terminal)


def table(headers: Iterable[str], numbers: Iterable[str] = ()) -> Table:
    """An empty table; columns in `numbers` are right-aligned. Long names are folded, never cut."""
    from rich import box
    from rich.table import Table

    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    right = set(numbers)
    for header in headers:
        result.add_column(header, justify="right" if header in right else "left", overflow="fold")
    return result


def plain(text: object) -> str:
    """Text from outside, such as the name of a column, escaped for rich."""
    from rich.markup import escape

    return escape(str(text))


def note(text: str, *, quiet: bool) -> None:
    """Print a remark to stderr."""
    if not quiet:
        typer.echo(text, err=True)


def as_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document; numbers that are not finite become null."""
    typer.echo(json.dumps(_finite(document), ensure_ascii=False, indent=2))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value
