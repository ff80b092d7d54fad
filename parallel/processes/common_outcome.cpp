#include "common_outcome.hpp"

#include "process_row.hpp"

#include <hearth/runtime/base/pending.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hearth::detail {
namespace {

[[noreturn]] void throw_at(const ErrorRef& error, SourceLoc where) {
  if (error->location.line != 0) {
    throw_error(error);
  }
  Error placed = *error;
  placed.location = where;
  throw_error(std::move(placed));
}

}  // namespace

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

bool is_set_in_any(const ProcessGroup& group,
                   bool is_set,
                   std::string_view what,
                   SourceLoc where) {
  if (group.size() == 1) {
    return is_set;
  }
  const std::vector<std::string> rows = group.gather(is_set ? "yes" : "no", what, where);
  return std::ranges::find(rows, "yes") != rows.end();
}

}  // namespace hearth::detail
