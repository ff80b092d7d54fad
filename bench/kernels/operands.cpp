#include "operands.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace hearth::bench {
namespace {

constexpr std::int64_t kGuardBytes = 64;
constexpr std::byte kPattern{0x5A};
// More than twice the private cache of most cores (1 to 2 MiB); the L2 of GPUs is larger.
constexpr std::int64_t kHostRotation = std::int64_t{8} << 20;
constexpr std::int64_t kDeviceRotation = std::int64_t{256} << 20;
constexpr std::size_t kMostSets = 64;

std::int64_t bytes_of(const OperandSpec& spec) noexcept {
  return spec.shape.element_count() * size_bytes(spec.dtype);
}

std::int64_t rounded_up(std::int64_t bytes) noexcept {
  return (bytes + kGuardBytes - 1) / kGuardBytes * kGuardBytes;
}

/// Splitmix64.
class Words final {
 public:
  explicit Words(std::uint64_t seed) noexcept : state_(seed) {}
  std::uint64_t next() noexcept {
    std::uint64_t word = state_ += 0x9E3779B97F4A7C15U;
    word = (word ^ (word >> 30U)) * 0xBF58476D1CE4E5B9U;
    word = (word ^ (word >> 27U)) * 0x94D049BB133111EBU;
    return word ^ (word >> 31U);
  }
  double uniform() noexcept { return static_cast<double>(next() >> 11U) * 0x1p-52 - 1; }

 private:
  std::uint64_t state_;
};

double special_value(std::uint64_t number) noexcept {
  constexpr std::array<double, 8> kValues{0.0,
                                          -0.0,
                                          std::numeric_limits<double>::infinity(),
                                          -std::numeric_limits<double>::infinity(),
                                          std::numeric_limits<double>::quiet_NaN(),
                                          1e-40,
                                          -1e-42,
                                          65504.0};
  return kValues[number % kValues.size()];
}

template <class T>
T element(double value) noexcept {
  if constexpr (requires { T(0.0F).bits; }) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

double value_at(std::int64_t place, const OperandSpec& spec, Data data, Words& words) noexcept {
  if (spec.most > 0) {
    return static_cast<double>(words.next() % static_cast<std::uint64_t>(spec.most));
  }
  if (data == Data::one_hot) {
    return place % 37 == 0 ? 1 : 0;
  }
  if (spec.dtype == DType::boolean || spec.dtype == DType::u8) {
    return static_cast<double>(words.next() % 2);
  }
  if (!is_float(spec.dtype)) {
    return static_cast<double>(words.next() % 15) - 7;
  }
  return data == Data::special && place % 29 == 5 ? special_value(words.next()) : words.uniform();
}

void fill_operand(std::span<std::byte> bytes, const OperandSpec& spec, Data data, Words& words) {
  visit_dtype(spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = 0; i < spec.shape.element_count(); ++i) {
      const T value = element<T>(value_at(i, spec, data, words));
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
    }
  });
}

}  // namespace

detail::Layout layout_of(const OperandSpec& spec) {
  if (!spec.is_transposed) {
    return detail::Layout(spec.shape);
  }
  Strides strides = contiguous_strides(spec.shape);
  const auto last = static_cast<std::size_t>(spec.shape.rank() - 1);
  strides[last] = spec.shape[-2];
  strides[last - 1] = 1;
  return detail::Layout(spec.shape, strides);
}

Operands::Operands(BenchDevice& device, const Problem& problem)
    : device_(device), problem_(problem), record_(problem.record()), blob_(problem.blob()) {
  for (const auto* group : {&problem.inputs, &problem.epilogue_inputs, &problem.outputs}) {
    for (const OperandSpec& spec : *group) {
      specs_.push_back(&spec);
      layouts_.push_back(std::make_unique<detail::Layout>(layout_of(spec)));
      offsets_.push_back(set_bytes_ + kGuardBytes);
      set_bytes_ += 2 * kGuardBytes + rounded_up(bytes_of(spec));
    }
  }
}

std::size_t Operands::input_count() const noexcept {
  return problem_.inputs.size() + problem_.epilogue_inputs.size();
}

Result<std::unique_ptr<Operands>> Operands::make(BenchDevice& device,
                                                 const Problem& problem,
                                                 Heat heat) {
  std::unique_ptr<Operands> made(new Operands(device, problem));
  const std::int64_t wanted = device.backend().info().runs_inline ? kHostRotation : kDeviceRotation;
  const std::size_t sets =
      heat == Heat::hot
          ? 1
          : std::clamp<std::size_t>(
                static_cast<std::size_t>(wanted / made->set_bytes_ + 1), 1, kMostSets);
  HEARTH_TRY(
      made->page_,
      device.backend().pages().allocate_page(made->set_bytes_ * static_cast<std::int64_t>(sets)));
  for (std::size_t i = 0; i < sets; ++i) {
    made->sets_.push_back(
        made->set_at(made->page_.data + static_cast<std::int64_t>(i) * made->set_bytes_));
  }
  made->host_memory_.resize(static_cast<std::size_t>(made->set_bytes_ + kGuardBytes));
  const auto odd = reinterpret_cast<std::uintptr_t>(made->host_memory_.data()) %  // NOLINT
                   static_cast<std::uintptr_t>(kGuardBytes);
  made->host_ = made->set_at(made->host_memory_.data() + (odd == 0 ? 0 : kGuardBytes - odd));
  for (std::size_t i = 0; i < made->sets_.size(); ++i) {  // touches every page
    HEARTH_TRY_STATUS(device.upload(
        made->page_.data + static_cast<std::int64_t>(i) * made->set_bytes_,
        std::span(made->host_memory_).first(static_cast<std::size_t>(made->set_bytes_))));
  }
  return made;
}

Operands::~Operands() {
  if (page_.data != nullptr) {
    device_.backend().drain();
    device_.backend().pages().free_page(page_);
  }
}

Operands::Set Operands::set_at(std::byte* base) const {
  Set set;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const TensorView view{
        .data = base + offsets_[i], .layout = layouts_[i].get(), .dtype = specs_[i]->dtype};
    (i < problem_.inputs.size() ? set.inputs
     : i < input_count()        ? set.epilogue_inputs
                                : set.outputs)
        .push_back(view);
  }
  set.epilogue = {.expression = problem_.epilogue.get(),
                  .result = layouts_[input_count()].get(),
                  .inputs = set.epilogue_inputs};
  return set;
}

std::int64_t Operands::rotated_bytes() const noexcept {
  return sets_.size() == 1 ? 0 : set_bytes_ * static_cast<std::int64_t>(sets_.size());
}

KernelCall Operands::call_of(const Set& set) const noexcept {
  return {.op = OpView(record_, blob_.data()),
          .inputs = set.inputs,
          .outputs = set.outputs,
          .expression = problem_.expression.get(),
          .epilogue = problem_.epilogue ? &set.epilogue : nullptr,
          .custom = problem_.custom};
}

KernelCall Operands::call(std::size_t index) const noexcept {
  return call_of(sets_[index % sets_.size()]);
}

std::span<std::byte> Operands::host_bytes(std::size_t operand) noexcept {
  std::byte* const data = operand < problem_.inputs.size() ? host_.inputs[operand].data
                          : operand < input_count()
                              ? host_.epilogue_inputs[operand - problem_.inputs.size()].data
                              : host_.outputs[operand - input_count()].data;
  return {data, static_cast<std::size_t>(bytes_of(*specs_[operand]))};
}

Status Operands::fill(Data data) {
  Words words(17);
  for (std::size_t i = 0; i < input_count(); ++i) {
    fill_operand(host_bytes(i), *specs_[i], data, words);
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      std::byte* const to = page_.data + static_cast<std::int64_t>(set) * set_bytes_ + offsets_[i];
      HEARTH_TRY_STATUS(device_.upload(to, host_bytes(i)));
    }
  }
  return {};
}

Status Operands::clear_results() {
  for (std::size_t i = input_count(); i < specs_.size(); ++i) {
    const std::vector<std::byte> pattern(
        static_cast<std::size_t>(bytes_of(*specs_[i]) + 2 * kGuardBytes), kPattern);
    HEARTH_TRY_STATUS(device_.upload(page_.data + offsets_[i] - kGuardBytes, pattern));
  }
  return {};
}

Result<Operands::Results> Operands::results() {
  Results out;
  for (std::size_t i = input_count(); i < specs_.size(); ++i) {
    const auto size = static_cast<std::size_t>(bytes_of(*specs_[i]));
    constexpr auto kGuard = static_cast<std::size_t>(kGuardBytes);
    std::vector<std::byte> bytes(size + 2 * kGuard);
    HEARTH_TRY_STATUS(device_.download(bytes, page_.data + offsets_[i] - kGuardBytes));
    const auto is_other = [](std::byte each) { return each != kPattern; };
    const std::span<const std::byte> all(bytes);
    out.has_broken_guard |= std::ranges::any_of(all.first(kGuard), is_other) ||
                            std::ranges::any_of(all.last(kGuard), is_other);
    out.bytes.insert(out.bytes.end(), bytes.begin() + kGuard, bytes.end() - kGuard);
  }
  return out;
}

std::span<const std::byte> Operands::output(const Results& results,
                                            std::size_t index) const noexcept {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < index; ++i) {
    begin += static_cast<std::size_t>(bytes_of(problem_.outputs[i]));
  }
  return std::span(results.bytes)
      .subspan(begin, static_cast<std::size_t>(bytes_of(problem_.outputs[index])));
}

bool are_equal(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype) noexcept {
  if (a.size() != b.size()) {
    return false;
  }
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) {
    return true;
  }
  return visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < a.size(); i += sizeof(T)) {
      T x;
      T y;
      std::memcpy(&x, a.data() + i, sizeof(T));
      std::memcpy(&y, b.data() + i, sizeof(T));
      if (std::memcmp(&x, &y, sizeof(T)) != 0) {
        const auto value = [](T of) {
          if constexpr (requires { of.bits; }) {
            return static_cast<double>(static_cast<float>(of));
          } else {
            return static_cast<double>(of);
          }
        };
        if (!std::isnan(value(x)) || !std::isnan(value(y))) {
          return false;
        }
      }
    }
    return true;
  });
}

}  // namespace hearth::bench
