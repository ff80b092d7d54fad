#include "step_agreement.hpp"

#include "parallel/processes/common_outcome.hpp"
#include "parallel/processes/process_row.hpp"

#include <fmt/format.h>

#include <limits>

namespace hearth {
namespace {

using detail::ProcessRow;

std::string row_of(const SweptProcess& own) {
  ProcessRow row;
  row.add(own.happened_count).add_failure(own.failure).add<std::uint64_t>(own.ranks.size());
  for (const SweptRank& rank : own.ranks) {
    row.add(rank.loss).add(rank.loss_kind).add(rank.weight).add<std::uint64_t>(rank.unused.size());
    for (const std::size_t parameter : rank.unused) {
      row.add<std::uint64_t>(parameter);
    }
  }
  return row.take();
}

SweptProcess swept_of(std::string bytes, const std::string& who) {
  ProcessRow row(std::move(bytes));
  SweptProcess swept{.happened_count = row.read<std::uint64_t>(), .failure = row.read_failure(who)};
  for (auto left = row.read<std::uint64_t>(); left > 0; --left) {
    SweptRank rank{.loss = row.read<double>(),
                   .loss_kind = row.read<LossKind>(),
                   .weight = row.read<double>()};
    for (auto count = row.read<std::uint64_t>(); count > 0; --count) {
      rank.unused.push_back(static_cast<std::size_t>(row.read<std::uint64_t>()));
    }
    swept.ranks.push_back(std::move(rank));
  }
  return swept;
}

}  // namespace

StepAgreement::StepAgreement(ProcessGroup group,
                             std::size_t rank_count,
                             std::vector<GradientBucket> buckets,
                             std::chrono::nanoseconds limit,
                             SourceLoc where)
    : group_(std::move(group)),
      limit_(limit),
      buckets_(std::move(buckets)),
      engine_(group_, counted(group_, rank_count, where), limit) {}

ProcessRanks StepAgreement::counted(const ProcessGroup& group,
                                    std::size_t rank_count,
                                    SourceLoc where) {
  ProcessRow own;
  own.add<std::uint64_t>(rank_count);
  ProcessRanks ranks{.counts = {}, .process = static_cast<std::size_t>(group.rank())};
  for (std::string& row : group.gather(own.take(), "the count of ranks", where)) {
    ranks.counts.push_back(
        static_cast<std::size_t>(ProcessRow(std::move(row)).read<std::uint64_t>()));
  }
  return ranks;
}

std::int64_t StepAgreement::begin(std::int64_t step,
                                  std::int64_t sample_count,
                                  std::uint64_t changes,
                                  const ErrorRef& failure,
                                  SourceLoc where) const {
  ProcessRow own;
  own.add_failure(failure).add(step).add(sample_count).add(changes);
  std::vector<ProcessRow> rows;
  for (std::string& bytes :
       group_.gather(own.take(), fmt::format("the begin of step {}", step), where)) {
    rows.emplace_back(std::move(bytes));
  }
  ErrorRef first_failure = failure;
  for (std::size_t process = 0; process < rows.size(); ++process) {
    const ErrorRef other = rows[process].read_failure(group_.name_of(static_cast<int>(process)));
    first_failure = first_failure ? first_failure : other;
  }
  if (first_failure) {
    detail::throw_at(first_failure, where);
  }
  const auto fail = [&](std::string text) {
    throw_error(Error{.code = ErrorCode::collective_failed,
                      .text = std::move(text),
                      .op = "DataParallel",
                      .location = where});
  };
  std::int64_t all = 0;
  bool is_alike = true;
  for (std::size_t process = 0; process < rows.size(); ++process) {
    const auto other_step = rows[process].read<std::int64_t>();
    const auto count = rows[process].read<std::int64_t>();
    if (other_step != step || count > std::numeric_limits<std::int64_t>::max() - all) {
      fail(
          fmt::format("DataParallel: {} begins step {} with {} samples, this process step {} with "
                      "{}: the processes must make the same calls",
                      group_.name_of(static_cast<int>(process)),
                      other_step,
                      count,
                      step,
                      sample_count));
    }
    all += count;
    is_alike = is_alike && rows[process].read<std::uint64_t>() == changes;
  }
  if (!is_alike) {
    fail(
        fmt::format("DataParallel: step {}: a change of all replicas (update_replicas, "
                    "set_learning_rate, load) has failed in some processes and not in others, so "
                    "the models differ: load() a saved state",
                    step));
  }
  return all;
}

void StepAgreement::owe(std::size_t bucket) {
  const GradientBucket& form = buckets_[bucket];
  const auto count = static_cast<std::size_t>(form.element_count);
  engine_.all_reduce_zeros(
      count * static_cast<std::size_t>(size_bytes(form.dtype)), form.dtype, {});
}

void StepAgreement::share_sweep(std::int64_t step,
                                const SweptProcess& own,
                                UniqueFunction<void(Result<std::vector<SweptProcess>>)> end) const {
  std::vector<std::string> names;
  for (int process = 0; process < group_.size(); ++process) {
    names.push_back(group_.name_of(process));
  }
  detail::exchange(group_,
                   ProcessChannel::steps,
                   fmt::format("the end of the sweeps of step {}", step),
                   limit_,
                   row_of(own),
                   [names = std::move(names),
                    end = std::move(end)](Result<std::vector<std::string>> rows) mutable {
                     if (!rows.has_value()) {
                       end(rows.status());
                       return;
                     }
                     std::vector<SweptProcess> all;
                     for (std::size_t process = 0; process < names.size(); ++process) {
                       all.push_back(swept_of(std::move(rows.value()[process]), names[process]));
                     }
                     end(std::move(all));
                   });
}

void StepAgreement::vote(std::int64_t step,
                         const ErrorRef& failure,
                         UniqueFunction<void(Result<std::vector<ErrorRef>>)> end) const {
  std::vector<std::string> names;
  for (int process = 0; process < group_.size(); ++process) {
    names.push_back(group_.name_of(process));
  }
  ProcessRow own;
  own.add_failure(failure);
  detail::exchange(group_,
                   ProcessChannel::steps,
                   fmt::format("the commit of step {}", step),
                   limit_,
                   own.take(),
                   [names = std::move(names),
                    end = std::move(end)](Result<std::vector<std::string>> rows) mutable {
                     if (!rows.has_value()) {
                       end(rows.status());
                       return;
                     }
                     std::vector<ErrorRef> all;
                     for (std::size_t process = 0; process < names.size(); ++process) {
                       ProcessRow row(std::move(rows.value()[process]));
                       all.push_back(row.read_failure(names[process]));
                     }
                     end(std::move(all));
                   });
}

}  // namespace hearth
