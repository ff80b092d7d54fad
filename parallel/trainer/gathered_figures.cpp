#include <hearth/parallel/gathered_figures.hpp>

#include "parallel/processes/common_outcome.hpp"
#include "parallel/processes/process_row.hpp"

#include <hearth/runtime/base/pending.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace hearth::detail {

std::vector<FigurePart> gathered_figures(const ProcessGroup& group,
                                         const std::function<std::vector<FigurePart>()>& own,
                                         SourceLoc where) {
  if (group.size() == 1) {
    return own();
  }
  ErrorRef failure;
  ProcessRow row;
  try {
    const std::vector<FigurePart> parts = own();
    row.add<std::uint64_t>(parts.size());
    for (const FigurePart& part : parts) {
      row.add(part.loss).add(part.weight).add(part.sample_count);
      row.add<std::uint64_t>(part.statistics.size());
      for (const EvaluationMetric::Statistics& statistics : part.statistics) {
        row.add<std::uint64_t>(statistics.size());
        for (const double value : statistics) {
          row.add(value);
        }
      }
    }
  } catch (...) {
    failure = error_of_current_exception();
  }
  settle(group, failure, "an evaluation", where);
  std::vector<FigurePart> all;
  for (std::string& bytes : group.gather(row.take(), "the figures of an evaluation", where)) {
    ProcessRow theirs(std::move(bytes));
    for (auto left = theirs.read<std::uint64_t>(); left > 0; --left) {
      FigurePart part{.loss = theirs.read<double>(),
                      .weight = theirs.read<double>(),
                      .sample_count = theirs.read<std::int64_t>()};
      part.statistics.resize(static_cast<std::size_t>(theirs.read<std::uint64_t>()));
      for (EvaluationMetric::Statistics& statistics : part.statistics) {
        statistics.resize(static_cast<std::size_t>(theirs.read<std::uint64_t>()));
        for (double& value : statistics) {
          value = theirs.read<double>();
        }
      }
      all.push_back(std::move(part));
    }
  }
  return all;
}

}  // namespace hearth::detail
