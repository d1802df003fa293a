#include "tests/attack/mutate.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace comera::attack {

namespace {

using namespace std::string_literals;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

void change_byte(Chance& chance, std::string& text) {
  if (text.empty()) return;
  char& c = text[chance.below(text.size())];
  c = static_cast<char>(chance.one_in(2) ? c ^ (1 << chance.below(8)) : chance.below(256));
}

const std::vector<std::string>& awkward() {
  static const std::vector<std::string> all = {"\0"s,
                                               "\xff\xfe",
                                               "\xc0\xaf",
                                               "\xed\xa0\x80",
                                               "\"",
                                               "'",
                                               "\\",
                                               "\r",
                                               "\r\n",
                                               "\t",
                                               "\t\t\t",
                                               ",",
                                               ",,",
                                               "\n\n",
                                               "\xef\xbb\xbf",
                                               "\xe2\x80\xa8",
                                               "{",
                                               "}",
                                               "[",
                                               "]",
                                               "\x1b[31m",
                                               "[MASK]",
                                               "\xf0\x9f\x98\x80",
                                               " ",
                                               "\\u0000",
                                               "\\ud800",
                                               "null",
                                               "nan",
                                               "1e999",
                                               "-0"};
  return all;
}

std::string large(Chance& chance) {
  switch (chance.below(5)) {
    case 0:
      return std::string(1 << (10 + chance.below(11)), static_cast<char>('a' + chance.below(26)));
    case 1:
      return repeated("[", 1u << (4 + chance.below(14)));
    case 2:
      return repeated("{\"a\":", 1u << (4 + chance.below(14)));
    case 3:
      return repeated("\"", 1000);
    default:
      return repeated("\t", 1u << (4 + chance.below(12)));
  }
}

void change_lines(Chance& chance, std::vector<std::string>& lines) {
  if (lines.empty()) return;
  const std::size_t at = chance.below(lines.size());
  const auto place = lines.begin() + static_cast<std::ptrdiff_t>(at);
  switch (chance.below(4)) {
    case 0:
      lines.erase(place);
      break;
    case 1:
      lines.insert(place, std::string(lines[at]));
      break;
    case 2:
      std::swap(lines[at], lines[chance.below(lines.size())]);
      break;
    default:
      lines.insert(place, std::string(chance.pick(lines)));
  }
}

const std::vector<std::string>& values() {
  static const std::vector<std::string> all = {"0",
                                               "-1",
                                               "1",
                                               "2",
                                               "3",
                                               "7",
                                               "2147483647",
                                               "2147483648",
                                               "9223372036854775807",
                                               "9223372036854775808",
                                               "-9223372036854775808",
                                               "1e308",
                                               "1e309",
                                               "-1e308",
                                               "1e-320",
                                               "0.0",
                                               "-0.0",
                                               "0.5",
                                               "1.0",
                                               "nan",
                                               "inf",
                                               "-inf",
                                               "true",
                                               "false",
                                               "\"\"",
                                               "\"auto\"",
                                               "\"a\\u0000b\"",
                                               "[]",
                                               "[0]",
                                               "[1]",
                                               "[-1]",
                                               "[1,2,3,4,5,6,7,8,9]",
                                               "[[1]]",
                                               "[2147483647, 2147483647]",
                                               "{}",
                                               "{ a = 1 }",
                                               "1979-05-27",
                                               "0x10",
                                               "1_000",
                                               "\"\xff\"",
                                               "''",
                                               "\"\"\"\n\"\"\"",
                                               "65536",
                                               "65537",
                                               "100000",
                                               "[65536, 65536]",
                                               "[1, 1, 1]",
                                               "[24]",
                                               "[4, 6]",
                                               "[6, 4]",
                                               "[2, 2, 6]",
                                               "[400]",
                                               "[1, \"a\"]"};
  return all;
}

// A step of very many micro-batches is long, and no fault.
bool makes_steps_long(const std::string& line) { return line.starts_with("micro_batches_per_step"); }

void change_value(Chance& chance, std::vector<std::string>& lines) {
  std::vector<std::size_t> with;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (lines[i].find(" = ") != std::string::npos) with.push_back(i);
  if (with.empty()) return;
  std::string& line = lines[chance.pick(with)];
  std::string value = chance.pick(values());
  if (makes_steps_long(line) && value.size() > 1 && value[0] >= '1' && value[0] <= '9') value = "0";
  const std::size_t equals = line.find(" = ");
  line = line.substr(0, equals + 3) + value;
}

void change_key(Chance& chance, std::vector<std::string>& lines) {
  std::string& line = lines[chance.below(lines.size())];
  switch (chance.below(5)) {
    case 0:
      line = "[" + line + "]";
      break;
    case 1:
      line = "x" + line;
      break;
    case 2:
      line = "a.b.c." + line;
      break;
    case 3:
      line += " # " + chance.pick(awkward());
      break;
    default:
      line = "[[phase]]";
  }
}

void add_huge(Chance& chance, std::vector<std::string>& lines) {
  const std::size_t depth = 1u << (4 + chance.below(14));
  std::string line;
  switch (chance.below(5)) {
    case 0:
      line = "deep = " + repeated("[", depth) + repeated("]", depth);
      break;
    case 1:
      line = "deep = " + repeated("{a=", depth) + "1" + repeated("}", depth);
      break;
    case 2:
      line = repeated("a.", depth) + "a = 1";
      break;
    case 3:
      line = "[" + repeated("a.", depth) + "a]";
      break;
    default:
      line = "output = \"" + std::string(1u << (6 + chance.below(15)), 'x') + "\"";
  }
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(chance.below(lines.size() + 1)), line);
}

}  // namespace

std::string mutated_bytes(Chance& chance, const std::string& bytes) {
  std::string changed = bytes;
  while (changed == bytes) {
    const std::size_t begin = chance.below(bytes.size()),
                      end = begin + 1 + chance.below(std::min<std::size_t>(4096, bytes.size() - begin));
    switch (chance.below(8)) {
      case 0:
        changed.resize(begin);
        break;
      case 1:
        changed += chance.one_in(2) ? std::string(end - begin, '\0') : bytes.substr(begin, end - begin);
        break;
      case 2:
        std::fill(changed.begin() + static_cast<std::ptrdiff_t>(begin),
                  changed.begin() + static_cast<std::ptrdiff_t>(end), '\0');
        break;
      case 3:
        changed.erase(begin, end - begin);
        break;
      case 4:  // a sector replaced by another
        changed.replace(begin, end - begin,
                        bytes.substr(chance.below(bytes.size() - (end - begin) + 1), end - begin));
        break;
      case 5:  // within the header
        changed[chance.below(std::min<std::size_t>(512, bytes.size()))] ^=
            static_cast<char>(1 << chance.below(8));
        break;
      case 6:  // within the manifest
        changed[bytes.size() - 1 - chance.below(std::min<std::size_t>(2000, bytes.size()))] ^=
            static_cast<char>(1 << chance.below(8));
        break;
      default:
        for (std::size_t i = 0; i <= chance.below(8); ++i) change_byte(chance, changed);
    }
  }
  return changed;
}

std::string mutated_text(Chance& chance, const std::string& text) {
  std::string changed = text;
  for (std::size_t times = 1 + chance.below(3); times > 0; --times) {
    const std::size_t at = chance.below(changed.size() + 1);
    switch (chance.below(6)) {
      case 0:
        change_byte(chance, changed);
        break;
      case 1:
        changed.insert(at, chance.pick(awkward()));
        break;
      case 2:
        changed.insert(at, large(chance));
        break;
      case 3:
        changed.resize(at);
        break;
      default: {
        std::vector<std::string> lines = lines_of(changed);
        change_lines(chance, lines);
        changed = joined(lines);
      }
    }
  }
  return changed;
}

std::string mutated_toml(Chance& chance, const std::string& text) {
  std::vector<std::string> lines = lines_of(text);
  for (std::size_t times = 1 + chance.below(3); times > 0 && !lines.empty(); --times) {
    switch (chance.below(10)) {
      case 0:
        change_byte(chance, lines[chance.below(lines.size())]);
        break;
      case 1:
        change_key(chance, lines);
        break;
      case 2:
        add_huge(chance, lines);
        break;
      case 3: {
        std::string& line = lines[chance.below(lines.size())];
        line.insert(chance.below(line.size() + 1), chance.pick(awkward()));
        break;
      }
      case 4:
      case 5:
        change_lines(chance, lines);
        break;
      default:
        change_value(chance, lines);
    }
  }
  return joined(lines);
}

namespace {

using Json = nlohmann::ordered_json;

void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (value.is_structured())
    for (Json& part : value) collect(part, all);
}

Json another(Chance& chance, const Json& value) {
  static const std::vector<const char*> all = {"null",
                                               "true",
                                               "false",
                                               "0",
                                               "-1",
                                               "1",
                                               "2",
                                               "7",
                                               "401",
                                               "65536",
                                               "2147483648",
                                               "9223372036854775807",
                                               "18446744073709551615",
                                               "1e308",
                                               "-1e308",
                                               "1e-320",
                                               "0.5",
                                               "4224.5",
                                               "\"\"",
                                               "\"a\"",
                                               "[]",
                                               "{}",
                                               "[0]",
                                               "[1, 2]",
                                               "[[[]]]",
                                               "{\"a\": 1}",
                                               "\"\\u0000\"",
                                               "\"F64\"",
                                               "\"[MASK]\"",
                                               "\"\\u0120\""};
  if (value.is_number_integer() && chance.one_in(2))
    return value.get<std::int64_t>() / 2 * 2 + chance.between(-3, 3);
  if (value.is_string() && chance.one_in(2)) return value.get<std::string>() + "x";
  return Json::parse(chance.pick(all));
}

void change_part(Chance& chance, Json& value) {
  if (!value.is_structured() || value.empty() || chance.one_in(3)) {
    value = another(chance, value);
    return;
  }
  auto place = value.begin();
  for (std::size_t at = chance.below(value.size()); at > 0; --at) ++place;
  const Json copy = *place;
  if (chance.one_in(2)) {
    value.erase(place);
    return;
  }
  if (value.is_object())
    value[chance.one_in(2) ? "x" : value.begin().key()] = copy;
  else
    value.push_back(copy);
}

}  // namespace

std::string mutated_json(Chance& chance, const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return mutated_text(chance, text);
  for (std::size_t times = 1 + chance.below(2); times > 0; --times) {
    std::vector<Json*> all;
    collect(json, all);
    change_part(chance, *chance.pick(all));
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace comera::attack
