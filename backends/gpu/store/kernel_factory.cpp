#include "kernel_factory.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/checked_file.hpp>

namespace hearth::gpu {
namespace {

constexpr FileFormat kModules{.magic = {'H', 'S', 'P', 'I', 'R', 'V', '0', '0'}, .version = 3};
constexpr FileFormat kUsed{.magic = {'H', 'V', 'K', 'U', 'S', 'E', 'D', '0'}, .version = 3};

/// Limit of prepared kernels; some 0.1 ms each on NVIDIA.
constexpr std::size_t kMostPrepared = 512;

/// Limits of the files on disk: some KiB each.
constexpr std::size_t kMostModules = 8192;
constexpr std::size_t kMostPrograms = 256;

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

KernelFactory::KernelFactory(std::shared_ptr<KernelCompiler> compiler,
                             std::vector<std::uint64_t> failing,
                             std::uint64_t build)
    : compiler_(std::move(compiler)), build_(build), failing_(std::move(failing)) {
  open_folder();
  compiler_->open_cache(folder_);
}

// A file that is missing or damaged costs time only: its contents are made again.
void KernelFactory::open_folder() {
  const auto cache = cache_dir();
  kept_ = cache.status();
  if (!cache.has_value()) {
    return;
  }
  folder_ = cache.value() / compiler_->identity().folder;
  path_of_used_ = folder_ / used_name();
  kept_ = make_folder(folder_);
  if (kept_.has_value()) {
    kept_ = check_writable(path_of_used_);
  }
  load_used();
}

// Loads the list of used kernels, and the build that saved it.
void KernelFactory::load_used() {
  const auto file = read_checked_file(path_of_used_, kUsed);
  if (!file.has_value() || file.value().size() < sizeof build_) {
    return;
  }
  std::memcpy(&build_before_, file.value().data(), sizeof build_before_);
  const std::span<const std::byte> bytes = std::span(file.value()).subspan(sizeof build_before_);
  const Used none{.key = KernelKey(KernelFamily::custom)};
  used_before_.assign(std::min(bytes.size() / sizeof(Used), kMostPrepared), none);
  static_assert(std::is_trivially_copyable_v<Used>);
  std::memcpy(used_before_.data(), bytes.data(), used_before_.size() * sizeof(Used));
  knows_keys_ = build_before_ == build_ && build_ != 0 &&
                std::ranges::all_of(used_before_, &KernelKey::is_whole, &Used::key);
}

KernelFactory::~KernelFactory() {
  // The next process compiles files that were not written, for lack of room or of memory.
  try {
    static_cast<void>(take_unsaved().write());
  } catch (const std::exception&) {
  }
}

KernelCounts KernelFactory::counts() const noexcept {
  const hearth::detail::MutexLock lock(mutex_);
  return counts_;
}

std::filesystem::path KernelFactory::path_of(std::uint64_t hash) const {
  return modules() / fmt::format("{:016x}", hash);
}

// A program is identified by its executable. Lists of other programs do not help, nor lists for
// other options.
std::string KernelFactory::used_name() const {
  std::error_code failed;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", failed).string();
  const CompilerIdentity& identity = compiler_->identity();
  return fmt::format(
      "{}-{:016x}-{}.used", identity.card, xxh64(bytes_of(program)), identity.options);
}

// This device's kernels first, then earlier ones: a program may open several devices with
// different work.
void KernelFactory::add_used(CacheSave& to) {
  std::vector<Used> used;
  {
    const hearth::detail::MutexLock lock(mutex_);
    if (used_.size() == std::exchange(used_taken_, used_.size())) {
      return;
    }
    used = used_;
  }
  for (const Used& before : used_before_) {
    // An entry of another build has that build's key.
    if (build_before_ == build_ && std::ranges::find(used, before) == used.end()) {
      used.push_back(before);
    }
  }
  used.erase(used.begin() + static_cast<std::ptrdiff_t>(std::min(used.size(), kMostPrepared)),
             used.end());
  if (used == used_before_ && build_before_ == build_) {
    return;
  }
  const auto build = std::as_bytes(std::span(&build_, 1));
  const auto entries = std::as_bytes(std::span(used));
  std::vector<std::byte> bytes(build.begin(), build.end());
  bytes.insert(bytes.end(), entries.begin(), entries.end());
  to.add(path_of_used_, kUsed, std::move(bytes));
}

CacheSave KernelFactory::take_unsaved() {
  CacheSave files;
  if (folder_.empty()) {
    return files;
  }
  add_used(files);
  std::unordered_map<std::uint64_t, KernelModule> new_modules;
  {
    const hearth::detail::MutexLock lock(mutex_);
    if (!std::exchange(has_new_kernels_, false)) {
      return files;
    }
    new_modules.swap(unsaved_);
  }
  for (const auto& [hash, words] : new_modules) {
    // The hash in the file detects a file under another module's name.
    std::vector<std::byte> bytes(sizeof hash + words.size() * sizeof words[0]);
    std::memcpy(bytes.data(), &hash, sizeof hash);
    std::memcpy(bytes.data() + sizeof hash, words.data(), words.size() * sizeof words[0]);
    files.add(path_of(hash), kModules, std::move(bytes));
  }
  compiler_->add_unsaved(files);
  files.keep_most(modules(), "", kMostModules);
  files.keep_most(folder_, ".used", kMostPrograms);
  return files;
}

// A damaged file counts as missing.
std::optional<KernelModule> KernelFactory::module_on_disk(std::uint64_t hash) const {
  if (folder_.empty()) {
    return std::nullopt;
  }
  const auto file = read_checked_file(path_of(hash), kModules);
  std::uint64_t written = 0;
  if (!file.has_value() || file.value().size() < sizeof written) {
    return std::nullopt;
  }
  std::memcpy(&written, file.value().data(), sizeof written);
  if (written != hash) {
    return std::nullopt;
  }
  KernelModule words((file.value().size() - sizeof written) / sizeof(std::uint32_t));
  std::memcpy(
      words.data(), file.value().data() + sizeof written, words.size() * sizeof(std::uint32_t));
  return words;
}

Result<KernelModule> KernelFactory::module_of(KernelFamily family,
                                              const std::string& text,
                                              std::uint64_t hash) {
  {
    const hearth::detail::MutexLock lock(mutex_);
    if (const auto found = unsaved_.find(hash); found != unsaved_.end()) {
      return found->second;
    }
  }
  if (std::optional<KernelModule> words = module_on_disk(hash)) {
    HEARTH_TRY_STATUS(compiler_->check(family, *words));
    return *std::move(words);
  }
  HEARTH_TRY(KernelModule module, compiler_->compile(family, text));
  const hearth::detail::MutexLock lock(mutex_);
  unsaved_.emplace(hash, module);
  ++counts_.compiled;
  return module;
}

// Applies the fault plan of a test to the next kernel.
Status KernelFactory::begin() {
  const hearth::detail::MutexLock lock(mutex_);
  ++begun_;
  if (std::ranges::find(failing_, begun_) == failing_.end()) {
    return {};
  }
  return Error{.code = ErrorCode::kernel_failed,
               .text = fmt::format("compilation {} fails by the fault plan", begun_)};
}

Result<KernelHandle> KernelFactory::kernel(const KernelKey& key, const std::string& bare) {
  HEARTH_TRY_STATUS(begin());
  const std::string text = compiler_->whole_text(key.family(), bare);
  if (const KernelHandle prepared = find_whole(key, text); prepared != KernelHandle::none) {
    return prepared;
  }
  HEARTH_TRY(const KernelModule module, module_of(key.family(), text, hash_of(text)));
  return load(module);
}

Result<KernelHandle> KernelFactory::load(const KernelModule& module) {
  HEARTH_TRY(const KernelHandle kernel, compiler_->load(module));
  const hearth::detail::MutexLock lock(mutex_);
  ++counts_.kernels;
  has_new_kernels_ = true;
  return kernel;
}

std::uint64_t KernelFactory::hash_of(const std::string& text) const noexcept {
  return xxh64(bytes_of(text), compiler_->identity().compiler);
}

void KernelFactory::record_used(const Used& use) {
  if (std::ranges::find(used_, use) == used_.end()) {
    used_.push_back(use);
  }
}

KernelHandle KernelFactory::find_prepared(const KernelKey& key) {
  const hearth::detail::MutexLock lock(mutex_);
  const auto found = prepared_keys_.find(key);
  if (found == prepared_keys_.end()) {
    return KernelHandle::none;
  }
  record_used(used_before_[found->second.used_before]);
  return found->second.kernel;
}

KernelHandle KernelFactory::find_whole(const KernelKey& key, const std::string& text) {
  const Used use{.hash = hash_of(text), .key = key};
  const hearth::detail::MutexLock lock(mutex_);
  record_used(use);
  const auto found = prepared_.find(use.hash);
  return found != prepared_.end() ? found->second : KernelHandle::none;
}

void KernelFactory::prepare(const std::atomic<bool>& has_ended) {
  for (std::size_t i = next_.fetch_add(1, std::memory_order_relaxed); i < used_before_.size();
       i = next_.fetch_add(1, std::memory_order_relaxed)) {
    if (has_ended.load(std::memory_order_acquire)) {  // partner: ~CompilePool
      return;
    }
    const Used& use = used_before_[i];
    {
      const hearth::detail::MutexLock lock(mutex_);
      if (std::ranges::find(used_, use) != used_.end()) {
        continue;  // already requested
      }
    }
    const std::optional<KernelModule> module = module_on_disk(use.hash);
    if (!module) {
      continue;
    }
    if (const auto made = load(*module); made.has_value()) {
      const hearth::detail::MutexLock lock(mutex_);
      prepared_.emplace(use.hash, made.value());
      if (knows_keys_) {
        prepared_keys_.emplace(use.key, Prepared{made.value(), i});
      }
      ++counts_.prepared;
    }
  }
}

}  // namespace hearth::gpu
