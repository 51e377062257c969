"""Back up a `fit` while it goes on, and continue it after it was killed.

1. `fit_backup` takes part in one `fit`: it reads the last backup before, puts everything back and
   writes the next one, when the user's callback says so.
2. A backup is a `training_state`: the values of all variables, what `callback_states` finds
   changed in callbacks, the states of random generators, and how far the data are read
   (`position`, which also brings the data of a new process there).
3. `plain_values` turns numbers, texts, lists and arrays into JSON and arrays, and both into bytes,
   whose damage is noticed; `backup_files` writes and reads them in the folder.
"""
