// ServedModel: holds the weights that client threads use, and replaces them while they work. Each
// client has a Reader. Between two requests it checks for newer weights, without a lock if there
// are none. A request uses one version, whole: it ends with the weights with which it began.
// Threads: publish() from any; each Reader is used by one thread at a time. The ServedModel
// outlives its readers.
// Invariants: (1) versions only grow; (2) a version's weights live until the ServedModel and all
// readers have replaced them; (3) all versions have the same names, shapes and types.
#pragma once

#include <hearth/parallel/frozen.hpp>
#include <hearth/runtime/base/sync.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hearth {

/// Rejects a model that is no Module, with a readable message.
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

  /// Replaces the weights; each reader uses them from its next request on.
  ///
  /// Errors: ArgumentError naming the first tensor whose name, shape or type differs from the
  /// served one; then the old weights stay.
  /// Threads: any.
  /// Cost: a walk over both models, a lock and a few pointers. The old weights are released when
  /// the last request that uses them has ended.
  void publish(Frozen<Model> next, SourceLoc loc = SourceLoc::current()) HEARTH_EXCLUDES(mutex_) {
    std::uint64_t version = 0;
    detail::require_alike(all_tensors(*newest(version)), all_tensors(*next), loc);
    const detail::MutexLock lock(mutex_);
    std::swap(newest_, next);  // the old weights are destroyed after the lock
    version_.fetch_add(1, std::memory_order_acq_rel);  // partner: Reader::current
  }
  /// Number of publish() calls, plus one.
  [[nodiscard]] std::uint64_t version() const noexcept {
    return version_.load(std::memory_order_acquire);  // partner: publish
  }

  class Reader {
   public:
    explicit Reader(const ServedModel& place) : place_(&place), held_(place.newest(version_)) {}

    /// Returns the weights for the next request; they stay unchanged until the next call.
    ///
    /// Cost: one load if there are no newer weights.
    [[nodiscard]] const Frozen<Model>& current() {
      if (place_->version() != version_) {
        held_ = place_->newest(version_);
      }
      return held_;
    }
    /// Returns the weights that current() returned last.
    [[nodiscard]] const Frozen<Model>& held() const noexcept { return held_; }
    /// Version of the weights that current() returned last.
    [[nodiscard]] std::uint64_t version() const noexcept { return version_; }

   private:
    const ServedModel* place_;
    std::uint64_t version_ = 0;
    Frozen<Model> held_;
  };

 private:
  /// Lists tied tensors under each of their names: publish() need not know that they are tied.
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
