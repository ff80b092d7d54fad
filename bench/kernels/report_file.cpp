// Reports as JSON, schema hearth.bench/1. Times are nanoseconds of one run. A sample is
// [wall of all runs, thread time of all runs, runs, why it does not count].
#include <nlohmann/json.hpp>

#include <hearth/runtime/base/file.hpp>

#include "report.hpp"

namespace hearth::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "hearth.bench/1";

Json to_json(const Figure& figure) {
  return {{"low", figure.lowest.count()},
          {"median", figure.median.count()},
          {"from", figure.from.count()},
          {"to", figure.to.count()},
          {"clean", figure.count},
          {"dirty", figure.dirty_count}};
}

Figure figure_of(const Json& json) {
  const auto time = [&](const char* key) { return detail::RunTime(json.at(key).get<double>()); };
  return {.lowest = time("low"),
          .median = time("median"),
          .from = time("from"),
          .to = time("to"),
          .count = json.at("clean").get<int>(),
          .dirty_count = json.at("dirty").get<int>()};
}

Json to_json(const Row& row) {
  Json json = {{"suite", row.suite},
               {"name", row.name},
               {"problem", row.problem},
               {"version", row.version},
               {"heat", row.heat},
               {"bits", row.bits},
               {"rule", row.rule},
               {"pick", row.pick},
               {"gain", row.gain},
               {"flops", row.flops},
               {"bytes", row.bytes},
               {"roof_share", row.roof_share},
               {"verdict", word(row.verdict)},
               {"verdict_text", row.verdict_text},
               {"check", row.check},
               {"is_wrong", row.is_wrong},
               {"is_refused", row.is_refused}};
  if (row.time.is_known()) {
    json["time_ns"] = to_json(row.time);
  }
  if (row.against) {
    json["ratio"] = {row.against->ratio.low, row.against->ratio.median, row.against->ratio.high};
    json["pairs"] = row.against->pair_count;
  }
  Json& samples = json["samples"] = Json::array();
  for (const detail::Sample& each : row.samples) {
    samples.push_back(
        {each.wall.count(), each.cpu.count(), each.run_count, name(why_dirty(each, {}))});
  }
  return json;
}

Row row_of(const Json& json) {
  const auto text = [&](const char* key) { return json.at(key).get<std::string>(); };
  Row row{.suite = text("suite"),
          .name = text("name"),
          .problem = text("problem"),
          .version = text("version"),
          .heat = text("heat"),
          .bits = text("bits"),
          .rule = json.value("rule", ""),  // earlier reports lack these three
          .pick = json.value("pick", ""),
          .gain = json.value("gain", 0.0),
          .flops = json.at("flops").get<double>(),
          .bytes = json.at("bytes").get<double>(),
          .roof_share = json.at("roof_share").get<double>(),
          .verdict_text = text("verdict_text"),
          .check = text("check"),
          .is_wrong = json.at("is_wrong").get<bool>(),
          .is_refused = json.at("is_refused").get<bool>()};
  if (json.contains("time_ns")) {
    row.time = figure_of(json.at("time_ns"));
  }
  for (const detail::Verdict verdict : {detail::Verdict::faster,
                                        detail::Verdict::slower,
                                        detail::Verdict::same,
                                        detail::Verdict::unclear}) {
    if (text("verdict") == word(verdict)) {
      row.verdict = verdict;
    }
  }
  return row;
}

}  // namespace

std::string to_json(const Report& report) {
  Json facts = Json::object();
  for (const auto& [name, value] : report.facts) {
    facts[name] = value;
  }
  Json rows = Json::array();
  for (const Row& row : report.rows) {
    rows.push_back(to_json(row));
  }
  const Json json = {{"schema", kSchema},
                     {"command", report.command},
                     {"device", report.device},
                     {"facts", facts},
                     {"warnings", report.warnings},
                     {"roofs",
                      {{"flops_per_second", report.roofs.flops_per_second},
                       {"bytes_per_second", report.roofs.bytes_per_second},
                       {"is_clean", report.roofs.is_clean}}},
                     {"rows", rows}};
  return json.dump(1) + "\n";
}

Result<Report> parse_report(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    if (json.at("schema") != kSchema) {
      return Error{.code = ErrorCode::bad_format,
                   .text = "its schema is " + json.at("schema").dump() + ", not " + kSchema};
    }
    Report report{.command = json.at("command").get<std::string>(),
                  .device = json.at("device").get<std::string>(),
                  .warnings = json.at("warnings").get<std::vector<std::string>>()};
    for (const auto& [name, value] : json.at("facts").items()) {
      report.facts.push_back({name, value.get<std::string>()});
    }
    const Json& roofs = json.at("roofs");
    report.roofs = {.flops_per_second = roofs.at("flops_per_second").get<double>(),
                    .bytes_per_second = roofs.at("bytes_per_second").get<double>(),
                    .is_clean = roofs.at("is_clean").get<bool>()};
    for (const Json& row : json.at("rows")) {
      report.rows.push_back(row_of(row));
    }
    return report;
  } catch (const nlohmann::json::exception& error) {
    return Error{.code = ErrorCode::bad_format,
                 .text = std::string("it is no report of hearth-bench: ") + error.what()};
  }
}

Result<Report> read_report(const std::filesystem::path& path) {
  HEARTH_TRY(const std::vector<std::byte> bytes, read_file(path));
  Result<Report> report =
      parse_report(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  if (!report.has_value()) {
    Error error = report.error();
    error.text = path.string() + ": " + error.text;
    return error;
  }
  return report;
}

}  // namespace hearth::bench
