"""Training loops of the user's own: functions that ranks run together, and their data."""
