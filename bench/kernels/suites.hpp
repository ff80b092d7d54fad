// The suites of `hearth-bench run`: tables of problems. Read-only data. Threads: any.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/result.hpp>

namespace hearth::bench {

struct SuiteRow {
  std::string_view name;
  std::string_view problem;
};
struct Suite {
  std::string_view name;
  std::string_view about;
  std::span<const SuiteRow> rows;
};
[[nodiscard]] std::span<const Suite> suites() noexcept;

/// A row that a filter selects.
struct SelectedRow {
  std::string_view suite;
  SuiteRow row;
};
/// Returns the rows of a suite, by its name, or of all suites, by `all`. Any other filter selects
/// each row whose "suite/name problem" contains it.
///
/// Errors: invalid_argument if nothing is selected, with the suites and the nearest name.
[[nodiscard]] Result<std::vector<SelectedRow>> select_rows(std::string_view filter);

// The tables, one a file.
[[nodiscard]] std::span<const SuiteRow> product_rows() noexcept;
[[nodiscard]] std::span<const SuiteRow> convolution_rows() noexcept;
[[nodiscard]] std::span<const SuiteRow> mobile_rows() noexcept;
[[nodiscard]] std::span<const SuiteRow> burn_rows() noexcept;
[[nodiscard]] std::span<const SuiteRow> small_burn_rows() noexcept;
[[nodiscard]] std::span<const SuiteRow> onnx_rows() noexcept;

}  // namespace hearth::bench
