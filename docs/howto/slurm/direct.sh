#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --cpus-per-task=2
#SBATCH --time=01:00:00

# Every task of srun is a rank; -K ends all when one fails.
srun -K --cpus-per-task=2 python train.py
