// A text to learn where there is no file: counting in words. A part of char_gpt.cpp and
// train_gpt.cpp.
#pragma once

#include <string>
#include <string_view>

inline std::string counting_text() {
  constexpr std::string_view kOnes[] = {
      "", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};
  std::string text;
  for (int round = 0; round < 40; ++round) {
    for (const std::string_view ten : {"twenty", "thirty", "forty", "fifty", "sixty"}) {
      for (const std::string_view one : kOnes) {
        text += std::string(ten) + (one.empty() ? "" : " ") + std::string(one) + ", ";
      }
    }
  }
  return text;
}
