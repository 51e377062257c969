#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --cpus-per-task=2
#SBATCH --time=01:00:00

tarantella -- train.py
