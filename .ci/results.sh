# Sourced by test.sh and .ci/run: how the tests of a preset went, from the files that ctest and GoogleTest leave.

# hearth_results PRESET: sets passed, failed and skipped, counted by case. Under the sanitizers an entry of ctest is a
# shard of a program, which writes the figures of its cases into build/PRESET/results; one that failed and left none, or
# that failed though all of its cases passed (a leak at its end), counts as one failed case. Fails where nothing ran.
hearth_results() {
  local tree=build/$1 entries bad broken
  [[ -s $tree/results.xml ]] || return 1
  count() { sed -nE "0,/[[:space:]]$1=/s/.*[[:space:]]$1=\"([0-9]+)\".*/\1/p" "$tree/results.xml"; }
  # total LINE NAME: the sum of one figure over the lines of that kind in all reports of the programs.
  total() {
    cat "$tree"/results/*.xml |
      sed -nE "s/^ *<$1 (.* )?$2=\"([0-9]+)\".*/\2/p" | awk '{sum += $1} END {print sum + 0}'
  }
  entries=$(count tests)
  bad=$(count failures)
  if compgen -G "$tree/results/*.xml" >/dev/null; then
    failed=$(total testsuites failures)
    skipped=$(($(total testsuites disabled) + $(total testsuite skipped)))
    passed=$(($(total testsuites tests) - failed - skipped))
    broken=$(grep -lE '<testsuites .* failures="[1-9]' "$tree"/results/*.xml | wc -l)
    if ((bad > broken)); then ((failed += bad - broken)); fi
  else
    failed=$bad
    skipped=$(($(count disabled) + $(count skipped)))
    passed=$((entries - failed - skipped))
  fi
}
