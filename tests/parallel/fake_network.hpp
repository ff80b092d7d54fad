// A message layer between the threads of one test, each of which plays a process.
// Shared by the threads. Threads: any; a FakeTransport's are those of its group.
#pragma once

#include <hearth/parallel/process_group.hpp>
#include <hearth/parallel/process_transport.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace hearth::testing {

class FakeNetwork final {
 public:
  explicit FakeNetwork(int size) : size_(size) {
    for (int link = 0; link < size * size * kChannels; ++link) {
      links_.push_back(std::make_unique<Link>());
    }
    for (int process = 0; process < size; ++process) {
      is_stopped_.push_back(std::make_unique<std::atomic<bool>>(false));
    }
  }

  /// From now on nothing comes from this process and nothing reaches it, as after SIGSTOP.
  void stop(int process) { stopped(process).store(true); }
  [[nodiscard]] detail::OpenTransport opener(int process) {
    return [this, process]() -> Result<std::unique_ptr<ProcessTransport>> {
      return std::unique_ptr<ProcessTransport>(std::make_unique<Transport>(*this, process));
    };
  }
  /// Transports that were closed as those of a whole group.
  [[nodiscard]] int whole_ends() const { return whole_ends_.load(); }

 private:
  static constexpr int kChannels = 3;
  using Link = detail::Mailbox<std::vector<std::byte>>;

  class Transport final : public ProcessTransport {
   public:
    Transport(FakeNetwork& network, int rank) : network_(network), rank_(rank) {}
    [[nodiscard]] int rank() const noexcept override { return rank_; }
    [[nodiscard]] int size() const noexcept override { return network_.size_; }
    [[nodiscard]] Result<Transfer> send(int to,
                                        ProcessChannel channel,
                                        std::span<const std::byte> bytes) override {
      if (!network_.stopped(rank_).load()) {
        network_.link(rank_, to, channel)
            .try_push(std::vector<std::byte>(bytes.begin(), bytes.end()));
      }
      return ++last_;
    }
    [[nodiscard]] Result<Transfer> receive(int from,
                                           ProcessChannel channel,
                                           std::span<std::byte> bytes) override {
      const std::pair place(from, static_cast<int>(channel));
      places_.emplace(++last_, place);
      waiting_[place].push_back({last_, bytes});
      return last_;
    }
    [[nodiscard]] Result<bool> is_done(Transfer transfer) override {
      const auto found = places_.find(transfer);
      if (found == places_.end()) {
        return true;  // sent, or received earlier
      }
      const auto [from, channel] = found->second;
      auto& waiting = waiting_[found->second];
      while (!waiting.empty() && !network_.stopped(rank_).load()) {
        auto message = network_.link(from, rank_, static_cast<ProcessChannel>(channel)).try_pop();
        if (!message) {
          break;
        }
        const auto [number, target] = waiting.front();
        waiting.pop_front();
        places_.erase(number);
        if (message->size() != target.size()) {
          return Error{.code = ErrorCode::collective_failed, .text = "a message has another size"};
        }
        std::memcpy(target.data(), message->data(), target.size());
      }
      return !places_.contains(transfer);
    }
    void close(bool is_whole) override { network_.whole_ends_ += is_whole ? 1 : 0; }

   private:
    FakeNetwork& network_;
    const int rank_;
    Transfer last_ = 0;
    std::map<Transfer, std::pair<int, int>> places_;
    std::map<std::pair<int, int>, std::deque<std::pair<Transfer, std::span<std::byte>>>> waiting_;
  };

  [[nodiscard]] Link& link(int from, int to, ProcessChannel channel) {
    return *links_.at(
        static_cast<std::size_t>((from * size_ + to) * kChannels + static_cast<int>(channel)));
  }
  [[nodiscard]] std::atomic<bool>& stopped(int process) {
    return *is_stopped_.at(static_cast<std::size_t>(process));
  }

  const int size_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<std::atomic<bool>>> is_stopped_;
  std::atomic<int> whole_ends_{0};
};

/// Runs `body` once for each process, each on a thread of its own, and waits for all of them.
inline void as_processes(FakeNetwork& network,
                         int size,
                         const std::function<void(ProcessGroup group)>& body,
                         const ProcessGroupOptions& options = {}) {
  ThreadExecutor executor;
  std::vector<std::unique_ptr<detail::Joinable>> threads;
  for (int process = 0; process < size; ++process) {
    threads.push_back(executor.spawn({.name = "process"}, [&network, &body, &options, process] {
      body(ProcessGroup::over(network.opener(process), options));
    }));
  }
  for (const auto& thread : threads) {
    thread->join();
  }
}

}  // namespace hearth::testing
