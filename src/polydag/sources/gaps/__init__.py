"""Sources with missing values: moments in spite of them, completed tables, expected counts."""
