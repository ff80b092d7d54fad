// The op record: one submitted op as 128 plain bytes. Each op of a user's call becomes one; nothing
// else crosses a lane. Trivially copyable, so it can be hashed, stored, replayed and sent.
// Invariants: (1) operands are inputs first, then outputs; (2) operands beyond five, and attributes
// above 16 bytes, are in the record's blob: first the extra operands, then the attributes, then the
// parameters of an expression; (3) the client fixes `use` at submission, by program order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/ids.hpp>
#include <hearth/streams/op_kind.hpp>

namespace hearth {

enum class Use : std::uint8_t {
  out,        ///< Created here.
  read,       ///< Dies later, by its drop.
  read_last,  ///< Last use: the record is also the drop, and an output may reuse the bytes.
};

struct Operand {
  SlotId slot;
  /// Counts the tensors that lived in this slot; used in checks only.
  std::uint32_t generation = 0;
  ShapeId shape;
  DType dtype = DType::f32;
  Use use = Use::read;
  std::uint16_t reserved = 0;
};
static_assert(sizeof(Operand) == 16);

enum class RecordFlag : std::uint16_t {
  scalar_lhs =
      /// The left operand is the immediate (ScalarAttributes); the one input is the right operand.
  1,
  scalar_rhs = 2,   ///< The right operand is the immediate.
  exclusive = 4,    ///< Outputs live long (weights, optimizer state): the pool keeps them apart.
  update = 8,       ///< Expression: updates a parameter, as part of an update group.
  frozen = 16,      ///< Publish: the tensor's bytes do not change as long as it lives.
  recomputes = 32,  ///< Elementwise op or view: recomputes a value for later ops.
};

/// Function that the program called, if its name differs from the kind's own: errors and traces
/// show it. Stored in the upper byte of a record's flags.
enum class CalledAs : std::uint8_t {
  itself,  ///< The kind's own function.
  cross_entropy,
  cross_entropy_backward,
  embedding,
  embedding_backward,
  multinomial,
  nll_loss,
  nll_loss_backward,
  one_hot,
  floor_divide,
  remainder,
  ones,
  ones_like,
  zeros,
  zeros_like,
};
inline constexpr unsigned kCalledAsShift = 8;
[[nodiscard]] constexpr std::uint16_t flags_of(CalledAs called) noexcept {
  return static_cast<std::uint16_t>(static_cast<unsigned>(called) << kCalledAsShift);
}
[[nodiscard]] constexpr CalledAs called_as(std::uint16_t flags) noexcept {
  return static_cast<CalledAs>(flags >> kCalledAsShift);
}

inline constexpr int kInlineOperands = 5;
inline constexpr std::uint16_t kRecordVersion = 1;

struct OpRecord {
  OpKind kind = OpKind::fill;
  std::uint16_t flags = 0;
  std::uint16_t input_count = 0;
  std::uint16_t output_count = 0;
  std::uint64_t sequence = 0;  ///< Number in its lane, from 1.
  SourceId source;
  PathId path;
  Operand operands[kInlineOperands];
  std::byte immediate[16] = {};   ///< Attributes of up to 16 bytes.
  std::uint32_t blob_offset = 0;  ///< Place in the lane's overflow ring; for the lane only.
  std::uint32_t blob_size_bytes = 0;

  [[nodiscard]] bool has(RecordFlag flag) const noexcept {
    return (flags & static_cast<std::uint16_t>(flag)) != 0;
  }
  void set(RecordFlag flag) noexcept {
    flags = static_cast<std::uint16_t>(flags | static_cast<std::uint16_t>(flag));
  }
  [[nodiscard]] int operand_count() const noexcept { return input_count + output_count; }
};
static_assert(sizeof(OpRecord) == 128);
static_assert(std::is_trivially_copyable_v<OpRecord>);

/// Whether the attributes are small enough to travel in the record itself.
template <class Attributes>
inline constexpr bool fits_immediate =  // NOLINT(readability-identifier-naming): a trait
    sizeof(Attributes) <= sizeof(OpRecord::immediate);

/// A record with its blob, as read by kernels, sinks and the reference functions. Borrows both.
class OpView {
 public:
  OpView(const OpRecord& record, const std::byte* blob) noexcept : record_(&record), blob_(blob) {}

  [[nodiscard]] const OpRecord& record() const noexcept { return *record_; }
  [[nodiscard]] const std::byte* blob() const noexcept { return blob_; }
  [[nodiscard]] OpKind kind() const noexcept { return record_->kind; }
  [[nodiscard]] Operand operand(int index) const noexcept {
    if (index < kInlineOperands) {
      return record_->operands[index];
    }
    Operand extra;
    std::memcpy(&extra,
                blob_ + static_cast<std::size_t>(index - kInlineOperands) * sizeof(Operand),
                sizeof(Operand));
    return extra;
  }
  [[nodiscard]] Operand input(int index) const noexcept { return operand(index); }
  [[nodiscard]] Operand output(int index) const noexcept {
    return operand(record_->input_count + index);
  }

  /// Returns the parameters of an expression: the last bytes of the blob.
  [[nodiscard]] std::span<const std::byte> last_blob_bytes(std::size_t size_bytes) const noexcept {
    HEARTH_ASSERT(record_->blob_size_bytes >= size_bytes, "parameters missing in the blob");
    return {blob_ + (record_->blob_size_bytes - size_bytes), size_bytes};
  }

  /// Returns the attributes of this kind; op_attributes.hpp lists the struct of each kind.
  template <class Attributes>
  [[nodiscard]] Attributes attributes() const noexcept {
    static_assert(std::is_trivially_copyable_v<Attributes>);
    Attributes out;
    if constexpr (fits_immediate<Attributes>) {
      std::memcpy(&out, record_->immediate, sizeof(Attributes));
    } else {
      const int extra = record_->operand_count() - kInlineOperands;
      const std::size_t offset = extra > 0 ? static_cast<std::size_t>(extra) * sizeof(Operand) : 0;
      HEARTH_ASSERT(record_->blob_size_bytes >= offset + sizeof(Attributes),
                    "attributes missing in the blob");
      std::memcpy(&out, blob_ + offset, sizeof(Attributes));
    }
    return out;
  }

 private:
  const OpRecord* record_;
  const std::byte* blob_;
};

}  // namespace hearth
