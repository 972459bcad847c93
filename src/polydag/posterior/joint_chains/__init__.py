"""Joint posteriors of several tasks by Markov chains over an order that they share, for many variables."""
