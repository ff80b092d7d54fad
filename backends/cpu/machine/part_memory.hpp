// Memory for the running parts of a loop: as many pieces as parts run at a time; a part claims a
// free piece. Private to backends/cpu. The kernel creates it in its scratch memory. Threads: any
// thread claims and releases pieces.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace hearth::cpu {

class PartMemory {
 public:
  /// Returns the size of the memory for `pieces` pieces.
  [[nodiscard]] static constexpr std::int64_t bytes(std::int64_t pieces,
                                                    std::int64_t piece_bytes) noexcept {
    return flag_bytes(pieces) + pieces * whole_lines(piece_bytes);
  }

  PartMemory() noexcept = default;
  /// `memory` has bytes() bytes and outlives this. At most `pieces` parts are alive at a time.
  PartMemory(std::byte* memory, std::int64_t pieces, std::int64_t piece_bytes) noexcept
      : flags_(reinterpret_cast<Flag*>(memory)),
        first_(memory + flag_bytes(pieces)),
        pieces_(pieces),
        piece_bytes_(whole_lines(piece_bytes)) {
    for (std::int64_t i = 0; i < pieces; ++i) {
      new (flags_ + i) Flag(0);
    }
  }

  /// Owns one piece while it lives.
  class Part {
   public:
    explicit Part(const PartMemory& of) noexcept : of_(of) {
      while (of_.flags_[piece_].exchange(1, std::memory_order_acquire) != 0) {
        piece_ = (piece_ + 1) % of_.pieces_;
      }
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    ~Part() { of_.flags_[piece_].store(0, std::memory_order_release); }  // partner: the exchange

    [[nodiscard]] std::byte* data() const noexcept {
      return of_.first_ + piece_ * of_.piece_bytes_;
    }

   private:
    const PartMemory& of_;
    std::int64_t piece_ = 0;
  };

 private:
  using Flag = std::atomic<std::uint32_t>;
  static constexpr std::int64_t whole_lines(std::int64_t bytes) noexcept {
    constexpr std::int64_t kLine = 64;
    return (bytes + kLine - 1) / kLine * kLine;
  }
  static constexpr std::int64_t flag_bytes(std::int64_t pieces) noexcept {
    return whole_lines(pieces * static_cast<std::int64_t>(sizeof(Flag)));
  }

  Flag* flags_ = nullptr;
  std::byte* first_ = nullptr;
  std::int64_t pieces_ = 0;
  std::int64_t piece_bytes_ = 0;
};

}  // namespace hearth::cpu
