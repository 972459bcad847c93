"""`python -m polydag` is the `polydag` command."""

from polydag.cli.main import main

main()
