"""The choice of a method without true labels: by how well each foretells votes that it has not seen."""
