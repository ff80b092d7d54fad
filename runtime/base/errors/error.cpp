#include <hearth/runtime/base/error.hpp>

#include <array>
#include <ostream>
#include <utility>

#include <fmt/format.h>

namespace hearth {
namespace {

struct CodeRow {
  ErrorCode code;
  std::string_view name;
  std::string_view sentence;
};

constexpr std::array kCodes = {
    CodeRow{ErrorCode::shape_mismatch, "shape_mismatch", "Shapes do not fit the op's rule."},
    CodeRow{ErrorCode::dtype_mismatch, "dtype_mismatch", "Element types do not fit the op's rule."},
    CodeRow{ErrorCode::device_mismatch,
            "device_mismatch",
            "Tensors of one op live on different devices."},
    CodeRow{ErrorCode::invalid_argument,
            "invalid_argument",
            "A value is outside what the function accepts."},
    CodeRow{
        ErrorCode::out_of_range, "out_of_range", "An index or a class label is outside its range."},
    CodeRow{ErrorCode::stream_misuse, "stream_misuse", "A stream was used by two threads at once."},
    CodeRow{ErrorCode::unsupported,
            "unsupported",
            "The backend does not offer this op for these types or layouts."},
    CodeRow{ErrorCode::out_of_memory,
            "out_of_memory",
            "The device's budget or the machine's memory is used up."},
    CodeRow{ErrorCode::kernel_failed, "kernel_failed", "A kernel reported a failure."},
    CodeRow{ErrorCode::non_finite, "non_finite", "A loss or gradient became NaN or infinite."},
    CodeRow{ErrorCode::device_lost,
            "device_lost",
            "The device stopped working; all its tensors are gone."},
    CodeRow{ErrorCode::device_closed, "device_closed", "The device or its runtime was shut down."},
    CodeRow{ErrorCode::not_found, "not_found", "A device, file or named tensor does not exist."},
    CodeRow{
        ErrorCode::deadline_exceeded, "deadline_exceeded", "A wait took longer than its deadline."},
    CodeRow{ErrorCode::cancelled, "cancelled", "The work was cancelled."},
    CodeRow{ErrorCode::worker_failed,
            "worker_failed",
            "A worker's function threw; the cause has its message."},
    CodeRow{ErrorCode::collective_failed,
            "collective_failed",
            "A collective was aborted on all its ranks."},
    CodeRow{ErrorCode::overloaded,
            "overloaded",
            "A server refused a request: it could not answer it in time."},
    CodeRow{ErrorCode::io_error, "io_error", "The operating system refused to read or write."},
    CodeRow{ErrorCode::bad_format, "bad_format", "A file's bytes do not match its format."},
    CodeRow{ErrorCode::internal, "internal", "A bug of ours; please report it."},
};

const CodeRow& row(ErrorCode code) noexcept {
  for (const CodeRow& candidate : kCodes) {
    if (candidate.code == code) {
      return candidate;
    }
  }
  return kCodes.back();
}

}  // namespace

std::string_view describe(ErrorCode code) noexcept {
  return row(code).sentence;
}
std::string_view name(ErrorCode code) noexcept {
  return row(code).name;
}

std::ostream& operator<<(std::ostream& out, ErrorCode code) {
  return out << name(code);
}

std::string Error::to_string() const {
  std::string out = text.empty() ? std::string(describe(code)) : text;
  out += fmt::format(" [{}", name(code));
  if (!op.empty()) {
    out += fmt::format(", op {}", op);
  }
  if (!module_path.empty()) {
    out += fmt::format(", module {}", module_path);
  }
  if (!device.empty()) {
    out += fmt::format(", device {}", device);
  }
  if (stream != 0) {
    out += fmt::format(", stream {} op number {}", stream, sequence);
  }
  if (location.line != 0) {
    out += fmt::format(", called at {}:{}", location.file, location.line);
  }
  out += "]";
  if (!report.made().empty()) {
    out += "\n" + report.made();
  } else if (!report.empty()) {
    out += "; error().report() lists the open waits, HEARTH_EAGER_REPORTS=on prints it here";
  }
  if (cause) {
    out += "\n  caused by: " + cause->to_string();
  }
  return out;
}

Exception::Exception(Error error) : Exception(std::make_shared<const Error>(std::move(error))) {}
Exception::Exception(ErrorRef error)
    : std::runtime_error(error->to_string()), error_(std::move(error)) {}

void throw_error(Error error) {
  throw_error(std::make_shared<const Error>(std::move(error)));
}

void throw_error(ErrorRef error) {
  switch (error->code) {
    case ErrorCode::shape_mismatch:
      throw ShapeError(std::move(error));
    case ErrorCode::dtype_mismatch:
      throw DtypeError(std::move(error));
    case ErrorCode::device_mismatch:
      throw DeviceMismatch(std::move(error));
    case ErrorCode::invalid_argument:
    case ErrorCode::stream_misuse:
    case ErrorCode::not_found:
      throw ArgumentError(std::move(error));
    case ErrorCode::out_of_memory:
      throw OutOfMemory(std::move(error));
    case ErrorCode::deadline_exceeded:
      throw DeadlineExceeded(std::move(error));
    case ErrorCode::overloaded:
      throw ServerOverloaded(std::move(error));
    case ErrorCode::io_error:
    case ErrorCode::bad_format:
      throw FileError(std::move(error));
    default:
      throw DeviceError(std::move(error));
  }
}

}  // namespace hearth
