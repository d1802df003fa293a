#pragma once

#include <initializer_list>
#include <string>

// What the names of a table's columns usually mean. All but plain_name() take what it returns.
namespace comera::data {

// "Sentence 1", "sentence_1" and "sentence1" are one name: lower-case letters and digits. Letters beyond
// ASCII stay as they are.
std::string plain_name(const std::string& name);

bool is_any_name_of(const std::string& name, std::initializer_list<const char*> names);
// review, sentence, question, ...
bool is_text_name(const std::string& name);
// The same, or with a number or letter of a pair: sentence1, textb, 1string.
bool is_text_or_numbered(const std::string& name);
bool is_label_name(const std::string& name);
// Of labels, whose whole numbers are an amount.
bool is_score_name(const std::string& name);
bool is_id_name(const std::string& name);
// In this order: sentence1 and sentence2, premise and hypothesis, ...
bool is_pair_of_texts(const std::string& first, const std::string& second);

}  // namespace comera::data
