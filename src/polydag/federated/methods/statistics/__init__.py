"""Methods that sum sufficient statistics: moments, contingency tables, and moments per cell of labels."""
