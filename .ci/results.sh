# Sourced by test.sh and .ci/run: outcomes and times of the tests of a preset, from the files that ctest and GoogleTest leave.

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

# hearth_tests PRESET: a line "SECONDS OUTCOME NAME" for each entry of ctest, with tabs between. OUTCOME is run, fail, notrun,
# disabled, or missing, for a program that was not built.
hearth_tests() {
  local file=build/$1/results.xml
  [[ -s $file ]] || return 0
  awk '
    function value(name) { # of an attribute in this line
      if (!match($0, " " name "=\"[^\"]*\"")) { return "" }
      return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
    }
    function flush_entry() { if (test != "") { print seconds "\t" outcome "\t" test } }
    /^[ \t]*<testcase / {
      flush_entry()
      test = value("name")
      gsub(/&quot;/, "\"", test); gsub(/&apos;/, "\047", test); gsub(/&lt;/, "<", test); gsub(/&gt;/, ">", test); gsub(/&amp;/, "\\&", test)
      seconds = value("time")
      outcome = value("status")
    }
    /^[ \t]*<skipped message="Unable to find executable/ { outcome = "missing" }
    END { flush_entry() }' "$file"
}

# hearth_slowest_tests PRESET: the ten entries of ctest that took longest, with their seconds.
hearth_slowest_tests() {
  hearth_tests "$1" | LC_ALL=C sort -t $'\t' -k1,1gr -k3 | LC_ALL=C awk -F '\t' 'NR <= 10 { printf "%8.2f s  %s\n", $1, $3 }'
}

# hearth_failed_tests PRESET: the names of the entries of ctest that failed, each as a regular expression of ctest that the
# shell may have between single quotes: "." stands for a character that means something to either.
hearth_failed_tests() {
  hearth_tests "$1" | awk -F '\t' '$2 == "fail" || $2 == "missing" { gsub(/[][\\^$*+?(){}|\047]/, ".", $3); print $3 }'
}
