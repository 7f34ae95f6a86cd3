"""The choice of a method without true labels: by how well each predicts votes that it has not seen."""
