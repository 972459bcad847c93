"""The result of a query, through SQLAlchemy (SQLite, PostgreSQL). Passwords stay out of all texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polydag.data.formats import BATCH_ROWS, Format, Source, choose
from polydag.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

_INSTALL = "Reading from a database needs more packages: pip install 'polydag[sql]'."


def _url(address: str) -> Any:
    try:
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError
    except ImportError:
        raise UsageError(_INSTALL) from None
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        # The text is not shown: it may hold a password.
        raise UsageError(
            "The database address cannot be understood. Write dialect://user:password@host/database, "
            "with special signs in the password as %-codes."
        ) from None
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    return url


def label(address: str) -> str:
    """A database as messages name it: without a password and without options, which may hold one."""
    url = _url(address)
    from sqlalchemy.engine import URL

    shown = URL.create(
        url.get_backend_name(), username=url.username, host=url.host, port=url.port, database=url.database
    )
    return shown.render_as_string()


def _scrub(text: str, url: Any) -> str:
    """What a driver says, in one line and without the secrets of the address."""
    hidden = [value for key, value in url.query.items() if "pass" in key.lower()]
    for secret in (url.password, *hidden):
        if secret:
            text = text.replace(str(secret), "***")
    return " ".join(text.split())


def _lacks_file(database: str) -> bool:
    """Whether SQLite would make an empty database because there is none."""
    return (
        database not in ("", ":memory:") and not database.startswith("file:") and not Path(database).is_file()
    )


@contextmanager
def _result(source: Source) -> Iterator[Any]:
    url = _url(source.address)
    import sqlalchemy
    from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

    query = source.query
    if not query or not query.strip():
        raise UsageError(f"{source.label} is a database: give the query whose rows are wanted.")
    if url.get_backend_name() == "sqlite" and _lacks_file(url.database or ""):
        raise DataError(f"{source.label}: no such file. Check the name and the folder.")
    try:
        engine = sqlalchemy.create_engine(url)
    except NoSuchModuleError:
        raise UsageError(
            f"No database driver is known for {url.drivername}://. Use sqlite:///file or postgresql://host/database."
        ) from None
    except ImportError:
        raise UsageError(f"{_INSTALL} (The driver of {url.drivername} is missing.)") from None
    try:
        with engine.connect() as connection:
            # Without parameters, a % in the query is only a %; nothing is committed.
            plain = connection.execution_options(no_parameters=True, stream_results=True)
            result = plain.exec_driver_sql(query)
            if not result.returns_rows:
                raise DataError(f"{source.label}: the query gives no rows. Use a SELECT: {query!r}.")
            with closing(result):
                yield result
    except SQLAlchemyError as error:
        said = _scrub(str(getattr(error, "orig", None) or error), url)
        raise DataError(f"{source.label}: the query failed: {said}. The query was {query!r}.") from None
    finally:
        engine.dispose()


def _frame(source: Source, columns: Sequence[str] | None) -> pd.DataFrame:
    import pandas as pd

    with _result(source) as result:
        names = list(result.keys())
        chosen = choose(names, columns, source.label)
        rows = result.fetchall()
    frame = pd.DataFrame(
        {name: pd.Series([row[i] for row in rows], dtype=object) for i, name in enumerate(names)}
    )
    return frame[chosen].infer_objects()


def _batches(source: Source, columns: Sequence[str] | None) -> Iterator[Any]:
    import pyarrow as pa

    with _result(source) as result:
        names = list(result.keys())
        chosen = choose(names, columns, source.label)
        where = [names.index(name) for name in chosen]
        while rows := result.fetchmany(BATCH_ROWS):
            arrays = []
            for i, name in zip(where, chosen, strict=True):
                cells = [row[i] for row in rows]
                bad = next((cell for cell in cells if isinstance(cell, (str, bytes))), None)
                if bad is not None:
                    raise DataError(f"{source.label}, column {name}: {bad!r} is not a number.")
                arrays.append(
                    pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
                )
            yield pa.RecordBatch.from_arrays(arrays, names=chosen)


FORMAT = Format("SQL", (), _frame, _batches)
