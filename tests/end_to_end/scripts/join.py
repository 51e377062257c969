"""Joins the job, as the first call of a training does."""

import tnt_comm

tnt_comm.init()
