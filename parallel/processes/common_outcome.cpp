#include "common_outcome.hpp"

#include "process_row.hpp"

#include <hearth/runtime/base/failure_book.hpp>
#include <hearth/runtime/base/pending.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hearth::detail {

void throw_at(const ErrorRef& error, SourceLoc where) {
  mark_read(*error);  // the caller gets it
  if (error->location.line != 0) {
    throw_error(error);
  }
  Error placed = *error;
  placed.location = where;
  throw_error(std::move(placed));
}

void settle(const ProcessGroup& group,
            const ErrorRef& failure,
            std::string_view what,
            SourceLoc where) {
  ProcessRow own;
  own.add_failure(failure);
  const std::vector<std::string> rows = group.gather(own.take(), what, where);
  if (failure) {
    throw_at(failure, where);
  }
  for (std::size_t process = 0; process < rows.size(); ++process) {
    ProcessRow row(rows[process]);
    if (const ErrorRef other = row.read_failure(group.name_of(static_cast<int>(process)))) {
      throw_at(other, where);
    }
  }
}

void run_on_first(const ProcessGroup& group,
                  const std::function<void()>& fn,
                  std::string_view what,
                  SourceLoc where) {
  if (group.size() == 1) {
    fn();
    return;
  }
  ErrorRef failure;
  if (group.is_first()) {
    try {
      fn();
    } catch (...) {
      failure = error_of_current_exception();
    }
  }
  settle(group, failure, what, where);
}

std::pair<bool, bool> set_in_any(const ProcessGroup& group,
                                 std::pair<bool, bool> flags,
                                 std::string_view what,
                                 SourceLoc where) {
  if (group.size() == 1) {
    return flags;
  }
  ProcessRow own;
  own.add(flags.first).add(flags.second);
  std::pair<bool, bool> all{false, false};
  for (std::string& bytes : group.gather(own.take(), what, where)) {
    ProcessRow row(std::move(bytes));
    all.first |= row.read<bool>();
    all.second |= row.read<bool>();
  }
  return all;
}

}  // namespace hearth::detail
