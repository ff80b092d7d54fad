// The coordinator's loop: its messages, and what it knows of the open steps. Private to parallel.
// Threads: the coordinator's own, but for CoordinatorMailbox, which is anyone's.
// Invariant: a bucket is waiting (its regions are here), with the engine, or over.
#pragma once

#include <hearth/parallel/coordinator.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/parker.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace hearth {

namespace message {
struct Begin {
  std::int64_t step = 0;
  std::int64_t sample_count = 0;
  Promise<DataParallelReport> outcome;
};
struct Abort {
  std::int64_t step = 0;
  ErrorRef error;
};
struct Finish {
  std::int64_t step = 0;
  int rank = 0;
  ErrorRef error;
};
struct Cancel {
  ErrorRef error;
};
struct AskStragglers {
  Promise<std::vector<int>> answer;
};
struct AskStatistics {
  Promise<CoordinatorStatistics> answer;
};
struct Rejoin {};
}  // namespace message

using CoordinatorMessage = std::variant<BucketArrival,
                                        message::Begin,
                                        message::Abort,
                                        message::Finish,
                                        message::Cancel,
                                        message::AskStragglers,
                                        message::AskStatistics,
                                        message::Rejoin>;

struct CoordinatorMailbox {
  Mailbox<CoordinatorMessage> messages;
  std::atomic<bool> has_stragglers{false};
};

class CoordinatorLoop final {
 public:
  CoordinatorLoop(std::shared_ptr<CoordinatorMailbox> mailbox,
                  Collective& engine,
                  CoordinatorOptions options);

  /// Until the mailbox is closed and empty.
  void run();

 private:
  struct WaitingBucket {
    std::vector<LentRegion> regions;  ///< By rank; invalid: not there yet.
    std::size_t count = 0;
    bool is_early = true;
    Deadline deadline = Deadline::never();
  };
  struct RankState {
    bool is_finished = false;
    bool is_given_up = false;  ///< It missed a deadline: the step is decided without it.
    ErrorRef error;
    double loss = 0;
  };
  struct Step {
    DataParallelReport report;
    Promise<DataParallelReport> outcome;
    std::vector<RankState> ranks;
    std::map<std::size_t, WaitingBucket> buckets;
    ErrorRef failure;
  };

  void handle(BucketArrival arrival);
  void handle(message::Begin begin);
  void handle(message::Abort abort);
  void handle(message::Finish finish);
  void handle(message::Cancel cancel);
  void handle(message::AskStragglers question);
  void handle(message::AskStatistics question);
  void handle(message::Rejoin rejoin);

  void note_loss(std::int64_t number, Step& step, int rank, const Result<double>& loss);
  void reduce(std::int64_t number, WaitingBucket bucket);
  static void fail(Step& step, const ErrorRef& error);
  [[nodiscard]] Deadline next_deadline() const;
  void expire();
  /// Fulfils the promise once every rank is through or given up.
  void decide(Step& step);
  /// Forgets the step when every rank is through.
  void close(std::map<std::int64_t, Step>::iterator found);

  const std::shared_ptr<CoordinatorMailbox> mailbox_;
  Collective& engine_;
  const CoordinatorOptions options_;
  std::map<std::int64_t, Step> steps_;
  CoordinatorStatistics statistics_;
  ErrorRef refusal_;  ///< Why no step can succeed any more.
  std::vector<int> stragglers_;
};

}  // namespace hearth
