#include "suites.hpp"

#include <array>

#include <fmt/format.h>

#include "nearest_name.hpp"

namespace hearth::bench {

std::span<const Suite> suites() noexcept {
  static const std::array kSuites{
      Suite{"matmul", "74 products of models, of serving and of odd sizes", product_rows()},
      Suite{"conv", "99 convolutions: 33 forward, with both gradients", convolution_rows()},
      Suite{"mobile", "depthwise and strided convolutions, with their gradients", mobile_rows()},
      Suite{"burn", "the shapes of burn-bench, for GPUs", burn_rows()},
      Suite{"burn-small", "the same shapes, smaller, for CPUs", small_burn_rows()},
      Suite{"onnx", "the layers of models of the ONNX zoo", onnx_rows()}};
  return kSuites;
}

Result<std::vector<SelectedRow>> select_rows(std::string_view filter) {
  if (filter.starts_with("suite:")) {
    filter.remove_prefix(6);
  }
  std::vector<SelectedRow> exact;
  std::vector<SelectedRow> partial;
  for (const Suite& suite : suites()) {
    for (const SuiteRow& row : suite.rows) {
      if (filter == suite.name || filter == "all") {
        exact.push_back({suite.name, row});
      } else if (fmt::format("{}/{} {}", suite.name, row.name, row.problem).find(filter) !=
                 std::string::npos) {
        partial.push_back({suite.name, row});
      }
    }
  }
  if (exact.empty() && partial.empty()) {
    const std::vector<std::string> names = names_of(suites(), &Suite::name);
    return Error{.code = ErrorCode::invalid_argument,
                 .text = fmt::format("no suite or row has '{}'{}; the suites are {}",
                                     filter,
                                     did_you_mean(filter, names),
                                     fmt::join(names, ", "))};
  }
  return exact.empty() ? partial : exact;
}

}  // namespace hearth::bench
