// HttpModel: a ModelServer without its type, with the names that clients use, for an HttpServer.
// Header-internal. Threads: its functions from any. Lifetime: the ModelServer outlives it.
#pragma once

#include <hearth/parallel/http_options.hpp>
#include <hearth/parallel/server_options.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hearth::detail {

struct HttpModel {
  std::string name;
  ServedSignature signature;
  std::function<Pending<Answer>(std::vector<RequestInput>, const RequestOptions&)> ask;
  std::function<ServerStatistics()> statistics;
  std::function<std::uint64_t()> version;
  std::function<bool()> is_ready;  ///< Whether a device is in service.
};

}  // namespace hearth::detail
