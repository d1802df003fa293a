// Samples of exchange formats: transformers models, click logs, GLUE.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/attack/chance.h"
#include "tests/attack/files.h"
#include "tests/attack/gzip.h"
#include "tests/attack/sample.h"

namespace comera::attack {

namespace {

constexpr std::size_t vocabulary = 400;  // as the sample's models have

std::string utf8(unsigned code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

// The byte-level BPE notation of bytes: printable ones as themselves, the others after Latin-1.
std::vector<std::string> letters_of_bytes() {
  std::vector<std::string> letters;
  std::vector<unsigned> others;
  for (unsigned byte = 0; byte < 256; ++byte)
    if ((byte > 32 && byte < 127) || (byte > 160 && byte != 173))
      letters.push_back(utf8(byte));
    else
      others.push_back(byte);
  for (std::size_t i = 0; i < others.size(); ++i) letters.push_back(utf8(256 + static_cast<unsigned>(i)));
  return letters;
}

void write_bytes_tokenizer(const fs::path& folder) {
  std::vector<std::string> pieces = {"<s>", "<pad>", "</s>", "<unk>"};
  for (const std::string& letter : letters_of_bytes()) pieces.push_back(letter);
  std::string merges = "#version: 0.2\n";
  std::set<std::string> known(pieces.begin(), pieces.end());
  const auto merge = [&](const std::string& one, const std::string& other) {
    if (pieces.size() + 1 == vocabulary || !known.insert(one + other).second) return;
    pieces.push_back(one + other);
    merges += one + " " + other + "\n";
  };
  for (const std::string word : {"count", "total", "value", "index", "buffer"})
    for (std::size_t i = 1; i < word.size(); ++i) merge(word.substr(0, i), word.substr(i, 1));
  for (char one = 'a'; one <= 'z'; ++one)
    for (char other = 'a'; other <= 'z'; ++other) merge({one}, {other});
  pieces.emplace_back("<mask>");
  nlohmann::ordered_json ids;
  for (std::size_t i = 0; i < pieces.size(); ++i) ids[pieces[i]] = i;
  write_text(folder / "vocab.json", ids.dump());
  write_text(folder / "merges.txt", merges);
  write_text(folder / "added_tokens.json", nlohmann::json{{"<mask>", vocabulary - 1}}.dump());
  write_text(folder / "tokenizer_config.json",
             R"({"tokenizer_class": "RobertaTokenizer", "model_max_length": 32})");
}

void write_pieces_tokenizer(const fs::path& folder, std::string pieces) {
  const auto known = static_cast<std::size_t>(std::ranges::count(pieces, '\n'));
  for (std::size_t i = known; i < vocabulary; ++i) pieces += fmt::format("[unused{}]\n", i);
  write_text(folder / "vocab.txt", pieces);
  write_text(folder / "added_tokens.json", nlohmann::json{{"[unused399]", vocabulary - 1}}.dump());
  write_text(
      folder / "tokenizer_config.json",
      R"({"tokenizer_class": "BertTokenizer", "do_lower_case": true, "model_max_length": 32, "mask_token": "[MASK]"})");
}

// As Criteo's, with categories of few and of many values.
std::string click_log(int rows, std::string_view name) {
  Chance chance(1, name, 0);
  std::string text;
  for (int row = 0; row < rows; ++row) {
    text += chance.one_in(3) ? "1" : "0";
    for (int number = 0; number < 13; ++number)
      text += chance.one_in(10) ? "\t" : fmt::format("\t{}", chance.between(-1, 40));
    for (std::size_t category = 0; category < 26; ++category)
      text += chance.one_in(20) ? "\t" : fmt::format("\t{:08x}", chance.below(2 + 3 * (category % 5)));
    text += '\n';
  }
  return text;
}

}  // namespace

void Sample::make_clicks() const {
  write_text(folder_ / "clicks.log", click_log(600, "clicks"));
  write_text(folder_ / "clicks-2.log.gz", zipped(click_log(200, "more clicks"), 3));
  call({"clicks", "data", "clicks.log", "--output", "clicks", "--held-out", "0.2", "--threshold", "5"},
       folder_);
}

void Sample::make_glue() const {
  const fs::path rte = folder_ / "glue" / "RTE";
  fs::create_directories(rte);
  Chance chance(1, "glue", 0);
  static const std::vector<std::string> words = {"count", "total", "value", "index"};
  for (const auto& [split, rows] : {std::pair("train", 24), std::pair("dev", 8), std::pair("test", 6)}) {
    const bool labelled = split != std::string_view("test");
    std::string text = fmt::format("index\tsentence1\tsentence2{}\n", labelled ? "\tlabel" : "");
    for (int row = 0; row < rows; ++row) {
      const std::string one = chance.pick(words), other = chance.pick(words);
      text += fmt::format("{}\tthe {}\tthe {}", row, one, other);
      text += !labelled ? "\n" : one == other ? "\tentailment\n" : "\tnot_entailment\n";
    }
    write_text(rte / fmt::format("{}.tsv", split), text);
  }
  write_text(folder_ / "glue.toml", R"([model]
pooling = "mean"

[run]
threads = 1
keep_checkpoints = 1

[[phase]]
name = "task"
length = 16
tokens_per_micro_batch = 96
epochs = 1
learning_rate = 1e-3
)");
}

const std::vector<std::string>& Sample::exchanges() {
  static const std::vector<std::string> all = {"sentence", "pieces", "bytes", "pieces-json", "bytes-json"};
  return all;
}

const fs::path& Sample::exchange(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  fs::path& found = exchange_[name];
  if (!found.empty()) return found;
  const fs::path folder = folder_ / "exchange" / name;
  fs::create_directories(folder.parent_path());
  if (name == "sentence") {
    call({"export", finished("dense").run.string(), "--to", folder.string(), "--threads", "1"}, folder_);
  } else if (name.ends_with("-json")) {
    const fs::path model = folder.string() + ".h5";
    call({"import", exchange(name.substr(0, name.find('-'))).string(), "--output", model.string()}, folder_);
    call({"export", model.string(), "--to", folder.string(), "--threads", "1"}, folder_);
  } else {
    fs::create_directories(folder);
    for (const char* file : {"config.json", "model.safetensors"})
      fs::copy_file(exchange("sentence") / file, folder / file);
    if (name == "pieces")
      write_pieces_tokenizer(folder, read_text(folder_ / "vocab.txt"));
    else
      write_bytes_tokenizer(folder);
  }
  found = folder;
  return found;
}

}  // namespace comera::attack
