// WaitList: the threads that wait for one event, in order of arrival. Shared by Mailbox, Pending
// and AsyncSim.
// Nodes are on the stacks of the waiting threads. The list belongs to a Mutex of its owner, which
// is held for every call. Wakers take a parker out under the lock and unpark it afterwards. The
// parker is counted, so a thread that has left meanwhile only finds a spare token.
#pragma once

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth::detail {

/// One waiting thread.
class WaitNode {
 public:
  WaitNode() : parker_(&current_context().parker()) {}
  WaitNode(const WaitNode&) = delete;
  WaitNode& operator=(const WaitNode&) = delete;
  ~WaitNode() { HEARTH_ASSERT(!linked_, "a waiter left without taking itself off its list"); }

  [[nodiscard]] WaitNode* next() const noexcept { return next_; }

 private:
  friend class WaitList;
  IntrusivePtr<Parker> parker_;
  WaitNode* previous_ = nullptr;
  WaitNode* next_ = nullptr;
  bool linked_ = false;
};

class WaitList final {
 public:
  WaitList() = default;
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;
  ~WaitList() = default;

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] WaitNode* first() const noexcept { return first_; }

  /// Appends a node; does nothing if it is in the list.
  void add(WaitNode& node) noexcept {
    if (node.linked_) {
      return;
    }
    node.linked_ = true;
    node.previous_ = last_;
    node.next_ = nullptr;
    (last_ != nullptr ? last_->next_ : first_) = &node;
    last_ = &node;
  }

  /// Removes a node; does nothing if a waker has removed it.
  void remove(WaitNode& node) noexcept {
    if (!node.linked_) {
      return;
    }
    node.linked_ = false;
    (node.previous_ != nullptr ? node.previous_->next_ : first_) = node.next_;
    (node.next_ != nullptr ? node.next_->previous_ : last_) = node.previous_;
  }

  /// Removes a node and returns its parker, to be unparked once the lock is released.
  [[nodiscard]] IntrusivePtr<Parker> take(WaitNode& node) noexcept {
    remove(node);
    return node.parker_;
  }
  /// Returns the parker of the longest waiting node; null if there is none.
  [[nodiscard]] IntrusivePtr<Parker> take_first() noexcept {
    return first_ != nullptr ? take(*first_) : IntrusivePtr<Parker>();
  }

 private:
  WaitNode* first_ = nullptr;
  WaitNode* last_ = nullptr;
};

}  // namespace hearth::detail
