#include "counted_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include <malloc.h>

namespace hearth::testing {
namespace {

std::atomic<std::size_t> live_bytes{0};
std::atomic<std::size_t> peak_bytes{0};

}  // namespace

MemoryPeak::MemoryPeak() noexcept : before_(live_bytes.load(std::memory_order_acquire)) {
  peak_bytes.store(before_, std::memory_order_release);
}

std::size_t MemoryPeak::bytes() const noexcept {
  return peak_bytes.load(std::memory_order_acquire) - before_;
}

// Null if the system is out of memory.
void* counted(std::size_t size) noexcept {
  void* const bytes = std::malloc(std::max<std::size_t>(size, 1));
  if (bytes == nullptr) {
    return nullptr;
  }
  const std::size_t taken = ::malloc_usable_size(bytes);
  const std::size_t now = live_bytes.fetch_add(taken, std::memory_order_acq_rel) + taken;
  std::size_t peak = peak_bytes.load(std::memory_order_acquire);
  while (peak < now && !peak_bytes.compare_exchange_weak(peak, now)) {
  }
  return bytes;
}

void* counted_or_throw(std::size_t size) {
  void* const bytes = counted(size);
  if (bytes == nullptr) {
    throw std::bad_alloc();
  }
  return bytes;
}

void release(void* bytes) noexcept {
  if (bytes != nullptr) {
    live_bytes.fetch_sub(::malloc_usable_size(bytes), std::memory_order_acq_rel);
    std::free(bytes);
  }
}

}  // namespace hearth::testing

// A sanitizer defines every form. All are replaced, so that no block is taken by its form and freed
// by ours.
void* operator new(std::size_t size) {
  return hearth::testing::counted_or_throw(size);
}
void* operator new[](std::size_t size) {
  return hearth::testing::counted_or_throw(size);
}
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return hearth::testing::counted(size);
}
void* operator new[](std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return hearth::testing::counted(size);
}
void operator delete(void* bytes) noexcept {
  hearth::testing::release(bytes);
}
void operator delete[](void* bytes) noexcept {
  hearth::testing::release(bytes);
}
void operator delete(void* bytes, std::size_t /*size*/) noexcept {
  hearth::testing::release(bytes);
}
void operator delete[](void* bytes, std::size_t /*size*/) noexcept {
  hearth::testing::release(bytes);
}
void operator delete(void* bytes, const std::nothrow_t& /*tag*/) noexcept {
  hearth::testing::release(bytes);
}
void operator delete[](void* bytes, const std::nothrow_t& /*tag*/) noexcept {
  hearth::testing::release(bytes);
}
