#!/usr/bin/env bash
# Installs what is missing, builds everything and runs the tests.
#   ./test.sh [preset] [arguments of ctest]      presets: release (default), dev, asan, tsan
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source .ci/packages.sh

preset=release
if [[ ${1:-} == [a-z]* ]]; then
  preset=$1
  shift
fi

cat <<TEXT
Hearth tests, preset '$preset'. This will
  1. install the Debian packages that are missing (never remove any),
  2. configure and build into build/$preset,
  3. run the tests.
TEXT

hearth_say "1/3 Packages"
hearth_ensure_packages "${hearth_packages[@]}"
if [[ $preset == tsan ]]; then
  export TSAN_PREFIX=${TSAN_PREFIX:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/hearth-build/tsan}
  hearth_say "Boost.Fiber and oneTBB for the thread sanitizer, in $TSAN_PREFIX (built once)"
  .ci/tsan_libraries.sh "$TSAN_PREFIX"
fi

hearth_say "2/3 Build"
cmake --preset "$preset"
cmake --build --preset "$preset" -j "$(hearth_jobs)"

hearth_say "3/3 Tests"
ctest --preset "$preset" -j "$(nproc)" "$@"
