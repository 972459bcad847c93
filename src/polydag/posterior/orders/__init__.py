"""Linear orders of the variables: moves, searches and chains."""
