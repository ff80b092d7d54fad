// Makes kernels from texts, and keeps them from one run of a program to the next. Modules lie on
// disk by the hash of their text. No text is thus compiled twice. A list of the kernels that a
// program used lets its next run prepare them. Without a cache folder nothing is kept.
// Threads: any.
// Invariant: kernels live as long as the factory.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <hearth/runtime/base/sync.hpp>

#include "backends/gpu/encoder/kernel_key.hpp"
#include "build_id.hpp"
#include "cache_save.hpp"
#include "kernel_compiler.hpp"

namespace hearth::gpu {

struct KernelCounts {
  std::uint64_t kernels = 0;   ///< Kernels that this process made.
  std::uint64_t compiled = 0;  ///< Modules compiled from a text that was on no disk.
  std::uint64_t prepared = 0;  ///< Kernels made by prepare().
};

class KernelFactory final {
 public:
  /// `failing`: these kernels fail, counted from 1, for tests. `build`: the build of the library to
  /// which keys belong; 0: unknown.
  explicit KernelFactory(std::shared_ptr<KernelCompiler> compiler,
                         std::vector<std::uint64_t> failing = {},
                         std::uint64_t build = build_id());
  /// Saves new data that take_unsaved() did not take.
  ~KernelFactory();
  KernelFactory(const KernelFactory&) = delete;
  KernelFactory& operator=(const KernelFactory&) = delete;

  /// Errors: those of KernelCompiler::compile() and load().
  [[nodiscard]] Result<KernelHandle> kernel(const KernelKey& key, const std::string& bare)
      HEARTH_EXCLUDES(mutex_);
  /// The prepared kernel of a text, or none. If this build left it on disk, the key identifies it,
  /// and the text is not needed.
  [[nodiscard]] KernelHandle find_prepared(const KernelKey& key) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] KernelHandle find_prepared(const KernelKey& key, const std::string& bare)
      HEARTH_EXCLUDES(mutex_) {
    return find_whole(key, compiler_->whole_text(key.family(), bare));
  }
  /// Number of kernels that this program used in earlier runs.
  [[nodiscard]] std::size_t known_count() const noexcept { return used_before_.size(); }
  /// Makes the known kernels until `has_ended`, each once, on any number of threads. A failure is
  /// left to the first caller that needs the kernel.
  void prepare(const std::atomic<bool>& has_ended) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] KernelCounts counts() const noexcept HEARTH_EXCLUDES(mutex_);
  /// New data for the disk. Called at the end, when no thread makes kernels.
  [[nodiscard]] CacheSave take_unsaved() HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] const std::string& device_name() const noexcept {
    return compiler_->identity().device;
  }
  /// Success if modules are kept on disk, else the reason.
  [[nodiscard]] const Status& kept() const noexcept { return kept_; }

 private:
  /// A text that a program used.
  struct Used {
    std::uint64_t hash = 0;
    KernelKey key;  ///< Valid for the build that saved it.

    friend bool operator==(const Used& a, const Used& b) noexcept { return a.hash == b.hash; }
  };
  struct Prepared {
    KernelHandle kernel = KernelHandle::none;
    std::size_t used_before = 0;  ///< Index in used_before_.
  };

  void open_folder();
  /// find_prepared() for a text from KernelCompiler::whole_text().
  [[nodiscard]] KernelHandle find_whole(const KernelKey& key, const std::string& text)
      HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t hash_of(const std::string& text) const noexcept;
  void load_used();
  void record_used(const Used& use) HEARTH_REQUIRES(mutex_);
  void add_used(CacheSave& to) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::string used_name() const;
  [[nodiscard]] std::optional<KernelModule> module_on_disk(std::uint64_t hash) const;
  [[nodiscard]] Result<KernelHandle> load(const KernelModule& module) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] Status begin() HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] Result<KernelModule> module_of(KernelFamily family,
                                               const std::string& text,
                                               std::uint64_t hash) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::filesystem::path modules() const {
    return folder_ / compiler_->identity().modules;
  }
  [[nodiscard]] std::filesystem::path path_of(std::uint64_t hash) const;

  std::shared_ptr<KernelCompiler> compiler_;
  Status kept_;
  std::filesystem::path folder_;  ///< Empty: nothing is kept.
  mutable hearth::detail::Mutex mutex_;
  /// By the hash of their text.
  std::unordered_map<std::uint64_t, KernelModule> unsaved_ HEARTH_GUARDED_BY(mutex_);
  bool has_new_kernels_ HEARTH_GUARDED_BY(mutex_) = false;
  std::vector<Used> used_ HEARTH_GUARDED_BY(mutex_);  ///< In the order of their first use.
  std::size_t used_taken_ HEARTH_GUARDED_BY(mutex_) = 0;
  std::vector<Used> used_before_;  ///< Used by earlier runs of this program, the last run's first.
  std::atomic<std::size_t> next_{0};  ///< Index of the next one to prepare.
  std::filesystem::path path_of_used_;
  const std::uint64_t build_;
  std::uint64_t build_before_ = 0;  ///< The build that left used_before_.
  bool knows_keys_ = false;         ///< The keys of used_before_ are this build's.
  /// By the hash of their text, and by their keys.
  std::unordered_map<std::uint64_t, KernelHandle> prepared_ HEARTH_GUARDED_BY(mutex_);
  std::unordered_map<KernelKey, Prepared, KernelKeyHash> prepared_keys_ HEARTH_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> failing_;
  std::uint64_t begun_ HEARTH_GUARDED_BY(mutex_) = 0;
  KernelCounts counts_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::gpu
