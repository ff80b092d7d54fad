// RuntimeTables: state that all devices of one Runtime share: intern tables, trace, log, watchdog,
// recorder. Every endpoint keeps it alive. Private to runtime. Threads: any; each member has its
// own rule.
#pragma once

#include <atomic>
#include <string_view>
#include <utility>

#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/path_table.hpp>
#include <hearth/runtime/base/shape_table.hpp>
#include <hearth/runtime/base/source_table.hpp>
#include <hearth/runtime/base/watchdog.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/group_kernel.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "custom_table.hpp"
#include "fusion_limit.hpp"
#include "runtime/record/recorder.hpp"

namespace hearth {

/// The number of an expression or custom op in its table; 0 for other ops.
[[nodiscard]] inline std::uint32_t own_number(const OpRecord& record) noexcept {
  const OpView op(record, nullptr);
  return record.kind == OpKind::expression ? op.attributes<ExpressionAttributes>().expression
         : record.kind == OpKind::custom   ? op.attributes<CustomAttributes>().custom
                                           : 0;
}

struct RuntimeTables {
  explicit RuntimeTables(RuntimeId runtime,
                         detail::LogOptions log_options = {},
                         std::chrono::nanoseconds limit = kDefaultWait,
                         bool makes_reports = false)
      : sources(runtime),
        log(std::move(log_options)),
        watchdog(make_intrusive<detail::Watchdog>(makes_reports)),
        wait_limit(limit) {}

  ShapeTable shapes;
  SourceTable sources;
  PathTable paths;
  ExpressionTable expressions;
  CustomTable customs{kMostCustomKernels};
  detail::Log log;
  const IntrusivePtr<detail::Watchdog> watchdog;
  Recorder recorder{shapes, sources, paths, expressions};
  const std::chrono::nanoseconds wait_limit;  ///< limit of a wait that names none
  /// The error reported when the host has no memory to build another one.
  const ErrorRef no_host_memory = std::make_shared<const Error>(
      Error{.code = ErrorCode::out_of_memory, .text = "the host has no memory left"});
  FusionLimit fusion_limit;
  std::atomic<bool> has_memory_trace{false};  ///< a MemoryTraceScope is open
  Between between = Between::wide;            ///< set before the first op
  bool is_deterministic = false;              ///< set before the first op
  std::chrono::nanoseconds busy_wait{0};  ///< RuntimeOptions::busy_wait; set before the first op
  bool fuses = true;  ///< fuses adjacent ops into one kernel; set before the first op

  /// The name of an op in errors and traces: its kind, its expression, or the function that the
  /// program called. `own`: the number of an expression or custom op in its table.
  [[nodiscard]] std::string_view op_name(OpKind kind,
                                         CalledAs called,
                                         std::uint32_t own) const noexcept {
    switch (kind) {
      case OpKind::expression:
        return expressions[ExprId{own}].name;
      case OpKind::custom:
        return customs[CustomId{own}]->code.name;
      default:
        return called == CalledAs::itself ? op_info(kind).name : called_info(called).name;
    }
  }
  [[nodiscard]] std::string_view op_name(const OpRecord& record) const noexcept {
    return op_name(record.kind, called_as(record.flags), own_number(record));
  }
  [[nodiscard]] detail::FailureBook& failures() const noexcept { return watchdog->failures(); }
  [[nodiscard]] detail::Trace& trace() const noexcept { return watchdog->trace(); }
};

}  // namespace hearth
