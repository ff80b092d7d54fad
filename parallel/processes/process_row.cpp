#include "process_row.hpp"

#include <cstdint>
#include <memory>

namespace hearth::detail {

ProcessRow& ProcessRow::add_text(const std::string& text) {
  add<std::uint64_t>(text.size());
  bytes_ += text;
  return *this;
}

ProcessRow& ProcessRow::add_failure(const ErrorRef& error) {
  add<bool>(error != nullptr);
  return error ? add(error->code).add_text(error->text) : *this;
}

std::string ProcessRow::read_text() {
  const auto size = static_cast<std::size_t>(read<std::uint64_t>());
  const char* const first = next(size);
  return {first, size};
}

ErrorRef ProcessRow::read_failure(const std::string& who) {
  if (!read<bool>()) {
    return nullptr;
  }
  const auto code = read<ErrorCode>();
  const bool is_local = code == ErrorCode::device_lost || code == ErrorCode::device_closed ||
                        code == ErrorCode::cancelled;
  return std::make_shared<const Error>(Error{.code = is_local ? ErrorCode::collective_failed : code,
                                             .text = who + ": " + read_text()});
}

const char* ProcessRow::next(std::size_t size) {
  if (size > bytes_.size() - place_) {
    throw_error(Error{.code = ErrorCode::bad_format,
                      .text = "ProcessGroup: a process sent a row that is too short"});
  }
  const char* const first = bytes_.data() + place_;
  place_ += size;
  return first;
}

}  // namespace hearth::detail
