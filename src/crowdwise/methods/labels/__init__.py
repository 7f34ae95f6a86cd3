"""Label-only methods: one file per paper, one line each in the registry."""
