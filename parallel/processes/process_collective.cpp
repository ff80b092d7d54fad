#include <hearth/parallel/process_collective.hpp>

#include "process_transfers.hpp"

#include "parallel/collectives/reduce_loops.hpp"
#include "parallel/collectives/region_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace hearth {
namespace {

/// Bytes of a region that are exchanged at once, which bounds the memory for others' elements.
constexpr std::size_t kPieceBytes = std::size_t{16} << 20;

enum class RoundKind : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast };

std::size_t at(int process) {
  return static_cast<std::size_t>(process);
}

}  // namespace

// A collective under way. It handles a region piece by piece. First the parts of all ranks go to
// the process that sums them. Then the sums go to all processes, and the local ranks get copies.
class ProcessCollective::Round final {
 public:
  Round(RoundKind kind,
        std::shared_ptr<const ProcessRanks> ranks,
        std::vector<LentRegion> regions,
        Finished finished)
      : kind_(kind),
        ranks_(std::move(ranks)),
        regions_(std::move(regions)),
        finished_(std::move(finished)) {
    for (const LentRegion& region : regions_) {
      bytes_.push_back(region.bytes());
    }
    if (!regions_.empty()) {
      dtype_ = regions_.front().dtype();
    }
  }
  /// A round whose local ranks have zeros, and which keeps no result.
  Round(std::shared_ptr<const ProcessRanks> ranks,
        std::size_t size_bytes,
        DType dtype,
        Finished finished)
      : kind_(RoundKind::all_reduce),
        ranks_(std::move(ranks)),
        finished_(std::move(finished)),
        dtype_(dtype),
        zeros_(size_bytes) {
    bytes_.assign(ranks_->count(), std::span<std::byte>(zeros_));
  }
  void set_root(std::size_t root) noexcept { root_ = root; }

  [[nodiscard]] std::span<const LentRegion> regions() const noexcept { return regions_; }
  [[nodiscard]] bool is_over() const noexcept { return begin_ == bytes_.front().size(); }

  bool advance(detail::ProcessTransfers& transfers) {
    if (kind_ == RoundKind::broadcast) {
      return advance_broadcast(transfers);
    }
    while (!is_over()) {
      switch (std::exchange(phase_, next_of(phase_))) {
        case Phase::collect:
          end_ = kind_ == RoundKind::all_reduce ? std::min(begin_ + kPieceBytes, size()) : size();
          if (kind_ == RoundKind::all_gather) {
            join_own_chunks();
            break;
          }
          collect(transfers);
          return false;
        case Phase::spread:
          if (kind_ != RoundKind::all_gather) {
            sum();
          }
          if (kind_ == RoundKind::reduce_scatter) {
            begin_ = end_;
            break;
          }
          spread(transfers);
          return false;
        case Phase::copy:
          copy();
          begin_ = end_;
          break;
      }
    }
    return true;
  }

  void end(const Status& status) {
    for (LentRegion& region : regions_) {
      region.done(status);
    }
    if (finished_) {
      finished_(status);
    }
  }

 private:
  enum class Phase : std::uint8_t { collect, spread, copy };
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
    [[nodiscard]] std::size_t size() const noexcept { return end - begin; }
  };

  [[nodiscard]] static Phase next_of(Phase phase) noexcept {
    return phase == Phase::collect ? Phase::spread
                                   : (phase == Phase::spread ? Phase::copy : Phase::collect);
  }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.front().size(); }
  [[nodiscard]] std::size_t element_bytes() const noexcept {
    return static_cast<std::size_t>(size_bytes(dtype_));
  }
  /// Bytes of a rank's chunk of the piece.
  [[nodiscard]] Range chunk(std::size_t rank) const {
    const ElementRange range = chunk_of((end_ - begin_) / element_bytes(), ranks_->world(), rank);
    return {begin_ + range.begin * element_bytes(), begin_ + range.end * element_bytes()};
  }
  /// Bytes of the piece that a process sums: the chunks of its ranks.
  [[nodiscard]] Range part(std::size_t process) const {
    const std::size_t first = ranks_->first_of(process);
    return {chunk(first).begin, chunk(first + ranks_->counts[process] - 1).end};
  }
  [[nodiscard]] std::span<std::byte> own(std::size_t local, Range range) const {
    return bytes_[local].subspan(range.begin, range.size());
  }

  void collect(detail::ProcessTransfers& transfers) {
    const Range mine = part(ranks_->process);
    others_.resize((ranks_->world() - ranks_->count()) * mine.size());
    foreign_.assign(ranks_->world(), nullptr);
    std::size_t place = 0;
    transfers.for_each_peer([&](int peer) {
      const Range theirs = part(at(peer));
      for (std::size_t local = 0; local < bytes_.size(); ++local) {
        transfers.send(peer, own(local, theirs));
      }
      for (std::size_t local = 0; local < ranks_->counts[at(peer)]; ++local) {
        const auto target = std::span(others_).subspan(place, mine.size());
        place += mine.size();
        foreign_[ranks_->first_of(at(peer)) + local] = target.data();
        transfers.receive(peer, target);
      }
    });
  }

  void sum() {
    const Range mine = part(ranks_->process);
    const std::size_t first = ranks_->first();
    std::vector<std::byte*> all = foreign_;
    for (std::size_t local = 0; local < bytes_.size(); ++local) {
      all[first + local] = bytes_[local].data() + mine.begin;
    }
    const auto sum_into = [&](std::size_t local, Range range) {
      std::byte* const target = bytes_[local].data() + mine.begin;
      detail::sum_ranks(all,
                        std::span(&target, 1),
                        dtype_,
                        (range.begin - mine.begin) / element_bytes(),
                        (range.end - mine.begin) / element_bytes());
    };
    if (kind_ == RoundKind::all_reduce) {
      sum_into(0, mine);
      return;
    }
    for (std::size_t local = 0; local < bytes_.size(); ++local) {
      sum_into(local, chunk(first + local));
    }
  }

  void join_own_chunks() {
    for (std::size_t local = 1; local < bytes_.size(); ++local) {
      const Range range = chunk(ranks_->first() + local);
      copy_bytes(own(local, range), own(0, range));
    }
  }

  void spread(detail::ProcessTransfers& transfers) {
    const Range mine = part(ranks_->process);
    transfers.for_each_peer([&](int peer) {
      transfers.send(peer, own(0, mine));
      transfers.receive(peer, own(0, part(at(peer))));
    });
  }

  void copy() {
    for (std::size_t local = 1; local < bytes_.size(); ++local) {
      copy_bytes(own(0, {begin_, end_}), own(local, {begin_, end_}));
    }
  }

  bool advance_broadcast(detail::ProcessTransfers& transfers) {
    const bool has_root = root_ >= ranks_->first() && root_ < ranks_->first() + ranks_->count();
    const std::size_t source = has_root ? root_ - ranks_->first() : 0;
    if (std::exchange(phase_, Phase::copy) == Phase::collect) {
      std::size_t owner = 0;
      while (root_ >= ranks_->first_of(owner + 1)) {
        ++owner;
      }
      if (has_root) {
        transfers.for_each_peer([&](int peer) { transfers.send(peer, bytes_[source]); });
      } else {
        transfers.receive(static_cast<int>(owner), bytes_[source]);
      }
      return false;
    }
    for (const std::span<std::byte> target : bytes_) {
      copy_bytes(bytes_[source], target);
    }
    return true;
  }

  static void copy_bytes(std::span<const std::byte> from, std::span<std::byte> to) {
    if (from.data() != to.data() && !from.empty()) {
      std::memcpy(to.data(), from.data(), from.size());
    }
  }

  const RoundKind kind_;
  const std::shared_ptr<const ProcessRanks> ranks_;
  std::vector<LentRegion> regions_;
  Finished finished_;
  DType dtype_ = DType::f32;
  std::vector<std::byte> zeros_;
  std::vector<std::span<std::byte>> bytes_;  ///< By local rank.
  std::vector<std::byte> others_;            ///< This process's part of the other processes' ranks.
  std::vector<std::byte*> foreign_;          ///< By rank, its place in others_; null for own ranks.
  std::size_t root_ = 0;
  std::size_t begin_ = 0;  ///< Bytes [begin_, end_) are the piece.
  std::size_t end_ = 0;
  Phase phase_ = Phase::collect;
};

ProcessCollective::ProcessCollective(ProcessGroup group,
                                     ProcessRanks ranks,
                                     std::chrono::nanoseconds limit)
    : group_(std::move(group)),
      ranks_(std::make_shared<const ProcessRanks>(std::move(ranks))),
      limit_(limit) {}

// A call that is wrong in one process is wrong in all of them, because they make the same calls.
void ProcessCollective::start(std::unique_ptr<Round> round, Status checked, const char* what) {
  if (checked.has_value() && !round->regions().empty() &&
      round->regions().size() != ranks_->count()) {
    checked = Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("collective: {} regions for {} ranks of this process",
                                        round->regions().size(),
                                        ranks_->count())};
  }
  if (!checked.has_value() || round->is_over()) {
    round->end(checked);
    return;
  }
  const std::shared_ptr<Round> shared = std::move(round);
  group_.submit(
      ProcessChannel::steps,
      {what,
       limit_,
       [shared](detail::ProcessTransfers& transfers) { return shared->advance(transfers); },
       [shared](const Status& status) { shared->end(status); }});
}

void ProcessCollective::all_reduce(std::vector<LentRegion> regions,
                                   ReduceOp /*op*/,
                                   Finished finished) {
  const Status checked = detail::check_regions(regions, true);
  start(std::make_unique<Round>(
            RoundKind::all_reduce, ranks_, std::move(regions), std::move(finished)),
        checked,
        "the sum of a bucket");
}

void ProcessCollective::all_reduce_zeros(std::size_t size_bytes, DType dtype, Finished finished) {
  start(std::make_unique<Round>(ranks_, size_bytes, dtype, std::move(finished)),
        {},
        "the sum of a bucket");
}

void ProcessCollective::reduce_scatter(std::vector<LentRegion> regions,
                                       ReduceOp /*op*/,
                                       Finished finished) {
  const Status checked = detail::check_regions(regions, true);
  start(std::make_unique<Round>(
            RoundKind::reduce_scatter, ranks_, std::move(regions), std::move(finished)),
        checked,
        "the sum of chunks");
}

void ProcessCollective::all_gather(std::vector<LentRegion> regions, Finished finished) {
  const Status checked = detail::check_regions(regions, false);
  start(std::make_unique<Round>(
            RoundKind::all_gather, ranks_, std::move(regions), std::move(finished)),
        checked,
        "the exchange of chunks");
}

void ProcessCollective::broadcast(std::vector<LentRegion> regions, int root, Finished finished) {
  Status checked = detail::check_regions(regions, false);
  if (checked.has_value() && (root < 0 || static_cast<std::size_t>(root) >= ranks_->world())) {
    checked =
        Error{.code = ErrorCode::out_of_range,
              .text = fmt::format("collective: root {} of a world of {}", root, ranks_->world())};
  }
  auto round = std::make_unique<Round>(
      RoundKind::broadcast, ranks_, std::move(regions), std::move(finished));
  round->set_root(static_cast<std::size_t>(root));
  start(std::move(round), checked, "a broadcast");
}

}  // namespace hearth
