#!/bin/sh
# An experiment in the lab as an array of Slurm jobs, a share of its trials each:
#
#     sbatch --array=1-100 slurm.sh PLAN RESULTS
#
# RESULTS is a folder that all nodes see. A share that was ended is submitted again by its number
# (sbatch --array=17 --export=ALL,SHARES=100 slurm.sh PLAN RESULTS): its journal says how far it was.
#SBATCH --job-name=avicenna
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=04:00:00
set -eu
plan=${1:?usage: sbatch --array=1-N slurm.sh PLAN RESULTS}
results=${2:?usage: sbatch --array=1-N slurm.sh PLAN RESULTS}
shares=${SHARES:-$SLURM_ARRAY_TASK_COUNT}
share=$SLURM_ARRAY_TASK_ID
# Slurm runs a copy of this file, so what lies beside it is named.
exec "${AVICENNA_SHARE:-/usr/share/doc/avicenna/jobs/share.sh}" "$plan" "$results" "$share" "$shares"
