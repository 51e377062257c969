"""Whether anything grows in long trainings, in many jobs, and in many jobs at once."""
