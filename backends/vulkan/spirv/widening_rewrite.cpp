#include "widening_rewrite.hpp"

#include <initializer_list>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "spirv_reader.hpp"

namespace hearth::vulkan {
namespace {

// Numbers of the SPIR-V registry.
enum class Code : std::uint32_t {
  extended_call = 12,
  type_int = 21,
  type_vector = 23,
  constant = 43,
  function = 54,
  composite_construct = 80,
  signed_convert = 114,
  bitcast = 124,
  signed_greater = 173,
  signed_greater_equal = 175,
  signed_less = 177,
  signed_less_equal = 179,
  shift_right_arithmetic = 195,
};
// Calls of the set GLSL.std.450 that a driver lowers to comparisons.
enum class Call : std::uint32_t { abs = 5, sign = 7, min = 39, max = 42, clamp = 45 };

[[nodiscard]] constexpr bool is_ordering(Call call) noexcept {
  return call == Call::abs || call == Call::sign || call == Call::min || call == Call::max ||
         call == Call::clamp;
}

class Widening final {
 public:
  explicit Widening(const SpirvModule& module) noexcept : module_(module) {}

  /// Scans the module. Returns true if it needs a rewrite.
  Result<bool> scan() {
    HEARTH_TRY_STATUS(for_each([this](Code op, Words words) { scan_instruction(op, words); }));
    return orders_ && widens_;
  }

  Result<SpirvModule> run() {
    bound_ = module_[kSpirvBoundWord];
    out_.reserve(module_.size() + module_.size() / 4);
    out_.assign(module_.begin(), module_.begin() + kSpirvHeaderWords);
    HEARTH_TRY_STATUS(for_each([this](Code op, Words words) { copy(op, words); }));
    out_[kSpirvBoundWord] = bound_;
    return std::move(out_);
  }

 private:
  using Words = SpirvWords;

  template <class Fn>
  Status for_each(const Fn& fn) const {
    SpirvReader reader(module_);
    while (const auto instruction = reader.next()) {
      fn(Code{instruction->code}, instruction->words);
    }
    if (reader.is_damaged()) {
      return Error{.code = ErrorCode::internal, .text = "widening: a module that is damaged"};
    }
    return {};
  }

  [[nodiscard]] bool is_long(std::uint32_t value) const {
    const auto type = types_.find(value);
    return type != types_.end() && longs_.contains(type->second);
  }
  [[nodiscard]] bool is_widening(Code op, Words words) const {
    const auto from = op == Code::signed_convert ? types_.find(words[3]) : types_.end();
    return from != types_.end() && from->second == int_ && longs_.contains(words[1]);
  }

  void scan_instruction(Code op, Words words) {
    switch (op) {
      case Code::type_int:
        if (words[2] == 64) {
          longs_.insert(words[1]);
        } else if (words[2] == 32 && words[3] == 1) {
          int_ = words[1];
        }
        return;
      case Code::type_vector:
        if (words[2] == int_ && words[3] == 2) {
          pair_ = words[1];
        }
        return;
      case Code::signed_greater:
      case Code::signed_greater_equal:
      case Code::signed_less:
      case Code::signed_less_equal:
        orders_ = orders_ || is_long(words[3]);
        break;
      case Code::extended_call:
        orders_ = orders_ || (longs_.contains(words[1]) && is_ordering(Call{words[4]}));
        break;
      default:
        widens_ = widens_ || is_widening(op, words);
        break;
    }
    // Defines a value of an integer type: no other operand in this position is a type's id.
    if (words.size() > 2 && (words[1] == int_ || longs_.contains(words[1]))) {
      types_.emplace(words[2], words[1]);
    }
  }

  void put(Code op, std::initializer_list<std::uint32_t> operands) {
    out_.push_back(static_cast<std::uint32_t>(operands.size() + 1) << 16U |
                   static_cast<std::uint32_t>(op));
    out_.insert(out_.end(), operands);
  }

  void copy(Code op, Words words) {
    if (op == Code::function && shift_ == 0) {
      if (pair_ == 0) {
        pair_ = bound_++;
        put(Code::type_vector, {pair_, int_, 2});
      }
      shift_ = bound_++;
      put(Code::constant, {int_, shift_, 31});
    }
    if (!is_widening(op, words)) {
      out_.insert(out_.end(), words.begin(), words.end());
      return;
    }
    const std::uint32_t sign = bound_++;
    const std::uint32_t both = bound_++;
    put(Code::shift_right_arithmetic, {int_, sign, words[3], shift_});
    put(Code::composite_construct, {pair_, both, words[3], sign});
    put(Code::bitcast, {words[1], words[2], both});
  }

  const SpirvModule& module_;
  SpirvModule out_;
  std::uint32_t bound_ = 0;
  std::uint32_t int_ = 0;  // ids of types; 0 means none
  std::uint32_t pair_ = 0;
  std::uint32_t shift_ = 0;                                 // the constant 31
  std::unordered_set<std::uint32_t> longs_;                 // ids of 64-bit integer types
  std::unordered_map<std::uint32_t, std::uint32_t> types_;  // type by value
  bool orders_ = false;
  bool widens_ = false;
};

}  // namespace

Result<SpirvModule> rewrite_widening(SpirvModule module) {
  Widening rewrite(module);
  HEARTH_TRY(const bool is_needed, rewrite.scan());
  if (!is_needed) {
    return module;
  }
  return rewrite.run();
}

}  // namespace hearth::vulkan
