#!/usr/bin/env bash
# From a fresh Debian 12 machine to a trained network: installs what is missing, builds, trains.
# Arguments go to the example: ./quickstart.sh --epochs 5. Can be run again at any time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source .ci/packages.sh

cat <<TEXT
Hearth quick start. This will
  1. install the Debian packages that are missing (never remove any),
  2. configure and build into build/release,
  3. train a small convolutional network on a built-in data set, on two CPU devices unless --devices names others.
TEXT

hearth_say "1/3 Packages"
hearth_ensure_packages "${hearth_packages[@]}"

hearth_say "2/3 Build (the first time takes minutes)"
options=()
if [[ ! -f build/release/CMakeCache.txt ]]; then
  options=(-D HEARTH_BUILD_TESTS=OFF -D HEARTH_BUILD_BENCH=OFF) # they need packages that training does not
fi
cmake --preset release "${options[@]}"
cmake --build --preset release --target train_mnist -j "$(hearth_jobs)"

hearth_say "3/3 Training"
build/release/examples/train_mnist "$@"

hearth_say "Done. Next: ./test.sh runs the tests; examples/train_mnist.cpp is the program you just saw."
