"""The samples on which a step is proved."""
