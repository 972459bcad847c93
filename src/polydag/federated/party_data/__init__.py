"""A party's data: its table, its regimes, and how parties differ in means, spreads and units."""
