// A CPU device's cores: parallel loops over them. Built on an oneTBB arena pinned to the cores; one
// core means a plain loop. Threads: owner only (the token holder calls parallel_for; the loop body
// runs on several threads).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace hearth::cpu {

class Arena {
 public:
  /// `cores` are the logical CPUs of this device, at least one. serial = true: never fork (manual
  /// executor).
  explicit Arena(std::vector<int> cores, bool serial = false);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  [[nodiscard]] int core_count() const noexcept { return static_cast<int>(cores_.size()); }
  [[nodiscard]] const std::vector<int>& cores() const noexcept { return cores_; }

  /// Calls body(begin, end) for consecutive ranges of at most `grain` items that cover [0, count).
  /// Ranges depend on count and grain only. Runs inline when there is one range or one core. body
  /// must not throw.
  template <class Body>
  void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
    if (count <= 0) {
      return;
    }
    if (count <= grain || cores_.size() == 1 || serial_) {
      for (std::int64_t begin = 0; begin < count; begin += grain) {
        body(begin, begin + grain < count ? begin + grain : count);
      }
      return;
    }
    fork(
        count,
        grain,
        [](const void* context, std::int64_t begin, std::int64_t end) {
          (*static_cast<const Body*>(context))(begin, end);
        },
        &body);
  }

 private:
  using RangeFn = void (*)(const void* context, std::int64_t begin, std::int64_t end);
  void fork(std::int64_t count, std::int64_t grain, RangeFn fn, const void* context);

  struct Impl;
  std::vector<int> cores_;
  bool serial_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hearth::cpu
