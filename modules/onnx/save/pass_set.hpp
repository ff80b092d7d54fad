// PassSet: forward passes of one model with inputs of several sizes. A size that is equal in all of
// them is fixed in a file. Another one is computed from the inputs when the file runs.
// Owned by save_onnx(), const once made. Threads: any.
// Invariant: all passes have the same steps and values.
#pragma once

#include "modules/onnx/save/recorded_pass.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hearth::onnx {

/// Size of an axis in each pass.
using Sizes = std::vector<std::int64_t>;
[[nodiscard]] bool is_fixed(const Sizes& sizes);

class PassSet final {
 public:
  /// `names`: sizes of the named axes in each pass.
  PassSet(std::vector<RecordedPass> passes, std::map<std::string, Sizes> names)
      : passes_(std::move(passes)), names_(std::move(names)) {}

  /// Returns the first difference between the steps of two passes, as a sentence; empty if there is
  /// none.
  [[nodiscard]] std::string difference() const;

  [[nodiscard]] std::size_t count() const noexcept { return passes_.size(); }
  [[nodiscard]] const RecordedPass& first() const noexcept { return passes_.front(); }
  [[nodiscard]] const RecordedPass& pass(std::size_t number) const { return passes_[number]; }
  [[nodiscard]] int rank(ValueNumber value) const { return first().shape(value).rank(); }
  [[nodiscard]] Sizes sizes(ValueNumber value, int axis) const;
  [[nodiscard]] std::vector<Sizes> shape(ValueNumber value) const;
  /// Returns the name of an axis with these sizes, or an empty text.
  [[nodiscard]] std::string name_of(const Sizes& sizes) const;
  /// Returns whether the value has equal bytes in all passes that recorded them.
  [[nodiscard]] bool is_constant(ValueNumber value) const;

 private:
  [[nodiscard]] std::string difference(const RecordedPass& other) const;

  std::vector<RecordedPass> passes_;
  std::map<std::string, Sizes> names_;
};

/// Returns the bytes of an op's attributes.
[[nodiscard]] std::vector<std::byte> attribute_bytes(const TraceOp& op);

}  // namespace hearth::onnx
