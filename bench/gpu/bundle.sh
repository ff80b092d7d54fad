#!/usr/bin/env bash
# bench/gpu/bundle.sh ARCHIVE.tgz PROGRAM...: packs stripped programs, their shared libraries except
# the C library's own, and the scripts of this folder. measure.sh needs nothing else on a machine
# without a build of Hearth.
set -euo pipefail
(($# >= 2)) || { echo "usage: $0 ARCHIVE.tgz PROGRAM..." >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
archive=$1
shift
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
mkdir -p "$to/lib"
for program in "$@"; do
  strip -o "$to/$(basename "$program")" "$program"
  # The C library must be the other machine's.
  ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | grep -vE '/(libc|libm|libdl|libpthread|librt)\.so' |
    while IFS= read -r library; do
      [[ -e $to/lib/$(basename "$library") ]] || cp -L "$library" "$to/lib/"
    done
done
cp "$here/run.sh" "$here/measure.sh" "$here/torch_figures.py" "$to/"
tar -C "$to" -czf "$archive" .
du -h "$archive"
