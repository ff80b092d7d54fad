#include "device_constants.hpp"

#include <algorithm>
#include <limits>

#include <hearth/runtime/base/assert.hpp>

namespace hearth {

class DeviceConstants::Kept final : public Constant {
 public:
  explicit Kept(DeviceConstants& owner) : owner_(owner) { owner_.all_.push_back(this); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() override {
    evict();
    std::erase(owner_.all_, this);
  }

  [[nodiscard]] const std::byte* find(const ConstantForm& form) const noexcept override {
    const auto found = std::ranges::find(entries_, form, &Entry::form);
    return found == entries_.end() ? nullptr : found->block.data;
  }

  // There are few forms: one for each way in which kernels read the tensor.
  [[nodiscard]] std::byte* keep(const ConstantForm& form,
                                std::int64_t size_bytes) noexcept override {
    constexpr std::size_t kMostForms = 64;
    Entry entry{.form = form, .block = {}};
    try {
      if (entries_.size() >= kMostForms || !owner_.acquire(size_bytes, entry.block)) {
        return nullptr;
      }
      entries_.push_back(entry);
    } catch (...) {  // kernels recompute data that is not kept
      if (entry.block.data != nullptr) {
        owner_.release(entry.block);
      }
      return nullptr;
    }
    return entry.block.data;
  }

  bool evict() noexcept {
    const bool had_any = !entries_.empty();
    for (const Entry& entry : entries_) {
      owner_.release(entry.block);
    }
    entries_.clear();
    return had_any;
  }
  void abandon() noexcept { entries_.clear(); }

 private:
  struct Entry {
    ConstantForm form;
    Block block;
  };

  DeviceConstants& owner_;
  std::vector<Entry> entries_;
};

DeviceConstants::~DeviceConstants() {
  HEARTH_ASSERT(all_.empty(), "a constant outlives its device");
}

std::unique_ptr<Constant> DeviceConstants::make() {
  return std::make_unique<Kept>(*this);
}

bool DeviceConstants::evict() noexcept {
  bool gave_any = false;
  for (Kept* const each : all_) {
    gave_any = each->evict() || gave_any;
  }
  has_evicted_ = has_evicted_ || gave_any;
  return gave_any;
}

void DeviceConstants::restart(MemoryStrategy& memory) noexcept {
  for (Kept* const each : all_) {
    each->abandon();
  }
  memory_ = &memory;
  kept_bytes_ = 0;
  most_bytes_.reset();
  has_evicted_ = false;
}

bool DeviceConstants::acquire(std::int64_t size_bytes, Block& block) {
  constexpr std::int64_t kShare = 4;
  if (has_evicted_) {
    return false;
  }
  if (!most_bytes_) {
    const std::int64_t budget = memory_->report().budget_bytes;  // 0: the strategy states none
    most_bytes_ = budget > 0 ? budget / kShare : std::numeric_limits<std::int64_t>::max();
  }
  if (size_bytes > *most_bytes_ - kept_bytes_ ||
      memory_->acquire(size_bytes, PoolKind::exclusive, block) != Acquire::ok ||
      block.data == nullptr) {
    return false;
  }
  kept_bytes_ += block.size_bytes;
  return true;
}

void DeviceConstants::release(const Block& block) noexcept {
  kept_bytes_ -= block.size_bytes;
  memory_->release(block, LastUse{});
}

}  // namespace hearth
