"""The papers' tables and figures again, one module a paper."""
