#include "cooperative_rewrite.hpp"

#include <cstring>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "spirv_reader.hpp"

namespace hearth::vulkan {
namespace {

using Words = SpirvWords;

// Numbers of the SPIR-V registry; the packaged headers have the NV ones only.
enum Op : std::uint32_t {
  kName = 5,
  kMemberName = 6,
  kExtension = 10,
  kEntryPoint = 15,
  kCapability = 17,
  kTypeInt = 21,
  kTypeFloat = 22,
  kConstantTrue = 41,
  kConstantFalse = 42,
  kConstant = 43,
  kDecorate = 71,
  kFloatConvert = 115,
  kSelect = 169,
  kTypeNv = 5358,
  kLoadNv = 5359,
  kStoreNv = 5360,
  kMultiplyNv = 5361,
  kLengthNv = 5362,
  kTypeKhr = 4456,
  kLoadKhr = 4457,
  kStoreKhr = 4458,
  kMultiplyKhr = 4459,
  kLengthKhr = 4460,
};
constexpr std::uint32_t kCapabilityNv = 5357;
constexpr std::uint32_t kCapabilityKhr = 6022;
constexpr std::uint32_t kCapabilityBf16 = 5116;
constexpr std::uint32_t kCapabilityBf16Matrix = 5118;
constexpr std::uint32_t kEncodingBf16 = 0;
// Cooperative matrix operands: components of a, b, the accumulator and the result are signed.
constexpr std::uint32_t kAllSigned = 15;

constexpr std::string_view kExtensionNv = "SPV_NV_cooperative_matrix";
constexpr std::string_view kExtensionKhr = "SPV_KHR_cooperative_matrix";
constexpr std::string_view kExtensionBf16 = "SPV_KHR_bfloat16";

Error wrong_module(std::string_view what) {
  return {.code = ErrorCode::internal, .text = fmt::format("cooperative matrices: {}", what)};
}

enum class Use : std::uint32_t { a = 0, b = 1, sum = 2, none = 3 };

class Rewrite final {
 public:
  Rewrite(const SpirvModule& module, CooperativeFactor factor) noexcept
      : module_(module), factor_(factor), bound_(module[kSpirvBoundWord]) {}

  Result<SpirvModule> run() {
    HEARTH_TRY_STATUS(find_uses());
    out_.assign(module_.begin(), module_.begin() + kSpirvHeaderWords);
    HEARTH_TRY_STATUS(for_each([this](std::uint32_t op, Words words) { return copy(op, words); }));
    out_[kSpirvBoundWord] = bound_;
    return std::move(out_);
  }

 private:
  // Calls fn(opcode, all words of the instruction).
  template <class Fn>
  Status for_each(const Fn& fn) const {
    SpirvReader reader(module_);
    while (const auto instruction = reader.next()) {
      HEARTH_TRY_STATUS(fn(instruction->code, instruction->words));
    }
    if (reader.is_damaged()) {
      return wrong_module("an instruction without an end");
    }
    return {};
  }

  Status use(std::uint32_t value, Use as) {
    const auto type = value_types_.find(value);
    if (type == value_types_.end()) {
      return wrong_module("a factor or sum that is no matrix");
    }
    Use& known = uses_[type->second];
    if (known != Use::none && known != as) {
      return wrong_module("one type for matrices of two uses");
    }
    known = as;
    return {};
  }

  Status find_uses() {
    HEARTH_TRY_STATUS(for_each([this](std::uint32_t op, Words words) -> Status {
      switch (op) {
        case kTypeNv:
          uses_.emplace(words[1], Use::none);
          has_signed_ = has_signed_ || signed_types_.contains(words[2]);
          break;
        case kTypeInt:
          if (words[3] == 1) {
            signed_types_.insert(words[1]);
          }
          uint_type_ = words[2] == 32 && words[3] == 0 ? words[1] : uint_type_;
          break;
        case kConstantTrue:
        case kConstantFalse:
          flags_.emplace(words[2], op == kConstantTrue);
          break;
        case kName:
        case kMemberName:
        case kEntryPoint:
        case kDecorate:
          break;
        default:
          // Defines a value of a matrix type: no other operand in this position is a type's id.
          if (words.size() > 2 && uses_.contains(words[1])) {
            value_types_.emplace(words[2], words[1]);
          }
      }
      return {};
    }));
    const Status products = for_each([this](std::uint32_t op, Words words) -> Status {
      if (op != kMultiplyNv) {
        return {};
      }
      HEARTH_TRY_STATUS(use(words[3], Use::a));
      HEARTH_TRY_STATUS(use(words[4], Use::b));
      return use(words[5], Use::sum);
    });
    HEARTH_TRY_STATUS(products);
    // An accumulator that is converted to another type gives that type the same use.
    HEARTH_TRY_STATUS(for_each([this](std::uint32_t op, Words words) -> Status {
      if (op != kFloatConvert || !uses_.contains(words[1])) {
        return {};
      }
      const auto from = value_types_.find(words[3]);
      return from == value_types_.end() ? Status(wrong_module("a matrix of something else"))
                                        : use(words[2], uses_.at(from->second));
    }));
    for (const auto& [type, as] : uses_) {
      if (as == Use::none) {
        return wrong_module(fmt::format("type %{} is multiplied nowhere", type));
      }
    }
    return uint_type_ == 0 ? Status(wrong_module("no unsigned integers")) : Status();
  }

  void emit(std::uint32_t op, std::initializer_list<std::uint32_t> operands, Words rest = {}) {
    const auto count = static_cast<std::uint32_t>(1 + operands.size() + rest.size());
    out_.push_back(count << 16U | op);
    out_.insert(out_.end(), operands);
    out_.insert(out_.end(), rest.begin(), rest.end());
  }
  void emit_extension(std::string_view name) {
    std::vector<std::uint32_t> words(name.size() / 4 + 1);
    std::memcpy(words.data(), name.data(), name.size());
    emit(kExtension, {}, words);
  }

  // Emits the constants 0, 1, 2, which number uses and layouts, and the type of bfloat16. They
  // stand in front of the first type that needs them.
  void emit_constants() {
    for (std::uint32_t value = 0; value < 3; ++value) {
      numbers_[value] = bound_++;
      emit(kConstant, {uint_type_, numbers_[value], value});
    }
    if (factor_ == CooperativeFactor::bf16) {
      bf16_type_ = bound_++;
      emit(kTypeFloat, {bf16_type_, 16, kEncodingBf16});
    }
  }

  // Returns 0 for row-major, 1 for column-major.
  std::uint32_t layout_of(std::uint32_t flag) {
    if (const auto known = flags_.find(flag); known != flags_.end()) {
      return numbers_[known->second ? 1 : 0];
    }
    const std::uint32_t layout = bound_++;
    emit(kSelect, {uint_type_, layout, flag, numbers_[1], numbers_[0]});
    return layout;
  }

  void copy_type(Words words) {
    if (numbers_[2] == 0) {
      emit_constants();
    }
    const Use as = uses_.at(words[1]);
    const bool is_factor = as != Use::sum;
    const std::uint32_t component = is_factor && bf16_type_ != 0 ? bf16_type_ : words[2];
    emit(kTypeKhr,
         {words[1],
          component,
          words[3],
          words[4],
          words[5],
          numbers_[static_cast<std::size_t>(as)]});
  }

  Status copy(std::uint32_t op, Words words) {
    switch (op) {
      case kCapability:
        if (words[1] == kCapabilityNv) {
          emit(kCapability, {kCapabilityKhr});
          if (factor_ == CooperativeFactor::bf16) {
            emit(kCapability, {kCapabilityBf16});
            emit(kCapability, {kCapabilityBf16Matrix});
          }
          return {};
        }
        break;
      case kExtension:
        if (spirv_text(words.subspan(1)) == kExtensionNv) {
          emit_extension(kExtensionKhr);
          if (factor_ == CooperativeFactor::bf16) {
            emit_extension(kExtensionBf16);
          }
          return {};
        }
        break;
      case kTypeNv:
        copy_type(words);
        return {};
      case kLoadNv: {
        const std::uint32_t layout = layout_of(words[5]);
        emit(kLoadKhr, {words[1], words[2], words[3], layout, words[4]}, words.subspan(6));
        return {};
      }
      case kStoreNv: {
        const std::uint32_t layout = layout_of(words[4]);
        emit(kStoreKhr, {words[1], words[2], layout, words[3]}, words.subspan(5));
        return {};
      }
      case kMultiplyNv:
        emit(kMultiplyKhr, {}, words.subspan(1));
        if (has_signed_) {
          out_[out_.size() - words.size()] += 1U << 16U;
          out_.push_back(kAllSigned);
        }
        return {};
      case kLengthNv:
        emit(kLengthKhr, {}, words.subspan(1));
        return {};
      default:
        break;
    }
    out_.insert(out_.end(), words.begin(), words.end());
    return {};
  }

  const SpirvModule& module_;
  CooperativeFactor factor_;
  std::uint32_t bound_;
  SpirvModule out_;
  std::unordered_map<std::uint32_t, Use> uses_;  // by type
  std::unordered_map<std::uint32_t, std::uint32_t> value_types_;
  std::unordered_map<std::uint32_t, bool> flags_;
  std::unordered_set<std::uint32_t> signed_types_;
  bool has_signed_ = false;  // The module has matrices of signed integers.
  std::uint32_t uint_type_ = 0;
  std::uint32_t bf16_type_ = 0;
  std::uint32_t numbers_[3] = {};
};

}  // namespace

bool has_cooperative_matrices(const SpirvModule& module) noexcept {
  // Capabilities come first.
  SpirvReader reader(module);
  for (auto each = reader.next(); each && each->code == kCapability; each = reader.next()) {
    if (each->words.size() > 1 && each->words[1] == kCapabilityNv) {
      return true;
    }
  }
  return false;
}

Result<SpirvModule> rewrite_cooperative(const SpirvModule& module, CooperativeFactor factor) {
  if (module.size() < kSpirvHeaderWords) {
    return wrong_module("no module");
  }
  return Rewrite(module, factor).run();
}

}  // namespace hearth::vulkan
