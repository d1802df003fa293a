#include "training/resume/checkpoint_tokenizer.h"

#include <fmt/format.h>

#include <vector>

#include "data/tokenizers/tokenizer_json.h"

namespace comera {

namespace {

void write(CheckpointWriter& writer, std::string bytes) {
  writer.tensor(tokenizer_in_checkpoint, Tensor(bytes.data(), {std::ssize(bytes)}, DType::uint8));
}

std::string stored_bytes(const CheckpointReader& reader) {
  const std::vector<std::uint8_t> bytes = reader.read_values<std::uint8_t>(tokenizer_in_checkpoint);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

void save_tokenizer(CheckpointWriter& writer, const data::Tokenizer& tokenizer) {
  write(writer, tokenizer.bytes());
}

bool has_tokenizer(const CheckpointReader& reader) { return reader.has_tensor(tokenizer_in_checkpoint); }

void copy_tokenizer(const CheckpointReader& from, CheckpointWriter& to) {
  if (has_tokenizer(from)) write(to, stored_bytes(from));
}

data::Tokenizer load_tokenizer(const std::filesystem::path& path, data::LetterCase letter_case) {
  if (!is_checkpoint(path)) return data::Tokenizer::load(path, letter_case);
  if (letter_case != data::LetterCase::guessed)
    throw UsageError(fmt::format("{}: a checkpoint knows its tokenizer; omit --lower-case and --keep-case",
                                 path.string()));
  const CheckpointReader reader(path);
  if (!has_tokenizer(reader))
    throw UsageError(fmt::format(
        "{}: carries no tokenizer (an earlier version wrote this checkpoint); give the tokenizer's file",
        path.string()));
  return data::Tokenizer::from_bytes(stored_bytes(reader), path.string());
}

data::Tokenizer load_tokenizer_of(const CheckpointReader& reader, const std::filesystem::path& path) {
  if (path == reader.path() && has_tokenizer(reader)) {  // which may have another name by now
    data::Tokenizer carried = data::Tokenizer::from_bytes(stored_bytes(reader), path.string());
    require_same_tokenizer(reader, carried, path.string());
    return carried;
  }
  data::Tokenizer tokenizer = load_tokenizer(path);
  std::error_code code;
  const auto is_of_checkpoint = [&](const std::string& hash) {
    return reader.text("/data", "tokenizer_hash") == hash;
  };
  const bool same = is_of_checkpoint(tokenizer.hash()) ||
                    (std::filesystem::is_regular_file(path, code) && !is_checkpoint(path) &&
                     is_of_checkpoint(data::hash_of_tokenizer_file(path)));
  if (!same) require_same_tokenizer(reader, tokenizer, path.string());
  return has_tokenizer(reader) ? data::Tokenizer::from_bytes(stored_bytes(reader), path.string())
                               : std::move(tokenizer);
}

void require_same_tokenizer(const CheckpointReader& reader, const data::Tokenizer& tokenizer,
                            const std::string& name) {
  if (reader.text("/data", "tokenizer_hash") == tokenizer.hash()) return;
  const std::int64_t pieces = reader.integer("/data", "vocabulary");
  throw Error(fmt::format("{} was not trained with {}, which has {} pieces, {}; give its own tokenizer",
                          reader.path().string(), name, tokenizer.vocabulary(),
                          pieces == tokenizer.vocabulary()
                              ? "the same number, but different ones"
                              : fmt::format("while the checkpoint needs {}", pieces)));
}

}  // namespace comera
