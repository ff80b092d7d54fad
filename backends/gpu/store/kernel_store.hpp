// The kernels of a device by key. The caller makes them where it needs them, or a pool of threads
// does while the device goes on without them. Threads: owner only. Invariant: kernels live as
// long as the store.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/gpu/encoder/kernel_key.hpp"
#include "compile_pool.hpp"
#include "kernel_factory.hpp"

namespace hearth::gpu {

class KernelStore final {
 public:
  /// Without an executor the caller makes every kernel. `failing`: these kernels fail, counted from
  /// 1, for tests. Lifetime: executors outlive the store.
  KernelStore(std::shared_ptr<KernelCompiler> compiler,
              hearth::detail::Executor* executor,
              std::vector<std::uint64_t> failing = {},
              const SaveTerms& saving = {});
  KernelStore(const KernelStore&) = delete;
  KernelStore& operator=(const KernelStore&) = delete;
  /// Saves new data, within the limit.
  ~KernelStore();

  /// The kernel of a key. Calls `text` for a new key. A failed key fails again.
  ///
  /// Errors: those of KernelFactory::kernel.
  [[nodiscard]] Result<KernelHandle> kernel(const KernelKey& key, KernelText text);
  /// The kernel of a key, or null while the pool makes it. Makes it here if the pool has no
  /// thread.
  [[nodiscard]] Result<KernelHandle> kernel_if_made(const KernelKey& key, KernelText text);
  /// True if the kernel is made, or has failed.
  [[nodiscard]] bool has(const KernelKey& key) const;
  [[nodiscard]] bool has_pool() const noexcept { return pool_ != nullptr; }
  [[nodiscard]] KernelCounts counts() const noexcept { return factory_->counts(); }
  /// Drops the log, which ends before the store.
  void forget_log() noexcept { saving_.log = nullptr; }
  /// Success if compiled kernels are kept on disk, else the reason.
  [[nodiscard]] Status kept() const { return factory_->kept(); }

 private:
  struct Made {
    KernelHandle kernel = KernelHandle::none;
    Status status = {};
    std::shared_ptr<KernelJob> job = nullptr;  ///< Set while the kernel is made.

    [[nodiscard]] Result<KernelHandle> answer() const {
      return status.has_value() ? Result<KernelHandle>(kernel) : Result<KernelHandle>(status);
    }
  };

  [[nodiscard]] static Made made_of(const Result<KernelHandle>& kernel) {
    return {.kernel = kernel.has_value() ? kernel.value() : KernelHandle::none,
            .status = kernel.status()};
  }

  std::shared_ptr<KernelFactory> factory_;
  SaveTerms saving_;
  std::unordered_map<KernelKey, Made, KernelKeyHash> made_;
  std::unique_ptr<CompilePool> pool_;  ///< Null: no pool.
};

}  // namespace hearth::gpu
