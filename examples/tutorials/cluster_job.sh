#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --cpus-per-task=2
#SBATCH --time=00:10:00
#SBATCH --requeue --signal=B:USR1@120 --open-mode=append

mkdir -p logs
exec tarantella --requeue -- examples/tutorials/cluster_job.py logs/cluster.csv
