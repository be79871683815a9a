"""The crash matrix: programs of the documents, struck at every step of their lives."""
