"""Differential privacy for parties: what parties answer under noise, and the programs that use it.

A party holds rows here, not statistics: the effect of one row is bounded row by row, and noise is added
before masking (`privacy.dp`). Both programs first look for a whitening in which noise does the least harm.
`moments` releases moments once, for any learner; `gradients` releases a gradient in every round.
"""
