"""Query results, read through SQLAlchemy (SQLite, PostgreSQL). No message ever shows a password."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polydag.data.readers.interface import BATCH_ROWS, Location, Reader, reporting_damage, select_columns
from polydag.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

_INSTALL = "Reading from a database needs additional packages: pip install 'polydag[sql]'."


def _url(address: str) -> Any:
    try:
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError
    except ImportError:
        raise UsageError(_INSTALL) from None
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        # The address is not shown: it may contain a password.
        raise UsageError(
            "The database address is invalid. Write dialect://user:password@host/database, "
            "with special characters in the password percent-encoded."
        ) from None
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    return url


def label(address: str) -> str:
    """The name of a database in messages: no password, and no options, which may contain one."""
    url = _url(address)
    from sqlalchemy.engine import URL

    shown = URL.create(
        url.get_backend_name(), username=url.username, host=url.host, port=url.port, database=url.database
    )
    return shown.render_as_string()


def _scrub(text: str, url: Any) -> str:
    """A driver's message on one line, with the secrets of the address removed."""
    hidden = [value for key, value in url.query.items() if "pass" in key.lower()]
    for secret in (url.password, *hidden):
        if secret:
            text = text.replace(str(secret), "***")
    return " ".join(text.split())


def _lacks_file(database: str) -> bool:
    """Whether the database file does not exist, so that SQLite would create an empty one."""
    return (
        database not in ("", ":memory:") and not database.startswith("file:") and not Path(database).is_file()
    )


@contextmanager
def _result(location: Location) -> Iterator[Any]:
    with reporting_damage(location.label), _query_result(location) as result:
        yield result


@contextmanager
def _query_result(location: Location) -> Iterator[Any]:
    url = _url(location.address)
    import sqlalchemy
    from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

    query = location.query
    if not query or not query.strip():
        raise UsageError(f"{location.label} is a database: give a query that selects the rows.")
    if url.get_backend_name() == "sqlite" and _lacks_file(url.database or ""):
        raise DataError(f"{location.label}: no such file. Check the name and the folder.")
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
            # Without parameters, a % in the query is an ordinary character. Nothing is committed.
            plain = connection.execution_options(no_parameters=True, stream_results=True)
            result = plain.exec_driver_sql(query)
            if not result.returns_rows:
                raise DataError(f"{location.label}: the query returns no rows. Use a SELECT; got {query!r}.")
            with closing(result):
                yield result
    except SQLAlchemyError as error:
        reason = _scrub(str(getattr(error, "orig", None) or error), url)
        raise DataError(f"{location.label}: the query failed: {reason}. The query was {query!r}.") from None
    finally:
        engine.dispose()


def _frame(location: Location, columns: Sequence[str] | None) -> pd.DataFrame:
    import pandas as pd

    with _result(location) as result:
        names = list(result.keys())
        chosen = select_columns(names, columns, location.label)
        rows = result.fetchall()
    frame = pd.DataFrame(
        {name: pd.Series([row[i] for row in rows], dtype=object) for i, name in enumerate(names)}
    )
    return frame[chosen].infer_objects()


def _batches(location: Location, columns: Sequence[str] | None, labels: Collection[str]) -> Iterator[Any]:
    import pyarrow as pa

    with _result(location) as result:
        names = list(result.keys())
        chosen = select_columns(names, columns, location.label)
        where = [names.index(name) for name in chosen]
        while rows := result.fetchmany(BATCH_ROWS):
            arrays = []
            for i, name in zip(where, chosen, strict=True):
                cells = [row[i] for row in rows]
                if name in labels:
                    arrays.append(pa.array([None if cell is None else str(cell) for cell in cells]))
                    continue
                bad = next((cell for cell in cells if isinstance(cell, (str, bytes))), None)
                if bad is not None:
                    raise DataError(f"{location.label}, column {name}: {bad!r} is not a number.")
                arrays.append(
                    pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
                )
            yield pa.RecordBatch.from_arrays(arrays, names=chosen)


READER = Reader("SQL", (), _frame, _batches)
