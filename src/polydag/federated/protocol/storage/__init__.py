"""What a study keeps on disk: states, a site's folder, resumed blocks, identities of settings and data."""
