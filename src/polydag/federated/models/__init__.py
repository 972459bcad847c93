"""Models over parties: a site's side and the coordinator's side of each."""
