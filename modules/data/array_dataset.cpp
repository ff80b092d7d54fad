#include <hearth/modules/array_dataset.hpp>

#include <hearth/runtime/base/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

[[noreturn]] void refuse_arrays(ErrorCode code, const std::string& text, SourceLoc loc) {
  throw_error(
      Error{.code = code, .text = "ArrayDataset: " + text, .op = "ArrayDataset", .location = loc});
}

}  // namespace

ArrayDataset::ArrayDataset(HostArray inputs,
                           HostArray targets,
                           std::vector<NamedArray> more,
                           SourceLoc loc)
    : ArrayDataset(Examples{std::move(inputs), std::move(targets), std::move(more)}, loc) {}

ArrayDataset::ArrayDataset(Examples examples, SourceLoc loc) : examples_(std::move(examples)) {
  const bool may_leave_out = !examples_.more.empty();
  bool is_first = true;
  const auto count_rows = [&](std::string_view name, const HostArray& array) {
    const Shape& shape = array.shape();
    if (shape.rank() == 0) {
      refuse_arrays(
          ErrorCode::shape_mismatch, fmt::format("{} is one number, without rows", name), loc);
    }
    if (std::exchange(is_first, false)) {
      size_ = shape[0];
    }
    if (shape[0] != size_) {
      refuse_arrays(ErrorCode::shape_mismatch,
                    fmt::format("{} {} has {} rows, those before have {}",
                                name,
                                describe(array.dtype(), shape),
                                shape[0],
                                size_),
                    loc);
    }
  };
  if (!may_leave_out || !examples_.inputs.is_left_out()) {
    count_rows("inputs", examples_.inputs);
  }
  if (!may_leave_out || !examples_.targets.is_left_out()) {
    count_rows("targets", examples_.targets);
  }
  for (std::size_t i = 0; i < examples_.more.size(); ++i) {
    const std::string& name = examples_.more[i].name;
    const bool is_twice = name == "inputs" || name == "targets" ||
                          std::any_of(examples_.more.begin(),
                                      examples_.more.begin() + static_cast<std::ptrdiff_t>(i),
                                      [&](const NamedArray& other) { return other.name == name; });
    if (is_twice) {
      refuse_arrays(
          ErrorCode::invalid_argument, fmt::format("two arrays are called '{}'", name), loc);
    }
    count_rows(name, examples_.more[i].array);
  }
}

Examples ArrayDataset::read(std::span<const std::int64_t> indices) const {
  const auto chosen = [&](const HostArray& array) {
    return array.is_left_out() && size_ != 0 ? HostArray() : array.rows(indices, SourceLoc{});
  };
  Examples examples{chosen(examples_.inputs), chosen(examples_.targets)};
  for (const NamedArray& named : examples_.more) {
    examples.more.push_back({named.name, named.array.rows(indices, SourceLoc{})});
  }
  return examples;
}

}  // namespace hearth
