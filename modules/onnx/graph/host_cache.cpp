#include "host_cache.hpp"

#include <algorithm>
#include <bit>
#include <memory>

namespace hearth::onnx {
namespace {

constexpr std::int64_t kMostKeyElements = 256;

bool add_host(const HostArray& array, std::vector<std::int64_t>& key) {
  if (has_strings(array) || array.shape.element_count() > kMostKeyElements) {
    return false;
  }
  if (has_reals(array)) {
    for (const double value : array.reals()) {
      key.push_back(std::bit_cast<std::int64_t>(value));
    }
  } else {
    key.insert(key.end(), array.integers().begin(), array.integers().end());
  }
  return true;
}

}  // namespace

std::vector<std::int64_t> cache_key(std::span<const OnnxValue> inputs) {
  std::vector<std::int64_t> key;
  key.reserve(inputs.size() * 6 + 1);
  for (const OnnxValue& input : inputs) {
    if (input.is_none() || input.is_sequence()) {
      return {};
    }
    const Shape& shape = input.shape();
    key.push_back(static_cast<std::int64_t>(input.type()) * 32 + shape.rank() * 2 +
                  (input.has_host() ? 1 : 0));
    key.insert(key.end(), shape.dims().begin(), shape.dims().end());
    if (input.has_host() && !add_host(input.host(), key)) {
      return {};
    }
  }
  key.push_back(static_cast<std::int64_t>(inputs.size()));
  return key;
}

HostCache::~HostCache() {
  for (std::atomic<const Entry*>& entry : entries_) {
    delete entry.load(std::memory_order_acquire);  // NOLINT: owned since add() released it
  }
}

const KnownValues* HostCache::find(std::span<const std::int64_t> key) const noexcept {
  if (key.empty()) {
    return nullptr;
  }
  for (const std::atomic<const Entry*>& slot : entries_) {
    // Acquires what add() published.
    const Entry* const entry = slot.load(std::memory_order_acquire);
    if (entry == nullptr) {
      return nullptr;
    }
    if (std::ranges::equal(entry->key, key)) {
      return &entry->values;
    }
  }
  return nullptr;
}

void HostCache::add(std::vector<std::int64_t> key, KnownValues values) {
  if (key.empty()) {
    return;
  }
  auto added = std::make_unique<const Entry>(Entry{std::move(key), std::move(values)});
  for (std::atomic<const Entry*>& slot : entries_) {
    const Entry* found = nullptr;
    // Publishes the entry to find(); on failure acquires the entry of the thread that was first.
    if (slot.compare_exchange_strong(
            found, added.get(), std::memory_order_release, std::memory_order_acquire)) {
      static_cast<void>(added.release());
      return;
    }
    if (found->key == added->key) {
      return;
    }
  }
}

}  // namespace hearth::onnx
