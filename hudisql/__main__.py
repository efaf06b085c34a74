"""`python -m hudisql` is the `hudisql` command, for machines whose PATH lacks it."""

from hudisql.cli.main import main

main()
