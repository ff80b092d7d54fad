#include "ahead.hpp"

#include <algorithm>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kLineBytes = 64;

std::int64_t lines_of(const MemoryRows& rows) noexcept {
  return (rows.size_bytes + kLineBytes - 1) / kLineBytes;
}

}  // namespace

void Ahead::add(const MemoryRows& rows) noexcept {
  rows_[count_++] = rows;
  lines_ += rows.count * lines_of(rows);
}

[[gnu::target("prfchw")]] void Ahead::fetch() noexcept {
  for (std::int64_t left = lines_a_call_; left > 0 && now_ < count_;) {
    const MemoryRows& rows = rows_[now_];
    const std::int64_t in_row = lines_of(rows);
    const std::int64_t end = std::min(line_ + left, in_row);
    left -= end - line_;
    const std::byte* const row = rows.first + row_ * rows.step;
    const std::byte* const from = row + line_ * kLineBytes;
    const std::byte* const to = row + end * kLineBytes;
    if (rows.is_written) {
      for (const std::byte* line = from; line < to; line += kLineBytes) {
        __builtin_prefetch(line, 1, 2);
      }
    } else {
      for (const std::byte* line = from; line < to; line += kLineBytes) {
        __builtin_prefetch(line, 0, 2);
      }
    }
    line_ = end;
    if (line_ == in_row) {
      line_ = 0;
      ++row_;
    }
    if (row_ >= rows.count) {
      row_ = 0;
      ++now_;
    }
  }
}

}  // namespace hearth::cpu
