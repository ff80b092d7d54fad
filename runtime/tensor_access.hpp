// TensorAccess: gives the library access to the parts of a Tensor. Header-internal: no program
// needs it. Threads: as Tensor.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include <hearth/runtime/tensor.hpp>

namespace hearth::detail {

/// Bit flags of a module's member.
enum class MemberMark : std::uint8_t {
  frozen = 1,  ///< Not trained: freeze_weights().
  wide = 2,    ///< Accumulates small changes, so it has an accumulation_dtype().
};

class TensorAccess final {
 public:
  /// A tensor that takes over this reference.
  [[nodiscard]] static Tensor adopt(TensorImpl* impl) noexcept { return Tensor(impl); }
  /// The counted object; null for an empty tensor. Copies of one tensor share it.
  [[nodiscard]] static TensorImpl* impl(const Tensor& tensor) noexcept { return tensor.impl_; }
  /// Releases the reference without a drop (the last use took it).
  static TensorImpl* release_impl(Tensor& tensor) noexcept {
    return std::exchange(tensor.impl_, nullptr);
  }
  /// The tensor's tape, open or not, and its node there.
  [[nodiscard]] static Tape* tape(const Tensor& tensor) noexcept { return tensor.tape_; }
  [[nodiscard]] static std::uint32_t node(const Tensor& tensor) noexcept { return tensor.node_; }
  static void set_node(Tensor& tensor, Tape* tape, std::uint32_t node) noexcept {
    if (tape != nullptr) {
      retain_tape(tape);
    }
    if (tensor.tape_ != nullptr) {
      release_tape(tensor.tape_);
    }
    tensor.tape_ = tape;
    tensor.node_ = node;
  }
  /// set_path() by the layer that made the tensor, before a model has named it.
  static void set_first_path(const Tensor& tensor, std::string_view path, SourceLoc loc) {
    tensor.set_path(path, false, loc);
  }
  /// True if only its layer has named it, and no model.
  [[nodiscard]] static bool is_unnamed_weight(const Tensor& tensor) noexcept;
  /// set_path() of a copy: counts as named by a model if the original was.
  static void set_copied_path(const Tensor& tensor,
                              bool is_unnamed_weight,
                              std::string_view path,
                              SourceLoc loc) {
    tensor.set_path(path, !is_unnamed_weight, loc);
  }
  /// Marks of a module's member, independent of its values. Copies of the member keep them.
  [[nodiscard]] static bool has_mark(const Tensor& member, MemberMark mark) noexcept {
    return (member.marks_ & static_cast<std::uint8_t>(mark)) != 0;
  }
  static void set_mark(Tensor& member, MemberMark mark, bool holds = true) noexcept {
    const auto bit = static_cast<std::uint8_t>(mark);
    member.marks_ = static_cast<std::uint8_t>(holds ? member.marks_ | bit : member.marks_ & ~bit);
  }
  [[nodiscard]] static std::uint8_t marks(const Tensor& member) noexcept { return member.marks_; }
  static void set_marks(Tensor& member, std::uint8_t marks) noexcept { member.marks_ = marks; }
  /// Replaces a member's values; its marks stay.
  static void set_values(Tensor& member, Tensor values) noexcept {
    const std::uint8_t marks = member.marks_;
    member = std::move(values);
    member.marks_ = marks;
  }
  /// publish() of a tensor whose uses need no more bookkeeping.
  static void publish_frozen(const Tensor& tensor, SourceLoc loc) { tensor.publish(true, loc); }
};

}  // namespace hearth::detail
