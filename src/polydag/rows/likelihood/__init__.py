"""The restricted likelihood of a row correlation, from whitened columns, and its maximum."""
