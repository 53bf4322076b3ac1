"""A run as a picture: requests down, token positions across, and where each token came from. One file, no network."""
