// Names of shaders: the words that determine a shader's text. Equal keys have equal texts, so a
// known key needs no text. Values. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/dtype.hpp>

namespace hearth::gpu {

/// The files of kernels; each gives its key words their meaning.
enum class KernelFamily : std::uint32_t {
  pointwise,
  rows,
  movement,
  indexing,
  reduction,
  softmax,
  cross_entropy,
  scan,
  topk,
  matmul,
  convolution,
  pooling,
  attention,
  guards,
  custom,
  interpreter,
  side_copy,
};

class KernelKey final {
 public:
  static constexpr std::size_t kMostWords = 40;

  explicit KernelKey(KernelFamily family) noexcept { add(static_cast<std::uint32_t>(family)); }

  KernelKey& add(std::uint32_t word) noexcept {
    HEARTH_ASSERT(count_ < kMostWords, "a shader's key has too many words");
    words_[count_++] = word;
    hash_ = (hash_ ^ word) * 0x9E3779B97F4A7C15U;
    hash_ ^= hash_ >> 29U;
    return *this;
  }
  KernelKey& add(int word) noexcept { return add(static_cast<std::uint32_t>(word)); }
  KernelKey& add(bool word) noexcept { return add(word ? 1U : 0U); }
  KernelKey& add(DType dtype) noexcept { return add(static_cast<std::uint32_t>(dtype)); }
  KernelKey& add(std::uint64_t word) noexcept {
    return add(static_cast<std::uint32_t>(word)).add(static_cast<std::uint32_t>(word >> 32U));
  }

  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] KernelFamily family() const noexcept {
    return static_cast<KernelFamily>(words_[0]);
  }
  /// True if the key, as read from a disk, may be valid.
  [[nodiscard]] bool is_whole() const noexcept { return count_ > 0 && count_ <= kMostWords; }
  friend bool operator==(const KernelKey&, const KernelKey&) noexcept = default;

 private:
  std::array<std::uint32_t, kMostWords> words_{};
  std::uint64_t hash_ = 0xCBF29CE484222325U;
  std::uint32_t count_ = 0;
};

struct KernelKeyHash {
  std::size_t operator()(const KernelKey& key) const noexcept { return key.hash(); }
};

/// Makes a shader's text, for an unknown key. Borrows the function.
class KernelText final {
 public:
  template <class Make>
  // NOLINTNEXTLINE(google-explicit-constructor): a lambda, where it is called
  KernelText(const Make& make) noexcept
      : object_(&make), call_([](const void* object) -> std::string {
          return (*static_cast<const Make*>(object))();
        }) {}
  [[nodiscard]] std::string operator()() const { return call_(object_); }

 private:
  const void* object_;
  std::string (*call_)(const void*);
};

}  // namespace hearth::gpu
