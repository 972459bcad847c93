"""Sums under masks (after Bonawitz et al. 2017): keys, masks, secret sharing, opening."""
