#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2
#SBATCH --time=01:00:00

# A rank for each GPU; the tasks of the job say how many.
tarantella --report-bindings -- train.py
