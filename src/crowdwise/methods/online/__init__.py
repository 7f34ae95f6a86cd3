"""Label-only methods that learn from votes as they arrive, at a cost that does not grow with the votes seen before."""
