#pragma once

#include <filesystem>
#include <string>

#include "checkpoints/checkpoint_file.h"
#include "data/tokenizers/tokenizer.h"

namespace comera {

// A checkpoint contains the bytes of the tokenizer file that its model was trained with, so that the
// checkpoint alone is enough. Checkpoints of earlier versions have none.
inline constexpr const char* tokenizer_in_checkpoint = "/data/tokenizer";
void save_tokenizer(CheckpointWriter& writer, const data::Tokenizer& tokenizer);
bool has_tokenizer(const CheckpointReader& reader);
void copy_tokenizer(const CheckpointReader& from, CheckpointWriter& to);

// path: a tokenizer's file, or a checkpoint that contains a tokenizer. Error if it is neither, and UsageError
// if the checkpoint contains none.
// A tokenizer's file or folder may need a letter case (Tokenizer::load); a checkpoint's is known.
data::Tokenizer load_tokenizer(const std::filesystem::path& path,
                               data::LetterCase letter_case = data::LetterCase::guessed);

// The tokenizer in a file or folder, for a model that was trained with it. Settings that the file leaves
// ambiguous are taken from the checkpoint. Error as require_same_tokenizer().
data::Tokenizer load_tokenizer_of(const CheckpointReader& reader, const std::filesystem::path& path);

// Rejects a tokenizer that the checkpoint was not trained with, because its ids mean other pieces. name:
// where the tokenizer comes from.
void require_same_tokenizer(const CheckpointReader& reader, const data::Tokenizer& tokenizer,
                            const std::string& name);

}  // namespace comera
