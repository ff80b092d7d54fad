#include <hearth/streams/trace/op_trace_file.hpp>

#include "expression_bytes.hpp"
#include "trace_bytes.hpp"

#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/streams/trace/record_rules.hpp>

namespace hearth {
namespace {

using trace_file::bad_byte;
using trace_file::ByteReader;
using trace_file::ByteWriter;
using trace_file::FrameHeader;
using trace_file::FrameKind;
using trace_file::kFrameNames;
using trace_file::kFrameVersion;

constexpr FileFormat kFormat{.magic = {'H', 'T', 'R', 'A', 'C', 'E', '\r', '\n'},
                             .version = 4,          // attention keeps two numbers of a row
                             .oldest_version = 2};  // had no expressions
// ---- writing ----

void put_op(ByteWriter& out, const TraceOp& op) {
  out.put(op.record);
  out.put(op.device);
  out.put(op.lane);
  out.put(op.data);
  out.put(op.copied_from);
  out.put(static_cast<std::uint8_t>(op.outcome));
  out.put(static_cast<std::uint8_t>(op.error));
  out.put_bytes(op.blob);
}

// ---- reading ----

class Decoder {
 public:
  Decoder(std::span<const std::byte> payload, const TraceLimits& limits)
      : payload_(payload), limits_(limits) {}

  Result<OpTrace> decode() {
    HEARTH_TRY_STATUS(frame(FrameKind::notes, &Decoder::read_notes));
    HEARTH_TRY_STATUS(frame(FrameKind::devices, &Decoder::read_devices));
    HEARTH_TRY_STATUS(frame(FrameKind::shapes, &Decoder::read_shapes));
    HEARTH_TRY_STATUS(frame(FrameKind::places, &Decoder::read_places));
    HEARTH_TRY_STATUS(frame(FrameKind::paths, &Decoder::read_paths));
    if (is_next(FrameKind::expressions)) {
      HEARTH_TRY_STATUS(frame(FrameKind::expressions, &Decoder::read_expressions));
    }
    HEARTH_TRY_STATUS(frame(FrameKind::data, &Decoder::read_data));
    HEARTH_TRY_STATUS(frame(FrameKind::ops, &Decoder::read_ops));
    if (place_ != payload_.size()) {
      return bad_byte(place_, "more bytes than the frames have");
    }
    return std::move(trace_);
  }

 private:
  using Body = Status (Decoder::*)(ByteReader&);

  [[nodiscard]] bool is_next(FrameKind kind) const {
    const Result<FrameHeader> header =
        ByteReader(payload_, place_, payload_.size()).get<FrameHeader>();
    return header.has_value() && header.value().kind == static_cast<std::uint32_t>(kind);
  }

  Status frame(FrameKind kind, Body read_body) {
    const std::string_view wanted = kFrameNames[static_cast<std::size_t>(kind)];
    ByteReader head(payload_, place_, payload_.size());
    HEARTH_TRY(const auto header, head.get<FrameHeader>());
    if (header.kind != static_cast<std::uint32_t>(kind)) {
      return bad_byte(place_,
                      fmt::format("a frame of kind {} instead of {} ({})",
                                  header.kind,
                                  static_cast<int>(kind),
                                  wanted));
    }
    if (header.version != kFrameVersion) {
      return bad_byte(place_ + 4,
                      fmt::format("the frame {} has version {}, this program reads {}",
                                  wanted,
                                  header.version,
                                  kFrameVersion));
    }
    if (header.size_bytes > head.left()) {
      return bad_byte(
          place_ + 8,
          fmt::format(
              "the frame {} states {} bytes, {} are left", wanted, header.size_bytes, head.left()));
    }
    const std::size_t begin = head.place();
    const std::size_t end = begin + static_cast<std::size_t>(header.size_bytes);
    if (header.checksum != xxh64(payload_.subspan(begin, end - begin))) {
      return bad_byte(place_ + 16,
                      fmt::format("the checksum of the frame {} is wrong: it is damaged", wanted));
    }
    ByteReader body(payload_, begin, end);
    HEARTH_TRY_STATUS((this->*read_body)(body));
    if (body.left() != 0) {
      return body.bad(
          fmt::format("{} bytes more than the frame {} has entries", body.left(), wanted));
    }
    place_ = end;
    return {};
  }

  Status read_notes(ByteReader& in) {
    HEARTH_TRY(const auto count, in.get_count(16));
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::size_t start = in.place();
      HEARTH_TRY(std::string key, in.get_text());
      HEARTH_TRY(std::string value, in.get_text());
      if (!trace_.notes.empty() && key <= trace_.notes.rbegin()->first) {
        return bad_byte(start, "the notes are not in order");
      }
      trace_.notes.emplace(std::move(key), std::move(value));
    }
    return {};
  }

  static Status read_texts(ByteReader& in, std::vector<std::string>& texts) {
    texts.clear();
    HEARTH_TRY(const auto count, in.get_count(8));
    for (std::uint32_t i = 0; i < count; ++i) {
      HEARTH_TRY(std::string text, in.get_text());
      texts.push_back(std::move(text));
    }
    return {};
  }
  Status read_devices(ByteReader& in) { return read_texts(in, trace_.devices); }
  Status read_paths(ByteReader& in) { return read_texts(in, trace_.paths); }

  Status read_shapes(ByteReader& in) {
    HEARTH_TRY(const auto count, in.get_count(4));
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::size_t start = in.place();
      HEARTH_TRY(const auto rank, in.get_count(sizeof(std::int64_t)));
      std::vector<std::int64_t> dims;
      for (std::uint32_t axis = 0; axis < rank; ++axis) {
        HEARTH_TRY(const auto size, in.get<std::int64_t>());
        dims.push_back(size);
      }
      Result<Shape> shape = make_shape(dims);
      if (!shape.has_value()) {
        return bad_byte(start, shape.error().text);
      }
      trace_.shapes.push_back(shape.value());
    }
    return {};
  }

  Status read_places(ByteReader& in) {
    trace_.places.clear();
    HEARTH_TRY(const auto count, in.get_count(12));
    for (std::uint32_t i = 0; i < count; ++i) {
      HEARTH_TRY(std::string file, in.get_text());
      HEARTH_TRY(const auto line, in.get<std::uint32_t>());
      trace_.places.push_back({std::move(file), line});
    }
    return {};
  }

  Status read_expressions(ByteReader& in) {
    const std::size_t start = in.place();
    HEARTH_TRY(const auto count, in.get_count(8));
    if (count == 0) {
      return bad_byte(start, "a frame without expressions");
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      HEARTH_TRY(ExpressionRef expression, trace_file::get_expression(in));
      trace_.expressions.push_back(std::move(expression));
    }
    return {};
  }

  Status read_data(ByteReader& in) {
    HEARTH_TRY(const auto count, in.get_count(8));
    for (std::uint32_t i = 0; i < count; ++i) {
      HEARTH_TRY(const auto bytes, in.get_sized());
      trace_.data.emplace_back(bytes.begin(), bytes.end());
    }
    return {};
  }

  static Result<TraceOp> read_op(ByteReader& in) {
    TraceOp op;
    HEARTH_TRY(op.record, in.get<OpRecord>());
    HEARTH_TRY(op.device, in.get<std::uint32_t>());
    HEARTH_TRY(op.lane, in.get<std::uint64_t>());
    HEARTH_TRY(op.data, in.get<std::uint32_t>());
    HEARTH_TRY(op.copied_from, in.get<std::uint32_t>());
    HEARTH_TRY(const auto outcome, in.get<std::uint8_t>());
    HEARTH_TRY(const auto error, in.get<std::uint8_t>());
    op.outcome = static_cast<TraceOutcome>(outcome);
    op.error = static_cast<ErrorCode>(error);
    HEARTH_TRY(const auto blob, in.get_bytes(op.record.blob_size_bytes));
    op.blob.assign(blob.begin(), blob.end());
    return op;
  }

  Status read_ops(ByteReader& in) {
    OpTraceChecker checker(trace_, limits_);
    if (const Status tables = checker.check_tables(); !tables.has_value()) {
      return in.bad(tables.error().text);
    }
    HEARTH_TRY(const auto count, in.get_count(sizeof(OpRecord)));
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::size_t start = in.place();
      HEARTH_TRY(TraceOp op, read_op(in));
      trace_.ops.push_back(std::move(op));
      if (const Status status = checker.step(); !status.has_value()) {
        Error error = bad_byte(start, fmt::format("op {}: {}", i + 1, status.error().text));
        error.cause = status.shared_error();
        return error;
      }
    }
    return {};
  }

  std::span<const std::byte> payload_;
  const TraceLimits limits_;
  std::size_t place_ = 0;
  OpTrace trace_;
};

}  // namespace

std::vector<std::byte> encode_trace(const OpTrace& trace) {
  ByteWriter out;
  const auto put_texts = [&](const std::vector<std::string>& texts) {
    out.put_count(texts.size());
    for (const std::string& text : texts) {
      out.put_text(text);
    }
  };
  out.frame(FrameKind::notes, [&] {
    out.put_count(trace.notes.size());
    for (const auto& [key, value] : trace.notes) {
      out.put_text(key);
      out.put_text(value);
    }
  });
  out.frame(FrameKind::devices, [&] { put_texts(trace.devices); });
  out.frame(FrameKind::shapes, [&] {
    out.put_count(trace.shapes.size());
    for (const Shape& shape : trace.shapes) {
      out.put_count(static_cast<std::size_t>(shape.rank()));
      out.put_bytes(std::as_bytes(shape.dims()));
    }
  });
  out.frame(FrameKind::places, [&] {
    out.put_count(trace.places.size());
    for (const OpTrace::Place& place : trace.places) {
      out.put_text(place.file);
      out.put(place.line);
    }
  });
  out.frame(FrameKind::paths, [&] { put_texts(trace.paths); });
  if (!trace.expressions.empty()) {
    out.frame(FrameKind::expressions, [&] {
      out.put_count(trace.expressions.size());
      for (const ExpressionRef& expression : trace.expressions) {
        trace_file::put_expression(out, *expression);
      }
    });
  }
  out.frame(FrameKind::data, [&] {
    out.put_count(trace.data.size());
    for (const std::vector<std::byte>& bytes : trace.data) {
      out.put_sized(bytes);
    }
  });
  out.frame(FrameKind::ops, [&] {
    out.put_count(trace.ops.size());
    for (const TraceOp& op : trace.ops) {
      put_op(out, op);
    }
  });
  return out.take();
}

Result<OpTrace> decode_trace(std::span<const std::byte> payload, const TraceLimits& limits) {
  return Decoder(payload, limits).decode();
}

void repair_checksums(std::span<std::byte> payload) noexcept {
  while (payload.size() >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, payload.data(), sizeof header);
    const std::size_t room = payload.size() - sizeof header;
    if (header.size_bytes > room) {
      return;
    }
    const auto size = static_cast<std::size_t>(header.size_bytes);
    header.checksum = xxh64(payload.subspan(sizeof header, size));
    std::memcpy(payload.data(), &header, sizeof header);
    payload = payload.subspan(sizeof header + size);
  }
}

Status write_trace(const std::filesystem::path& path, const OpTrace& trace) {
  return write_checked_file(path, kFormat, encode_trace(trace));
}

namespace {

// The whole file's checksum detects the damage; the frames' checksums locate it.
Error with_place(Error damage, const std::filesystem::path& path, const TraceLimits& limits) {
  const Result<std::vector<std::byte>> bytes = read_file(path);
  if (bytes.has_value() && bytes.value().size() > kCheckedHeaderBytes &&
      std::memcmp(bytes.value().data(), kFormat.magic.data(), kFormat.magic.size()) == 0) {
    const Result<OpTrace> trace =
        decode_trace(std::span(bytes.value()).subspan(kCheckedHeaderBytes), limits);
    if (!trace.has_value()) {
      damage.text += ": " + trace.error().text;
    }
  }
  return damage;
}

}  // namespace

Result<OpTrace> read_trace(const std::filesystem::path& path, const TraceLimits& limits) {
  const Result<std::vector<std::byte>> file = read_checked_file(path, kFormat);
  if (!file.has_value()) {
    return file.error().code == ErrorCode::bad_format ? with_place(file.error(), path, limits)
                                                      : file.error();
  }
  const std::vector<std::byte>& payload = file.value();
  Result<OpTrace> trace = decode_trace(payload, limits);
  if (!trace.has_value()) {
    Error error = trace.error();
    error.text = fmt::format("file {}: {}", path.string(), error.text);
    return error;
  }
  return trace;
}

}  // namespace hearth
