"""Forms of the row correlation between one strength for all links and one for each, and the choice among them."""
