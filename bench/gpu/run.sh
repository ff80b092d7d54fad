#!/usr/bin/env bash
# bench/gpu/run.sh OUTPUT [STAGE...]: tests and measures a device of CUDA, stage by stage, each below ten minutes:
#   conformance  every op beside the reference, a process for each kind of op, as many at once as there are cores
#   gradients    the runtime's tests of ops and gradients on cuda:0 and cuda:1, two devices of one card
#   programs     random programs beside the reference (RANDOM_GPU of them, 300 by default)
#   sanitizer    compute-sanitizer's memcheck and racecheck over some kinds of ops, where it is installed
#                (eight at once)
#   figures      measure.sh: each section of hearth-gpu-bench, beside PyTorch where it is installed
# KINDS="add matmul ..." limits conformance and sanitizer to these kinds.
# Writes OUTPUT/STAGE.json, {"stage": ..., "passed": ..., "failed": ...}, and the logs of what failed. A stage that has this
# file is skipped, so a second call continues an interrupted one. Ends with status 1 if anything failed.
# In a checkout it builds the programs first; in a folder that bundle.sh made it takes those there.
set -uo pipefail
(($# >= 1)) || { echo "usage: $0 OUTPUT [STAGE...]" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
output=$(cd "$1" && pwd)
shift
stages=("$@")
((${#stages[@]} > 0)) || stages=(conformance gradients programs sanitizer figures)
for stage in "${stages[@]}"; do
  case $stage in
    conformance | gradients | programs | sanitizer | figures) ;;
    *) echo "$0: no stage '$stage'" >&2; exit 2 ;;
  esac
done

programs=(conformance_cuda_test runtime_ops_test gpu_programs_test hearth-gpu-bench)
bin=$here
if [[ ! -x $here/conformance_cuda_test ]]; then
  root=$(cd "$here/../.." && pwd)
  (cd "$root" && cmake --build --preset release --target "${programs[@]}") || exit 1
  bin=$(mktemp -d)
  trap 'rm -rf "$bin"' EXIT
  for program in "${programs[@]}"; do
    ln -s "$(find "$root/build/release" -name "$program" -type f -perm -u+x | head -1)" "$bin/$program"
  done
  ln -s "$here/measure.sh" "$here/torch_figures.py" "$bin/"
fi
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" HEARTH_AUTOTUNE=off TESTED_DEVICE=cuda
export output bin

# one LOG COMMAND...: prints "passed" or "failed"; the log of a command that passed goes.
one() {
  local log="$output/$1.log"
  shift
  if timeout 570 "$@" > "$log" 2>&1; then
    rm -f "$log"
    echo passed
  else
    echo "failed: $*, see $log" >&2
    echo failed
  fi
}
export -f one

kinds() {
  if [[ -n ${KINDS:-} ]]; then
    tr ' ' '\n' <<< "$KINDS"
    return
  fi
  "$bin/conformance_cuda_test" --gtest_list_tests | sed -n 's/^  [^/]*\/\([a-z0-9_]*\).*/\1/p' | sort -u
}

run_conformance() {
  # shellcheck disable=SC2016 # the inner shell expands these
  kinds | xargs -P "$(nproc)" -I{} bash -c 'one "conformance.$1" "$bin/conformance_cuda_test" --gtest_filter="*/$1"' - {}
}
# Two devices of one card. One test is left out, which expects the reference's name in a text.
run_gradients() {
  local filter part=0
  for filter in 'Vjp*:AutodiffTest*:GradientsTest*:TwoLayers*' \
    'OpsShapeTest*:StatisticsTest*:OperatorsTest*:NormTest*:LossTest*-OperatorsTest.AStreamPrints*' \
    'AttentionTest*:WindowTest*:CrossEntropyTest*:EinsumTest*:GridTest*:ActivationTest*' \
    '*/NonFinite*:*/BackendsAgree*:*/Int8*:*/Round*:*/IntegersTest*:*/OpsIndex*:*/AttentionSizes*'; do
    ((part += 1))
    HEARTH_CUDA_DEVICES=0,0 one "gradients.$part" "$bin/runtime_ops_test" --gtest_filter="$filter"
  done
}
run_programs() { RANDOM_GPU=${RANDOM_GPU:-300} one programs "$bin/gpu_programs_test"; }
# shellcheck disable=SC2016 # the inner shell expands these
run_sanitizer() {
  command -v compute-sanitizer > /dev/null || { echo "no compute-sanitizer here" >&2; return; }
  local kind tool
  for kind in ${KINDS:-add cast sum softmax matmul attention attention_backward conv2d scatter cummax topk adam_step}; do
    for tool in memcheck racecheck; do
      printf '%s %s\n' "$tool" "$kind"
    done
  done |
    xargs -P 8 -L 1 bash -c 'one "sanitizer.$1.$2" compute-sanitizer --tool "$1" --error-exitcode 9 \
      "$bin/conformance_cuda_test" --gtest_filter="*/$2"' -
}
run_figures() { HEARTH_GPU_DEVICE=cuda:0 one figures "$bin/measure.sh" "$output"; }

failures=0
for stage in "${stages[@]}"; do
  to="$output/$stage.json"
  [[ ! -e $to ]] || continue
  results=$("run_$stage")
  if [[ -z $results ]]; then
    printf '{"stage": "%s", "skipped": true}\n' "$stage"
    continue
  fi
  passed=$(grep -c '^passed$' <<< "$results")
  failed=$(grep -c '^failed$' <<< "$results")
  printf '{"stage": "%s", "passed": %d, "failed": %d}\n' "$stage" "$passed" "$failed" | tee "$to"
  failures=$((failures + failed))
done
exit $((failures > 0))
