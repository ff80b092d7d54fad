// The error text of a JSON library, without the library's own names.
#include <hearth/runtime/base/json_fault.hpp>

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace hearth {
namespace {

std::string fault_in(const std::string& text) {
  try {
    static_cast<void>(nlohmann::json::parse(text).at("epoch").get<int>());
  } catch (const nlohmann::json::exception& error) {
    return json_fault(error);
  }
  return "none";
}

TEST(JsonFault, SaysWhatIsWrongAndNotWhoFoundIt) {
  EXPECT_EQ(fault_in("{").substr(0, 33), "parse error at line 1, column 2: ");
  EXPECT_EQ(fault_in("{}"), "key 'epoch' not found");
  EXPECT_EQ(fault_in(R"({"epoch":"one"})"), "type must be number, but is string");
  EXPECT_EQ(json_fault(std::runtime_error("[json] is mine")), "[json] is mine");
}

}  // namespace
}  // namespace hearth
