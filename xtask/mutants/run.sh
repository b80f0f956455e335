#!/usr/bin/env bash
# Runs cargo-mutants on what is left of the sample; arguments are passed on (`--list`, `--package`).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The sample's mutations, under the names that moved.tsv gives them, as regular expressions.
mapfile -t chosen < <(awk -F'\t' '
    NR == FNR { if (NF == 3) { row[++rows] = $1; from[rows] = $2; to[rows] = $3 } next }
    FNR > 1 {
        mutation = $6
        for (i = 1; i <= rows; i++)
            if (row[i] == $2 ":" $4 && (at = index(mutation, from[i])))
                mutation = substr(mutation, 1, at - 1) to[i] substr(mutation, at + length(from[i]))
        gsub(/[][\\.*^$(){}?+|]/, "\\\\&", mutation)
        print "--re=: " mutation "$"
    }' xtask/mutants/moved.tsv xtask/mutants/sample.tsv | LC_ALL=C sort -u)
exec cargo mutants "${chosen[@]}" "$@"
