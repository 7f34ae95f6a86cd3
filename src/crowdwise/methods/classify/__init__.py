"""Feature-based methods: classifiers trained straight on the votes."""
