// ServedModel: the place where client threads find the weights to use, and where new ones are put
// while they work. Each client has a Reader; between two requests it looks whether there are newer
// weights, without a lock while there are none. A request that began with the old weights ends with
// them: it sees one version, whole. Threads: publish() from any; a Reader is used by one at a time.
// The place outlives its readers. Invariant: versions only grow; a version's weights live until the
// place and all readers have gone on; all versions have the same names, shapes and types.
#pragma once

#include <hearth/parallel/frozen.hpp>
#include <hearth/runtime/base/sync.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hearth {

/// For a model that is no module.
template <class Model>
class ServedModel {
  static_assert(detail::refuse_no_module<Model>());

 public:
  template <class... Args>
  explicit ServedModel(const Args&... /*args*/) {}
};
template <class Model>
ServedModel(const Frozen<Model>&) -> ServedModel<Model>;

template <Module Model>
class ServedModel<Model> {
 public:
  explicit ServedModel(Frozen<Model> first) : newest_(std::move(first)) {}
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;
  ~ServedModel() = default;

  /// From each reader's next request on, these weights are used.
  ///
  /// Errors: ArgumentError naming the first tensor that is not as it was served until now: its
  /// name, its shape or its type; then those go on. Threads: any. Cost: a walk over both models, a
  /// lock and a few pointers; the old weights go when the last request that uses them is done.
  void publish(Frozen<Model> next, SourceLoc loc = SourceLoc::current()) HEARTH_EXCLUDES(mutex_) {
    std::uint64_t version = 0;
    detail::require_alike(all_tensors(*newest(version)), all_tensors(*next), loc);
    const detail::MutexLock lock(mutex_);
    std::swap(newest_, next);                          // what was there dies after the lock
    version_.fetch_add(1, std::memory_order_acq_rel);  // partner: Reader::current
  }
  /// How many times publish() was called, and one.
  [[nodiscard]] std::uint64_t version() const noexcept {
    return version_.load(std::memory_order_acquire);  // partner: publish
  }

  class Reader {
   public:
    explicit Reader(const ServedModel& place) : place_(&place), held_(place.newest(version_)) {}

    /// The weights of the next request; they stay as they are until the next call.
    ///
    /// Cost: one load while there are no newer ones.
    [[nodiscard]] const Frozen<Model>& current() {
      if (place_->version() != version_) {
        held_ = place_->newest(version_);
      }
      return held_;
    }
    /// Which version current() gave last.
    [[nodiscard]] std::uint64_t version() const noexcept { return version_; }

   private:
    const ServedModel* place_;
    std::uint64_t version_ = 0;
    Frozen<Model> held_;
  };

 private:
  /// Tied ones under each of their names: whether they are tied makes no difference here.
  [[nodiscard]] static std::vector<NamedTensor> all_tensors(const Model& model) {
    std::vector<NamedTensor> all;
    model.visit("", [&](const std::string& path, const Tensor& tensor) {
      all.push_back({path, tensor});
    });
    return all;
  }
  [[nodiscard]] Frozen<Model> newest(std::uint64_t& version) const HEARTH_EXCLUDES(mutex_) {
    const detail::MutexLock lock(mutex_);
    version = version_.load(std::memory_order_acquire);
    return newest_;
  }

  mutable detail::Mutex mutex_;
  Frozen<Model> newest_ HEARTH_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> version_{1};
};

}  // namespace hearth
