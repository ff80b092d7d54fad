#include "common_settings.hpp"

#include "process_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hearth::detail {
namespace {

SettingWords words_in(std::string bytes) {
  ProcessRow row(std::move(bytes));
  SettingWords words;
  for (auto left = row.read<std::uint64_t>(); left > 0; --left) {
    std::string name = row.read_text();
    words.emplace_back(std::move(name), row.read_text());
  }
  return words;
}

std::string text_at(const SettingWords& words, SettingWords::const_iterator place) {
  return place == words.end() ? "no further setting" : place->first + " " + place->second;
}

}  // namespace

void require_common(const ProcessGroup& group,
                    const SettingWords& words,
                    std::string_view who,
                    SourceLoc where) {
  ProcessRow own;
  own.add<std::uint64_t>(words.size());
  for (const auto& [name, value] : words) {
    own.add_text(name).add_text(value);
  }
  const std::vector<std::string> rows =
      group.gather(own.take(), "the comparison of settings", where);
  const SettingWords first = words_in(rows.front());
  for (std::size_t process = 1; process < rows.size(); ++process) {
    const SettingWords theirs = words_in(rows[process]);
    const auto [here, there] =
        std::mismatch(first.begin(), first.end(), theirs.begin(), theirs.end());
    if (here != first.end() || there != theirs.end()) {
      throw_error(Error{.code = ErrorCode::invalid_argument,
                        .text = fmt::format("{}: the processes differ: {} has {}, {} has {}",
                                            who,
                                            group.name_of(static_cast<int>(process)),
                                            text_at(theirs, there),
                                            group.name_of(0),
                                            text_at(first, here)),
                        .op = std::string(who),
                        .location = where});
    }
  }
}

}  // namespace hearth::detail
