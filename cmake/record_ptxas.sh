#!/usr/bin/env bash
# Stands before nvcc: runs the command it is given, and puts what "ptxas -v" says about the kernels into
# OBJECT.ptxas instead of the terminal.
set -uo pipefail

object=""
previous=""
for argument in "$@"; do
  [[ $previous != -o ]] || object=$argument
  previous=$argument
done

said=$(mktemp)
trap 'rm -f "$said"' EXIT
status=0
"$@" 2> "$said" || status=$?
from_ptxas='^ptxas info|bytes stack frame'
grep -E "$from_ptxas" "$said" > "$object.ptxas"
grep -vE "$from_ptxas" "$said" >&2
exit "$status"
