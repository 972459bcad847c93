"""The `polydag` command, also as `python -m polydag`."""

from __future__ import annotations

from polydag.cli.terminal.interruption import handled_interruption


def main() -> None:
    """Run the command line; Ctrl-C is handled from here on, also while it is being imported."""
    with handled_interruption():
        from polydag.cli.main import run

        run()


if __name__ == "__main__":
    main()
