#include "kernel_store.hpp"

#include <exception>
#include <utility>

namespace hearth::gpu {

// A test with planned failures counts its kernels, so it prepares none.
KernelStore::KernelStore(std::shared_ptr<KernelCompiler> compiler,
                         hearth::detail::Executor* executor,
                         std::vector<std::uint64_t> failing,
                         const SaveTerms& saving)
    : saving_(saving) {
  const bool prepares = compiler->identity().loads_fast && failing.empty();
  factory_ = std::make_shared<KernelFactory>(std::move(compiler), std::move(failing));
  if (executor != nullptr) {
    pool_ = std::make_unique<CompilePool>(*executor, factory_);
    if (prepares) {
      pool_->prepare();
    }
  }
}

// A thread that the pool abandoned is in the driver, which cannot serialise a cache meanwhile. The
// factory then saves when that thread ends.
KernelStore::~KernelStore() {
  pool_.reset();
  if (factory_.use_count() > 1) {
    return;
  }
  try {
    CacheSave::write_within(factory_->take_unsaved(), saving_, factory_->device_name());
  } catch (const std::exception&) {
    // Out of memory: the next run compiles it again.
  }
}

Result<KernelHandle> KernelStore::kernel(const KernelKey& key, KernelText text) {
  if (const auto found = made_.find(key); found != made_.end()) [[likely]] {
    if (found->second.job != nullptr) {
      Result<KernelHandle> made = found->second.job->result(*factory_);
      if (!found->second.job->is_done()) {
        return made;  // timed out; may be ready later
      }
      found->second = made_of(made);
    }
    return found->second.answer();
  }
  if (const KernelHandle prepared = factory_->find_prepared(key); prepared != KernelHandle::none) {
    made_.emplace(key, Made{.kernel = prepared});
    return prepared;
  }
  Result<KernelHandle> kernel = factory_->kernel(key, text());
  made_.emplace(key, made_of(kernel));
  return kernel;
}

Result<KernelHandle> KernelStore::kernel_if_made(const KernelKey& key, KernelText text) {
  if (const auto found = made_.find(key); found != made_.end()) [[likely]] {
    if (found->second.job != nullptr && found->second.job->is_done()) {
      found->second = made_of(found->second.job->result(*factory_));
    }
    return found->second.answer();
  }
  KernelHandle prepared = factory_->find_prepared(key);
  std::string whole;
  if (prepared == KernelHandle::none) {
    whole = text();
    prepared = factory_->find_prepared(key, whole);
  }
  if (prepared != KernelHandle::none) {
    made_.emplace(key, Made{.kernel = prepared});
    return prepared;
  }
  auto job = std::make_shared<KernelJob>(key, std::move(whole));
  if (!pool_->add(job)) {
    return kernel(key, text);
  }
  made_.emplace(key, Made{.job = std::move(job)});
  return KernelHandle::none;
}

bool KernelStore::has(const KernelKey& key) const {
  const auto found = made_.find(key);
  return found != made_.end() && (found->second.job == nullptr || found->second.job->is_done());
}

}  // namespace hearth::gpu
