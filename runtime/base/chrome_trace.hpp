// Collects the spans of a Trace and writes them as a Chrome trace, which chrome://tracing and
// Perfetto show.
// Owned by the code that wants the file; the Trace outlives it. Threads: any.
// Invariant: never more than max_spans in memory; what comes later is counted, not kept.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/trace.hpp>

namespace hearth {

class ChromeTrace final {
 public:
  static constexpr std::size_t kDefaultMaxSpans = 1'000'000;

  /// Listens from here on.
  explicit ChromeTrace(Trace& trace, std::size_t max_spans = kDefaultMaxSpans);
  ChromeTrace(const ChromeTrace&) = delete;
  ChromeTrace& operator=(const ChromeTrace&) = delete;
  ~ChromeTrace();

  [[nodiscard]] std::size_t span_count() const;
  [[nodiscard]] std::size_t dropped_span_count() const;
  /// The JSON of all spans so far: one row a device, one line a thread within it, times in
  /// microseconds from the first span.
  [[nodiscard]] std::string to_json() const;
  /// Errors: io_error.
  [[nodiscard]] Status write(const std::filesystem::path& path) const;

 private:
  struct Spans;
  Trace& trace_;
  std::shared_ptr<Spans> spans_;  // a hook that is still running keeps it alive
  TraceHookId hook_;
};

}  // namespace hearth
