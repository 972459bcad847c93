"""Save SVG pictures as SVG, PDF or PNG, as wide as a journal column."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal

from polydag.errors import DataError, UsageError
from polydag.plot.svg_style import FONT_SIZE

COLUMN = 88.0  # millimetres: a column of most journals
_PIXELS_PER_INCH = 300.0
_MILLIMETRES = 25.4
_SIZE = re.compile(r' width="[\d.]+" height="[\d.]+"')
_BOX = re.compile(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"')
FORMATS = (".svg", ".pdf", ".png")


def save(picture: str, path: str | os.PathLike[str], width: float = COLUMN) -> None:
    """Write a picture that polydag has drawn; the ending of the file says the format.

    Parameters
    ----------
    picture : str
        The SVG text.
    path : path
        A file that ends with .svg, .pdf or .png. PDF and PNG need the extra `figures`.
    width : float
        The width in millimetres; PNG has 300 pixels per inch.
    """
    file = Path(path)
    ending = file.suffix.lower()
    if ending not in FORMATS:
        raise UsageError(f"{file} must end with {', '.join(FORMATS)}.")
    sized = scaled(picture, width)
    content = (
        sized.encode() if ending == ".svg" else _typeset(sized, width, "pdf" if ending == ".pdf" else "png")
    )
    try:
        file.write_bytes(content)
    except OSError as error:
        raise DataError(f"{file} cannot be written: {error.strerror}.") from error


def scaled(picture: str, width: float) -> str:
    """The picture with its width in millimetres, for paper."""
    across, down = _extent(picture)
    size = f' width="{width:g}mm" height="{width * down / across:.2f}mm"'
    return _SIZE.sub(size, picture, count=1)


def points(picture: str, width: float, size: float = FONT_SIZE) -> float:
    """The size of its labels in points, at a width in millimetres."""
    return size * width / _extent(picture)[0] / _MILLIMETRES * 72


def _extent(picture: str) -> tuple[float, float]:
    found = _BOX.search(picture)
    assert found is not None  # all pictures of this package have one
    return float(found[1]), float(found[2])


def _typeset(picture: str, width: float, kind: Literal["pdf", "png"]) -> bytes:
    try:
        import typst
    except ImportError:
        raise UsageError(
            f"A {kind.upper()} needs the package typst: pip install 'polydag[figures]', or save as .svg."
        ) from None
    import tempfile

    page = (
        "#set page(width: auto, height: auto, margin: 0pt, fill: none)\n"
        f'#image("picture.svg", width: {width:g}mm, format: "svg")'
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "picture.svg").write_text(picture, encoding="utf-8")
        source = Path(folder) / "page.typ"
        source.write_text(page, encoding="utf-8")
        compiled: Any = typst.compile(str(source), format=kind, ppi=_PIXELS_PER_INCH)
    return bytes(compiled)
