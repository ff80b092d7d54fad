// Op traces as bytes and as files. A trace file is a checked file (base/checked_file). Its payload
// is a sequence of frames in this order: notes, devices, shapes, places, paths, data, ops.
// Layout, little-endian. A frame: kind u32, version u32, size u64, xxh64 of the body u64; then the
// body. Numbers are u32; texts and data are a u64 size and the bytes; each list starts with its u32
// count. An op: the 128 bytes of its record, device, lane, data, copied_from, outcome, error, then
// its blob, whose size the record has.
// Threads: any. Invariant: input is either valid (op_trace_checker) to the last byte, or refused
// with the offset of the bad byte.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/trace/op_trace.hpp>
#include <hearth/streams/trace/op_trace_checker.hpp>

namespace hearth {

/// Returns the payload of a trace file. Requires a valid trace.
[[nodiscard]] std::vector<std::byte> encode_trace(const OpTrace& trace);
/// Decodes the payload of a trace file.
///
/// Errors: bad_format: "byte 4711: op 17: matmul: inner dimensions differ: …"; its cause has the
/// code of the broken rule.
/// Cost: memory grows with the actual size of the bytes, whatever counts they contain.
[[nodiscard]] Result<OpTrace> decode_trace(std::span<const std::byte> payload,
                                           const TraceLimits& limits = {});
/// Recomputes the checksums of the frames that can be found: for fuzzers, which would not get past
/// them.
void repair_checksums(std::span<std::byte> payload) noexcept;

/// Writes a trace file.
///
/// Errors: io_error.
[[nodiscard]] Status write_trace(const std::filesystem::path& path, const OpTrace& trace);
/// Reads a trace file.
///
/// Errors: not_found, io_error; bad_format with the file and the byte's offset after the header of
/// 32 bytes.
[[nodiscard]] Result<OpTrace> read_trace(const std::filesystem::path& path,
                                         const TraceLimits& limits = {});

}  // namespace hearth
