#!/bin/sh
# usage_test.sh PROGRAM: tests the output of --help and the errors for unknown arguments.
set -u
wrong() { echo "$1" >&2; exit 1; }
said=$("$1" --help) || wrong "--help ends with $?"
case $said in usage:*) ;; *) wrong "--help says: $said" ;; esac
said=$("$1" nonsense 2>&1 >/dev/null)
[ $? -eq 2 ] || wrong "nonsense is taken"
case $said in *usage:*) ;; *) wrong "of nonsense it says: $said" ;; esac
