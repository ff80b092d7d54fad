// Copies of NVRTC. It compiles one text at a time, behind a lock of the whole library: 48 kernels
// took 2.3 s by one, two, four and eight threads of an H200's host, and 0.6 s by four threads with
// a copy each. The loader takes a file of another name for another library, with a lock of its
// own. Lifetime: a copy stays loaded until the process ends. Threads: any.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/sync.hpp>

#include "backends/cuda/driver/cuda_api.hpp"

namespace hearth::cuda {

class NvrtcCopies final {
 public:
  /// A copy that a thread compiles with. Gives it back at its end.
  class Use final {
   public:
    Use(NvrtcCopies& owner, std::size_t number, std::shared_ptr<const NvrtcApi> api) noexcept
        : owner_(owner), number_(number), api_(std::move(api)) {}
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { owner_.give_back(number_); }

    [[nodiscard]] const NvrtcApi& api() const noexcept { return *api_; }

   private:
    NvrtcCopies& owner_;
    std::size_t number_;
    std::shared_ptr<const NvrtcApi> api_;
  };

  explicit NvrtcCopies(std::shared_ptr<const NvrtcApi> original);
  /// The copies of a library, which all devices of the process share.
  [[nodiscard]] static std::shared_ptr<NvrtcCopies> of(
      const std::shared_ptr<const NvrtcApi>& original);

  /// An idle copy, or a new one up to kMost. Where no file can be copied, threads share those that
  /// there are, and `log`, which may be null, gets one warning with the reason.
  [[nodiscard]] Use take(hearth::detail::Log* log) HEARTH_EXCLUDES(mutex_);

  /// A copy takes some 60 ms to open, and 110 MB of the page cache.
  static constexpr std::size_t kMost = 4;

 private:
  struct Copy {
    std::shared_ptr<const NvrtcApi> api;
    int users = 0;
  };
  void give_back(std::size_t number) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::size_t least_used() const HEARTH_REQUIRES(mutex_);

  hearth::detail::Mutex mutex_;
  std::vector<Copy> copies_ HEARTH_GUARDED_BY(mutex_);
  std::size_t planned_ HEARTH_GUARDED_BY(mutex_) = 1;  ///< Copies that are open or being opened.
  bool has_failed_ HEARTH_GUARDED_BY(mutex_) = false;  ///< A copy could not be opened.
};

}  // namespace hearth::cuda
