"""Names of the original Tarantella and of earlier versions, on top of what there is now."""
