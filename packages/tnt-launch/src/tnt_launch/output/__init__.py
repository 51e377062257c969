"""What the ranks write: which of it is shown, which is kept, and the report of a failed job."""
