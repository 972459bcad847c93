"""The options of `polydag fit` that describe a study, built from the fields of the configurations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from polydag.cli.options import MissingChoice, column_list, kind_map, transform_map
from polydag.studies.config.fields import parse_settings
from polydag.studies.config.shapes import SHAPE_SUMMARIES, Option, options
from polydag.studies.methods import METHODS
from polydag.studies.methods import names as method_names


def with_study_options(
    *names: str, required: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: options for fields of a configuration take the place of a command's `**options`.

    Parameters
    ----------
    names : str
        The fields; all of them, and the shape of the data, by default.
    required : str
        The field without which the command is refused.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        described = options()
        fields = [_parameter(name, described[name], name == required) for name in names or described]
        if not names:
            fields.insert(1, _shape_parameter())
        parameters = [*fields, *own]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorated


def given_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, as the fields of a configuration hold them."""
    described = options()
    found = {
        name: _READ[described[name].form](value) if described[name].form in _READ else value
        for name, value in values.items()
        if name in described and value is not None and value != []
    }
    return {name: value for name, value in found.items() if value is not None}


def _path(value: Path) -> str:
    return str(value)


# From what typer gives to what a configuration holds, where that differs.
_READ: dict[str, Callable[[Any], Any]] = {
    "data": tuple,
    "file": _path,
    "names": column_list,
    "kinds": kind_map,
    "codes": tuple,
    "transforms": transform_map,
    "settings": parse_settings,
    "missing": lambda choice: choice.value,
}
_TYPES: dict[str, Any] = {
    "data": list[str],
    "text": str,
    "file": Path,
    "names": str,
    "kinds": list[str],
    "codes": list[str],
    "transforms": list[str],
    "settings": list[str],
    "missing": MissingChoice,
    "count": int,
    "positive": int,
}


def _parameter(name: str, option: Option, required: bool) -> inspect.Parameter:
    least = {"count": 0, "positive": 1}.get(option.form)
    described: Any = (
        typer.Argument(help=option.help)
        if option.form == "data"
        else typer.Option(
            *option.flags,
            help=option.help,
            min=least,
            rich_help_panel=option.panel,
            autocompletion=method_names if name == "method" else None,
        )
    )
    kind = _TYPES[option.form]
    if required:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, described])
    return _keyword(name, Annotated[kind | None, described])


def _shape_parameter() -> inspect.Parameter:
    return _keyword(
        "shape",
        Annotated[
            str | None,
            typer.Option(
                "--as",
                help=f"The shape of the data: {', '.join(SHAPE_SUMMARIES)} (see below).",
                autocompletion=lambda: list(SHAPE_SUMMARIES),
            ),
        ],
    )


def _keyword(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def shapes_and_methods() -> str:
    """All shapes of data and all methods with their summaries, one a line, for the end of the help text."""
    methods = {name: method.summary for name, method in METHODS.items()}
    return "\n\n".join(
        [_list("Shapes of data (--as)", SHAPE_SUMMARIES), _list("Methods (--method)", methods)]
    )


def _list(title: str, summaries: Mapping[str, str]) -> str:
    width = max(map(len, METHODS))
    lines = [f"[cyan]{name:<{width}}[/cyan]  {summary}" for name, summary in summaries.items()]
    return "\n".join([f"[bold]{title}[/bold]", *lines])
