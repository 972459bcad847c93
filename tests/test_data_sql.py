"""Reading tables from databases: SQLite, and a local PostgreSQL server started for these tests."""

from __future__ import annotations

import builtins
import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from polydag import data
from polydag.data.readers.selection import find_reader
from polydag.errors import DataError, UsageError
from polydag.stats import GaussianStats

PASSWORD = "s3cret-p@ss/word"
QUOTED = "s3cret-p%40ss%2Fword"

rng = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "weight": rng.normal(70, 10, 500).round(6),
        "dose": rng.integers(0, 3, 500),
        "drug": rng.choice(["asp 100%", "ibu", "Ünö"], 500),
    }
)
CREATE = "create table trial (weight double precision, dose integer, drug text)"


def tools() -> Path | None:
    """The folder of the PostgreSQL programs, if they are installed."""
    found = [Path(path).parent for name in ("initdb",) if (path := shutil.which(name))]
    config = shutil.which("pg_config")
    if config:
        done = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        found.append(Path(done.stdout.strip()))
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next(
        (place for place in found if all((place / name).exists() for name in ("initdb", "pg_ctl"))), None
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The address of a new server, run by an unprivileged user, and stopped and removed at the end."""
    place = tools()
    if place is None:
        pytest.skip("PostgreSQL's initdb and pg_ctl are not installed")
    prefix: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="polydag-pg-", dir="/tmp"))
    if os.geteuid() == 0:  # initdb refuses to run as root
        users = {entry.pw_name for entry in pwd.getpwall()}
        user = next((name for name in ("postgres", "nobody") if name in users), None)
        if user is None or shutil.which("runuser") is None:
            shutil.rmtree(folder)
            pytest.skip("running as root, and there is no unprivileged user to start PostgreSQL as")
        shutil.chown(folder, user)
        prefix = ["runuser", "-u", user, "--"]

    def run(*command: str | Path) -> None:
        # A server that inherits a pipe would keep it open, so its output goes to a file.
        done = subprocess.run(
            [*prefix, *map(str, command)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, check=False, timeout=60,
        )  # fmt: skip
        if done.returncode:
            pytest.fail(f"{' '.join(map(str, command))}: {done.stderr}")

    port = free_port()
    secret = folder / "password"
    secret.write_text(PASSWORD)
    if prefix:
        shutil.chown(secret, prefix[2])
    try:
        run(place / "initdb", "-D", folder / "db", "-U", "reader", "-A", "scram-sha-256", "-E", "UTF8",
            "--locale=C", "--no-sync", f"--pwfile={secret}")  # fmt: skip
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        run(
            place / "pg_ctl",
            "-D",
            folder / "db",
            "-l",
            folder / "log",
            "-w",
            "-t",
            "60",
            "-o",
            options,
            "start",
        )
        try:
            yield f"postgresql://reader:{QUOTED}@127.0.0.1:{port}/postgres"
        finally:
            run(place / "pg_ctl", "-D", folder / "db", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def filled_postgres(postgres: str) -> str:
    import psycopg

    with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute(CREATE)
        with cursor.copy("copy trial from stdin") as copy:
            for row in FRAME.itertuples(index=False):
                copy.write_row(tuple(row))
        cursor.execute(
            "create table exact as select weight::numeric(12, 6) as weight, dose > 0 as treated from trial"
        )
    return postgres


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    path = tmp_path / "trial.db"
    connection = sqlite3.connect(path)
    connection.execute(CREATE)
    connection.executemany("insert into trial values (?, ?, ?)", FRAME.astype(object).values.tolist())
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


def check_reading(address: str) -> None:
    table = data.read(address, query="select drug, weight, dose from trial")
    assert table.names == ("drug", "weight", "dose")
    assert table.kinds == {"drug": "discrete", "weight": "continuous", "dose": "discrete"}
    for name in FRAME:
        assert table.frame[name].tolist() == FRAME[name].tolist()
    some = data.read(
        address, query="select * from trial where drug like 'asp%' and weight > 60", columns=["weight"]
    )
    assert some.n == int((FRAME["drug"].str.startswith("asp") & (FRAME["weight"] > 60)).sum())
    stats = data.gaussian_stats(address, ["weight", "dose"], query="select * from trial")
    whole = GaussianStats.from_data(FRAME[["weight", "dose"]])
    np.testing.assert_allclose(stats.mean, whole.mean)
    np.testing.assert_allclose(stats.scatter, whole.scatter)


def check_errors(address: str) -> None:
    for query, message in [
        ("select nothing from trial", "the query failed: .*nothing"),
        ("selec * from trial", "the query failed: .*syntax error"),
        ("select * from nowhere", "the query failed: .*nowhere"),
        ("select weight, weight from trial", "several columns have the name weight"),
        ("select * from trial where weight < 0", "has column names but no rows"),
        ("select * from trial limit 1", "only one row"),
        ("create table other (a integer)", "the query returns no rows|the query failed: syntax error"),
    ]:
        with pytest.raises(DataError, match=message) as caught:
            data.read(address, query=query)
        assert PASSWORD not in str(caught.value)
        assert QUOTED not in str(caught.value)
    with pytest.raises(DataError, match="no column z"):
        data.read(address, query="select * from trial", columns=["z"])
    with pytest.raises(DataError, match=r"column drug: '.*' is not a number"):
        data.gaussian_stats(address, query="select * from trial")
    with pytest.raises(UsageError, match="is a database: give a query"):
        data.read(address)


def test_sqlite(sqlite: str) -> None:
    check_reading(sqlite)
    check_errors(sqlite)


def test_sqlite_columns_may_hold_anything(sqlite: str) -> None:
    connection = sqlite3.connect(sqlite.removeprefix("sqlite:///"))
    connection.execute("insert into trial values ('heavy', null, 'ibu')")
    connection.commit()
    connection.close()
    with pytest.raises(DataError, match=r"trial\.db, column weight, row 501: 'heavy' is not a number"):
        data.read(sqlite, query="select * from trial")
    with pytest.raises(DataError, match=r"missing values in 1 of 501 rows: dose 1"):
        data.read(sqlite, query="select dose, drug from trial")
    assert data.read(sqlite, query="select dose from trial", missing="drop").n == 500


def test_a_missing_sqlite_file_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.db: no such file"):
        data.read(f"sqlite:///{tmp_path}/none.db", query="select 1")
    assert not (tmp_path / "none.db").exists()


def test_postgresql(filled_postgres: str) -> None:
    check_reading(filled_postgres)
    check_errors(filled_postgres)


def test_postgresql_writes_nothing(filled_postgres: str) -> None:
    for query in ("with gone as (delete from trial returning *) select * from gone", "delete from trial"):
        with pytest.raises(DataError, match="the query failed"):
            data.read(filled_postgres, query=query)
    assert data.read(filled_postgres, query="select * from trial").n == len(FRAME)


def test_exact_numbers_and_truth_values(filled_postgres: str) -> None:
    table = data.read(filled_postgres, query="select * from exact")
    assert table.kinds == {"weight": "continuous", "treated": "discrete"}
    assert table.frame["weight"].tolist() == FRAME["weight"].tolist()
    assert table.frame["treated"].tolist() == (FRAME["dose"] > 0).tolist()
    stats = data.gaussian_stats(filled_postgres, query="select * from exact")
    assert stats.mean[0] == pytest.approx(FRAME["weight"].mean())


def test_the_password_is_in_no_text(filled_postgres: str) -> None:
    table = data.read(filled_postgres, query="select * from trial")
    assert table.source.startswith("postgresql://reader@127.0.0.1:")
    assert QUOTED not in repr(find_reader(filled_postgres, "select 1"))
    wrong = filled_postgres.replace(QUOTED, "wr0ng-one")
    option = filled_postgres.replace(f":{QUOTED}@", "@") + "?password=wr0ng-one"
    closed = f"postgresql://reader:{QUOTED}@127.0.0.1:{free_port()}/postgres"
    for address in (wrong, option, closed):
        with pytest.raises(DataError, match=r"127\.0\.0\.1") as caught:
            data.read(address, query="select 1")
        assert caught.value.__cause__ is None
        for secret in ("wr0ng-one", PASSWORD, QUOTED):
            assert secret not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql://reader:wr0ng-one@host:port/db", "address is invalid"),
        ("nosuchbase://reader:wr0ng-one@host/db", "No database driver is known for nosuchbase"),
    ],
)
def test_addresses_that_cannot_be_meant(address: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        data.read(address, query="select 1")
    assert "wr0ng-one" not in str(caught.value)


def test_what_to_install_is_said(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    actual = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.split(".")[0] == "sqlalchemy":
            raise ImportError(name)
        return actual(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"pip install 'polydag\[sql\]'"):
        data.read(sqlite, query="select 1")
