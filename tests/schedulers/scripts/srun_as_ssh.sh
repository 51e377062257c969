#!/bin/sh
# Runs a command on a node of the job, as ssh does: srun_as_ssh.sh NODE COMMAND...
node=$1
shift
exec srun --overlap --export=ALL --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist="$node" \
  --cpu-bind=none --mpi=none --unbuffered --quiet /bin/sh -c "$*"
