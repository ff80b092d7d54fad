// Synthetic houses, for runs without data. A part of housing.cpp.
#pragma once

#include <random>
#include <string>

#include <hearth/hearth.hpp>

inline hearth::CsvTable made_up_houses() {
  std::mt19937 random(1);
  const auto draw = [&] { return static_cast<double>(random() % 1000) / 1000; };
  const char* const places[] = {"INLAND", "NEAR BAY", "ISLAND"};
  std::string text = "rooms,age,income,place,median_house_value\n";
  for (int i = 0; i < 2000; ++i) {
    const double rooms = 2 + 8 * draw();
    const double age = 50 * draw();
    const double income = 1 + 9 * draw();
    const auto place = random() % 3;
    const double value = 20'000 * rooms + 9'000 * income * static_cast<double>(place + 1) -
                         500 * age + 5'000 * draw();
    text += std::to_string(rooms) + "," + (i % 50 == 0 ? "" : std::to_string(age)) + "," +
            std::to_string(income) + "," + places[place] + "," + std::to_string(value) + "\n";
  }
  return hearth::parse_csv(text);
}
