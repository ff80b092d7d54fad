#include <hearth/autotune/tune_key.hpp>

#include <bit>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include <hearth/runtime/base/checked_file.hpp>

namespace hearth::detail {
namespace {

std::string_view name(OperandForm form) noexcept {
  switch (form) {
    case OperandForm::absent:
      return "absent";
    case OperandForm::contiguous:
      return "contiguous";
    case OperandForm::transposed:
      return "transposed";
    case OperandForm::strided:
      return "strided";
    case OperandForm::broadcast:
      return "broadcast";
  }
  return "unknown";
}

std::string sizes_of(const TuneKey& key) {
  std::size_t count = key.sizes.size();
  while (count > 0 && key.sizes[count - 1] == 0) {
    --count;
  }
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : "x", key.sizes[i]);
  }
  return text;
}

}  // namespace

std::string_view name(TuneFamily family) noexcept {
  switch (family) {
    case TuneFamily::product:
      return "product";
    case TuneFamily::convolution:
      return "convolution";
    case TuneFamily::rows:
      return "rows";
    case TuneFamily::reduction:
      return "reduction";
    case TuneFamily::pointwise:
      return "pointwise";
    case TuneFamily::movement:
      return "movement";
    case TuneFamily::attention:
      return "attention";
    case TuneFamily::transfer:
      return "transfer";
  }
  return "unknown";
}

// Bits 0 to 2: form. Bits 3 and 4: log2 of the alignment, less 4. Bit 5: stride.
std::uint8_t OperandClass::packed() const noexcept {
  const int level = alignment_bytes >= 64 ? 2 : alignment_bytes >= 32 ? 1 : 0;
  const int stride = has_power_of_two_stride ? 1 : 0;
  return static_cast<std::uint8_t>(static_cast<int>(form) + (level << 3) + (stride << 5));
}

OperandClass OperandClass::unpacked(std::uint8_t bits) noexcept {
  return {.form = static_cast<OperandForm>(bits & 7U),
          .alignment_bytes = 16 << ((bits >> 3U) & 3U),
          .has_power_of_two_stride = ((bits >> 5U) & 1U) != 0};
}

std::uint32_t kind_number(std::string_view op_name) noexcept {
  return static_cast<std::uint32_t>(xxh64(std::as_bytes(std::span(op_name))));
}

std::uint64_t hash_of(const TuneKey& key) noexcept {
  return xxh64(std::as_bytes(std::span(&key, 1)));
}

std::string to_string(const TuneKey& key, std::string_view op_name) {
  std::string text = fmt::format("{} {}", op_name, name(key.input));
  if (key.output != key.input) {
    text += fmt::format(">{}", name(key.output));
  }
  text += " " + sizes_of(key);
  for (std::size_t i = 0; i < key.operands.size(); ++i) {
    const OperandClass operand = OperandClass::unpacked(key.operands[i]);
    if (operand.form != OperandForm::absent) {
      text += fmt::format(" {}:{}/{}{}",
                          static_cast<char>('a' + i),
                          name(operand.form),
                          operand.alignment_bytes,
                          operand.has_power_of_two_stride ? "/2^n" : "");
    }
  }
  for (const std::uint32_t word : key.attributes) {
    if (word != 0) {
      text += fmt::format(" {:x}", word);
    }
  }
  if (key.prologue_hash != 0) {
    text += fmt::format(" prologue {:x}", key.prologue_hash);
  }
  if (key.epilogue_hash != 0) {
    text += fmt::format(" epilogue {:x}", key.epilogue_hash);
  }
  if (key.cores > 0) {
    text += fmt::format(", {} core{}", key.cores, key.cores == 1 ? "" : "s");
  }
  return text;
}

std::optional<double> size_distance(const TuneKey& a, const TuneKey& b) noexcept {
  TuneKey like_b = a;
  like_b.sizes = b.sizes;
  if (like_b != b) {
    return {};
  }
  double distance = 0;
  for (std::size_t i = 0; i < a.sizes.size(); ++i) {
    if (a.sizes[i] == b.sizes[i]) {
      continue;
    }
    if (a.sizes[i] <= 0 || b.sizes[i] <= 0) {
      return {};
    }
    distance +=
        std::abs(std::log2(static_cast<double>(a.sizes[i]) / static_cast<double>(b.sizes[i])));
  }
  return distance;
}

}  // namespace hearth::detail
