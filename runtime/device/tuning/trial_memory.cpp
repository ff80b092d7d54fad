#include "trial_memory.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <hearth/runtime/base/philox.hpp>

namespace hearth {
namespace {

constexpr std::int64_t kLine = 64;
constexpr std::byte kPattern{0xA5};
constexpr std::size_t kMostSets = 64;

std::int64_t whole_lines(std::int64_t bytes) noexcept {
  return (bytes + kLine - 1) / kLine * kLine;
}

/// The elements that a layout touches: `before` those in front of element [0, 0, …].
struct Extent {
  std::int64_t before = 0;
  std::int64_t count = 1;
};
Extent extent_of(const detail::Layout& layout) noexcept {
  Extent extent;
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    const std::int64_t reach =
        (layout.shape[axis] - 1) * layout.strides[static_cast<std::size_t>(axis)];
    extent.before += std::max<std::int64_t>(-reach, 0);
    extent.count += std::abs(reach);
  }
  return extent;
}

std::int64_t bytes_of(const WantedOperand& operand) noexcept {
  return whole_lines(extent_of(operand.layout).count * size_bytes(operand.dtype));
}

/// The bytes between the first and the last element of a view, these included.
std::span<std::byte> bytes_in(const TensorView& view) noexcept {
  const Extent extent = extent_of(*view.layout);
  const std::int64_t size = size_bytes(view.dtype);
  return {view.data - extent.before * size, static_cast<std::size_t>(extent.count * size)};
}

float normal_at(std::uint64_t index) noexcept {
  const philox::Block block = philox::rounds(
      {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32U), 0, 0},
      {0x7E57U, 0});
  // The sum of four uniform words has nearly the normal distribution.
  double sum = 0;
  for (const std::uint32_t word : block) {
    sum += static_cast<double>(word) / 4294967296.0 - 0.5;
  }
  return static_cast<float>(sum * 1.7320508);
}

float element_at(TrialData data, std::uint64_t index) noexcept {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::array kSpecial{0.0F,
                                -0.0F,
                                kInfinity,
                                -kInfinity,
                                std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::denorm_min()};
  switch (data) {
    case TrialData::one_hot:
      return index % 37 == 0 ? 1.0F : 0.0F;
    case TrialData::special:
      return index % 61 == 0 ? kSpecial[index / 61 % kSpecial.size()] : normal_at(index);
    case TrialData::normal:
      break;
  }
  return normal_at(index);
}

}  // namespace

std::int64_t bytes_of(const WantedCall& wanted) noexcept {
  std::int64_t bytes = 0;
  for (const WantedOperand& input : wanted.inputs) {
    bytes += bytes_of(input);
  }
  for (const WantedOperand& output : wanted.outputs) {
    bytes += bytes_of(output);
  }
  return bytes;
}

Result<TrialMemory> TrialMemory::make(Backend& backend,
                                      const WantedCall& wanted,
                                      std::int64_t rotated_bytes) {
  if (!backend.info().has_host_memory || !backend.info().runs_inline) {
    return Error{.code = ErrorCode::unsupported,
                 .text = "trials run on devices in host memory alone",
                 .device = backend.info().name};
  }
  TrialMemory memory(backend, wanted);
  memory.set_bytes_ =
      bytes_of(wanted) + 2 * kGuardBytes * static_cast<std::int64_t>(wanted.outputs.size());
  const auto count = std::clamp<std::size_t>(
      static_cast<std::size_t>((rotated_bytes + memory.set_bytes_ - 1) / memory.set_bytes_),
      1,
      kMostSets);
  HEARTH_TRY(memory.page_,
             backend.pages().allocate_page(static_cast<std::int64_t>(count) * memory.set_bytes_));
  std::byte* next = memory.page_.data;
  const auto place = [&next](const WantedOperand& operand) {
    std::byte* const first = next + extent_of(operand.layout).before * size_bytes(operand.dtype);
    next += bytes_of(operand);
    return TensorView{.data = first, .layout = &operand.layout, .dtype = operand.dtype};
  };
  for (std::size_t i = 0; i < count; ++i) {
    Set& set = memory.sets_.emplace_back();
    std::ranges::transform(wanted.inputs, std::back_inserter(set.inputs), place);
    for (const WantedOperand& output : wanted.outputs) {
      next += kGuardBytes;
      set.outputs.push_back(place(output));
      next += kGuardBytes;
    }
  }
  return memory;
}

TrialMemory::TrialMemory(TrialMemory&& other) noexcept
    : backend_(other.backend_),
      wanted_(other.wanted_),
      page_(std::exchange(other.page_, {})),
      set_bytes_(other.set_bytes_),
      sets_(std::move(other.sets_)) {}

TrialMemory::~TrialMemory() {
  if (page_.data != nullptr) {
    backend_->pages().free_page(page_);
  }
}

std::int64_t TrialMemory::rotated_bytes() const noexcept {
  return static_cast<std::int64_t>(sets_.size()) * set_bytes_;
}

KernelCall TrialMemory::call(std::size_t index) const noexcept {
  return {.op = OpView(wanted_->record, wanted_->blob.data()),
          .inputs = sets_[index].inputs,
          .outputs = sets_[index].outputs};
}

void TrialMemory::fill(TrialData data) {
  fill_first(data);
  for (std::size_t set = 1; set < sets_.size(); ++set) {
    for (std::size_t i = 0; i < sets_[set].inputs.size(); ++i) {
      const std::span<std::byte> from = bytes_in(sets_[0].inputs[i]);
      std::ranges::copy(from, bytes_in(sets_[set].inputs[i]).begin());
    }
  }
}

void TrialMemory::fill_first(TrialData data) {
  std::uint64_t index = 0;
  for (const TensorView& view : sets_[0].inputs) {
    const std::span<std::byte> bytes = bytes_in(view);
    visit_dtype(view.dtype, [&](auto zero) {
      using T = decltype(zero);
      const std::span<T> to(reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T));
      for (T& element : to) {
        element =
            static_cast<T>(element_at(is_float(view.dtype) ? data : TrialData::one_hot, index++));
      }
    });
  }
}

std::span<std::byte> TrialMemory::guarded(const TensorView& output) noexcept {
  const std::int64_t bytes = output.element_count() * size_bytes(output.dtype);
  return {output.data - kGuardBytes,
          static_cast<std::size_t>(whole_lines(bytes) + 2 * kGuardBytes)};
}

void TrialMemory::clear_results(std::size_t index) {
  for (const TensorView& output : sets_[index].outputs) {
    std::ranges::fill(guarded(output), kPattern);
  }
}

std::vector<std::byte> TrialMemory::results(std::size_t index) const {
  std::vector<std::byte> bytes;
  for (const TensorView& output : sets_[index].outputs) {
    bytes.insert(
        bytes.end(), output.data, output.data + output.element_count() * size_bytes(output.dtype));
  }
  return bytes;
}

// The bytes up to the end of the result's last line belong to the guard.
bool TrialMemory::are_guards_intact(std::size_t index) const {
  return std::ranges::all_of(sets_[index].outputs, [](const TensorView& output) {
    const std::span<const std::byte> all = guarded(output);
    const auto bytes = static_cast<std::size_t>(output.element_count() * size_bytes(output.dtype));
    const auto is_pattern = [](std::byte each) { return each == kPattern; };
    return std::ranges::all_of(all.first(kGuardBytes), is_pattern) &&
           std::ranges::all_of(all.subspan(kGuardBytes + bytes), is_pattern);
  });
}

bool TrialMemory::are_equal(std::span<const std::byte> a, std::span<const std::byte> b) const {
  if (std::ranges::equal(a, b)) {
    return true;
  }
  std::size_t place = 0;
  for (const WantedOperand& output : wanted_->outputs) {
    const auto size = static_cast<std::size_t>(size_bytes(output.dtype));
    const std::size_t end =
        place + static_cast<std::size_t>(output.layout.shape.element_count()) * size;
    for (; place < end; place += size) {
      const auto x = a.subspan(place, size);
      const auto y = b.subspan(place, size);
      const auto is_nan = [&](std::span<const std::byte> bytes) {
        return visit_dtype(output.dtype, [&](auto zero) {
          using T = decltype(zero);
          T value{};
          std::memcpy(&value, bytes.data(), sizeof value);
          return std::isnan(static_cast<double>(
              static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value)));
        });
      };
      if (!std::ranges::equal(x, y) && !(is_float(output.dtype) && is_nan(x) && is_nan(y))) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace hearth
