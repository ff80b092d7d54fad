#!/usr/bin/env bash
# Installs what is missing, builds the tests and runs them.
#   ./test.sh [--all] [preset] [arguments of ctest]      presets: release (default), dev, asan, tsan
# --all: the benchmarks and the examples too, with the tests of the examples, as CI has it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source .ci/packages.sh
source .ci/results.sh

all=0
if [[ ${1:-} == --all ]]; then
  all=1
  shift
fi
preset=release
if [[ ${1:-} == [a-z]* ]]; then
  preset=$1
  shift
fi

cat <<TEXT
Builds and runs Hearth's tests, preset '$preset'; the first time takes about ten minutes on two cores. This will
  1. install the Debian packages that are missing (never remove any),
  2. configure and build into build/$preset,
  3. run the tests.
TEXT

hearth_say "1/3 Packages"
packages=("${hearth_packages[@]}" "${hearth_test_packages[@]}")
if [[ $preset == asan ]]; then packages+=("${hearth_clang_packages[@]}"); fi
hearth_ensure_packages "${packages[@]}"
if [[ $preset == tsan ]]; then
  export TSAN_PREFIX=${TSAN_PREFIX:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/hearth-build/tsan}
  hearth_say "Boost.Fiber and oneTBB for the thread sanitizer, in $TSAN_PREFIX (built once)"
  .ci/tsan_libraries.sh "$TSAN_PREFIX"
fi

hearth_say "2/3 Build"
options=(-D HEARTH_BUILD_TESTS=ON) # quickstart.sh may have left them out of this tree
if ((all)) && [[ $preset == release ]]; then options+=(-D HEARTH_BUILD_BENCH=ON); fi
cmake --preset "$preset" "${options[@]}"
if ((all)); then target=all; else target=hearth_tests; fi
cmake --build --preset "$preset" -j "$(hearth_jobs)" --target "$target"

hearth_say "3/3 Tests"
rm -rf "build/$preset/results" "build/$preset/results.xml"
chosen=()
if ! ((all)); then chosen=(-E '^examples_' -LE '^examples_'); fi
start=$SECONDS
status=0
# More tests than cores: a third of the tests' time is waits, for other threads and for deadlines.
export HEARTH_AUTOTUNE=${HEARTH_AUTOTUNE:-off} # no test depends on results of another
# A line for each tenth, and at the end what ctest says of those that did not pass.
ctest --preset "$preset" -j "$(($(nproc) * 3 / 2))" "${chosen[@]}" --no-label-summary --output-junit results.xml "$@" 2>&1 | awk '
  /^ *Start +[0-9]+: / { next }
  /^ *[0-9]+\/[0-9]+ +Test +#/ {
    split($1, part, "/")
    tenth = int(10 * part[1] / part[2])
    if (tenth > told) { told = tenth; printf "%d of %d\n", part[1], part[2]; fflush() }
    if (/ Passed +[0-9.]+ sec *$/) { keep = 0; next }
    keep = 1
  }
  told == 0 && !keep { next }
  { kept = kept $0 "\n" }
  END { printf "%s", kept }' || status=$?

if ! hearth_results "$preset"; then hearth_stop "no test ran."; fi
hearth_say "$passed tests passed, $failed failed, $skipped had nothing to do on this machine; $((SECONDS - start)) s."
if ((status != 0 || failed > 0)); then
  hearth_stop "the output of those that failed stands above, and with all others in build/$preset/Testing/Temporary."
fi
