"""Back up a `fit` while it goes on, and continue it after it was killed.

`fit_backup` takes part in one `fit`, and reads its data anew to where they were; what it writes and
restores is a `training_state`: values of all variables, states of callbacks and random generators,
and the progress, which `backup_files` turns into bytes and keeps in a folder.
"""
