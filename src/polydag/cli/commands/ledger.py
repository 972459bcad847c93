"""`polydag ledger`: what has left a party, for the party itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polydag.cli.options import Debug, Format, OutputFormat

NAME = "ledger"


def command(
    site: Annotated[
        Path, typer.Argument(help="A party's ledger file (.jsonl), or the folder that holds it.")
    ],
    delta: Annotated[
        float, typer.Option("--delta", help="Report the privacy spent at this delta, where noise was added.")
    ] = 1e-5,
    witness: Annotated[
        Path | None, typer.Option("--witness", help="Another party's ledger, to compare with (needs --name).")
    ] = None,
    name: Annotated[
        str, typer.Option("--name", help="The name by which the other party knows this one.")
    ] = "",
    output: OutputFormat = Format.text,
    debug: Debug = False,
) -> None:
    """Report what has left a party, and check that its ledger is intact.

    The exit code is 3 if an entry was changed, removed or inserted. A comparison with the ledger of another
    party of the same studies (--witness) also shows whether the whole ledger was rewritten.

    Example: polydag ledger ledgers/north.csv.jsonl
    """
    from polydag.cli.terminal.output import as_json, out, table
    from polydag.errors import DataError, UsageError
    from polydag.privacy import ledger

    chain = ledger.read(site)
    number = ledger.first_broken(chain)
    if output is Format.json:
        as_json(
            {
                "entries": len(chain),
                "whole": number is None,
                "last_hash": chain[-1].hash if chain else ledger.START,
                "sums_over": ledger.summed_sets(chain),
                "left": ledger.summary(chain),
            }
        )
    else:
        for sentence in ledger.describe(chain, delta):
            out().print(sentence, markup=False, highlight=False)
        left = table(("array", "shape", "times", "bytes", "protection"), numbers=("times", "bytes"))
        for row in ledger.summary(chain):
            left.add_row(
                row["name"], row["shape"], str(row["times"]), f"{row['bytes']:,}", ledger.protection(row)
            )
        out().print(left)
    if number is not None:
        entry = chain[number]
        raise DataError(
            f"{ledger.ledger_file(site)}: the chain breaks at entry {number + 1} (round {entry.round}, "
            f"{entry.name}): it was changed, or entries before it were removed or inserted."
        )
    if witness is not None:
        if not name:
            raise UsageError("--witness needs --name: the name by which the other party knows this one.")
        if why := ledger.testimony_problem(chain, name, ledger.read_intact(witness)):
            raise DataError(f"{ledger.ledger_file(site)}: {why}.")
