// Runs a kernel that g++ has compiled, block by block. The threads of a block are fibers, which
// switch at barriers and shuffles. A seed gives their order, so a missing barrier shows.
// Threads: one at a time.
#pragma once

#include "host_machine_thread.hpp"

#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace hearth::testing {

/// Stacks of fibers, which are used again.
class StackPool final {
 public:
  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool() {
    for (void* const stack : free_) {
      std::free(stack);
    }
  }
  /// An allocator for Boost.Context: copies refer to one pool.
  struct Allocator {
    StackPool* pool;
    boost::context::stack_context allocate() {
      boost::context::stack_context stack;
      stack.size = kBytes;
      void* bottom = nullptr;
      if (pool->free_.empty()) {
        bottom = std::malloc(kBytes);
      } else {
        bottom = pool->free_.back();
        pool->free_.pop_back();
      }
      stack.sp = static_cast<char*>(bottom) + kBytes;
      return stack;
    }
    void deallocate(boost::context::stack_context& stack) noexcept {
      pool->free_.push_back(static_cast<char*>(stack.sp) - kBytes);
    }
  };

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 10U;
  std::vector<void*> free_;
};

/// A kernel of a loaded library.
struct HostKernel {
  void (*entry)(const void* parameters) = nullptr;
  HostThread** current = nullptr;  ///< The library's pointer to the running thread.
  unsigned parameter_bytes = 0;
};

class HostBlock final {
 public:
  explicit HostBlock(std::uint64_t seed) : random_(seed) {}
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;

  /// Runs all blocks of a launch.
  void run(const HostKernel& kernel,
           unsigned grid_x,
           unsigned grid_y,
           unsigned threads,
           const void* parameters) {
    running() = this;
    for (unsigned y = 0; y < grid_y; ++y) {
      for (unsigned x = 0; x < grid_x; ++x) {
        run_block(kernel, y * 0x7fffffffU + x, threads, parameters);
      }
    }
    running() = nullptr;
  }

 private:
  enum class Wait : std::uint8_t { none, barrier, warp, ended };
  struct Thread {
    HostThread state;
    boost::context::fiber fiber;
    Wait wait = Wait::none;
    unsigned sent = 0;  ///< The thread's value for a shuffle.
  };

  static HostBlock*& running() {
    static HostBlock* block = nullptr;
    return block;
  }

  void run_block(const HostKernel& kernel,
                 unsigned group,
                 unsigned threads,
                 const void* parameters) {
    threads_.clear();
    threads_.resize(threads);
    for (unsigned i = 0; i < threads; ++i) {
      Thread& thread = threads_[i];
      thread.state = {
          .thread = i,
          .group = group,
          .barrier = [] { running()->pause(Wait::barrier); },
          .warp_barrier = [] { running()->pause(Wait::warp); },
          .shuffle_xor = [](unsigned x, unsigned bits) { return running()->shuffle(x, bits); }};
      thread.fiber =
          boost::context::fiber(std::allocator_arg,
                                StackPool::Allocator{&stacks_},
                                [this, &kernel, parameters](boost::context::fiber&& from) {
                                  from_ = std::move(from);
                                  kernel.entry(parameters);
                                  now_->wait = Wait::ended;
                                  return std::move(from_);
                                });
    }
    while (step_all(kernel)) {
    }
  }

  // Resumes each thread that may go on. Returns false when all have ended.
  bool step_all(const HostKernel& kernel) {
    order_.clear();
    for (Thread& thread : threads_) {
      if (thread.wait == Wait::none) {
        order_.push_back(&thread);
      }
    }
    if (order_.empty()) {
      return release();
    }
    std::shuffle(order_.begin(), order_.end(), random_);
    for (Thread* const thread : order_) {
      now_ = thread;
      *kernel.current = &thread->state;
      thread->fiber = std::move(thread->fiber).resume();
    }
    return true;
  }

  // No thread can go on: lets those go on whose partners wait at the same place.
  bool release() {
    const auto count = [this](Wait wait) {
      return static_cast<std::size_t>(
          std::count_if(threads_.begin(), threads_.end(), [wait](const Thread& thread) {
            return thread.wait == wait;
          }));
    };
    if (count(Wait::ended) == threads_.size()) {
      return false;
    }
    // A warp's threads that have not ended all wait for the warp, or for the block.
    bool has_released = false;
    for (std::size_t first = 0; first < threads_.size(); first += kWarp) {
      const std::size_t end = std::min(first + kWarp, threads_.size());
      const bool is_whole =
          std::all_of(threads_.begin() + static_cast<std::ptrdiff_t>(first),
                      threads_.begin() + static_cast<std::ptrdiff_t>(end),
                      [](const Thread& thread) { return thread.wait == Wait::warp; });
      for (std::size_t i = first; is_whole && i < end; ++i) {
        threads_[i].wait = Wait::none;
        has_released = true;
      }
    }
    if (has_released) {
      return true;
    }
    if (count(Wait::warp) != 0) {
      std::fputs("host_block: threads of a warp wait for one that never comes\n", stderr);
      std::abort();
    }
    // A block's barrier does not count threads that have ended.
    for (Thread& thread : threads_) {
      thread.wait = thread.wait == Wait::barrier ? Wait::none : thread.wait;
    }
    return true;
  }

  void pause(Wait wait) {
    now_->wait = wait;
    from_ = std::move(from_).resume();
  }

  // Two pauses: all threads have sent before any reads, and all have read before any sends again.
  unsigned shuffle(unsigned x, unsigned bits) {
    Thread& own = *now_;
    own.sent = x;
    pause(Wait::warp);
    const unsigned received = threads_[own.state.thread ^ bits].sent;
    pause(Wait::warp);
    return received;
  }

  static constexpr std::size_t kWarp = 32;

  std::mt19937_64 random_;
  StackPool stacks_;  // outlives the fibers
  std::vector<Thread> threads_;
  std::vector<Thread*> order_;
  Thread* now_ = nullptr;
  boost::context::fiber from_;  ///< The scheduler, while a fiber runs.
};

}  // namespace hearth::testing
