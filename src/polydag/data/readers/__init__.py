"""Readers of tables: CSV, Parquet, Arrow and SQL.

To add a file format, write a module with a `READER` and add it to `READERS` in
`polydag.data.readers.selection`.
"""
