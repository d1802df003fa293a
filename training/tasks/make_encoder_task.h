#pragma once

#include <functional>
#include <memory>
#include <string>

#include "training/tasks/encoder_task.h"

namespace comera {

// The task of a recipe, for `finetune` that of [task], which is resolved, else masked language modelling;
// with its data, which it reads. The tokenizer must outlive it. log: gets lines for people. UsageError for
// what the recipe lacks or what does not fit the task.
std::unique_ptr<EncoderTask> make_encoder_task(const Recipe& recipe, bool finetune,
                                               const data::Tokenizer& tokenizer, const EncoderConfig& config,
                                               const std::function<void(const std::string&)>& log);

}  // namespace comera
