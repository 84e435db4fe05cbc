#!/bin/sh
# One share of an experiment: begun, or gone on with where its journal ends.
#
#     share.sh PLAN RESULTS SHARE SHARES      SHARE counts from 1
set -eu
plan=$1 results=$2 share=$3 shares=$4
folder=$results/share-$share-of-$shares
if [ -e "$folder/journal.jsonl" ]; then
    exec "${AVICENNA:-avicenna}" experiment resume "$folder"
fi
exec "${AVICENNA:-avicenna}" experiment run "$plan" --on lab --shard "$share/$shares" --output "$folder" --yes
