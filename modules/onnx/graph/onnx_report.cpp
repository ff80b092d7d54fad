#include <hearth/modules/onnx_report.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>

namespace hearth {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as their longest cell, two spaces apart.
std::string table(const Row& head, const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(head.size());
  const auto widen = [&widths](const Row& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  };
  widen(head);
  std::ranges::for_each(rows, widen);
  std::string text;
  const auto print = [&](const Row& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i + 1 == row.size() ? row[i] : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    text += line + "\n";
  };
  print(head);
  std::ranges::for_each(rows, print);
  return text;
}

std::string full_name(const OnnxProblem& problem) {
  return problem.domain.empty() ? problem.op : problem.domain + "." + problem.op;
}

std::string shape_text(const OnnxPort& port) {
  return port.has_rank ? fmt::format("[{}]", fmt::join(port.dims, ", ")) : "of any rank";
}

void add_ports(std::string& text, std::string_view title, const std::vector<OnnxPort>& ports) {
  for (const OnnxPort& port : ports) {
    const std::string kind = port.kind == "tensor" ? "" : port.kind + " of ";
    text += fmt::format(
        "{} '{}': {}{} {}\n", title, port.name, kind, name(port.type), shape_text(port));
  }
}

nlohmann::json json_of(const std::vector<OnnxPort>& ports) {
  nlohmann::json all = nlohmann::json::array();
  for (const OnnxPort& port : ports) {
    nlohmann::json one{{"name", port.name}, {"kind", port.kind}, {"type", name(port.type)}};
    if (port.has_rank) {
      one["shape"] = port.dims;
    }
    all.push_back(std::move(one));
  }
  return all;
}

/// An input or a result by its name, for sentences.
struct NamedPort {
  std::string_view title;
  const OnnxPort& port;

  [[nodiscard]] std::string text() const { return fmt::format("{} '{}'", title, port.name); }
};

std::vector<NamedPort> all_ports(const OnnxReport& report) {
  std::vector<NamedPort> all;
  for (const OnnxPort& port : report.inputs) {
    all.push_back({"input", port});
  }
  for (const OnnxPort& port : report.outputs) {
    all.push_back({"result", port});
  }
  return all;
}

// Whether a size of a port has a name, so that it may differ from call to call.
bool is_named(const std::string& size) {
  return size != "?" && size.find_first_not_of("0123456789") != std::string::npos;
}

}  // namespace

std::string OnnxReport::why_no_rows() const {
  const std::vector<NamedPort> ports = all_ports(*this);
  for (const NamedPort& each : ports) {
    const OnnxPort& port = each.port;
    if (!port.has_rank || port.kind != "tensor") {
      return each.text() + " has no stated axes";
    }
    if (port.dims.empty()) {
      return each.text() + " has no axes";
    }
    if (!is_named(port.dims[0])) {
      return fmt::format("axis 0 of {} is {} in the file", each.text(), port.dims[0]);
    }
    if (port.dims[0] != ports[0].port.dims[0]) {
      return fmt::format("axis 0 is '{}' in {} and '{}' in {}",
                         ports[0].port.dims[0],
                         ports[0].text(),
                         port.dims[0],
                         each.text());
    }
  }
  return ports.empty() ? "the graph has no inputs" : "";
}

std::string OnnxReport::why_not_served() const {
  for (const NamedPort& each : all_ports(*this)) {
    if (each.port.kind != "tensor" || !device_type(each.port.type)) {
      return fmt::format("{} is a {} of {}: only tensors of numbers and bools are served",
                         each.text(),
                         each.port.kind,
                         name(each.port.type));
    }
  }
  return inputs.empty() || outputs.empty() ? "the graph has no inputs or no results" : "";
}

std::string OnnxReport::problem_table() const {
  if (problems.empty()) {
    return {};
  }
  std::vector<Row> rows;
  for (const OnnxProblem& problem : problems) {
    rows.push_back(
        {problem.op.empty() ? "-" : full_name(problem),
         problem.op.empty() ? "-" : std::to_string(problem.opset),
         std::to_string(problem.count),
         fmt::format(
             "{}{}",
             fmt::join(problem.names, ", "),
             problem.count > static_cast<std::int64_t>(problem.names.size()) ? ", ..." : ""),
         problem.reason,
         problem.help});
  }
  return table({"op", "opset", "count", "where", "reason", "what would help"}, rows);
}

std::string OnnxReport::to_string() const {
  std::string text = fmt::format(
      "{}: {} bytes, IR version {}, producer '{}'\n", file, size_bytes, ir_version, producer);
  for (const auto& [domain, version] : opsets) {
    text += fmt::format("opset {} of {}\n", version, domain.empty() ? "ai.onnx" : domain);
  }
  text += fmt::format("{} nodes of {} ops, {} parameters in {} bytes\n",
                      node_count,
                      ops.size(),
                      parameter_count,
                      parameter_bytes);
  if (!external_files.empty()) {
    text += fmt::format(
        "{} bytes in other files: {}\n", external_bytes, fmt::join(external_files, ", "));
  }
  add_ports(text, "input", inputs);
  add_ports(text, "result", outputs);
  for (const OnnxSyncPoint& point : sync_points) {
    text += fmt::format(
        "node '{}' ({}) {} '{}'\n",
        point.node,
        point.op,
        point.is_input ? "waits, unless the host gives it, for input" : "waits for the result of",
        point.value);
  }
  const std::string no_server = why_not_served();
  const std::string no_rows = why_no_rows();
  text += "served " +
          (!no_server.empty() ? "by no server: " + no_server
           : no_rows.empty()  ? std::string("in batches")
                              : "one request at a time: " + no_rows) +
          "\n";
  if (!problems.empty()) {
    text += fmt::format(
        "{} problem{}:\n{}", problems.size(), problems.size() == 1 ? "" : "s", problem_table());
  }
  return text;
}

std::string OnnxReport::to_json() const {
  nlohmann::json json{{"file", file},
                      {"producer", producer},
                      {"ir_version", ir_version},
                      {"opsets", opsets},
                      {"size_bytes", size_bytes},
                      {"external_bytes", external_bytes},
                      {"external_files", external_files},
                      {"node_count", node_count},
                      {"ops", ops},
                      {"parameter_count", parameter_count},
                      {"parameter_bytes", parameter_bytes},
                      {"inputs", json_of(inputs)},
                      {"outputs", json_of(outputs)},
                      {"why_not_served", why_not_served()},
                      {"why_no_rows", why_no_rows()},
                      {"problems", nlohmann::json::array()},
                      {"sync_points", nlohmann::json::array()}};
  for (const OnnxProblem& problem : problems) {
    json["problems"].push_back({{"op", problem.op},
                                {"domain", problem.domain},
                                {"opset", problem.opset},
                                {"count", problem.count},
                                {"names", problem.names},
                                {"reason", problem.reason},
                                {"help", problem.help}});
  }
  for (const OnnxSyncPoint& point : sync_points) {
    json["sync_points"].push_back({{"node", point.node},
                                   {"op", point.op},
                                   {"value", point.value},
                                   {"is_input", point.is_input}});
  }
  // Names come from the file and may be no UTF-8.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace hearth
