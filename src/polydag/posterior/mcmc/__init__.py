"""The posterior over orders by Markov chains."""
